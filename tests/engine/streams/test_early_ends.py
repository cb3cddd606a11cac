"""Steps that want no more of a source: it is closed, what is held leaves, and the end says why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from penstock import (
    BatchPartsProcessor,
    Chunk,
    OutputStreamContext,
    Processor,
    RegexFilterProcessor,
    TokenLimiterProcessor,
    Workflow,
)
from penstock.engine import StepFailedError
from penstock.engine.streams.sources import WAKE, TaskReader
from penstock.testing import run_stream


class Enough(Processor):
    """Wants no more after a word."""

    edits = "nothing"
    ends = True

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """End the source."""
        if "stop" in chunk.text:
            ctx.end_source("other")
        return chunk


def said(chunks: list[Chunk]) -> list[str]:
    """Return texts, and the types of what has none."""
    return [chunk.text or chunk.type for chunk in chunks]


def test_no_more_is_read_and_the_end_says_why() -> None:
    """Open blocks end, and what a step behind holds leaves."""
    read: list[str] = []

    def source() -> Any:
        for text in ("a", "stop", "never"):
            read.append(text)
            yield Chunk("text-delta", text, "t") if read != ["a"] else Chunk("text-start", id="t")

    workflow = Workflow("w").then(Enough()).then(BatchPartsProcessor(batch_size=9))
    chunks, outcome = run_stream(workflow, source())
    assert said(chunks) == ["text-start", "stop", "text-end", "finish"]
    assert (read, chunks[-1].payload["reason"], outcome.text) == (["a", "stop"], "other", "stop")


def test_held_text_is_judged_as_the_end_of_its_text() -> None:
    """A guard before it holds what follows the word; nothing of that is lost or let through."""
    workflow = Workflow("w").then(RegexFilterProcessor(presets=["pii"], strategy="redact")).then(Enough())
    chunks, outcome = run_stream(workflow, ["please stop ", "ada@example", ".com"])
    assert outcome.text == "please stop "
    chunks, outcome = run_stream(workflow, ["please stop ada@example.com", " more"])
    assert (outcome.text, chunks[-1].type) == ("please stop [EMAIL]", "finish")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_source_is_closed_at_once(backend: str) -> None:
    """Though it would go on, or is silent."""
    closed: list[bool] = []

    async def source() -> AsyncIterator[str]:
        try:
            yield "stop"
            await anyio.sleep_forever()
        finally:
            closed.append(True)

    async def read() -> list[str]:
        workflow = Workflow("w").then(Enough()).then(BatchPartsProcessor(max_wait_time=60))
        async with workflow.start() as run, run.process_output_stream(source()) as chunks:
            return said([chunk async for chunk in chunks])

    assert anyio.run(read, backend=backend) == ["stop", "finish"]
    assert closed == [True]


def test_a_limit_stops_the_model_where_that_is_wanted() -> None:
    """What nobody is to see is not written."""
    read: list[int] = []

    def source() -> Any:
        for number in range(100):
            read.append(number)
            yield Chunk("text-delta", " word", "t")

    chunks, outcome = run_stream(TokenLimiterProcessor(5, side="answer", end_stream=True), source())
    assert outcome.text == " word" * 5
    assert (chunks[-1].payload["reason"], len(read) < 10) == ("length", True)
    assert [chunk.type for chunk in chunks].count("data-token-limit-reached") == 1


def test_who_does_not_say_that_it_ends_streams_may_not() -> None:
    """The cure is told."""
    sly = type("Sly", (Enough,), {"ends": False})()
    with pytest.raises(StepFailedError, match="declare ends = True"):
        run_stream(sly, ["stop"])


def test_a_block_that_has_ended_ends_once() -> None:
    """Only what is open is ended."""
    blocks = [Chunk("text-start", id="a"), Chunk("text-delta", "one", "a"), Chunk("text-end", id="a")]
    source = [*blocks, Chunk("text-start", id="b"), Chunk("text-delta", "stop", "b"), Chunk("text-delta", "never", "b")]
    chunks, _ = run_stream(Enough(), source)
    assert [(chunk.type, chunk.id) for chunk in chunks if chunk.type == "text-end"] == [
        ("text-end", "a"),
        ("text-end", "b"),
    ]


async def test_what_came_while_nobody_asked_is_there_at_once() -> None:
    """A reader reads one item ahead of those who were told that none was there yet."""
    go = anyio.Event()

    async def source() -> AsyncIterator[str]:
        await go.wait()
        yield "a piece"

    reader = TaskReader(source())
    await reader.open()
    assert await reader.next(0) is WAKE
    go.set()
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(60):
        assert await reader.next(None) == "a piece"
    await reader.close()
