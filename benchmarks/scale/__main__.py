"""Computes docs/scale.md from measured figures: ``python -m benchmarks.scale``.

With ``--measure`` the figures are measured on this machine first; ``--write`` keeps them, and puts the tables into the
page. Without ``--measure`` they are read from a file: by default from the one that is committed, or from your own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.scale.figures import FILE, load, save
from benchmarks.scale.page import PAGE, put_in, tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure if asked for, print the tables, and write them if asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure on this machine: some minutes")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder with the texts to measure with")
    parser.add_argument("--figures", type=Path, default=FILE, metavar="FILE", help="the figures to read, or to write")
    parser.add_argument("--write", action="store_true", help="write the figures, and the tables into docs/scale.md")
    given = parser.parse_args(arguments)
    if given.measure:
        from benchmarks.scale.measure import DATA, measured

        figures = measured(given.data or DATA, lambda what: print(f"measuring {what} …", file=sys.stderr))
    else:
        figures = load(given.figures)
    text = tables(figures)
    if given.write:
        if given.measure:
            save(figures, given.figures)
        PAGE.write_text(put_in(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
