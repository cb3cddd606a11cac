"""Ways to get text past a guard of a stream other than as a piece of a text; none of them leads to the client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock import Chunk, Edit, Processor, RegexFilterProcessor, Workflow
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.text_guards.window import resolve_overlaps
from penstock.engine.values.chunks import CONTROL

SECRET = "ada@example.com"
CARD = 4111111111111111


def guard(**options: Any) -> Workflow:
    """Redact what is personal."""
    return Workflow("w").then(RegexFilterProcessor(presets=["pii", "secrets"], strategy="redact", **options))


def sent(*source: Chunk | str, workflow: Workflow | None = None) -> list[Chunk]:
    """What leaves."""
    with (workflow or guard()).start_sync().process_output_stream(source) as chunks:
        return list(chunks)


def written(text: str, size: int = 3) -> list[Chunk]:
    """A call of a tool as it is written."""
    deltas = [Chunk("tool-input-delta", text[at : at + size], "c") for at in range(0, len(text), size)]
    return [Chunk("tool-input-start", id="c"), *deltas, Chunk("tool-input-end", id="c")]


def text_of(chunks: Iterable[Chunk]) -> str:
    """The text of all chunks."""
    return "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize("type", sorted(CONTROL))
def test_what_a_control_chunk_says_is_judged(type: str) -> None:
    """A provider may repeat the whole answer when it ends, or quote it when it breaks."""
    chunk = Chunk(type, payload={"message": f"it was {SECRET}", "usage": {"tokens": CARD}})
    assert [one.payload for one in sent(chunk)] == [{"message": "it was [EMAIL]", "usage": {"tokens": CARD}}]


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool-input"])
@pytest.mark.parametrize("what", ["start", "delta", "end"])
def test_what_is_said_beside_a_text_is_judged(kind: str, what: str) -> None:
    """It leaves with the chunk that it came in."""
    chunks = [Chunk(f"{kind}-start", id="1"), Chunk(f"{kind}-delta", "hello", "1"), Chunk(f"{kind}-end", id="1")]
    told = [chunk.with_payload({"note": SECRET}) if chunk.type.endswith(what) else chunk for chunk in chunks]
    assert [chunk.payload for chunk in sent(*told) if chunk.payload] == [{"note": "[EMAIL]"}]


def test_a_copy_of_a_text_beside_it_does_not_leave() -> None:
    """The text itself may be held, or gone, and pieces of a copy say nothing by themselves."""
    pieces = [Chunk("text-delta", text, "1", {"raw": [text], "index": 1}) for text in ("ada@", "example.com")]
    assert {repr(chunk.payload) for chunk in sent(*pieces)} == {"{'raw': ('',), 'index': 1}"}


def test_a_hook_sees_what_is_said_beside_a_text_once() -> None:
    """Not a chunk of the driver's own."""
    seen: list[str] = []

    class Looks(Processor):
        edits = "nothing"

        def process_output_stream(self, chunk: Chunk, ctx: Any) -> Chunk:
            seen.append(chunk.type)
            return chunk

    beside = Workflow("w").parallel(RegexFilterProcessor(presets=["pii"], strategy="redact"), Looks())
    sent(Chunk("text-delta", "a b", "1", {"note": "a"}), *written("{}"), workflow=beside)
    assert set(seen) == {"text-delta", "tool-input-start", "tool-input-delta", "tool-input-end"}


@pytest.mark.parametrize("type", ["object", "object-result"])
@pytest.mark.parametrize("name", ["name", "email_id", "userId", "data", "state"])
def test_a_structured_answer_without_a_wrapper_may_call_its_values_anything(type: str, name: str) -> None:
    """What is a name in other chunks is the model's own word there."""
    assert SECRET not in repr(sent(Chunk(type, payload={name: SECRET})))


@pytest.mark.parametrize("value", ["329 7730", "329 7730, or ask", "329 7730 then"])
def test_a_name_explains_its_value_in_a_snapshot_as_in_the_whole(value: str) -> None:
    """What the whole will hide is not shown while it grows."""
    assert "7730" not in repr(sent(Chunk("object", payload={"object": {"phone": value}})))


@pytest.mark.parametrize("type", ["object", "object-result"])
@pytest.mark.parametrize("payload", [{"phone": "329 7730"}, {"object": {"phone": "329 7730"}}])
def test_a_name_on_the_payloads_own_level_explains_its_value(type: str, payload: Any) -> None:
    """With a wrapper around the value, and without."""
    assert "7730" not in repr(sent(Chunk(type, payload=payload)))


@pytest.mark.parametrize("strategy", ["block", "redact"])
@pytest.mark.parametrize("value", [{SECRET: "bob@example.com"}, {"a": {SECRET: CARD}}, {SECRET: 1}])
def test_nothing_that_is_told_quotes_a_name(strategy: Any, value: Any) -> None:
    """A mapping's keys are text: records, verdicts and callbacks say where something was found without them."""
    told: list[Any] = []
    filter_ = RegexFilterProcessor(presets=["pii"], strategy=strategy, on_violation=told.append)
    run = Workflow("w").then(filter_).start_sync(records=True)
    with run.process_output_stream([Chunk("object-result", payload=value)]) as chunks:
        told += list(chunks)

    assert SECRET not in repr((told, run.records, run.tripwire))
    assert len(told) > 1


def test_a_record_does_not_quote_what_another_guard_may_refuse_yet() -> None:
    """As those of whole messages do not."""

    class Unmasks(TextGuard):
        reach = 9

        def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
            return [Edit(at, at + 5, SECRET, "replace") for at in [text.find("MAIL!")] if at >= 0]

    run = Workflow("w").then(Unmasks()).then(RegexFilterProcessor(presets=["pii"])).start_sync(records=True)
    with run.process_output_stream(["to MAIL! now"]) as chunks:
        assert [chunk.type for chunk in chunks][-1] == "tripwire"

    assert SECRET not in repr(run.records)


def test_a_snapshot_keeps_its_names() -> None:
    """The value of a name is there already, so the name does not grow."""
    (chunk,) = sent(Chunk("object", payload={"object": {"city": "Paris is", "pin": 1}}))
    assert chunk.payload == {"object": {"city": "Paris ", "pin": 1}}


def test_a_number_that_may_still_grow_is_not_shown() -> None:
    """The beginning of a card's number is most of it."""
    assert [chunk.payload for chunk in sent(Chunk("object", payload={"card": CARD // 10}))] == [{"card": None}]


def test_a_number_in_a_snapshot_that_may_not_pass_becomes_null() -> None:
    """The value keeps its form."""
    (chunk,) = sent(Chunk("object", payload={"card": CARD, "n": 3}))
    assert chunk.payload == {"card": None, "n": 3}


@pytest.mark.parametrize("value", [SECRET.encode(), {SECRET}, -CARD, {CARD: 1}, (SECRET,), ValueError(SECRET)])
def test_what_is_no_text_is_read_too(value: Any) -> None:
    """Where it cannot be edited, it blocks."""
    chunks = sent(Chunk("object-result", payload={"object": value}))
    assert SECRET not in repr(chunks)
    assert str(CARD) not in repr(chunks)


def test_an_error_that_quotes_the_text_blocks() -> None:
    """Providers' errors are objects."""
    (chunk,) = sent(Chunk("error", payload={"error": ValueError(f"cannot send {SECRET}")}))
    assert chunk.type == "tripwire"


# What is written for a tool


def test_a_name_that_is_written_twice_leaves_once() -> None:
    """Only the last value is judged, so only that one is sent."""
    assert text_of(sent(*written(f'{{"to": "{SECRET}", "to": "me"}}'))) == '{"to": "me"}'


@pytest.mark.parametrize("written_so", [r'{"to": "\u0061da@example.com"', r'{"to": "\u0061da@example.com"} {}'])
def test_escapes_are_read_in_what_is_no_json(written_so: str) -> None:
    """A lenient reader elsewhere would read them."""
    assert text_of(sent(*written(written_so))) == written_so.replace(r"\u0061da@example.com", "[EMAIL]")


@pytest.mark.parametrize("written_so", [r'{"a": "\u005c\u0022 \n \/ \\u0061"', "[" * 5000, "[" * 300 + "]" * 300])
def test_what_is_no_json_and_clean_leaves_as_it_was_written(written_so: str) -> None:
    """Also where it is nested deeper than can be read."""
    assert text_of(sent(*written(written_so))) == written_so


def test_pieces_that_equal_each_other_are_told_apart() -> None:
    """The rewritten arguments stand in the first of them."""
    pieces = [Chunk("tool-input-delta", text, "c") for text in ('"', SECRET, '"')]
    assert text_of(sent(*pieces, Chunk("tool-input-end", id="c"))) == '"[EMAIL]"'


def test_only_data_overtakes() -> None:
    """Nothing else is let past by calling itself transient."""
    chunk = Chunk("tool-input-delta", f'{{"to": "{SECRET}"}}', "c", transient=True)
    assert text_of(sent(chunk)) == '{"to": "[EMAIL]"}'


# Texts in turns, and texts behind an end


def piece(text: str, id: str = "1") -> Chunk:
    """A piece of a text."""
    return Chunk("text-delta", text, id)


def starts(*ids: str) -> list[Chunk]:
    """Texts are announced."""
    return [Chunk("text-start", id=id) for id in ids]


def ends(*ids: str) -> list[Chunk]:
    """Texts end."""
    return [Chunk("text-end", id=id) for id in ids]


AT_ONCE: dict[str, list[Chunk]] = {
    "both open": [*starts("1", "2"), piece("to ada@"), piece("example.com", "2"), *ends("1", "2")],
    "ended the other way round": [*starts("1", "2"), piece("to ada@"), piece("example.com", "2"), *ends("2", "1")],
    "begun within": [*starts("1"), piece("to ada@"), *starts("2"), piece("example.com", "2"), *ends("2", "1")],
    "never ended": [*starts("1"), piece("to ada@"), piece("example.com", "2")],
    "in turns": [*starts("1", "2"), piece("to ad"), piece("example.com", "2"), piece("a@"), *ends("1", "2")],
    "the finish between": [*starts("1"), piece("to ada@"), Chunk("finish"), piece("example.com"), *ends("1")],
    "a step's end between": [
        *[*starts("1"), piece("to ada@"), *ends("1"), Chunk("step-finish"), Chunk("step-start")],
        *[*starts("2"), piece("example.com", "2"), *ends("2"), Chunk("finish")],
    ],
}


@pytest.mark.parametrize("source", AT_ONCE.values(), ids=AT_ONCE)
def test_what_stands_in_two_texts_is_found_in_whichever_order_they_are_sent(source: list[Chunk]) -> None:
    """As it is found in the message that they make."""
    assert text_of(sent(*source)) == "to [EMAIL]"


def test_texts_in_turns_leave_one_after_another_and_lose_nothing() -> None:
    """What comes behind the second one's beginning waits for the first one's end; only transient data do not."""
    source = [
        *starts("1", "2", "3"),
        *[piece("a "), piece("b ", "2"), Chunk("data-x", transient=True), piece("c ", "3"), piece("d "), *ends("1")],
        *[Chunk("source"), piece("e ", "2"), *ends("3", "2"), Chunk("finish")],
    ]
    chunks = [chunk.text or chunk.type + chunk.id for chunk in sent(*source) if not chunk.type.endswith("-start")]
    expected = ["a ", "d ", "text-end1", "b ", "e ", "text-end2", "c ", "source", "text-end3", "finish"]
    assert [chunk for chunk in chunks if chunk != "data-x"] == expected
    assert chunks.index("data-x") < chunks.index("text-end1")


@pytest.mark.parametrize("count", [3, 400])
def test_texts_within_each_other_at_any_depth_leave(count: int) -> None:
    """Nothing is done by recursion."""
    ids = [str(number) for number in range(count)]
    source = [*starts(*ids), *(piece(f"{id} ", id) for id in ids), *ends(*reversed(ids))]
    assert text_of(sent(*source)) == "".join(f"{id} " for id in ids)


def test_a_fallback_takes_over_texts_in_turns() -> None:
    """What waited behind the text at hand is judged by it too."""
    broken = Breaks()
    spare = RegexFilterProcessor(presets=["pii"], strategy="redact", id="spare")
    workflow = Workflow("w").then(broken, on_error=spare)
    assert text_of(sent(*AT_ONCE["in turns"], workflow=workflow)) == "to [EMAIL]"


class Breaks(TextGuard):
    """Breaks at the end of a text."""

    def find(self, text: str, ctx: Any, *, final: bool) -> None:
        """Break."""
        if final:
            raise ValueError


# A run that is stopped while a stream is open


@pytest.mark.parametrize("presets", [["pii"], []], ids=["guarded", "hooks"])
def test_a_stream_ends_when_something_else_stops_its_run(presets: list[str]) -> None:
    """No further chunk leaves, no hook is called; the client is told once."""
    seen: list[str] = []

    class Looks(Processor):
        edits = "nothing"
        role = "observer"

        def process_output_stream(self, chunk: Chunk, ctx: Any) -> None:
            seen.append(chunk.text)

    calls = RegexFilterProcessor(presets=["secrets"], phase="input", id="calls")
    workflow = Workflow("w").then(Looks()).then(calls)
    run = (workflow.then(RegexFilterProcessor(presets=presets)) if presets else workflow).start_sync()
    out: list[str] = []
    with run.process_output_stream(["a ", "b ", "c ", "d "]) as chunks:
        for chunk in chunks:
            out.append(chunk.text or chunk.type)
            run.process_tool_result("tool", "password: hunter2!x9")

    assert out == ["a ", "retract", "tripwire"]
    assert seen == ["a "]
    assert run.tripwire is chunks.tripwire
    assert chunks.text == ""


@pytest.mark.parametrize("release", ["live", "step"])
def test_what_leaves_at_once_does_not_once_its_run_is_stopped(release: Any) -> None:
    """The client may run a tool as soon as it sees the call."""
    run = guard().then(RegexFilterProcessor([{"name": "stop", "pattern": "STOP"}], id="calls")).start_sync()
    call = Chunk("tool-call", payload={"call_id": "c", "name": "t", "arguments": {}})
    out: list[str] = []
    with run.process_output_stream([piece("ada"), call, piece("more "), Chunk("finish")], release=release) as chunks:
        for chunk in chunks:
            out.append(chunk.type)
            if chunk is call:
                run.process_tool_result("t", "STOP")

    assert out == ["text-delta", "tool-call", "retract", "tripwire"]


def test_one_stream_ends_when_another_of_its_run_is_blocked() -> None:
    """One outcome for all."""
    run = Workflow("w").then(RegexFilterProcessor(presets=["pii"])).start_sync()
    with run.process_output_stream(["a ", "b "]) as one, run.process_output_stream([SECRET]) as other:
        chunks = iter(one)
        assert next(chunks).text == "a "
        assert [chunk.type for chunk in other] == ["tripwire"]
        assert [chunk.type for chunk in chunks] == ["retract", "tripwire"]

    assert one.tripwire is other.tripwire


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_that_is_stopped_when_the_source_has_ended_lets_nothing_more_leave(count: int) -> None:
    """What was held to the end is not sent."""
    redactor = RegexFilterProcessor(presets=["pii"], strategy="redact")
    run = Workflow("w").then(redactor).then(RegexFilterProcessor(presets=["secrets"], id="calls")).start_sync()

    def source() -> Iterator[str]:
        yield from ["a ", "held"][:count]
        run.process_tool_result("tool", "password: hunter2!x9")

    with run.process_output_stream(source()) as chunks:
        out = [chunk.text or chunk.type for chunk in chunks]

    assert out == ["a ", "retract", "tripwire"]


# Answers that a later stage has changed


class Later(TextGuard):
    """Redacts when the answer is whole."""

    stages = ("process_output_step",)

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find the secret."""
        at = text.find(SECRET)
        return [Edit(at, at + len(SECRET), "[EMAIL]", "redact")] if at >= 0 else []


@pytest.mark.parametrize("type", ["step-finish", "finish", "response-metadata"])
def test_the_end_of_an_answer_that_was_changed_does_not_repeat_it(type: str) -> None:
    """It was made before the answer was judged; what the provider says in its own terms stays."""
    end = Chunk(type, payload={"text": SECRET, "reason": "stop", "usage": {"tokens": 1}, "responseId": "r1"})
    chunks = sent(f"to {SECRET}", end, workflow=Workflow("w").then(Later()))
    assert text_of(chunks) == "to [EMAIL]"
    (left,) = [chunk.payload for chunk in chunks if chunk.type == type]
    assert left == {"reason": "stop", "usage": {"tokens": 1}, "responseId": "r1"}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=12),
    st.lists(st.integers(1, 30), max_size=5).map(sorted),
)
def test_a_finding_across_texts_stands_where_none_within_one_overlaps_it(
    found: list[tuple[int, int]], borders: list[int]
) -> None:
    """As it does if each is held against all others."""
    edits = sorted((Edit(at, at + size) for at, size in found), key=lambda edit: (edit.start, edit.end))
    across = {edit for edit in edits for border in borders if edit.start < border < edit.end}
    within = [edit for edit in edits if edit not in across]
    expected = [
        edit
        for edit in edits
        if edit not in across or not any(own.start < edit.end and edit.start < own.end for own in within)
    ]
    assert resolve_overlaps(edits, borders, lambda _within, _across: True) == expected
