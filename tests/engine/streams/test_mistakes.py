"""Mistakes with streams and guards over text: each is refused, with what, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from penstock import Chunk, Edit, OptionError, Processor, TextGuard, Workflow
from penstock.engine import ProcessorError, StepFailedError, UsageError
from penstock.engine.processor.context import Context, OutputStreamContext
from penstock.engine.values.errors import MessageError
from penstock.testing import run_stage, run_stream


class Behind(TextGuard):
    """Finds a word, and another only behind it."""

    reach = 4

    def find(self, text: str, ctx: Context, *, final: bool) -> Iterable[Edit]:
        """Look behind what was found before."""
        for found in re.finditer("bar|(?<=bar)foo", text):
            yield Edit(*found.span(), "#" if found.group() == "bar" else "*", "redact")


class Sixteen(TextGuard):
    """Finds digits, sixteen at a time."""

    reach = 16

    def find(self, text: str, ctx: Context, *, final: bool) -> Iterable[Edit]:
        """Find the next sixteen behind the last."""
        return [Edit(*found.span(), "*", "redact") for found in re.finditer(r"\d{16}", text)]


@pytest.mark.parametrize(
    ("guard", "text"), [(Behind(), "x barfoo and barbarfoo"), (Sixteen(), "1" * 70 + "x" + "2" * 33)]
)
def test_a_finding_right_behind_another_is_found_in_a_stream_too(guard: TextGuard, text: str) -> None:
    """Whether it looks back at the last one, or must not begin within it."""
    whole = run_stage(guard, "process_output_step", text).text
    for size in (1, 2, 3, 5, 8, 21):
        _, outcome = run_stream(guard, [text[at : at + size] for at in range(0, len(text), size)])
        assert outcome.text == whole


def test_a_chunk_of_no_known_type_is_refused() -> None:
    """No guard would know what it is."""
    with pytest.raises(MessageError, match=r"unknown chunk type 'text_delta'; did you mean 'text-delta'\?"):
        Chunk("text_delta", "ada@example.com")
    with pytest.raises(MessageError, match="put data of a 'source' chunk in payload"):
        Chunk("source", "ada@example.com")
    assert Chunk("data-mine").is_data


@pytest.mark.parametrize(
    ("option", "value"), [("reach", 0), ("reach", "8"), ("lookback", -1), ("max_hold", 0), ("min_hold", True)]
)
def test_a_figure_that_cannot_be_is_refused_where_the_guard_is_placed(option: str, value: Any) -> None:
    """Not when the first text comes."""
    guard = type("Odd", (Behind,), {option: value})()
    with pytest.raises(OptionError, match=f"Odd: option '{option}'"):
        Workflow("w").then(guard)


@pytest.mark.parametrize(
    ("declared", "option"),
    [
        ({"min_hold": 4097}, "min_hold"),
        ({"min_hold": 9, "max_hold": 8}, "min_hold"),
        ({"reach": 10, "max_hold": 8}, "reach"),
    ],
)
def test_a_guard_that_must_hold_more_than_it_may_is_refused_where_it_is_placed(
    declared: dict[str, Any], option: str
) -> None:
    """Each alone would be allowed; together they fail as soon as a stream is long enough."""
    guard = type("Odd", (TextGuard,), {"find": Sixteen.find, **declared})()
    with pytest.raises(OptionError, match=rf"Odd: option '{option}' is .*declare max_hold = \d+ or more"):
        Workflow("w").then(guard)


@pytest.mark.parametrize(
    "declared",
    [
        {"min_hold": 8, "max_hold": 8},
        {"reach": 9, "max_hold": 8},
        {"reach": 10, "max_hold": 8, "hold": lambda self, text, start: start},
    ],
)
def test_a_guard_may_hold_as_much_as_its_limit(declared: dict[str, Any]) -> None:
    """A ``reach`` of n holds n - 1 characters, and none where `hold` is written anew."""
    Workflow("w").then(type("Even", (TextGuard,), {"find": Sixteen.find, **declared})())


def test_a_finding_longer_than_the_reach_is_a_failure() -> None:
    """In whole texts too, where it is found out before a stream leaks it."""
    guard = type("Short", (Sixteen,), {"reach": 3})()
    outcome = run_stage(guard, "process_input", "1" * 16)
    assert outcome.blocked
    assert "longer than its reach of 3" in str(outcome.failure)
    assert repr(outcome) == "Outcome(process_input, blocked: 'short' failed)"


def test_a_guard_that_finds_nothing_is_refused() -> None:
    """It has no `find`, or one that cannot be called; and what is timed needs something to be woken by."""
    with pytest.raises(ProcessorError, match="write find"):
        Workflow("w").then(type("Nothing", (TextGuard,), {})())
    with pytest.raises(ProcessorError, match=r"find must accept \(text, ctx, \*, final\)"):
        Workflow("w").then(type("Wrong", (TextGuard,), {"find": lambda self, text: []})())
    with pytest.raises(ProcessorError, match="write wake"):
        Workflow("w").then(type("Timed", (Processor,), {"timed": True, "process_input": lambda self, ctx: None})())
    with pytest.raises(ProcessorError, match="unknown class attribute 'rech'; did you mean 'reach'"):
        type("Slip", (TextGuard,), {"rech": 3})


class Says(Processor):
    """Returns what it is told to."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Any:
        """Return it."""
        return self.result


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("text", r"a str; .*chunk.with_text"),
        ({}, "a dict"),
        (3, "an int"),
        ([Chunk("raw"), "x"], "a str among its chunks"),
    ],
)
def test_what_is_no_chunk_is_refused(result: Any, told: str) -> None:
    """The step is named, and what it may return."""
    with pytest.raises(StepFailedError, match=f"'says'.*{told}"):
        run_stream(Says(result), ["x"])


async def letters() -> AsyncIterator[str]:
    """Give one letter."""
    yield "a"


async def later() -> list[str]:
    """Give letters, when awaited."""
    return ["a"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("text", "not a str"),
        ({"a": 1}, "not a dict"),
        (letters, "call it first"),
        (later(), "await it first"),
        (3, "not a int"),
        (letters(), "reads a sync source"),
    ],
)
def test_what_is_no_source_is_refused(source: Any, told: str) -> None:
    """Before anything is entered."""
    with pytest.raises(UsageError, match=told):
        Workflow("w").then(Behind()).start_sync().process_output_stream(source)


@pytest.mark.parametrize("item", [None, 3, b"x"])
def test_an_item_that_is_no_chunk_is_refused(item: Any) -> None:
    """Nothing is skipped."""
    with pytest.raises(UsageError, match="must yield Chunk or str items"):
        run_stream(Behind(), [item])


def test_a_stream_is_entered_and_read_once() -> None:
    """Each slip says what to write."""
    run = Workflow("w").then(Behind()).start_sync()
    with pytest.raises(UsageError, match="enter the stream first: with run"):
        list(run.process_output_stream(["a"]))
    with run.process_output_stream(["a"]) as chunks:
        assert [chunk.text for chunk in chunks] == ["a"]
        with pytest.raises(UsageError, match="read once only"):
            list(chunks)
        with pytest.raises(UsageError, match="entered once only"), chunks:
            pass
    stream = run.run.process_output_stream(["a"])
    with pytest.raises(UsageError, match="async for"):
        list(stream)
    with pytest.raises(UsageError, match="async for"):
        stream.__enter__()


def test_steps_that_wait_are_named_where_nothing_can() -> None:
    """So that one knows which to change."""

    class Waits(Processor):
        """Waits."""

        async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            """Give it back."""
            return chunk

    with pytest.raises(UsageError, match=r"async steps \(waits\); use `async with run"):
        Workflow("w").then(Behind()).then(Waits()).start_sync().process_output_stream(["a"])


@pytest.mark.parametrize("option", ["max_processor_retries", "max_error_retries"])
@pytest.mark.parametrize("value", [-1, "2", True])
def test_a_budget_that_cannot_be_is_refused(value: Any, option: str) -> None:
    """A number, 0 or more."""
    with pytest.raises(UsageError, match=f"{option} is a number of retries"):
        Workflow("w").then(Behind()).start(**{option: value})


def test_the_terms_in_which_a_step_ends_are_no_words_of_the_answer() -> None:
    """A guard on *call* lets a step end with *tool-calls*; what breaks a stream may say anything, and is judged."""

    class NoCalls(TextGuard):
        """Stops at a word."""

        reach = 5

        def find(self, text: str, ctx: Context, *, final: bool) -> Iterable[Edit]:
            """Find it."""
            return [Edit(*found.span(), "*", "redact") for found in re.finditer("call", text)]

    ended = Chunk("finish", payload={"reason": "tool-calls", "raw_reason": "call"})
    left, _ = run_stream(NoCalls(), [Chunk("error", payload={"message": "a call"}), ended])
    assert [dict(chunk.payload) for chunk in left] == [{"message": "a *"}, dict(ended.payload)]
