"""What people see of a trace: the tree of its spans, what each did, and when; on any width, whatever the texts are."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from penstock import Tripwire
from penstock.engine import Span, Trace
from penstock.engine.tracing.display import columns
from penstock.engine.tracing.span import SpanArm, SpanChunk, SpanEdit, SpanText
from penstock.pictures.timeline import SIGNS, as_text, duration, one_line, tokens
from tests.engine.tracing.traces import STAGE, VERDICT, blocked, hidden, step, trace, with_texts

TIMELINE = """\
guard: blocked in 10.0 ms
run r1, thread t1, 2027-01-15 08:00:00 UTC

✓ process_input                                            10.0 ms  ━━━━━━━━━━━━━━━━
├─ ✓ trim                                                  1.00 ms  ━━
├─ ✎ inner/mail      2 edits: [EMAIL] ×2                   2.00 ms   ━━━━
├─ ✗ branch          took is_long; not otherwise           5.00 ms      ━━━━━━━━━
│  ├─ ✗ judge        tripped                               5.00 ms      ━━━━━━━━━
│  └─ · audit        skipped
├─ ! watch (shadow)  failed: ValueError                    1.00 ms      ━━━
└─ ✓ notes           flagged: email, url                   1.00 ms  ━━
✓ model step 0                                             2.00 ms              ━━━━
├─ ✓ model gpt       tokens: 1,200 in, 40 out; finish:     1.00 ms              ━━━
│                    stop
└─ ! tool search     failed: invalid                       1.00 ms                ━━

blocked by judge in process_input: no bombs
tokens: 1,200 in, 40 out"""


def shown(made: Trace, width: int = 84) -> list[str]:
    """The lines of its timeline."""
    return as_text(made, width).splitlines()


def test_a_trace_is_shown_as_a_tree_with_times() -> None:
    """Arms taken and not, edits, verdict, failures, tokens; the reason at the end."""
    assert shown(blocked()) == TIMELINE.splitlines()


def test_a_trace_prints_as_its_timeline() -> None:
    """Without colours, for logs and notebooks."""
    assert str(blocked()) == as_text(blocked(), 100)


def test_texts_are_shown_before_and_after_and_it_says_so() -> None:
    """They say why a message was changed."""
    lines = shown(with_texts())
    assert [line.strip() for line in lines if "before" in line or "after" in line] == [
        "before to ann@example.com",
        "after  to [EMAIL]",
    ]
    assert any("2 chunks, held up to 3 characters" in line for line in shown(with_texts(), 120))
    assert lines[-1] == "The trace holds the texts of the request, including everything that was hidden."


def test_texts_that_a_step_left_alone_are_not_shown() -> None:
    """Nor those of a stage, which its steps show."""
    same, other = SpanText("m", 0, "user", "same", "same"), SpanText("m", 0, "user", "old", "new")
    made = trace(step(2, "a", texts=(same,)), Span(3, 0, "stage", STAGE, stage=STAGE, texts=(other,)), texts=True)
    assert not any("before" in line for line in shown(made))


def note_of(span: Span) -> str:
    """What a timeline says beside its name."""
    [line] = [line for line in shown(trace(span), 150) if span.name in line]
    return line.split(span.name)[1].rsplit("  ", 2)[0].strip()


def of_step(**fields: object) -> str:
    """What is said of a step."""
    return note_of(step(2, "guarded", seconds=0.001, **fields))


def test_each_outcome_of_a_step_has_its_words() -> None:
    """Edits by their kind, verdicts, retries, shadows, notes."""
    other = Tripwire("too rude", "judge", STAGE)
    reworded, added = SpanEdit("m", 0, "text", 1, 2, "replace", "·"), SpanEdit("m", 0, "text", 1, 1, "insert", "·")
    deleted = hidden(1, 2, "")
    assert of_step(status="edited") == "edited"
    assert of_step(status="edited", edits=(reworded, added, deleted)) == "3 edits: (removed), reworded, added"
    assert of_step(status="tripped", tripwire=other) == "tripped: too rude"
    assert of_step(status="tripped", tripwire=Tripwire("ruder", "j", STAGE, retry=True)) == "asked for a retry: ruder"
    assert of_step(details={"found": {"email": 1}, "by": "regex"}) == "found: email 1; by: regex"
    assert (
        of_step(details={"score": 0.123456, "of": {1, 2}, "is": [None, True]})
        == "score: 0.123; of: frozenset; is: None, True"
    )
    assert len(of_step(details={"long": "x" * 300})) == 80


def test_a_shadow_is_told_by_what_it_would_have_done() -> None:
    """It changed nothing."""
    [line] = [
        line
        for line in shown(trace(step(2, "a", shadow=True, status="edited", edits=(hidden(1, 2),))))
        if "a (" in line
    ]
    assert "a (shadow)  would make 1 edit: [EMAIL]" in line
    [line] = [
        line for line in shown(trace(step(2, "a", shadow=True, status="tripped", tripwire=VERDICT))) if "a (" in line
    ]
    assert "would trip: no bombs" in line


def test_an_error_is_told_where_it_happened() -> None:
    """What stands around it failed for the same reason."""
    fork = Span(2, 1, "branch", "fork", "fork", STAGE, 0.0, 0.1, "failed", error="ValueError")
    inside = step(3, "judge", 2, status="failed", error="ValueError")
    assert note_of(fork) == "failed: ValueError"
    lines = shown(trace(fork, inside))
    assert [("fork" in line, "judge" in line) for line in lines if "ValueError" in line] == [(False, True)]


def test_a_branch_without_a_taken_arm_says_so() -> None:
    """And without other arms nothing of them."""
    arms = (SpanArm("is_long", taken=False),)
    assert note_of(Span(2, 1, "branch", "fork", "fork", STAGE, seconds=0.1, arms=arms)) == "took no arm; not is_long"
    taken = (SpanArm("is_long", taken=True),)
    assert note_of(Span(2, 1, "branch", "fork", "fork", STAGE, seconds=0.1, arms=taken)) == "took is_long"


def test_a_stream_says_how_many_chunks_came() -> None:
    """And how much of it had to wait."""
    one = Span(2, 1, "stage", "stream", "", STAGE, chunks=(SpanChunk(0.0, "a", 0, "a"),))
    assert note_of(one) == "1 chunk"


def test_an_attempt_is_named_by_its_number() -> None:
    """The path of what is attempted is that of its steps."""
    made = trace(Span(2, 1, "attempt", "judge", "judge", STAGE, number=1), step(3, "judge", 2))
    assert [line.split("0 µs")[0].strip() for line in shown(made)[4:]] == ["└─ ✓ attempt 1", "└─ ✓ judge"]


def test_on_narrow_terminals_notes_stand_below_names() -> None:
    """And there are no bars."""
    lines = shown(blocked(), 50)
    assert "│       2 edits: [EMAIL] ×2" in lines
    assert not any("━" in line for line in lines)
    assert lines[3] == "✓ process_input                            10.0 ms"


@pytest.mark.parametrize("width", [0, 30, 31, 47, 59, 60, 61, 80, 120, 500])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Down to the narrowest that is laid out."""
    for made in (blocked(), with_texts(), trace(step(2, "漢字" * 40, flagged=("字" * 90,)))):
        assert max(map(columns, shown(made, width))) <= max(width, 30)


@pytest.mark.rest
def test_a_very_deep_tree_stays_within_the_terminal() -> None:
    """Of its lines only the end is shown."""
    spans = [Span(0, None, "run", "w")]
    spans += [step(number, f"s{number}", number - 1, seconds=0.001, flagged=("a",)) for number in range(1, 1500)]
    lines = shown(Trace("r", "w", "passed", tuple(spans), seconds=0.002), 80)
    assert max(map(columns, lines)) <= 80
    assert sum("flagged: a" in line for line in lines) == 1499


@given(st.text(), st.floats(allow_infinity=False, allow_nan=False), st.integers(20, 130))
def test_hostile_texts_and_odd_times_cannot_break_a_timeline(text: str, at: float, width: int) -> None:
    """Names, reasons and labels come from users; times may be those of another machine's clock."""
    verdict = Tripwire(text, text, text)
    made = trace(
        step(2, text or "a", at=at, flagged=(text,), status="edited", edits=(hidden(1, 2, text),)),
        step(3, f"b{text}", status="failed", error=text, details={text: text}),
        Span(4, 1, "branch", text, text, arms=(SpanArm(text, taken=True),)),
        workflow=text,
        tripwire=verdict,
        started=at,
    )
    lines = shown(made, width)
    assert all(line.isprintable() for line in lines)
    assert max(map(columns, lines)) <= max(width, 30)


def test_a_trace_without_spans_or_time_is_shown() -> None:
    """There is nothing to draw a bar for."""
    assert str(Trace("", "", "failed")) == "run: failed in 0 µs"
    assert "━" not in str(trace(seconds=0.0).__class__("r", "w", "passed", (Span(0, None, "stage", STAGE),)))


def test_a_start_that_no_calendar_has_is_left_out() -> None:
    """It came from a file."""
    assert shown(trace(started=1e300))[1] == "run r1"


def test_several_roots_are_all_shown() -> None:
    """Should a trace have no span for the run."""
    made = Trace("r", "w", "passed", (Span(0, None, "stage", "a"), Span(1, None, "stage", "b")))
    assert [line.split()[:2] for line in shown(made)[3:]] == [["✓", "a"], ["✓", "b"]]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 µs"),
        (0.0000123, "12 µs"),
        (0.00123, "1.23 ms"),
        (0.009999, "10.0 ms"),
        (0.0123, "12.3 ms"),
        (0.9, "900.0 ms"),
        (0.99999, "1.00 s"),
        (1234.5, "1,234.50 s"),
    ],
)
def test_durations_have_the_unit_that_suits_them(seconds: float, words: str) -> None:
    """Three digits are enough."""
    assert duration(seconds) == words


def test_tokens_that_are_not_known_are_left_out() -> None:
    """And what is no number, too."""
    assert (
        tokens({"input_tokens": 1, "output_tokens": None, "cached_tokens": 0, "reasoning_tokens": 2})
        == "1 in, 2 reasoning"
    )
    assert tokens({"input_tokens": "many", "requests": 2}) == ""
    assert shown(trace(usage={"requests": 1}))[-1].startswith("✓ process_input")


def test_long_reasons_are_cut() -> None:
    """At the end later than in the tree."""
    assert one_line("x" * 300) == "x" * 239 + "…"
    ends = "".join(shown(trace(tripwire=Tripwire("y" * 3000, "j", STAGE)))[5:])
    assert 900 < ends.count("y") < 1000


def test_every_status_has_a_sign() -> None:
    """So that it can be told without colours."""
    assert len(set(SIGNS.values())) == 5
