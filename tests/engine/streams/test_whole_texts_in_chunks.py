"""Chunks that hold whole texts, and parts of one text: each is judged as it would be outside of a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from penstock import Chunk, Edit, OutputStreamContext, PIIDetector, Processor, TextGuard, Workflow
from penstock.engine.streams.decisions import Decided, Merger, split_at
from penstock.engine.values.edits import Edits
from penstock.engine.values.frozen import thaw
from tests.engine.streams.toys import Rule, Toy, message_of, texts_of


class Tags(TextGuard):
    """Redacts ``#`` and the word behind it. Only the last character is ever held, though a word may grow."""

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Find the words."""
        return [Edit(match.start(), match.end(), "*", "redact") for match in re.finditer(r"#\w+", text)]

    def hold(self, text: str, start: int) -> int:
        """Hold one character."""
        return max(start, len(text) - 1)


class Beginning(TextGuard):
    """Redacts the word with which a text begins."""

    reach = None
    on_error = "raise"

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Find the word."""
        return [Edit(0, 6, "*", "redact")] if text.startswith("secret") else []


class Failing(TextGuard):
    """Fails over a word, and holds every text to its end."""

    on_error = "raise"

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Fail over the word."""
        if "secret" in text:
            raise RuntimeError("no")
        return []


class Watcher(Processor):
    """Keeps the payloads of chunks."""

    role = "observer"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> None:
        """Keep the payload."""
        self.seen.append(chunk.payload)


async def streamed(workflow: Workflow, *source: Chunk) -> list[Chunk]:
    """The chunks that leave."""
    async with workflow.start() as run, run.process_output_stream(list(source)) as chunks:
        return [chunk async for chunk in chunks]


def call(**arguments: Any) -> Chunk:
    """A call of a tool."""
    return Chunk("tool-call", payload={"call_id": "c", "name": "find", "arguments": arguments})


def word(text: str) -> Toy:
    """A guard that redacts a word."""
    toy = Toy(Rule(text, "redact"))
    toy.id = text
    return toy


async def test_a_growing_value_shows_nothing_of_a_finding_that_may_grow() -> None:
    """A finding that the hold cuts in two is held whole, as in a text."""
    out = await streamed(Workflow("w").then(Tags()), Chunk("object", payload={"object": {"q": "tell #sec"}}))

    assert out[0].payload["object"] == {"q": "tell "}


async def test_a_fallback_reads_neighbouring_texts_each_by_itself() -> None:
    """It takes over what is held with the borders in it."""
    workflow = Workflow("w").then(Failing(), on_error=Beginning())

    out = await streamed(workflow, Chunk("text-delta", "abc", "0"), Chunk("text-delta", "secret x", "1"))

    assert texts_of(message_of(out)) == [("text", "abc"), ("text", "* x")]


async def test_a_step_sees_edits_under_a_key_that_another_renamed() -> None:
    """Places are those of the chunk that came, however many steps have edited it."""
    watcher = Watcher()
    inner = Workflow("inner").then(word("secret")).then(watcher)
    workflow = Workflow("w").parallel(Workflow("row").then(word("name")).then(inner, on_error=word("yyy")), word("zzz"))

    out = await streamed(workflow, call(name="secret"))

    assert out[0].payload["arguments"] == {"*": "*"}
    assert [payload["arguments"] for payload in watcher.seen] == [{"*": "*"}]


@pytest.mark.parametrize("first", ["", "a", "ab "])
async def test_texts_of_a_chunk_do_not_touch(first: str) -> None:
    """What one text ends with and the next begins with are no neighbours, empty texts included."""
    after, before = Toy(Rule("b", "after", ">"), lookback=64), Toy(Rule("b", "before", "<"), lookback=64)
    after.id, before.id = "after", "before"
    workflow = Workflow("w").parallel(after, before, word("ab")).then(word("b>"))

    out = await streamed(workflow, call(q=[first, "xb", "", "b", "a"]))

    shown = first.replace("ab", "*>")
    assert out[0].payload["arguments"] == {"q": (shown, "x<*", "", "<*", "a")}


async def test_a_merge_function_is_given_one_text() -> None:
    """Of a chunk the texts are merged one by one, of an answer its neighbouring texts."""
    given: list[Any] = []

    def merge(conflict: Any) -> str:
        given.append(conflict.base)
        return "!"

    first, second = Toy(Rule("ab", "replace", "1"), bounded=False), Toy(Rule("b", "replace", "2"), bounded=False)
    first.id, second.id = "first", "second"
    workflow = Workflow("w").parallel(first, second, merge=merge)

    out = await streamed(
        workflow,
        call(p="xab", q="aby"),
        Chunk("text-delta", "xab", "0"),
        Chunk("text-delta", "aby", "1"),
    )

    assert given == ["xab", "aby", "xab", "aby"]
    assert out[0].payload["arguments"] == {"p": "!", "q": "!"}
    assert texts_of(message_of(out)) == [("text", "!"), ("text", "!")]


def test_a_redaction_that_a_border_cuts_still_hides() -> None:
    """A union of a redaction with other edits must not be dropped by a merge, whole or in part."""
    union = Edit(0, 4, "x", "replace", "s", hides=True)

    assert [edit.hidden for edit in split_at((union,), [2])] == [True, True]


def test_parts_are_merged_one_by_one() -> None:
    """An insertion at a border belongs to the part that begins there."""
    seen: list[tuple[str, Sequence[Edits]]] = []

    def merge(text: str, branches: Sequence[Edits]) -> Edits:
        seen.append((text, branches))
        return branches[0]

    merger = Merger(2, merge, 0)
    insert, across = Edit(2, 2, "+", "insert"), Edit(1, 3, "*", "redact")
    merger.tracks[0].add(Decided((insert,), 4))
    merger.tracks[1].add(Decided((across,), 4))
    made = merger.take("abcd", [2], final=True)

    assert made.edits == (insert,)
    assert seen == [
        ("ab", [(), (Edit(1, 2, "*", "redact"),)]),
        ("cd", [(Edit(0, 0, "+", "insert"),), (Edit(0, 1, "", "redact"),)]),
    ]


@pytest.mark.parametrize(
    ("chunk", "left"),
    [
        (Chunk("tool-result", id="c", payload={"name": "look", "result": {"pin": 1234}}), {"result": {"pin": None}}),
        (Chunk("tool-call", id="c", payload={"name": "look", "args": {"pin": 1234}}), {"args": {"pin": None}}),
        (Chunk("data-x", payload={"data": {"pin": 1234}}), {"data": {"pin": None}}),
    ],
)
async def test_a_small_number_is_found_where_a_field_gives_its_type(chunk: Chunk, left: Any) -> None:
    """Whoever else reads the stream; and the stages that follow find it, too."""
    guard = PIIDetector(fields={"pin": "pin"}, id="pins")
    for workflow in (Workflow("w").then(guard), Workflow("w").then(guard).then(PIIDetector())):
        async with workflow.start() as run, run.process_output_stream([chunk]) as chunks:
            out = [sent async for sent in chunks]
        assert {**thaw(out[0].payload)}.items() >= left.items()
        assert (await workflow.start().process_tool_result("look", {"pin": 1234})).result == {"pin": None}


@pytest.mark.parametrize(
    ("payload", "left"),
    [
        ({"data": {"data": "data"}}, {"data": {"d*t*": "d*t*"}}),
        ({"data": "data"}, {"data": "d*t*"}),
        ({"datum": "a"}, {"d*tum": "*"}),
    ],
)
async def test_the_key_that_holds_the_value_of_a_data_chunk_is_no_text(payload: Any, left: Any) -> None:
    """The part of a message does not have it, and a client looks for the value under it."""
    chunk = Chunk("data-x", payload=payload)
    guard = Workflow("guard").then(Toy(Rule("a", "redact", "*")))
    async with guard.start() as run, run.process_output_stream([chunk]) as chunks:
        out = [chunk async for chunk in chunks]
    assert out == [Chunk("data-x", payload=left)]
    whole = await guard.check([message_of([chunk])], stage="process_output_step")
    assert whole.message_list.all[-1].parts == message_of(out).parts
