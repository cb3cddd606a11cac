"""Kill processes at random moments while a request is suspended, decided about and goes on; count what was paid for.

Each trial is one request with a step that asks a person at one stage. Processes are forked and killed with SIGKILL,
often two at once, until one has brought the request to its end. Every call of the model, of the tool and of a judge
is a line in a file, and so is every save of the request. Three requests in ten are those of an agent within an agent.
Run it by itself: ``python -m tests.workflows.review.kills KILLS [SEED] [--store postgres] [--restarts 0.3]``. A server
of PostgreSQL is restarted as if it had crashed, in that part of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from penstock import Agent, Message, PIIDetector
from penstock.engine.values.errors import PenstockError, ReviewError, StorageConflictError
from penstock.workflows.review import Reviews
from tests.workflows.review.killed_stores import InFile, Place, kill, places
from tests.workflows.review.waits import ANSWERS, LATE, SECRET, STAGES, Late, World, asker, memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ModelRequest

RUN = "run-1"
LEASE = 0.3  # seconds
MOST_LINES = 14  # that processes write before they are killed
PAUSE = 0.02  # seconds after the last of these lines, at the most
MOST = 8  # kills of one request
PATIENCE = 300  # seconds for one request, on a machine that does much else


class Line(NamedTuple):
    """A line of the log: the process, what it did, details, and when."""

    process: int
    kind: str
    details: str = ""
    at: float = 0.0


class Logged(World):
    """A world that writes what is paid for to a file, and whose model answers by what it is asked."""

    def __init__(self, path: Path, *, late: bool) -> None:
        super().__init__()
        self._path = path
        self._late = late

    def log(self, kind: str, details: str = "") -> None:
        """Write a line; it is in the file even if the process is killed at once."""
        line = json.dumps([os.getpid(), kind, details, round(time.monotonic(), 3)]) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def pay(self, kind: str, details: str) -> None:
        self.log(kind, details.replace(LATE, "[HIDDEN]"))

    def judged_stages(self) -> tuple[str, ...]:
        return STAGES if self._late else STAGES[:-1]

    def script(self) -> Value:
        def answer(request: ModelRequest) -> Value:
            said = [part for one in request.messages for part in one.parts if part.type == "tool"]
            return ANSWERS[1 if said else 0]

        return answer


def clerk_first(request: ModelRequest) -> Value:
    """Answer as the model of an agent that asks another one."""
    said = [part for one in request.messages for part in one.parts if part.type == "tool"]
    prompt = {"prompt": f"Who is {SECRET}?"}
    return f"It is {SECRET}." if said else {"tool_calls": [{"name": "clerk", "args": prompt}]}


class Trial(NamedTuple):
    """One request: its log, its store, and what it is like."""

    folder: Path
    place: Place
    stage: str
    late: bool
    nested: bool


async def work(trial: Trial) -> None:
    """Bring the request to its end, as one process."""
    stage, late = trial.stage, trial.late
    world = Logged(trial.folder / "log", late=late)
    store = trial.place.open(world.log)
    reviews = Reviews(store, lease=LEASE)
    steps: list[Value] = [asker(stage), *([Late()] if late else [])]
    agent = world.agent(reviews, *steps, memory=memory(store))
    if trial.nested:
        clerk = world.agent(None, *steps, id="clerk")
        guards = [PIIDetector(), *steps[1:]]
        model = world.model(clerk_first, "outer")
        agent = Agent(model, tools=[clerk.as_tool()], processors=guards, reviews=reviews, memory=memory(store))
    where: Any = {"thread_id": "t", "resource_id": "ann", "run_id": RUN}
    while True:
        found = await store.run(RUN)
        try:
            if found is None:
                await agent.generate([Message.user(f"Who is {SECRET}?", id="question")], **where)
            elif found.status == "ended":
                return
            else:
                for id in await reviews.undecided(RUN):
                    await reviews.answer(RUN, id, "yes")
                world.log("resumes")
                result = await agent.resume(RUN)
                world.log(result.status, result.text)
        except (ReviewError, StorageConflictError):  # another process was faster
            world.log("lost")
            await anyio.sleep(0.01)


def _child(trial: Trial) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        anyio.run(work, trial)
        code = 0
    except PenstockError as error:  # another process was faster, or the server was away for too long
        Logged(trial.folder / "log", late=trial.late).log("error", type(error).__name__)
    finally:
        os._exit(code)


def _ended(children: Iterable[int], how: int) -> dict[int, int]:
    """Return how children have ended, by their ids; with ``WNOHANG`` only those that have."""
    found = (os.waitpid(child, how) for child in children)
    return {child: status for child, status in found if child}


def _size(folder: Path) -> int:
    """Return how many lines the log has."""
    log = folder / "log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def _has(folder: Path, text: str) -> bool:
    """Return whether the log has a text."""
    log = folder / "log"
    return log.exists() and text.encode() in log.read_bytes()


def run_trial(trial: Trial, dice: random.Random) -> int:
    """Run one request with kills; return how many processes were killed."""
    folder, killed = trial.folder, 0
    patient = trial.nested and dice.random() < 0.7  # most outer requests live until they wait
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        written = _size(folder)
        count = dice.choice((1, 1, 2)) if _has(folder, "waiting ") else 1
        children = [_child(trial) for _ in range(count)]
        restarts = trial.place.disturb(dice)
        ends = dict[int, int]()
        lines, pause = dice.randint(0, MOST_LINES), dice.uniform(0, PAUSE)
        while (
            killed < MOST
            and len(ends) < len(children)
            and (_size(folder) < written + lines or (patient and not _has(folder, f'"waiting {RUN}"')))
        ):
            time.sleep(0.002)
            ends |= _ended({*children} - ends.keys(), os.WNOHANG)
        if killed < MOST and len(ends) < len(children):
            time.sleep(pause)
            for child in {*children} - ends.keys():
                kill(child)
        trial.place.recover(restarts)
        ends |= _ended({*children} - ends.keys(), 0)
        killed += sum(map(os.WIFSIGNALED, ends.values()))
        if 0 in ends.values():
            return killed
    raise AssertionError(f"{trial.stage}: the request did not end: {(folder / 'log').read_text()[-2_000:]}")


def read_log(folder: Path) -> list[Line]:
    """Return the lines of the log."""
    return [Line(*json.loads(line)) for line in (folder / "log").read_text().splitlines()]


def paid_and_saved(lines: list[Line], kinds: tuple[str, ...]) -> Counter[tuple[str, str]]:
    """Return what was paid for before its process saved the request with one of these statuses."""
    saved = Counter[tuple[str, str]]()
    nested = any(line.kind == "outer" for line in lines)
    open_lines: dict[tuple[int, bool], list[tuple[str, str]]] = {}
    for line in lines:
        if line.kind in (*STAGES, "model", "tool", "outer"):
            open_lines.setdefault((line.process, line.kind == "outer"), []).append((line.kind, line.details))
        elif line.kind == "lost":
            open_lines = {key: paid for key, paid in open_lines.items() if key[0] != line.process}
        elif line.kind == "saved":
            status, run = line.details.split(" ", 1)
            if status in kinds:  # the inner request of a nested one is saved by itself
                saved.update(open_lines.pop((line.process, nested and run == RUN), []))
    return saved


def check(trial: Trial, usual: Counter[tuple[str, str]], text: str) -> None:
    """Check a trial against a request that nobody killed."""
    lines = read_log(trial.folder)
    saved = paid_and_saved(lines, ("waiting", "running", "ended"))
    twice = {what: count for what, count in (saved - usual).items() if count > 1 or what in usual}
    assert not twice, f"paid for twice: {twice}"
    tools = [line for line in lines if line.kind == "tool"]
    begun = {line.process for line in lines if line.kind == "resumes"}
    assert sum(line.process in begun for line in tools) <= 1, "a tool ran twice"
    ends = [line.details for line in lines if line.kind in ("success", "blocked", "failed")]
    assert set(ends) <= {text}, f"another end: {ends}"
    assert not any(line.kind in ("blocked", "failed") for line in lines), "a request ended otherwise"
    assert trial.place.messages() == 3, f"the memory has {trial.place.messages()} messages"
    left = {status for status, _ in trial.place.runs()}
    assert left <= {"ended"}, f"somebody is asked in vain: {trial.place.runs()}"
    stored = trial.place.contents()
    assert SECRET.encode() not in stored + trial.place.files()
    assert not trial.late or LATE.encode() not in stored


def last_lines(lines: list[Line]) -> list[str]:
    """Return the last thing that each process wrote before it ended."""
    last = {line.process: line for line in lines}
    return [f"saved {line.details.split()[0]}" if line.kind == "saved" else line.kind for line in last.values()]


def run_trials(
    kills: int, seed: int, store: str = "sqlite", restarts: float = 0.0
) -> tuple[Counter[str], Counter[str], int]:
    """Run requests until so many processes were killed.

    Returns:
        How many were killed, by stage; how many, by the last line of each; and how often the server was restarted.
    """
    dice = random.Random(seed)  # noqa: S311 - no secret
    found, where = Counter[str](), Counter[str]()
    usual: dict[tuple[str, bool, bool], tuple[Counter[tuple[str, str]], str]] = {}
    with places(store, restarts) as made, tempfile.TemporaryDirectory() as name:
        warm = Path(name) / "warm"  # modules that a first request loads would be loaded anew by each process
        warm.mkdir()
        anyio.run(work, Trial(warm, InFile(warm), STAGES[0], late=True, nested=True))
        for number in itertools.count():  # in some trials nothing is killed: the request has ended before
            if found.total() >= kills:
                break
            kind = dice.choice(STAGES), dice.random() < 0.5, dice.random() < 0.3
            folders = [Path(name) / f"{number}-{each}" for each in ("plain", "killed")]
            for folder in folders:
                folder.mkdir()
            if kind not in usual:
                os.waitpid(_child(Trial(folders[0], made.place(folders[0]), *kind)), 0)
                lines = read_log(folders[0])
                text = next(line.details for line in lines if line.kind == "success")
                usual[kind] = paid_and_saved(lines, ("ended",)), text
            trial = Trial(folders[1], made.place(folders[1]), *kind)
            found["nested " * trial.nested + trial.stage] += run_trial(trial, dice)
            try:
                check(trial, *usual[kind])
            except AssertionError as error:
                told = "\n".join(map(str, read_log(trial.folder)))
                raise AssertionError(f"{kind}, after {found.total()} kills: {error}\n{told}") from None
            where.update(last_lines(read_log(trial.folder)))
            trial.place.drop()
            sys.stderr.write(f"{found.total()} kills, {made.restarted} restarts\n")
        return found, where, made.restarted


def main() -> None:
    """Kill as many as are asked for."""
    reads = argparse.ArgumentParser()
    reads.add_argument("kills", type=int)
    reads.add_argument("seed", type=int, nargs="?", default=41)
    reads.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    reads.add_argument("--restarts", type=float, default=0.0)
    asked = reads.parse_args()
    begin = time.monotonic()
    by_stage, by_line, restarted = run_trials(asked.kills, asked.seed, asked.store, asked.restarts)
    seconds = round(time.monotonic() - begin)
    told = {"kills": by_stage.total(), "restarts": restarted, "seconds": seconds, **by_stage, "last": by_line}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
