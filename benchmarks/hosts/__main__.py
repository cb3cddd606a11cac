"""What the adapters add to their frameworks: ``python -m benchmarks.hosts``, for each framework that is installed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.hosts.rounds import Figure, imported, measured, names, pairs_of

RESULTS = Path(__file__).parents[2] / "tests" / "hosts" / "results.json"
WIDTHS = (18, 30, 10, 10, 7, 12, 12)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"frameworks: {', '.join(names())}; default: all")
    parser.add_argument("--rounds", type=int, default=51, help="repetitions; default: 51")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well, in seconds")
    given = parser.parse_args(arguments)
    wanted = [name.replace("-", "_") for name in given.names] or names()
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        parser.error(f"nothing is measured for {', '.join(unknown)}; there are {', '.join(names())}")
    print(_line("framework", "work", "alone", "guarded", "ratio", "added", "by chunk"))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in wanted:
        pairs = pairs_of(name)
        if pairs is None:
            print(_line(name, "left out: not installed"))
            continue
        figures = [*measured(pairs, given.rounds), imported(name, max(3, given.rounds // 5))]
        for number, figure in enumerate(figures):
            print(_shown("" if number else f"{name} {_version(name)}", figure))
        found[name] = {each.label: {"alone": each.bare, "guarded": each.guarded} for each in figures}
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def _version(name: str) -> str:
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    try:
        return version(next(iter(known[name].values()))["package"]) if name in known else ""
    except PackageNotFoundError:
        return ""


def _shown(name: str, figure: Figure) -> str:
    by_chunk = figure.added_by_chunk
    return _line(
        name,
        figure.label,
        f"{figure.bare * 1e6:,.0f} µs",
        f"{figure.guarded * 1e6:,.0f} µs",
        f"{figure.ratio:.2f}",
        f"{figure.added * 1e6:,.0f} µs",
        "" if by_chunk is None else f"{by_chunk * 1e6:,.1f} µs",
    )


def _line(*cells: str) -> str:
    first = [cell.ljust(width) for cell, width in zip(cells[:2], WIDTHS, strict=False)]
    rest = [cell.rjust(width) for cell, width in zip(cells[2:], WIDTHS[2:], strict=False)]
    return " ".join([*first, *rest]).rstrip()


if __name__ == "__main__":
    main()
