"""Measures the figures on this machine, in CPU time, in several rounds: a few minutes of one core.

Texts are real: prompts of users, and answers of a model. A row is what a worker of ``penstock run`` does with it: its
line of JSON is parsed and checked, and the result becomes a line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import process_time

from benchmarks.cpu_clock import CpuClockLoop
from benchmarks.scale.figures import Assumed, Figures, Process, Shared, Spread, Stream, Texts
from benchmarks.scale.model import PERIOD
from benchmarks.shared import logged_from
from penstock import (
    Chunk,
    InputContext,
    LanguageDetector,
    ModerationProcessor,
    OutputStepContext,
    PIIDetector,
    Processor,
    PromptInjectionDetector,
    RegexFilterProcessor,
    SystemPromptScrubber,
    UnicodeNormalizer,
    Workflow,
)
from penstock.models.tokens import BPECounter
from penstock.workflows.presets import PRESETS
from penstock.workflows.rows.job import RowsJob
from penstock.workflows.rows.outputs import JsonLines
from penstock.workflows.rows.processes import checked_in_processes
from penstock.workflows.rows.reading import RawRow, RowSource, parse_json
from penstock.workflows.rows.results import ResultFields, RunCounts

ROOT = Path(__file__).parents[2]
DATA = Path("/work/shared/data")
SOURCES = {"prompts": ("ben_user_prompts", 200), "answers": ("leak_arena_answers", 60)}
STAGES = {"prompts": "process_input", "answers": "process_output_step"}

ROUNDS = 5
PIECE = 5
"""The characters of a piece of a stream, about those of a token."""
PIECES = 400
STREAMS, WEIGHED = 30, 40
"""How many streams are timed one after another, and how many are weighed at once."""
BUCKETS = 200
"""How many means of pieces are kept of each preset."""
FEW, MANY = 1_000, 3_000
"""The rows of two runs in processes: what starting them costs is in both."""
JUDGED = 500
SEED = 19

ASSUMED: Assumed = {
    "machine_cores": 16,
    "machine_bytes": 32_000_000_000,
    "judge_requests_per_minute": 10_000,
    "judge_seconds": 1.0,
}


class Nothing(Processor):
    """Does nothing, so that what the rest of a row costs can be seen."""

    edits = "nothing"

    def process_input(self, _ctx: InputContext) -> None:
        """Do nothing."""

    def process_output_step(self, _ctx: OutputStepContext) -> None:
        """Do nothing."""


class NothingAsync(Processor):
    """Asks nobody, but could."""

    edits = "nothing"

    async def process_input(self, _ctx: InputContext) -> None:
        """Let others go on."""
        await asyncio.sleep(0)


def measured(data: Path, tell: Callable[[str], None]) -> Figures:
    """Measure everything.

    Args:
        data: the folder with the texts.
        tell: called with what is measured next.
    """
    with logged_from(logging.ERROR, "penstock.findings"):  # as `penstock run` does; workers take it over
        return _measured(data, tell)


def _measured(data: Path, tell: Callable[[str], None]) -> Figures:
    texts = {name: _sample(data / folder / "dev.jsonl", count) for name, (folder, count) in SOURCES.items()}
    tell("rows")
    rows = _rows(texts, _prompt(data))
    tell("streams")
    streams = {name: _stream(make(), texts["answers"]) for name, make in PRESETS.items()}
    tell("processes")
    processes = {name: _process(name, texts["prompts"]) for name in PRESETS}
    tell("rows in processes")
    shared = {name: _shared(name, texts["prompts"]) for name in PRESETS}
    return {
        "machine": _machine(),
        "texts": {name: _about(name, found) for name, found in texts.items()},
        "rows": rows,
        "streams": streams,
        "loop_seconds": _loop_seconds(),
        "processes": processes,
        "shared": shared,
        "judged_row_seconds": _judged_row_seconds(texts["prompts"]),
        "assumed": ASSUMED,
    }


def _sample(file: Path, count: int) -> list[str]:
    found = [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]
    return random.Random(SEED).sample(found, count)  # noqa: S311 - no secret


def _prompt(data: Path) -> str:
    return _sample(data / "leak_persona_prompts" / "dev.jsonl", 1)[0]


def _about(name: str, texts: Sequence[str]) -> Texts:
    counter = BPECounter()
    return {
        "source": SOURCES[name][0],
        "rows": len(texts),
        "chars": sum(map(len, texts)),
        "tokens": sum(map(counter.count, texts)),
    }


def _machine() -> dict[str, str]:
    names = [line.partition(":")[2].strip() for line in _proc("/proc/cpuinfo") if line.startswith("model name")]
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[2]:.0f}",
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _proc(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def _spread(found: Sequence[float]) -> Spread:
    return {"median": median(found), "low": min(found), "high": max(found)}


# Rows


def _workflows(prompt: str) -> dict[str, Workflow]:
    guards: dict[str, Processor] = {
        "a step that does nothing": Nothing(),
        "UnicodeNormalizer": UnicodeNormalizer(),
        "RegexFilterProcessor": RegexFilterProcessor(presets=["pii", "secrets", "urls"], strategy="redact"),
        "PIIDetector": PIIDetector(),
        "ModerationProcessor": ModerationProcessor(),
        "PromptInjectionDetector": PromptInjectionDetector(),
        "SystemPromptScrubber": SystemPromptScrubber(prompts=[prompt]),
        "LanguageDetector": LanguageDetector(),
    }
    made = {name: Workflow("guard").then(guard) for name, guard in guards.items()}
    return {**made, **{f"{name}()": make() for name, make in PRESETS.items()}}


def _rows(texts: Mapping[str, Sequence[str]], prompt: str) -> dict[str, dict[str, Spread]]:
    lines = {name: _lines(found) for name, found in texts.items()}
    works = {
        (name, kind): _checking(workflow, STAGES[kind], lines[kind])
        for name, workflow in _workflows(prompt).items()
        for kind in texts
        if workflow.plans.stage(STAGES[kind]) is not None
    }
    for work in works.values():
        work()
    times: dict[tuple[str, str], list[float]] = {key: [] for key in works}
    for number in range(ROUNDS):
        for key in list(works)[:: 1 if number % 2 else -1]:
            times[key].append(_timed(works[key]) / len(lines[key[1]]))
    found: dict[str, dict[str, Spread]] = {}
    for (name, kind), seconds in times.items():
        found.setdefault(name, {})[kind] = _spread(seconds)
    return found


def _lines(texts: Sequence[str]) -> list[bytes]:
    return [json.dumps({"id": number, "text": text}).encode() for number, text in enumerate(texts)]


def _job(workflow: Workflow | str, stage: str = "process_input") -> RowsJob:
    return RowsJob(workflow, stage, forms=(JsonLines(ResultFields()),))


def _checking(workflow: Workflow, stage: str, lines: Sequence[bytes]) -> Callable[[], None]:
    checker = _job(workflow, stage).started()

    def work() -> None:
        for number, line in enumerate(lines, 1):
            checker.check(parse_json(RawRow(number, line)))

    return work


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    began = process_time()
    work()
    return process_time() - began


def _judged_row_seconds(texts: Sequence[str]) -> float:
    checker = _job(Workflow("judged").then(NothingAsync())).started()
    rows = [parse_json(RawRow(number, line)) for number, line in enumerate(islice(cycle(_lines(texts)), JUDGED), 1)]
    return min(_timed(lambda: checker.check_all(rows, lambda _: None, jobs=8)) for _ in range(ROUNDS)) / JUDGED


# Streams


def pieces_of(text: str) -> list[str]:
    """Return the first pieces of a text; one that is too short begins again."""
    whole = text * (PIECES * PIECE // len(text) + 1)
    return [whole[at : at + PIECE] for at in range(0, PIECES * PIECE, PIECE)]


def _stream(workflow: Workflow, texts: Sequence[str]) -> Stream:
    given = [pieces_of(text) for text in texts[:STREAMS]]
    asyncio.run(piece_costs(workflow, given[:3]))
    rounds = [asyncio.run(piece_costs(workflow, given)) for _ in range(ROUNDS)]
    every = sorted(cost for costs in rounds for cost in costs)
    size = len(every) / BUCKETS
    groups = [every[int(size * at) : int(size * (at + 1))] for at in range(BUCKETS)]
    early, late = asyncio.run(weights(workflow, [pieces_of(text) for text in texts[:WEIGHED]]))
    return {
        "seconds": _spread([sum(costs) / len(costs) for costs in rounds]),
        "pieces": [float(f"{sum(group) / len(group):.3g}") for group in groups],
        "bytes": early,
        "bytes_later": late,
    }


async def piece_costs(workflow: Workflow, given: Sequence[Sequence[str]]) -> list[float]:
    """Return the CPU time of each piece of each stream, without an event loop's own work."""
    found: list[float] = []

    async def source(pieces: Sequence[str]) -> AsyncIterator[Chunk]:
        began = process_time()
        for piece in pieces:
            yield Chunk("text-delta", piece, "1")
            ended = process_time()
            found.append(ended - began)
            began = ended

    for pieces in given:
        async with workflow.start().process_output_stream(source(pieces)) as leaving:
            async for _ in leaving:
                pass
    return found


async def weights(workflow: Workflow, given: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return the bytes that a live stream holds after a quarter of its pieces, and after all of them."""
    found: list[int] = []
    checkpoints = (PIECES // 4, PIECES - 1)
    barriers = {at: asyncio.Barrier(len(given) + 1) for at in checkpoints}
    onwards = {at: asyncio.Barrier(len(given) + 1) for at in checkpoints}

    async def source(pieces: Sequence[str]) -> AsyncIterator[Chunk]:
        for at, piece in enumerate(pieces):
            if at in barriers:
                await barriers[at].wait()
                await onwards[at].wait()
            yield Chunk("text-delta", piece, "1")

    async def stream(pieces: Sequence[str]) -> None:
        async with workflow.start().process_output_stream(source(pieces)) as leaving:
            async for _ in leaving:
                pass

    await stream(given[0][: PIECES // 4 - 1])  # what is loaded at first is no stream's
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    async with asyncio.TaskGroup() as group:
        for pieces in given:
            group.create_task(stream(pieces))
        for at in checkpoints:
            await barriers[at].wait()
            gc.collect()
            found.append((tracemalloc.get_traced_memory()[0] - before) // len(given))
            await onwards[at].wait()
    tracemalloc.stop()
    return found[0], found[1]


def _loop_seconds() -> float:
    """Return what the event loop itself does for a piece that a task waits for: 200 tasks, without guards."""
    tasks, times = 200, 50

    async def waits(begins: float) -> None:
        loop = asyncio.get_running_loop()
        for number in range(times):
            await asyncio.sleep(begins + number * PERIOD - loop.time())

    async def crowd() -> None:
        begins = asyncio.get_running_loop().time() + PERIOD
        async with asyncio.TaskGroup() as group:
            for number in range(tasks):
                group.create_task(waits(begins + number * PERIOD / tasks))

    def run() -> None:
        with asyncio.Runner(loop_factory=CpuClockLoop) as runner:
            runner.run(crowd())

    return median(_timed(run) for _ in range(ROUNDS)) / (tasks * times)


# Processes

_CHILD = """\
import json, sys, time
texts = json.load(sys.stdin)
begun = time.process_time()
from penstock.workflows.loading import load_workflow
workflow = load_workflow(sys.argv[1])
workflow.check_sync(texts[0])
started = time.process_time()
import logging
logging.getLogger("penstock.findings").setLevel(logging.ERROR)
for text in texts:
    workflow.check_sync(text)
sizes = dict(line.split()[:2] for line in open("/proc/self/smaps_rollup").readlines()[1:])
own = int(sizes["Private_Clean:"]) + int(sizes["Private_Dirty:"])
print(json.dumps([started, int(sizes["Rss:"]) * 1024, own * 1024]))
"""
"""A process that starts as a worker does. Its CPU time since it began includes that of the interpreter."""


def _process(name: str, texts: Sequence[str]) -> Process:
    given = json.dumps(list(texts))
    found: list[list[float]] = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", _CHILD, name]
        done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, check=True)  # noqa: S603
        found.append(json.loads(done.stdout))
    started, sizes, own = zip(*found, strict=True)
    return {"start_seconds": _spread(started), "bytes": int(median(sizes)), "own_bytes": int(median(own))}


def _shared(name: str, texts: Sequence[str]) -> Shared:
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_written(Path(folder) / f"{count}.jsonl", texts, count) for count in (FEW, MANY))
        out = Path(folder) / "out.jsonl"
        rounds: list[tuple[float, float]] = []
        for _ in range(3):
            once, thrice = _in_processes(name, few, out), _in_processes(name, many, out)
            rounds.append(((thrice[0] - once[0]) / (MANY - FEW), (thrice[1] - once[1]) / (MANY - FEW)))
        parents, workers = zip(*rounds, strict=True)
        return {
            "parent_seconds": _spread(parents),
            "worker_seconds": _spread(workers),
            "read_bytes": many.stat().st_size / MANY,
            "written_bytes": out.stat().st_size / MANY,
        }


def _written(file: Path, texts: Sequence[str], count: int) -> Path:
    file.write_bytes(b"".join(line + b"\n" for line in islice(cycle(_lines(texts)), count)))
    return file


def _in_processes(name: str, file: Path, out: Path) -> tuple[float, float]:
    """Check the rows of a file with two workers; return the CPU time of the parent, and of the workers."""
    counts = RunCounts()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = process_time()
    with file.open("rb") as stream, out.open("w", encoding="utf-8") as written:
        rows = RowSource(stream, "jsonl").raw_rows()
        with closing(checked_in_processes(_job(name), rows, processes=2)) as results:
            for result in results:
                counts.add(result)
                written.write(result.made[0].made)
    parent = process_time() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return parent, after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
