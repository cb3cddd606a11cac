"""An `Evaluation` as JUnit XML, which CI systems show: a test for each condition of ``--fail-if``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from penstock.engine.tracing.display import visible
from penstock.workflows.evaluation.sections import sections_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.evaluation.results import Evaluation


def as_junit(made: Evaluation) -> str:
    """Return an evaluation as JUnit XML. Beside the conditions, one test says whether all rows could be evaluated."""
    return "\n".join(_lines(made))


def _lines(made: Evaluation) -> Iterator[str]:
    failures, skipped = sum(gate.failed for gate in made.gates), made.rows.skipped
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<testsuite name={_attribute(f"penstock eval {made.workflow}")} tests="{len(made.gates) + 1}" '
        f'failures="{failures}" errors="{int(skipped > 0)}">'
    )
    yield '  <testcase classname="penstock.eval" name="every row could be evaluated">'
    if skipped:
        problems = _text("; ".join(made.rows.problems))
        yield f'    <error message="{skipped} rows could not be evaluated">{problems}</error>'
    yield "  </testcase>"
    for gate in made.gates:
        yield f'  <testcase classname="penstock.eval" name={_attribute(f"not {gate.condition}")}>'
        if gate.failed:
            yield f"    <failure message={_attribute(gate.reason)}/>"
        yield "  </testcase>"
    figures = next(iter(sections_of(made)))
    told = [": ".join(row) for row in figures.rows] + list(figures.notes)
    yield f"  <system-out>{_text(chr(10).join(told))}</system-out>"
    yield "</testsuite>"


def _attribute(text: str) -> str:
    return quoteattr(visible(text))


def _text(text: str) -> str:
    return escape("\n".join(map(visible, text.split("\n"))))
