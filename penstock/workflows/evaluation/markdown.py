"""An `Evaluation` as Markdown, for a pull request or a page of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.evaluation.sections import sections_of
from penstock.workflows.report.markdown import code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.evaluation.results import Evaluation


def as_markdown(made: Evaluation) -> str:
    """Return an evaluation as Markdown. Texts of rows stand in code spans, in which nothing is markup."""
    return "\n".join(_lines(made))


def _lines(made: Evaluation) -> Iterator[str]:
    for number, section in enumerate(sections_of(made)):
        yield f"{'#' if number == 0 else '##'} {code(section.title)}"
        yield ""
        if section.columns:
            yield _line(section.columns)
            yield _line(["---"] * len(section.columns), plain=True)
            yield from map(_line, section.rows)
            yield ""
        for note in section.notes:
            yield f"- {code(note)}"
        if section.notes:
            yield ""


def _line(cells: tuple[str, ...] | list[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cell if plain else _cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return code(text).replace("|", "\\|") if text else ""
