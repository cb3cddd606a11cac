"""Measures how well the guards find what they are for, without a model: ``python -m benchmarks.quality --data DIR``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from rich.console import Console

from benchmarks.quality.contestants.plugged import PlugError, Plugs, load as load_plugs
from benchmarks.quality.goals import results
from benchmarks.quality.report import as_json, as_markdown, show
from benchmarks.quality.rows import Data, DataError, load
from benchmarks.quality.tables import Section

MODULES = {
    "personal": "personal",
    "secrets": "secrets",
    "language": "language",
    "injection": "injection",
    "moderation": "moderation",
    "leaks": "prompt_leaks",
    "disguises": "disguises",
    "honest": "honest",
}
"""What can be measured, by the names that ``--only`` takes, and the modules that measure it."""
SPLITS = ("dev", "heldout")
FLATTERED = (
    "The detectors of injection and moderation were trained on these rows, the patterns and thresholds fitted on them: "
    "their figures here flatter. docs/quality.md has the cross-validated ones; --split heldout is the test."
)
WIDTH = 170
"""The characters of a line where nobody knows the width, as in a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, all by default; 0 if it was measured, 2 if there was nothing to measure."""
    given = _parser().parse_args(arguments)
    told = Console(stderr=True)
    try:
        data = load(given.data, given.split)
    except DataError as error:
        told.print(str(error), markup=False, emoji=False)
        return 2
    try:
        plugs = load_plugs(given.plug)
    except PlugError as error:
        told.print(str(error), markup=False, emoji=False)
        return 2
    names = [name for name in MODULES if name in (given.only or MODULES)]
    sections: list[Section] = []
    for name in names:
        with told.status(f"measuring {name} …"):
            sections.append(section(name)(data, peers=not given.alone, plugs=plugs))
    goals = results(sections)
    notes = [*data.notes, *([FLATTERED] if given.split == "dev" and names != ["leaks"] else [])]
    if given.json:
        print(json.dumps(as_json(sections, goals, notes, given.split), indent=2, ensure_ascii=False))
    elif given.markdown:
        print(as_markdown(sections, goals))
    else:
        show(sections, goals, notes, Console(width=None if sys.stdout.isatty() else WIDTH))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="its folders hold SPLIT.jsonl each")
    parser.add_argument("--split", choices=SPLITS, default="dev", help="which half is read (default: dev)")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument("--markdown", action="store_true", help="print tables for a page of documentation")
    parser.add_argument("--only", action="append", choices=MODULES, help="one guardrail; may be given several times")
    parser.add_argument(
        "--alone", action="store_true", help="without other packages, installed or not: ours and the floor"
    )
    parser.add_argument(
        "--plug",
        action="append",
        default=[],
        metavar="MODULE:FACTORY",
        help="measure a detector of yours, too: a function that returns what guards take as detector=; may be repeated",
    )
    return parser


class Measure(Protocol):
    """How a guardrail is measured."""

    def __call__(self, data: Data, *, peers: bool, plugs: Plugs = ...) -> Section:
        """Return the figures of all contestants; without ``peers``, of ours, the floor, and what was plugged in."""
        ...


def section(name: str) -> Measure:
    """Return the function that measures a guardrail: `measure` of its module."""
    found: Measure = import_module(f"benchmarks.quality.{MODULES[name]}").measure
    return found


if __name__ == "__main__":
    sys.exit(main())
