"""The report: rows as tables for people and as JSON for programs; it measures nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from harness import FLOOR, OURS, Row
from rich.console import Console
from rich.table import Table

MARKS = {True: "[green]✔ met[/]", False: "[red]✘ missed[/]", None: ""}


def show(rows: Sequence[Row], notes: Iterable[str], console: Console) -> None:
    """Print the rows against their targets, those with peers side by side, and what is left out."""
    alone = [row for row in rows if row.figures.keys() == {FLOOR, OURS}]
    if alone:
        console.print(_targets(alone))
    beside = [row for row in rows if row not in alone]
    if beside:
        console.print(_peers(beside))
    for note in notes:
        console.print(note)
    judged = [row for row in rows if row.met is not None]
    console.print(f"{sum(row.met is True for row in judged)} of {len(judged)} targets met.")


def _targets(rows: Iterable[Row]) -> Table:
    table = Table(title="Penstock against the same work written by hand (medians of interleaved repetitions)")
    table.add_column("work")
    table.add_column("by hand is", style="dim")
    for heading in (FLOOR, OURS, "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        figures = [shown(row.figures[name], row.unit) for name in (FLOOR, OURS)]
        target = "" if row.target is None else f"≤ {row.target:g}×"
        table.add_row(row.name, row.floor_is, *figures, f"{row.ratio:.2f}×", target, MARKS[row.met])
    return table


def _peers(rows: Sequence[Row]) -> Table:
    table = Table(title="The same work in other engines: a whole request, and how often the hand-written one it costs")
    table.add_column("engine", no_wrap=True)
    for row in rows:
        table.add_column(row.name, justify="right")
    for name in dict.fromkeys(name for row in rows for name in row.figures):
        cells = [
            f"{shown(row.figures[name], row.unit)}  {row.figures[name] / row.figures[FLOOR]:,.1f}×"
            if name in row.figures
            else ""
            for row in rows
        ]
        table.add_row(name, *cells)
    return table


def shown(figure: float, unit: str) -> str:
    """Return a figure with three digits and a unit that fits."""
    scales = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if unit == "s" else (("kB", 1e3), ("B", 1.0))
    name, scale = next((pair for pair in scales if figure >= pair[1]), scales[-1])
    value = figure / scale
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {name}"


def as_json(rows: Iterable[Row], notes: Iterable[str]) -> dict[str, object]:
    """Return the rows, and on what they were measured, as a JSON value; seconds and bytes."""
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "rows": [
            {
                "scenario": row.scenario,
                "name": row.name,
                "by_hand_is": row.floor_is,
                "unit": row.unit,
                "figures": dict(row.figures),
                "ratio": row.ratio,
                "target": row.target,
                "met": row.met,
            }
            for row in rows
        ],
        "notes": list(notes),
    }
