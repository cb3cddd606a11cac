"""The report: sections as tables for people or a page, or as JSON for programs; it measures nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table as Drawn

from benchmarks.quality.goals import Goal, Result
from benchmarks.quality.tables import Figures, Section, Table

MARKS = {
    "ambitious": "[green]✔ ambitious[/]",
    "acceptable": "[yellow]✔ acceptable[/]",
    "missed": "[red]✘ missed[/]",
    "not measured": "[dim]not measured[/]",
}
COUNTED = ("texts/s",)
"""Measures without decimals."""


def show(sections: Sequence[Section], results: Sequence[Result], notes: Iterable[str], console: Console) -> None:
    """Print every section's tables and notes, then the goals."""
    for section in sections:
        for table in section.tables:
            if table.lines:
                console.print(_drawn(table))
        for note in section.notes:
            console.print(f"  {note}", style="dim", highlight=False)
    for note in notes:
        console.print(f"  {note}", style="dim", highlight=False)
    if results:
        console.print(_goals(results))
        tally = [result.verdict for result in results]
        console.print(
            f"Of {len(tally)} goals: {tally.count('ambitious')} ambitious, {tally.count('acceptable')} acceptable, "
            f"{tally.count('missed')} missed, {tally.count('not measured')} not measured."
        )


def _drawn(table: Table) -> Drawn:
    """Return a table with a column a contestant, whose cells hold all measures."""
    drawn = Drawn(title=f"{table.title}: {' / '.join(table.measures)}", title_justify="left")
    drawn.add_column("data", no_wrap=True)
    drawn.add_column("of", no_wrap=True)
    drawn.add_column("n", justify="right")
    names = table.contestants()
    for name in names:
        drawn.add_column(name, justify="right")
    for line in table.lines:
        cells = [cell(table.measures, line.figures.get(name)) for name in names]
        drawn.add_row(line.data, line.of, f"{line.size:,}", *cells)
    return drawn


def cell(measures: Sequence[str], figures: Figures | None) -> str:
    """Return the figures of one contestant; a dash where there is none."""
    if figures is None:
        return ""
    return " / ".join(shown(figure, name) for name, figure in zip(measures, figures, strict=True))


def shown(figure: float | None, measure: str = "") -> str:
    """Return a figure as a table shows it: three decimals, no zero before the point; a speed without decimals."""
    if figure is None:
        return "–"
    if measure in COUNTED or figure >= 1000:
        return f"{figure:,.0f}"
    return f"{figure:.3f}".removeprefix("0") if figure < 10 else f"{figure:.1f}"


def _goals(results: Iterable[Result]) -> Drawn:
    drawn = Drawn(title="Goals for the kept-back halves", title_justify="left")
    for heading in ("guardrail", "metric"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("acceptable", "ambitious", "measured"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("met", no_wrap=True)
    for result in results:
        goal = result.goal
        drawn.add_row(goal.guardrail, goal.metric, *_limits(goal), _measured(result), MARKS[result.verdict])
    return drawn


def _measured(result: Result) -> str:
    """Return a figure with its interval."""
    if result.measured is None:
        return ""
    sure = "" if result.interval is None else f" [{shown(result.interval[0])}, {shown(result.interval[1])}]"
    return f"{result.measured:.4f}{sure}"


def _limits(goal: Goal) -> list[str]:
    sign = "≤" if goal.at_most else "≥"
    return [f"{sign} {shown(limit)}" if limit is not None else "" for limit in (goal.acceptable, goal.ambitious)]


def as_markdown(sections: Iterable[Section], results: Sequence[Result]) -> str:
    """Return the tables and the goals for a page of documentation."""
    parts = [_page_table(table) for section in sections for table in section.tables if table.lines]
    if results:
        rows = [
            [one.goal.guardrail, one.goal.metric, *_limits(one.goal), _measured(one) or "–", one.verdict]
            for one in results
        ]
        parts.append(_markdown(["guardrail", "metric", "acceptable", "ambitious", "measured", "met"], rows))
    return "\n\n".join(parts)


def _page_table(table: Table) -> str:
    names = table.contestants()
    rows = [
        [line.data, line.of, f"{line.size:,}", *[cell(table.measures, line.figures.get(name)) for name in names]]
        for line in table.lines
    ]
    return f"{table.title}: {' / '.join(table.measures)}\n\n" + _markdown(["data", "of", "n", *names], rows)


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_json(
    sections: Iterable[Section], results: Iterable[Result], notes: Iterable[str], split: str
) -> dict[str, object]:
    """Return everything for programs: flat records, and the goals with their verdicts."""
    return {
        "split": split,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} × {platform.machine()}",
        "sections": [
            {
                "name": section.name,
                "tables": [{"title": table.title, "lines": list(table.records())} for table in section.tables],
                "notes": section.notes,
            }
            for section in sections
        ],
        "goals": [
            {
                "key": result.goal.key,
                "guardrail": result.goal.guardrail,
                "metric": result.goal.metric,
                "acceptable": result.goal.acceptable,
                "ambitious": result.goal.ambitious,
                "at_most": result.goal.at_most,
                "measured": result.measured,
                "interval": result.interval,
                "verdict": result.verdict,
            }
            for result in results
        ],
        "notes": list(notes),
    }
