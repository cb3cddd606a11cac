"""What importing costs, each in a fresh interpreter, against the libraries that a hand-written pipeline would take.

Also the shortest commands, and the first verdict of `safety()` and of a command: they load tables and compile patterns
beside the imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import ClassVar

from harness import FLOOR, OURS, Effort, Row

import penstock

PAIRS = (
    ("import penstock", "import pydantic, anyio", 1.0),
    (
        "from penstock import Workflow, PIIDetector",
        "from pydantic import BaseModel, TypeAdapter; import anyio",
        1.5,
    ),
    ("from penstock import Agent", "import asyncio, httpx; from pydantic import BaseModel, TypeAdapter", 1.0),
    (
        "from penstock.workflows.presets import safety; safety().check_sync('Is it far to the lake?')",
        "import asyncio, httpx; from pydantic import BaseModel, TypeAdapter",
        1.5,
    ),
    (
        "from penstock.workflows.cli import main; main(['run', 'hygiene', 'hi'])",
        "import asyncio, httpx; from pydantic import BaseModel, TypeAdapter",
        1.5,
    ),
    ("from penstock.workflows.cli import main; main(['--version'])", "import argparse, logging", 2.0),
    (
        "from penstock.workflows.cli import main; main(['list'])",
        "import asyncio, httpx; from pydantic import BaseModel, TypeAdapter",
        2.0,
    ),
)
TIMED = "from time import process_time as now; start = now(); {statement}; print(now() - start)"


class Imports:
    """The scenario."""

    name = "imports"
    notes: ClassVar[list[str]] = []

    def check(self) -> None:
        """Import everything once."""
        for ours, floor, _ in PAIRS:
            seconds(ours)
            seconds(floor)

    def rows(self, effort: Effort) -> list[Row]:
        """Import in turn, each time in a fresh interpreter; the first, which writes byte-code, does not count."""
        self.check()
        rows: list[Row] = []
        for ours, floor, target in PAIRS:
            samples: dict[str, list[float]] = {FLOOR: [], OURS: []}
            for _ in range(effort.repetitions):
                samples[FLOOR].append(seconds(floor))
                samples[OURS].append(seconds(ours))
            rows.append(Row(self.name, ours, floor, {name: median(found) for name, found in samples.items()}, target))
        return rows


def seconds(statement: str) -> float:
    """Return how long a statement takes in a fresh interpreter.

    Raises:
        CalledProcessError: it fails there.
    """
    root = str(Path(penstock.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else a module changed since is compiled at every import
    code = TIMED.format(statement=statement)
    done = subprocess.run(  # noqa: S603 - the statements stand above
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


SCENARIO = Imports()
