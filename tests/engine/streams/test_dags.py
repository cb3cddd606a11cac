"""Dags in a stream: what two members both saw is a change of neither, as for whole messages."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Chunk, Workflow, member
from tests.engine.streams.toys import Rule, Toy


def toy(id: str, word: str, act: str, text: str) -> Toy:
    """A guard by name."""
    made = Toy(Rule(word, act, text))
    made.id = id
    return made


def left(workflow: Workflow, source: list[Any]) -> str:
    """The text that leaves."""
    with workflow.start_sync().process_output_stream(source) as chunks:
        return "".join(chunk.text for chunk in chunks)


DIAMOND = Workflow("w").dag(
    member(toy("spell", "colour", "replace", "color ab12"), id="spell"),
    member(toy("digits", "12", "redact", "**"), id="digits", after="spell"),
    member(toy("names", "never", "redact", "***"), id="names", after="spell"),
)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_what_a_common_ancestor_wrote_is_no_change_of_those_behind_it(size: int) -> None:
    """One of them hides a part of it, the other does not touch it: they do not disagree."""
    text = "a colour of 12 "
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    assert left(DIAMOND, pieces) == DIAMOND.check_sync(text, stage="process_output_step").text == "a color ab** of ** "


def test_what_one_of_them_hides_of_an_insertion_stays_hidden() -> None:
    """The other carries the insertion on as it was; that does not bring it back."""
    workflow = Workflow("w").dag(
        member(toy("note", "x", "after", "(secret)"), id="note"),
        member(toy("hide", "secret", "redact", "***"), id="hide", after="note"),
        member(toy("names", "never", "redact", "***"), id="names", after="note"),
        member(toy("last", "never", "redact", "***"), id="last", after=["hide", "names"]),
    )

    assert left(workflow, list("a x b x")) == "a x(***) b x(***)"


def test_values_in_chunks_are_merged_the_same_way() -> None:
    """A tool's arguments go through a dag as texts do."""
    call = Chunk("tool-call", id="c", payload={"call_id": "c", "name": "find", "arguments": {"q": "a colour of 12"}})
    with DIAMOND.start_sync().process_output_stream([call]) as chunks:
        out = list(chunks)

    assert out[0].payload["arguments"] == {"q": "a color ab** of **"}


def test_members_that_disagree_block_the_stream() -> None:
    """A conflict names both."""
    workflow = Workflow("w").dag(
        member(toy("one", "ab", "replace", "1"), id="one"), member(toy("two", "bc", "replace", "2"), id="two")
    )
    with workflow.start_sync(records=True).process_output_stream(["x abc"]) as chunks:
        out = list(chunks)

    assert chunks.outcome is not None
    assert chunks.outcome.blocked
    assert "".join(chunk.text for chunk in out) in ("", "x ")
    assert chunks.outcome.failure is not None
    assert "one" in str(chunks.outcome.failure)
    assert "two" in str(chunks.outcome.failure)


@pytest.mark.parametrize("kind", ["parallel", "dag"])
def test_a_merge_function_that_gives_no_text_is_a_failure_of_the_join(kind: str) -> None:
    """Nothing of what was hidden is let go for it."""
    one, two = toy("one", "ab", "redact", "1"), toy("two", "bc", "replace", "2")
    workflow = (
        Workflow("w").parallel(one, two, merge=lambda conflict: 7)
        if kind == "parallel"
        else Workflow("w").dag(member(one, id="one"), member(two, id="two"), merge=lambda conflict: 7)
    )
    with workflow.start_sync().process_output_stream(["x abc"]) as chunks:
        out = list(chunks)

    assert chunks.outcome is not None
    assert chunks.outcome.blocked
    assert "a" not in "".join(chunk.text for chunk in out)


def test_edits_across_two_texts_are_merged_text_by_text() -> None:
    """What takes away all that another edit hides of the first text, and what that hides of the second, agree."""
    workflow = Workflow("w").dag(
        member(toy("gone", "ba", "delete", ""), id="gone"), member(toy("hide", "ab", "redact", "*"), id="hide")
    )
    source = [Chunk("text-delta", "ba", "1"), Chunk("text-delta", "b", "2")]

    assert left(workflow, source) == ""
    assert left(workflow, [Chunk("text-delta", "x", "0"), *source]) == "x"


def test_insertions_at_one_place_leave_together() -> None:
    """What a third step does behind two of them is not moved by them, however the text was cut."""
    row = Workflow("row").then(toy("one", "b-", "after", "[X]")).then(toy("two", "b-", "after", "[X]"))
    beside = Workflow("w").parallel(row.then(toy("gone", "ab", "delete", "")), toy("never", "never", "redact", "*"))

    assert left(beside, list("b-abc")) == left(beside, ["b-abc"]) == "b-[X][X]c"
    source = [Chunk("text-delta", text, id) for text, id in zip("b-abbc", "112222", strict=True)]
    assert left(beside, source) == "b-[X][X]bc"
