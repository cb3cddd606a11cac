"""What an adapter adds to its framework: requests to the bare and to the guarded agent in turns, and imports.

Each module beside this one that is named like an adapter has a function ``measure``. It returns pairs of functions by a
label: one request to the framework as it is, and the same with a guard. What is timed is the processor's time.
"""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time

import penstock
from penstock.engine.values.errors import MissingExtraError

Request = Callable[[], object]
Pairs = Mapping[str, tuple[Request, Request]]

CHUNKS = 100
"""The pieces of a streamed answer."""

SECONDS = 0.01
"""What one repetition takes at least."""

ADAPTERS = Path(penstock.__file__).parent / "workflows" / "adapters"
HERE = Path(__file__).parent
TIMED = "from time import process_time as now; start = now(); {statement}; print(now() - start)"


@dataclass(frozen=True, slots=True)
class Figure:
    """A request to an agent, without and with a guard, in seconds."""

    label: str
    bare: float
    guarded: float

    @property
    def ratio(self) -> float:
        """How often the guarded one costs what the bare one costs."""
        return self.guarded / self.bare

    @property
    def added(self) -> float:
        """The seconds that the guard adds to a request."""
        return self.guarded - self.bare

    @property
    def added_by_chunk(self) -> float | None:
        """The seconds that it adds to each chunk; None where nothing is streamed."""
        return self.added / CHUNKS if "stream" in self.label else None


def names() -> list[str]:
    """Return the adapters that have a module here."""
    return sorted(path.stem for path in HERE.glob("*.py") if _source(path.stem).exists() and path.stem[0] != "_")


def _source(name: str) -> Path:
    """Return the file of an adapter, or the first one of its package."""
    package = ADAPTERS / name / "__init__.py"
    return package if package.exists() else ADAPTERS / f"{name}.py"


def pairs_of(name: str) -> Pairs | None:
    """Return what a module measures; None if its framework is not installed here."""
    try:
        found: Pairs = import_module(f"{__package__}.{name}").measure()
    except (ImportError, MissingExtraError):
        return None
    return found


def measured(pairs: Pairs, rounds: int) -> list[Figure]:
    """Time each pair in turns, forwards and backwards, and return the medians."""
    figures: list[Figure] = []
    for label, (bare, guarded) in pairs.items():
        works = {"bare": bare, "guarded": guarded}
        times = {name: _times_for(work) for name, work in works.items()}
        samples: dict[str, list[float]] = {name: [] for name in works}
        gc.collect()
        gc.freeze()
        for number in range(rounds):
            for name in list(works)[:: 1 if number % 2 else -1]:
                samples[name].append(_seconds(works[name], times[name]))
        gc.unfreeze()
        figures.append(Figure(label, median(samples["bare"]), median(samples["guarded"])))
    return figures


def _seconds(work: Request, times: int) -> float:
    start = process_time()
    for _ in range(times):
        work()
    return (process_time() - start) / times


def _times_for(work: Request) -> int:
    """Return how many requests fill a repetition; on the way the work gets warm."""
    times = 1
    while _seconds(work, times) * times < SECONDS:
        times *= 2
    return times


def imports_of(name: str) -> str:
    """Return the statements that import of a framework what its adapter needs of it."""
    first = _source(name)
    files = sorted(first.parent.rglob("*.py")) if first.name == "__init__.py" else [first]
    found: dict[str, None] = {}
    for file in files:
        tree = ast.parse(file.read_text("utf-8"))
        blocks = [tree.body, *[node.body for node in tree.body if isinstance(node, ast.Try)]]
        found |= dict.fromkeys(ast.unparse(node) for block in blocks for node in block if _is_of_others(node))
    return "; ".join(found) or f"import {name}"


def _is_of_others(node: ast.stmt) -> bool:
    """Return whether a statement imports something that is neither Python's nor ours."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
    return bool(names) and not {one.partition(".")[0] for one in names} <= {"penstock", *sys.stdlib_module_names}


def imported(name: str, rounds: int) -> Figure:
    """Time the import of a framework in fresh interpreters, alone and together with its adapter."""
    bare = imports_of(name)
    guarded = f"{bare}; import penstock.workflows.adapters.{name}"
    samples: dict[str, list[float]] = {bare: [], guarded: []}
    for statement in samples:  # the first one writes byte-code
        _import_seconds(statement)
    for number in range(rounds):
        for statement in list(samples)[:: 1 if number % 2 else -1]:
            samples[statement].append(_import_seconds(statement))
    return Figure("import", median(samples[bare]), median(samples[guarded]))


def _import_seconds(statement: str) -> float:
    root = str(ADAPTERS.parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", TIMED.format(statement=statement)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603 - our own
    return float(ran.stdout.split()[-1])
