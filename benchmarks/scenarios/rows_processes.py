"""`penstock run` over a file of short rows by two worker processes, against one process: time, and CPU time of all.

What starting the processes takes is left out: it is in a run over a tenth of the rows, too, whose time is subtracted.

The time of a clock says something only where two cores are idle; the notes say how busy the machine was. The CPU time
of all processes together says what handing rows over costs, however busy it is.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from harness import FLOOR, FULL, OURS, Effort, Row
from scenarios.rows import LONGEST, written

ROOT = Path(__file__).parents[2]
ROWS: Mapping[str, int] = {"hygiene": 20_000, "safety": 4_000}
"""The rows of a file, by preset: some seconds of work."""

PART = 10
WORKERS = 2
REPETITIONS = 5
FLOOR_IS = "the same with --jobs 1"
TARGET = 1 / 1.8
"""How much of the time of one process two on two cores may take."""


class Took(NamedTuple):
    """What a run took, in seconds: by the clock, and of CPU time in all processes."""

    clock: float
    cpu: float


@contextlib.contextmanager
def files(share: int) -> Generator[Mapping[str, Path]]:
    """Give the files of rows, by preset; each has one of so many parts of the rows."""
    with tempfile.TemporaryDirectory() as folder:
        yield {name: written(Path(folder) / f"{name}.jsonl", count // share) for name, count in ROWS.items()}


def run(preset: str, rows: Path, jobs: int) -> Took:
    """Run the command, with so many processes."""
    arguments = ["run", preset, "--input", str(rows), "--output", str(out_of(rows, jobs)), "--no-times"]
    command = [sys.executable, "-m", "penstock", *arguments, "--jobs", str(jobs)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, check=True)  # noqa: S603
    clock, after = perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def out_of(rows: Path, jobs: int) -> Path:
    """Return the file of the results."""
    return rows.with_suffix(f".out{jobs}")


@dataclass(frozen=True, slots=True)
class Processes:
    """The scenario."""

    name: str = "rows_processes"
    notes: list[str] = field(default_factory=list[str])

    def check(self) -> None:
        """Run each preset once in each way: the results are the same to the byte.

        Raises:
            AssertionError: they are not.
        """
        with files(20) as given:
            for preset, rows in given.items():
                for jobs in (1, WORKERS):
                    run(preset, rows, jobs)
                if out_of(rows, 1).read_bytes() != out_of(rows, WORKERS).read_bytes():
                    raise AssertionError(f"{preset}: the results of {WORKERS} processes are not those of one")

    def rows(self, effort: Effort) -> list[Row]:
        """Run them in turns."""
        with files(1) as all_rows, files(PART) as some:
            repetitions = REPETITIONS if effort == FULL else 1
            return [row for name in ROWS for row in self._rows(name, all_rows[name], some[name], repetitions)]

    def _rows(self, preset: str, all_rows: Path, some: Path, repetitions: int) -> list[Row]:
        took: dict[int, list[tuple[float, ...]]] = {1: [], WORKERS: []}
        for _ in range(repetitions):
            for jobs, found in took.items():
                both = zip(run(preset, all_rows, jobs), run(preset, some, jobs), strict=True)
                found.append(tuple(whole - part for whole, part in both))
        count = ROWS[preset] - ROWS[preset] // PART
        clock, cpu = (
            {name: median(each[at] for each in took[jobs]) / count for name, jobs in ((FLOOR, 1), (OURS, WORKERS))}
            for at in range(2)
        )
        self.notes.append(
            f"{self.name}, {preset}(): {1 / clock[FLOOR]:,.0f} rows a second by one process, {1 / clock[OURS]:,.0f} by "
            f"{WORKERS}, while the machine had a load of {os.getloadavg()[0]:.1f}"
        )
        title = f"a row of at most {LONGEST} characters through {preset}() by {WORKERS} processes"
        return [
            Row(self.name, title, FLOOR_IS, clock, TARGET),
            Row(self.name, f"{title}, CPU time of all", FLOOR_IS, cpu, None),
        ]


SCENARIO = Processes()
