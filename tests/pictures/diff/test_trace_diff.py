"""What differs between two runs of one input, and what does not count: times, ids, a step's move into a branch."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock import Tripwire
from penstock.engine import Span, Trace
from penstock.engine.tracing.span import SpanArm, SpanChunk, SpanText
from tests.engine.tracing.traces import STAGE, VERDICT, blocked, hidden, step, trace, with_texts


def changes(before: Span, after: Span, **fields: object) -> dict[str, tuple[object, object]]:
    """What differs between two spans, by name."""
    diff = trace(before, **fields).compare(trace(after, **fields))
    return {change.name: (change.before, change.after) for one in diff.changed for change in one.changes}


@pytest.mark.parametrize("made", [blocked(), with_texts(), trace()])
def test_a_run_is_the_same_as_itself(made: Trace) -> None:
    """Nothing is there for one of both only."""
    diff = made.compare(made)
    assert diff.same
    assert not diff
    assert diff.added == diff.removed == diff.changed == diff.changes == diff.slower == diff.faster == ()
    assert str(diff) == "guard: no differences but the time: 10.0 ms → 10.0 ms"
    assert repr(diff) == "TraceDiff('guard', same)"


def test_ids_and_times_do_not_make_runs_differ() -> None:
    """Every run has its own."""
    other = trace(step(9, "a", at=3.0, seconds=7.0, edits=(hidden(1, 2, message="m9"),)), run_id="r2", started=5.0)
    assert trace(step(2, "a", edits=(hidden(1, 2, message="m1"),))).compare(other).same


def test_edits_of_a_message_that_both_runs_know_are_told_from_those_of_another() -> None:
    """Such as in a conversation whose messages have ids."""
    both = (hidden(1, 2, message="m1"), hidden(1, 2, message="m2"))
    other = (hidden(1, 2, message="m1"), hidden(1, 2, message="m1"), hidden(3, 4, message="m2"))
    found = changes(step(2, "a", edits=both), step(2, "a", edits=other))
    before, after = found["edits"]
    assert before == [hidden(1, 2, message="m2").to_json()]
    assert after == [hidden(1, 2, message="m1").to_json(), hidden(3, 4, message="m2").to_json()]


def test_steps_of_one_run_only_are_listed() -> None:
    """With their places."""
    diff = trace(step(2, "a"), step(3, "b")).compare(trace(step(2, "b"), step(3, "c", status="edited")))
    assert [(place, span.path) for place, span in diff.removed] == [("process_input: a", "a")]
    assert [(place, span.path) for place, span in diff.added] == [("process_input: c", "c")]
    assert [one.place for one in diff.matched] == ["process_input", "process_input: b"]
    assert diff
    assert repr(diff) == "TraceDiff('guard', 1 added, 1 removed, 0 changed)"
    assert str(diff).splitlines()[1:] == ["- process_input: a (passed)", "+ process_input: c (edited)"]


def test_a_step_is_found_again_in_a_branch() -> None:
    """Its path is what it is known by."""
    fork = Span(2, 1, "branch", "fork", "fork", STAGE)
    diff = trace(step(2, "a")).compare(trace(fork, step(3, "a", 2)))
    assert [place for place, _ in diff.added] == ["process_input: fork"]
    assert not diff.removed


def test_other_verdicts_arms_errors_and_findings_are_changes() -> None:
    """Each by its name, with both values."""
    judge = Tripwire("too rude", "judge", STAGE)
    assert changes(step(2, "a"), step(2, "a", status="failed", error="ValueError")) == {
        "status": ("passed", "failed"),
        "error": (None, "ValueError"),
    }
    found = changes(step(2, "a", tripwire=VERDICT), step(2, "a", tripwire=judge))
    assert [value["reason"] for value in found["tripwire"]] == ["no bombs", "too rude"]
    one, two = SpanArm("x", taken=True), SpanArm("y", taken=True)
    assert changes(step(2, "a", arms=(one,)), step(2, "a", arms=(one, two))) == {"arms": (["x"], ["x", "y"])}
    assert changes(step(2, "a"), step(2, "a", flagged=("url",))) == {"flagged": ([], ["url"])}
    assert changes(step(2, "a", details={"n": 1}), step(2, "a", details={"n": 2})) == {"details": ({"n": 1}, {"n": 2})}
    assert changes(step(2, "a"), step(2, "a", shadow=True)) == {"shadow": (False, True)}


def test_models_are_compared_though_they_have_other_names() -> None:
    """Another model does the same work."""
    one = Span(2, 0, "model", "small", usage={"output_tokens": 3}, finish_reason="stop")
    two = Span(2, 0, "model", "large", usage={"output_tokens": 4}, finish_reason="length")
    assert changes(one, two) == {
        "name": ("small", "large"),
        "finish_reason": ("stop", "length"),
        "usage": ({"output_tokens": 3}, {"output_tokens": 4}),
    }


def agent(*steps: tuple[str, ...]) -> Trace:
    """A run with model steps that call these tools."""
    spans = [Span(0, None, "run", "agent")]
    for number, tools in enumerate(steps):
        parent = len(spans)
        spans.append(Span(parent, 0, "model_step", "", number=number))
        spans += [Span(parent + 1 + index, parent, "tool", tool) for index, tool in enumerate(tools)]
    return Trace("r", "agent", "passed", tuple(spans))


def test_spans_that_come_again_are_compared_one_by_one() -> None:
    """Within their model step: a call more in the first moves none of the second."""
    diff = agent(("search", "search"), ("search",)).compare(agent(("search",) * 3, ("search",)))
    assert [place for place, _ in diff.added] == ["model step 0: tool search (#3)"]
    assert not diff.removed
    assert [one.place for one in diff.matched] == [
        "model step 0",
        "model step 0: tool search",
        "model step 0: tool search (#2)",
        "model step 1",
        "model step 1: tool search",
    ]


def test_what_differs_about_the_run_is_said_once() -> None:
    """The span of the run is not compared, too."""
    failed = replace(blocked(), status="failed", tripwire=None, workflow="other")
    failed = replace(failed, spans=(replace(failed.spans[0], status="failed", error="ValueError"), *failed.spans[1:]))
    diff = blocked().compare(failed)
    assert [change.name for change in diff.changes] == ["workflow", "status", "tripwire", "error"]
    assert not diff.changed


def with_text(after: str, given: str = "to ann", out: str = "to") -> Trace:
    """A run with texts."""
    text = SpanText("m1", 0, "user", given, after)
    stream = Span(3, 0, "stage", "process_output_stream", stage="process_output_stream")
    chunks = tuple(SpanChunk(0.0, one, 0, one) for one in out)
    return trace(step(2, "a", texts=(text,)), replace(stream, chunks=chunks), texts=True)


def test_texts_are_compared_if_both_traces_have_them() -> None:
    """Else nobody can say."""
    diff = with_text("to [A]").compare(with_text("to [B]"))
    assert diff.with_texts
    assert "      - user: to ann → to [A]\n      + user: to ann → to [B]" in str(diff)
    assert with_text("to [A]").compare(replace(with_text("to [B]"), texts=False)).same


def test_a_text_that_is_given_otherwise_is_a_change() -> None:
    """A step that leaves it alone says so with one text."""
    diff = with_text("to ann").compare(with_text("to bob", given="to bob"))
    assert "      - user: to ann\n      + user: to bob" in str(diff)


def test_streams_are_compared_by_what_came_and_left_not_by_chunks() -> None:
    """A model cuts its answer otherwise each time."""
    one, two = with_text("x", out="ab"), with_text("x", out="ab")
    spans = (*two.spans[:-1], replace(two.spans[-1], chunks=(SpanChunk(0.0, "ab", 0, "ab"),)))
    assert one.compare(replace(two, spans=spans)).same
    assert "    stream out: ab → abc" in str(one.compare(with_text("x", out="abc")))


def test_slower_and_faster_parts_are_listed_beyond_noise() -> None:
    """A millisecond and a fifth; what was skipped in one of both has no time to compare."""
    before = trace(
        step(2, "a", seconds=0.010), step(3, "b", seconds=0.010), step(4, "c"), step(5, "d", seconds=0.1), step(6, "e")
    )
    after = trace(
        step(2, "a", seconds=0.0125),
        step(3, "b", seconds=0.004),
        step(4, "c", seconds=0.0009),
        step(5, "d", seconds=0.119),
        step(6, "e", seconds=9.0, status="skipped"),
    )
    diff = before.compare(replace(after, seconds=0.02))
    assert [one.place for one in diff.slower] == ["process_input: a"]
    assert [one.place for one in diff.faster] == ["process_input: b"]
    lines = str(diff).splitlines()
    assert lines[0] == "guard: 0 added, 0 removed, 1 changed; time: 10.0 ms → 20.0 ms (+100%)"
    assert lines[-2:] == [
        "slower: process_input: a: 10.0 ms → 12.5 ms (+25%)",
        "faster: process_input: b: 10.0 ms → 4.00 ms (-60%)",
    ]


def test_the_most_slower_come_first() -> None:
    """They are what somebody looks for."""
    before = trace(
        step(2, "a", seconds=0.01), step(3, "b", seconds=0.01), step(4, "c", seconds=0.9), step(5, "d", seconds=0.9)
    )
    after = trace(
        step(2, "a", seconds=0.02), step(3, "b", seconds=0.03), step(4, "c", seconds=0.5), step(5, "d", seconds=0.1)
    )
    diff = before.compare(after)
    assert [one.before.path for one in diff.slower] == ["b", "a"]
    assert [one.before.path for one in diff.faster] == ["d", "c"]


def test_a_diff_reads_as_lines() -> None:
    """Signs first, then what was there before and after."""
    after = replace(
        blocked(status="passed", tripwire=None, usage={"input_tokens": 1300, "output_tokens": 40}),
        spans=tuple(
            replace(span, status="passed", tripwire=None, edits=span.edits[:1]) if span.id in (3, 4, 5) else span
            for span in blocked().spans
        ),
    )
    assert (
        str(blocked().compare(after))
        == """\
guard: 0 added, 0 removed, 3 changed; time: 10.0 ms → 10.0 ms
~ status: blocked → passed
~ tripwire: judge: no bombs → none
~ usage.input_tokens: 1200 → 1300
~ process_input: inner/mail
    status: edited → passed
    edits:
      - 12–20: redact [EMAIL]
~ process_input: branch
    status: tripped → passed
~ process_input: branch/judge
    status: tripped → passed
    tripwire: judge: no bombs → none"""
    )


def test_a_verdict_is_repeated_only_for_the_step_that_made_it() -> None:
    """A stage has the one of its step."""
    made = trace(step(2, "a"))
    tripped = replace(made, spans=tuple(replace(span, status="tripped", tripwire=VERDICT) for span in made.spans))
    assert str(made.compare(tripped)).count("no bombs") == 1


def test_edits_of_a_field_name_it() -> None:
    """Such as a tool's arguments."""
    edit = replace(hidden(1, 2, ""), field="arguments.*")
    assert "1–2 of arguments.*: redact\n" in f"{trace(step(2, 'a', edits=(edit,))).compare(trace(step(2, 'a')))}\n"


def test_a_diff_is_json_with_the_ids_of_both_traces() -> None:
    """So that a page can point at them."""
    diff = trace(step(2, "a"), step(3, "b")).compare(trace(step(2, "b", flagged=("x",)), step(3, "c")))
    data = json.loads(json.dumps(diff.to_json()))
    assert data["version"] == 1
    assert (data["same"], data["texts"], data["seconds"], data["changes"]) == (False, False, [0.01, 0.01], [])
    assert data["removed"] == [{"place": "process_input: a", "span": 2}]
    assert data["added"] == [{"place": "process_input: c", "span": 3}]
    assert data["matched"][-1] == {
        "place": "process_input: b",
        "before": 3,
        "after": 2,
        "seconds": [0.0, 0.0],
        "changes": [{"name": "flagged", "before": [], "after": ["x"]}],
    }


def test_hostile_texts_cannot_control_the_terminal() -> None:
    """Names, labels, reasons and texts come from users."""
    bad = "\x1b[31m\n\u202e"
    text = SpanText("m1", 0, bad, bad, "b")
    old = trace(step(2, bad, flagged=(bad,), details={bad: 1}, texts=(text,)), workflow=bad, texts=True)
    new = trace(
        step(2, bad, details={bad: bad}, edits=(hidden(1, 2, bad),)), step(3, f"a{bad}"), workflow=bad, texts=True
    )
    assert all(line.isprintable() for line in str(old.compare(new)).split("\n"))
