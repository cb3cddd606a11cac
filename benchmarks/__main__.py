"""Times Penstock against hand-written code and against its peers."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from harness import FULL, QUICK, Row, Scenario
from report import as_json, show
from rich.console import Console
from rich.progress import track

NAMES = (
    "requests",
    "chain",
    "chain_sync",
    "parallel",
    "branch",
    "concurrent",
    "records",
    "telemetry",
    "imports",
    "processors",
    "safety",
    "read_once",
    "token_limiter",
    "client",
    "tool_calls",
    "rows",
    "rows_processes",
    "batches",
    "storage",
    "stream_opening",
    "stream_hooks",
    "stream_async_hooks",
    "stream_guards",
    "own_rules",
    "stream_built_in",
    "stream_texts",
    "stream_kinds",
    "worst_texts",
    "hold_back",
    "streams_at_once",
    "stream_peers",
    "capacity",
    "peers",
    "agent",
    "long_requests",
    "hosts",
)
WIDTH = 150
"""The characters of a line where nobody knows the width, as in a file."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for, all by default."""
    let_workflows_be_found()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin for a while: in the figure of another
    parser = argparse.ArgumentParser(prog="python benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repetitions: rough figures")
    parser.add_argument("--only", action="append", choices=NAMES, help="one scenario; may be given several times")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--check", action="store_true", help="compare what the contestants give, and time nothing")
    given = parser.parse_args(arguments)
    scenarios = [scenario(name) for name in given.only or NAMES]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if given.check:
        for each in scenarios:
            each.check()
            console.print(f"{each.name}: all contestants give the same")
        return
    rows: list[Row] = []
    for each in track(scenarios, "Measuring", console=Console(stderr=True), transient=True):
        rows += each.rows(QUICK if given.quick else FULL)
    notes = [note for each in scenarios for note in each.notes]
    show(rows, notes, console)
    if given.json:
        given.json.write_text(json.dumps(as_json(rows, notes), indent=2) + "\n", encoding="utf-8")


def let_workflows_be_found() -> None:
    """Look into the repository last: its link `workflows` would hide the package of that name, LlamaIndex's."""
    root = str(Path(__file__).parents[1])
    sys.path.sort(key=lambda place: place == root)


def scenario(name: str) -> Scenario:
    """Return the scenario of that name, a file in scenarios/."""
    found: Scenario = import_module(f"scenarios.{name}").SCENARIO
    return found


if __name__ == "__main__":
    main()
