"""A report as Markdown, for a pull request or a page of a build.

Everything that comes from rows or from processors stands in a code span, in which nothing is a link, a mention, an
image or HTML; characters that are not printable are shown by a sign.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.engine.tracing.display import visible
from penstock.workflows.batch import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_STEP_COLUMNS = ("edited", "tripped", "failed")


def as_markdown(report: Mapping[str, Any]) -> str:
    """Return a report, as `ShortReport` makes it, as Markdown."""
    return "\n".join(_lines(report))


def code(text: object) -> str:
    """Return a text as a code span, whatever it holds."""
    shown = visible(str(text))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    pad = " " if shown[:1] in ("`", " ") or shown[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{shown}{pad}{fence}" if shown else ""


def row_name(row: Mapping[str, Any]) -> str:
    """Return the file and line of a row, in words."""
    return f"{row['file']}, line {row['line']}" if "file" in row else f"line {row['line']}"


def milliseconds(seconds: float) -> str:
    """Return a time for people."""
    return f"{seconds * 1000:,.2f} ms"


def said_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a sample, each with its name."""
    if "reason" in row:
        yield "reason", row["reason"]
    if row.get("flagged"):
        yield "flagged", ", ".join(row["flagged"])
    if "edits" in row:
        more = row["edit_count"] - len(row["edits"])
        edits = [f"{edit['kind']} {edit['start']}–{edit['end']} of {edit['field']}" for edit in row["edits"]]
        yield "edits", "; ".join([*edits, *([f"{more} more"] if more else [])])
    if "result" in row:
        yield "result", row["result"]
    if "text" in row:
        yield "text before", row["text"]


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    counts, source, made = report["counts"], report["source"], report["made"]
    yield f"# Report: {code(report['name'])}\n"
    yield f"{counts['rows']:,} rows of {code(source['input'])} in {counts['seconds']:,.2f} s, {code(report['stage'])}."
    yield f"Made {made['at']} by Penstock {made['version']}.\n"
    if source["interrupted"]:
        yield "**The run was interrupted: these are the rows so far.**\n"
    if source["texts"]:
        yield "**This report holds texts, including everything that was hidden.**\n"
    yield from _verdicts(counts)
    yield from _steps(counts["steps"])
    if report["slowest"]:
        yield "\n## Slowest rows\n"
        for row in report["slowest"]:
            yield f"- {milliseconds(row['seconds'])}: {_named(row)}, {row['status']}"
    if report["samples"]:
        yield "\n## Samples"
    for kind in report["samples"]:
        yield f"\n### {kind['verdict']}{' by ' + code(kind['step']) if kind['step'] else ''}\n"
        for row in kind["rows"]:
            yield f"- {_named(row)}"
            for name, text in said_of(row):
                yield f"    - {name}: {code(text)}"


def _verdicts(counts: Mapping[str, Any]) -> Iterator[str]:
    rows = counts["rows"]
    found = [(status, counts["statuses"].get(status, 0)) for status in STATUSES] + [("flagged", counts["flagged"])]
    cells = [(status, f"{count:,}", f"{count / rows:.1%}") for status, count in found if count]
    yield from _table(("verdict", "rows", "share"), cells)
    if counts["broken"]:
        yield f"\n{counts['broken']:,} of the blocked rows only because a step failed."


def _steps(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not steps:
        return
    yield "\n## Steps\n"
    yield from _table(
        ("step", "ran", "edited", "stopped", "failed", "flagged", "edits", "mean", "slowest"),
        [
            (
                code(step["path"].replace("|", "⟨U+007C⟩"))  # a cell ends at one, also within code
                + (" (shadow)" if step["shadow"] else ""),
                f"{step['ran']:,}",
                *(f"{step['statuses'].get(status, 0):,}" for status in _STEP_COLUMNS),
                f"{step['flagged']:,}",
                f"{step['edits']:,}",
                *(
                    (milliseconds(step["seconds"] / step["ran"]), milliseconds(step["slowest"]))
                    if step["ran"]
                    else ("", "")
                ),
            )
            for step in steps
        ],
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (names, ["---", *["---:"] * (len(names) - 1)], *rows):
        yield f"| {' | '.join(cells)} |"


def _named(row: Mapping[str, Any]) -> str:
    file = f"{code(row['file'])}, " if "file" in row else ""
    return f"{file}line {row['line']}{' ' + code(row['id']) if 'id' in row else ''}"
