"""Which texts of a stream are read as one: those that its readers join."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import Chunk, Workflow
from tests.engine.streams.toys import Rule, TextToy, Toy, message_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL = Chunk("tool-call", id="c", payload={"call_id": "c", "name": "find", "arguments": {}})
RESULT = Chunk("tool-result", id="c", payload={"call_id": "c", "result": "found"})
EMPTY_THOUGHT = [Chunk("reasoning-start", id="r"), Chunk("reasoning-end", id="r")]


def block(id: str, text: str) -> list[Chunk]:
    """A text with its start and end."""
    return [Chunk("text-start", id=id), Chunk("text-delta", text, id), Chunk("text-end", id=id)]


def told(source: list[Chunk]) -> list[tuple[str, str]]:
    """The texts that leave, part by part."""
    guard = Toy(Rule("secret", "redact", "***"))
    with Workflow("w").then(guard).start_sync().process_output_stream(source) as chunks:
        out = list(chunks)
    assert texts_of(message_of(out)) == texts_of(chunks.message)
    return texts_of(chunks.message)


BETWEEN = [
    [],
    [Chunk("response-metadata")],
    [Chunk("step-start")],
    [Chunk("raw", payload={"event": 1})],
    [Chunk("data-note", payload={"data": 1}, transient=True)],
    EMPTY_THOUGHT,
    block("empty", ""),
]
PARTS = [
    [CALL],
    [CALL, RESULT],
    [RESULT],
    [Chunk("source", payload={"id": "s"})],
    [Chunk("file", payload={"data": "eA=="})],
    [Chunk("data-note", payload={"data": 1})],
]


@pytest.mark.parametrize("between", [*BETWEEN, *PARTS, [Chunk("reasoning-delta", "thinking", "r")]])
def test_all_text_of_an_answer_is_read_as_one(between: list[Chunk]) -> None:
    """Readers join it, whatever stands between."""
    texts = [text for text in told([*block("1", "a sec"), *between, *block("2", "ret b")]) if text[0] == "text"]

    assert texts == [("text", "a ***"), ("text", " b")]


def test_a_part_that_begins_while_a_text_is_written_does_not_part_it_from_the_next() -> None:
    """The message's parts stand in the order they began."""
    first = block("1", "a sec")
    source = [*first[:2], Chunk("reasoning-delta", "thinking", "r"), first[2], *block("2", "ret b")]

    assert told(source) == [("text", "a ***"), ("reasoning", "thinking"), ("text", " b")]


@pytest.mark.parametrize("between", BETWEEN)
def test_blocks_of_reasoning_are_read_as_one(between: list[Chunk]) -> None:
    """A provider may number them, or change the field that it sends them in."""
    source = [Chunk("reasoning-delta", "a sec", "1"), *between, Chunk("reasoning-delta", "ret b", "2")]

    assert told(source) == [("reasoning", "a ***"), ("reasoning", " b")]


@pytest.mark.parametrize("between", [*PARTS, block("1", "said")])
def test_a_finding_in_reasoning_that_another_part_divides_is_hidden_behind_the_part(between: list[Chunk]) -> None:
    """The end of a thought does not wait for the answer: it has left when the finding is whole."""
    source = [Chunk("reasoning-delta", "a sec", "r"), *between, Chunk("reasoning-delta", "ret b", "s")]
    thoughts = [text for text in told(source) if text[0] == "reasoning"]

    assert thoughts == [("reasoning", "a sec"), ("reasoning", "*** b")]


def test_a_part_that_begins_within_a_thought_divides_it_from_the_next() -> None:
    """Also if the thought ends after it."""
    thought = [Chunk("reasoning-start", id="r"), Chunk("reasoning-delta", "a sec", "r"), CALL]
    source = [*thought, Chunk("reasoning-end", id="r"), Chunk("reasoning-delta", "ret b", "s")]

    assert told(source) == [("reasoning", "a sec"), ("reasoning", "*** b")]


def test_the_end_of_a_thought_leaves_before_the_answer_goes_on() -> None:
    """A client sees that the model has stopped thinking as soon as it says something."""
    left: list[str] = []
    seen: list[str] = []

    def source() -> Iterator[Chunk]:
        yield from (Chunk("reasoning-start", id="r"), Chunk("reasoning-delta", "a sec", "r"))
        yield from (Chunk("reasoning-end", id="r"), Chunk("text-delta", "Yes.", "t"))
        seen.extend(left)

    guard = Toy(Rule("secret", "redact", "***"))
    with Workflow("w").then(guard).start_sync().process_output_stream(source(), release="live") as chunks:
        left.extend(chunk.text for chunk in chunks)

    assert "".join(seen).startswith("a sec")


def test_a_guard_of_texts_alone_reads_them_over_thoughts() -> None:
    """It joins the same texts as any other guard does."""
    thoughts = [Chunk("reasoning-delta", text, "r") for text in ("think", "ing")]
    source = [
        *block("1", "a sec"),
        *thoughts,
        Chunk("reasoning-end", id="r"),
        *block("2", "ret sec"),
        *block("3", "ret"),
    ]
    guard = TextToy(Rule("secret", "redact", "***"))
    with Workflow("w").then(guard).start_sync().process_output_stream(source) as chunks:
        list(chunks)

    assert texts_of(chunks.message) == [("text", "a ***"), ("reasoning", "thinking"), ("text", " ***")]


def test_a_text_that_nothing_announced_ends_where_another_begins() -> None:
    """What follows under the same id is a text of its own, for guards and in the message."""
    source = [Chunk("text-delta", "a"), *block("1", "b se"), Chunk("text-delta", "cret d")]

    assert told(source) == [("text", "a"), ("text", "b ***"), ("text", " d")]


def test_what_is_taken_away_between_two_texts_of_one_id_stays_away() -> None:
    """Blocks are told apart by their order: an id may come again."""
    source = [Chunk("text-delta", "a "), Chunk("text-delta", "secret", "1"), Chunk("text-delta", " b")]
    guard = Toy(Rule("secret", "delete"), bounded=False)
    with Workflow("w").then(guard).start_sync().process_output_stream(source) as chunks:
        out = list(chunks)

    assert "".join(chunk.text for chunk in out) == chunks.text == "a  b"


def test_edits_across_two_texts_are_merged_text_by_text() -> None:
    """As they are in a message: what takes away all of the first text takes away what lies in it of another edit."""
    guards = Toy(Rule("ab", "redact", "***")), Toy(Rule("ba", "delete"), bounded=False)
    with (
        Workflow("w").parallel(*guards).start_sync().process_output_stream([*block("1", "ba"), *block("2", "b")]) as out
    ):
        left = list(out)

    assert out.outcome is not None
    assert not out.outcome.blocked
    assert texts_of(message_of(left)) == []


def test_a_guard_in_a_row_sees_nothing_of_what_is_hidden_across_three_texts() -> None:
    """Nor is what it finds behind that looked for in the wrong place."""
    row = Workflow("row").then(Toy(Rule("secret", "redact", "***"))).then(Toy(Rule("et", "delete"), bounded=False))
    source = [*block("1", "a sec"), *block("2", "r"), *block("3", "et bet c")]
    with Workflow("w").parallel(row, Toy(Rule("#", "redact"))).start_sync().process_output_stream(source) as out:
        left = list(out)

    assert out.outcome is not None
    assert texts_of(message_of(left)) == [("text", "a ***"), ("text", " b c")]


def test_a_guard_in_a_row_holds_no_text_for_lack_of_text_behind_it() -> None:
    """It reads what it is given of a part as soon as the part has ended, though it has nothing of the next one yet."""
    row = Workflow("row").then(Toy(Rule("x#x", "block"))).then(Toy(Rule("ab", "delete", "", "", "b")))
    beside = Toy(Rule("aa", "redact", "***"))
    given = 0

    def source() -> Iterator[Chunk]:
        nonlocal given
        for number, text in enumerate(("xxb", "-", " #a--bb")):
            yield Chunk("text-start", id=str(number))
            for char in text:
                given += 1
                yield Chunk("text-delta", char, str(number))
            yield Chunk("text-end", id=str(number))

    left: dict[int, int] = {}
    length = 0
    with Workflow("w").parallel(row, beside).start_sync().process_output_stream(source(), release="live") as out:
        for chunk in out:
            if length < (length := length + len(chunk.text)):
                left[length] = given

    held = 4  # each of the two in a row holds two characters: as many as could begin what it looks for
    assert all(there <= length + held for length, there in left.items())
    assert left[1] == 1 + held
