"""An `Evaluation` as one HTML file: its tables, its charts, and the rows behind each bar. It has no script."""

from __future__ import annotations

import html
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import visible
from penstock.workflows.evaluation.charts import precision_recall, spread, thresholds
from penstock.workflows.evaluation.sections import NOTHING, THRESHOLDS, row_text, score_text, sections_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.workflows.evaluation.curves import ScoreBin
    from penstock.workflows.evaluation.results import Evaluation, ExampleRow, PartFigures
    from penstock.workflows.evaluation.sections import Section


def as_html(made: Evaluation) -> str:
    """Return an evaluation as a page that needs nothing else, and lets nothing be fetched or run."""
    style = (files("penstock.workflows.evaluation") / "evaluation.css").read_text("utf-8")
    body = "\n".join(_body(made))
    nonce = sha256(f"{style}\0{body}".encode("utf-8", "replace")).hexdigest()
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
    title = _text(f"Evaluation: {made.workflow}")
    return (
        "<!doctype html>\n"
        '<html lang="en">\n'
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n"
        f'<style nonce="{nonce}">{style}</style>\n'
        f"<main>\n<h1>{title}</h1>\n{body}\n</main>\n</html>"
    )


def _body(made: Evaluation) -> Iterator[str]:
    charts = "\n".join(_charts(number, part) for number, part in enumerate(made.steps) if part.scores is not None)
    for section in sections_of(made):
        if section.title.startswith(THRESHOLDS) and charts:
            yield charts
            charts = ""
        yield _section(section)


def _section(section: Section) -> str:
    notes = "".join(f"<li>{_text(note)}</li>" for note in section.notes)
    table = _table(section.columns, section.rows) if section.columns else ""
    return f"<section><h2>{_text(section.title)}</h2>{table}{f'<ul>{notes}</ul>' if notes else ''}</section>"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _charts(number: int, part: PartFigures) -> str:
    """Return the charts of a step, and the rows of each bin, of which those are shown that a bar links to."""
    scores = part.scores
    assert scores is not None, "the caller has looked"  # noqa: S101
    link = f"rows-{number}-"
    drawn = [spread(scores.bins, link), thresholds(scores.sweep, scores.recommendation.threshold)]
    if any(point.recall is not None and point.precision is not None for point in scores.curve):
        drawn.insert(0, precision_recall(scores.curve))
    rows = "".join(_bin(f"{link}{at}", each, part.bins[at]) for at, each in enumerate(scores.bins) if each.rows)
    return (
        f'<section><h2>Scores of {_text(part.path)}</h2><div class="charts">{"".join(drawn)}</div>'
        f"<p>A bar of the spread links to its rows.</p>{rows}</section>"
    )


def _bin(id: str, each: ScoreBin, rows: Iterable[ExampleRow]) -> str:
    listed = list(rows)
    count = each.rows
    left = f", the first {len(listed):,} of them" if count > len(listed) else ""
    title = f"{count:,} rows with a score from {each.low:g} to {each.high:g}{left}"
    texts = any(row.text is not None for row in listed)
    cells = [
        (row_text(row), row.label or NOTHING, row.found or NOTHING, score_text(row.score))
        + ((row.text or "",) if texts else ())
        for row in listed
    ]
    table = _table(("row", "label", "found", "score", *(("text",) if texts else ())), cells)
    return f'<div class="bin" id="{id}"><h3>{title}</h3>{table}</div>'


def _text(text: str) -> str:
    return html.escape(visible(text))
