"""Odd chunks in every shape of graph: what a guard hides alone, it hides wherever it stands."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock import BatchPartsProcessor, Chunk, Edit, Processor, RegexFilterProcessor, Workflow, member
from penstock.engine.text_guards.text_guard import TextGuard

SECRET = "ada@example.com"


class Word(TextGuard):
    """Hides a piece of the secret."""

    id = "word"
    reach = 3

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find it."""
        return [Edit(*found.span(), "XX", "redact") for found in re.finditer("com", text)]


class Breaks(TextGuard):
    """Breaks."""

    id = "breaks"
    role = "transform"
    on_error = "raise"

    def find(self, text: str, ctx: Any, *, final: bool) -> None:
        """Break, and quote the text."""
        raise ValueError(text)


class Looks(Processor):
    """Sees everything, and changes nothing."""

    id = "looks"
    edits = "nothing"

    def process_output_stream(self, chunk: Chunk, ctx: Any) -> Chunk:
        """Give it back."""
        return chunk


def guard(id: str = "guard") -> RegexFilterProcessor:
    """Hide the secret."""
    return RegexFilterProcessor(presets=["pii", "secrets"], strategy="redact", id=id)


def yes(ctx: Any) -> bool:
    """Hold."""
    return True


def flow() -> Workflow:
    """An empty workflow."""
    return Workflow("w")


GRAPHS: dict[str, Workflow] = {
    "alone": flow().then(guard()),
    "before another": flow().then(guard()).then(Word()),
    "behind another": flow().then(Word()).then(guard()),
    "beside another": flow().parallel(guard(), Word(), Looks()),
    "a row beside another": flow().parallel(Workflow("row").then(guard()).then(Word()), Looks()),
    "in an arm": flow().branch((yes, guard()), otherwise=Word()),
    "in one of several arms": flow().branch((yes, guard()), (yes, Word()), match="all"),
    "in a dag": flow().dag(
        member(guard("a"), id="a"), member(Word(), id="b"), member(Looks(), id="c", after=("a", "b"))
    ),
    "later in a dag": flow().dag(member(Word(), id="a"), member(guard("b"), id="b", after=("a",))),
    "as a fallback": flow().then(Breaks(), on_error=guard()),
    "as a fallback of a row": flow().then(Workflow("row").then(BatchPartsProcessor()).then(Breaks()), on_error=guard()),
    "behind one that broke": flow().then(Breaks(), on_error="allow").then(guard()),
    "behind a row that broke": flow()
    .then(Workflow("row").then(BatchPartsProcessor()).then(Breaks()), on_error="allow")
    .then(guard()),
    "behind a shadow": flow().then(Word(), mode="shadow").then(guard()),
    "between batchers": flow().then(BatchPartsProcessor()).then(guard()).then(BatchPartsProcessor(id="again")),
}


def piece(text: str, id: str = "1", **payload: Any) -> Chunk:
    """A piece of a text."""
    return Chunk("text-delta", text, id, payload)


def call(text: str) -> list[Chunk]:
    """A call of a tool as it is written."""
    return [Chunk("tool-input-delta", char, "c") for char in text]


SOURCES: dict[str, list[Chunk]] = {
    "the end": [piece("hi"), Chunk("finish", payload={"text": SECRET})],
    "beside a text": [piece("hi", note=SECRET)],
    "a copy": [piece("ada@", copy="ada@"), piece("example.com", copy="example.com")],
    "a snapshot": [Chunk("object", payload={"object": {"mail": SECRET, SECRET: 1, "phone": "329 7730"}})],
    "a number that grows": [Chunk("object", payload={"card": 411111111111111})],
    "a number": [Chunk("tool-result", payload={"call_id": "c", "result": -4111111111111111})],
    "names": [Chunk("tool-result", payload={"call_id": "c", "result": {SECRET: {SECRET: SECRET}}})],
    "bytes": [Chunk("object-result", payload={"object": SECRET.encode()})],
    "written twice": [*call(f'{{"a": "{SECRET}", "a": ""}}'), Chunk("tool-input-end", id="c")],
    "escaped": [*call(r'{"a": "\u0061da@example.com"}'), Chunk("tool-input-end", id="c")],
    "never ended": call(f'{{"a": "{SECRET}"'),
    "behind the finish": [piece("ada@"), Chunk("finish"), piece("example.com")],
    "in turns": [Chunk("text-start", id="1"), piece("ada@"), piece("example.com", "2"), Chunk("text-end", id="1")],
    "in many texts": [piece(char, str(number)) for number, char in enumerate(SECRET)],
    "thoughts": [Chunk("reasoning-delta", char, "1") for char in SECRET],
}

APART = {("as a fallback of a row", "behind the finish")}
"""A row with a hook in it is out for a block: what stands in for it reads each block by itself."""

HIDDEN = ("ada@", "329 7730", "4111111111111", "\\u0061")


@pytest.mark.parametrize(
    ("graph", "source"), [(graph, source) for graph in GRAPHS for source in SOURCES if (graph, source) not in APART]
)
def test_a_guard_hides_what_it_hides_wherever_it_stands(graph: str, source: str) -> None:
    """In what leaves, in the message, in the records and in what the run says."""
    run = GRAPHS[graph].start_sync(records=True)
    with run.process_output_stream(SOURCES[source]) as chunks:
        out = list(chunks)

    said = "".join(chunk.text for chunk in out)
    told = repr((out, chunks.message, chunks.outcome, run.records, run.tripwire))
    assert [hidden for hidden in HIDDEN if hidden in said or hidden in told] == []
    assert chunks.outcome is not None
    assert chunks.outcome.blocked == (source == "bytes")
