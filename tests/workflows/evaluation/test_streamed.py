"""Whether answers that stream have the figures of whole ones, and how much of them had left before a verdict."""

import anyio
import anyio.lowlevel
import pytest

from penstock import PIIDetector, Processor, Workflow
from penstock.engine.values.errors import OptionError
from penstock.workflows.evaluation import evaluate
from penstock.workflows.evaluation.sections import sections_of


class Stops(Processor):
    """Stops a stream at the chunk that has a ``!``."""

    id = "stops"
    edits = "nothing"

    def process_output_stream(self, chunk, ctx):
        if "!" in chunk.text:
            ctx.abort("loud")
        return chunk


class Waits(Stops):
    """The same, after other tasks had their turn."""

    id = "waits"

    async def process_output_stream(self, chunk, ctx):
        await anyio.lowlevel.checkpoint()
        return Stops.process_output_stream(self, chunk, ctx)


class AtTheEnd(Processor):
    """Judges the whole answer only."""

    id = "at-the-end"
    edits = "nothing"

    def process_output_result(self, ctx):
        if "!" in ctx.text:
            ctx.abort("loud")


ROWS = [
    {"text": "!", "label": True},
    {"text": "12345678!", "label": True},
    {"text": "1234!678", "label": True},
    {"text": "12345678", "label": False},
]


@pytest.mark.parametrize("guard", [Stops(), Waits()], ids=["sync", "async"])
def test_characters_that_left_before_the_verdict_are_counted(guard) -> None:
    """Of each blocked row: those of the pieces before the one that is stopped."""
    made = evaluate(Workflow("w").then(guard), ROWS, stage="output_stream")
    assert (made.whole.verdicts.right, made.whole.verdicts.passed, made.rows.skipped) == (3, 1, 0)
    left = made.released
    assert (left.rows.count, left.rows.of, left.p50, left.p95, left.most) == (2, 3, 4, 8, 8)


def test_the_cut_decides_how_much_leaves() -> None:
    """With pieces of one character, all before the verdict has left; with one piece, nothing has."""
    one, whole = (evaluate(Workflow("w").then(Stops()), ROWS, stage="output_stream", piece=n) for n in (1, 100))
    assert (one.released.p50, one.released.most) == (4, 8)
    assert (whole.released.rows.count, whole.released.most) == (0, 0)
    with pytest.raises(OptionError, match="piece"):
        evaluate(Workflow("w").then(Stops()), ROWS, stage="output_stream", piece=0)


def test_a_guard_of_whole_answers_holds_them_so_that_nothing_leaves() -> None:
    """Its verdict within the stream counts, and a step that both stages ask is one row's step."""
    both = Workflow("w").then(PIIDetector(strategy="redact")).then(AtTheEnd())
    made = evaluate(both, [*ROWS, {"text": "mail bob.miller@example.com", "label": True}], stage="output_stream")
    assert (made.released.rows.count, made.released.rows.of) == (0, 3)
    assert made.whole.verdicts.right == 4
    assert (made.step("pii-detector").rows, made.step("pii-detector").flagged.count) == (5, 1)


@pytest.mark.parametrize("jobs", [1, 8])
def test_figures_are_those_of_whole_answers(jobs) -> None:
    """Verdicts, spans and wanted texts, however many rows stream at once, and however an address is cut."""
    rows = [
        {
            "text": f"{'x' * number} bob.miller@example.com and anna.smith@example.org",
            "spans": [
                {"start": number + 1, "end": number + 23, "type": "email"},
                {"start": number + 28, "end": number + 50, "type": "email"},
            ],
            "label": True,
            "wanted": f"{'x' * number} [email] and [email]",
        }
        for number in range(1, 12)
    ]
    guard = Workflow("w").then(PIIDetector(strategy="redact", redaction_method="placeholder")).then(Waits())
    streamed = evaluate(guard, rows, stage="output_stream", jobs=jobs)
    whole = evaluate(guard, rows, stage="output_result", jobs=jobs)
    assert streamed.whole.spans == whole.whole.spans
    assert streamed.whole.spans[0].exact.right == 22
    assert streamed.as_wanted == whole.as_wanted
    assert streamed.whole.verdicts == whole.whole.verdicts
    assert (streamed.released.rows.of, whole.released) == (0, None)


def test_a_row_without_a_text_cannot_be_streamed() -> None:
    """It is skipped, and the problem says what to do."""
    rows = [{"messages": [{"role": "assistant", "content": "fine"}], "label": True}, {"text": 3, "label": True}]
    made = evaluate(Workflow("w").then(Stops()), rows, stage="output_stream")
    assert made.rows.skipped == 2
    assert "this stage streams a text, and the row has none" in made.rows.problems[0]


def test_released_characters_are_shown_and_fail_a_build() -> None:
    """In the first table, and in conditions."""
    gates = ["released.most > 4", "released.low > 0.9", "released.p95 > 8"]
    made = evaluate(Workflow("w").then(Stops()), ROWS, stage="output_stream", fail_if=gates)
    assert [gate.failed for gate in made.gates] == [True, False, False]
    lines = dict(next(iter(sections_of(made))).rows)
    assert lines["characters that had left"] == "4 (p95 8, most 8)"
    assert lines["blocked after text had left"].endswith("2 of 3")
    assert evaluate(Workflow("w").then(Stops()), ROWS[3:], stage="output_stream", fail_if=gates).failed
