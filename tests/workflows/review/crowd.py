"""Twenty processes decide about one run and go on with it at once, while PostgreSQL crashes and clocks jump.

One decision is accepted, one process brings the run to its end, and the tool runs once at the most; without clocks that
jump, exactly once. Run it by itself: ``python -m tests.workflows.review.crowd [ROUNDS [SEED]]``.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import ReviewError, StorageError
from penstock.stores.postgres import PostgresStorage
from penstock.workflows.review import Reviews
from tests.stores.postgres.servers import running
from tests.workflows.review.killed_stores import InServer, Places
from tests.workflows.review.made import CALLS, SECRET, Shop, agent

if TYPE_CHECKING:
    from penstock.workflows.review.waiting import WaitingRun

PROCESSES = 20
JUMPS = (0, 0, 3_600, -3_600, 40 * 86_400)  # seconds
SECONDS = 60  # for one round
ENDED = "it has ended"


class Jumping:
    """A clock that is set to another time at every other look, if its process is one of those."""

    def __init__(self, dice: random.Random | None) -> None:
        self._dice = dice

    def now(self) -> datetime:
        """Return the time."""
        jump = 0 if self._dice is None else self._dice.choice(JUMPS)
        return datetime.now(UTC) + timedelta(seconds=jump)


class Diary(Shop):
    """Writes each refund into the log, which takes a while."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    def refund(self, order: int, note: str = "") -> str:
        del note
        write(self._log, "tool", str(order))
        time.sleep(0.02)
        return "refunded"


def write(log: Path, kind: str, details: str = "") -> None:
    """Write a line."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (json.dumps([kind, details, os.getpid()]) + "\n").encode())
    os.close(file)


async def one(url: str, schema: str, run_id: str, log: Path, dice: random.Random | None) -> None:
    """Decide and go on until the run has ended, as one process."""
    store = PostgresStorage(url, schema=schema, max_connections=2, retry_for=SECONDS)
    reviews = Reviews(store, clock=Jumping(dice))
    undecided = True
    while True:
        try:
            if undecided:
                undecided = False
                await reviews.approve(run_id, by=str(os.getpid()))
                write(log, "decided")
            done = await agent(reviews, ["It is refunded."], Diary(log)).resume(run_id)
            write(log, done.status, done.text)
        except ReviewError as error:
            if error.problem == ENDED:
                return await store.close()
            if "taken it over" in error.problem:
                write(log, "taken over")
            await anyio.sleep(0.02)
        except StorageError as error:
            write(log, "store", type(error).__name__)


def forked(url: str, schema: str, run_id: str, log: Path, pipe: tuple[int, int], dice: random.Random | None) -> int:
    """Start a process that waits until the writing end of the pipe is closed."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.close(pipe[1])
        os.read(pipe[0], 1)
        anyio.run(one, url, schema, run_id, log, dice)
        code = 0
    finally:
        os._exit(code)


async def asked(url: str, schema: str) -> str:
    """Let a request wait for a decision; return the id of its run."""
    async with PostgresStorage(url, schema=schema) as store:
        return (await agent(store, [CALLS], Shop()).generate(f"Refund order 7, I am {SECRET}")).run_id


async def ended(url: str, schema: str, run_id: str) -> WaitingRun:
    """Return the run."""
    async with PostgresStorage(url, schema=schema, retry_for=SECONDS) as store:
        run = await Reviews(store).run(run_id)
        record = await Reviews(store).record(run_id)
        assert len(record["decisions"]) == 1, record["decisions"]
        return run


def run_round(place: InServer, url: str, schema: str, log: Path, dice: random.Random, *, jumps: bool) -> Counter[str]:
    """Let all processes go on with one run; return how often each thing happened."""
    run_id = anyio.run(asked, url, schema)
    pipe = os.pipe()
    clocks = [random.Random(dice.random()) if jumps and number % 3 == 0 else None for number in range(PROCESSES)]  # noqa: S311
    children = [forked(url, schema, run_id, log, pipe, clock) for clock in clocks]
    os.close(pipe[1])
    restarts = place.disturb(dice)
    codes = [os.waitpid(child, 0)[1] for child in children]
    os.close(pipe[0])
    place.recover(restarts)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = Counter([kind for kind, _, _ in lines])
    assert codes == [0] * PROCESSES, (codes, lines)
    assert anyio.run(ended, url, schema, run_id).status == "ended"
    assert told["decided"] == 1, lines
    assert told["success"] == 1, lines
    assert told["tool"] <= 1, lines
    assert jumps or told["tool"] == 1, lines
    assert SECRET.encode() not in place.contents() + place.files()
    place.drop()
    return told


def run_rounds(rounds: int, seed: int) -> Counter[str]:
    """Run so many rounds, every other one with clocks that jump; return what happened."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    told = Counter[str]()
    with running() as server, tempfile.TemporaryDirectory() as folder:
        places = Places(server, 0.5)
        for number in range(rounds):
            place = places.place(Path(folder))
            assert isinstance(place, InServer)
            log = Path(folder) / f"log-{number}"
            told += run_round(place, server.url, place.schema, log, dice, jumps=number % 2 == 1)
            sys.stderr.write(f"{number + 1} rounds, {places.restarted} restarts\n")
        told["restarts"] = places.restarted
    return told


def main() -> None:
    """Run as many rounds as are asked for."""
    rounds, seed = [int(one) for one in [*sys.argv[1:], "10", "41"][:2]]
    sys.stdout.write(json.dumps({"rounds": rounds, **run_rounds(rounds, seed)}) + "\n")


if __name__ == "__main__":
    main()
