"""Streams without ``await``: chunk by chunk, left early, with verdicts and errors as in the async form."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from penstock import Agent, Chunk, InputContext, ModelError, processor
from penstock.engine import ModelRequest, OptionError, UsageError
from penstock.testing import ScriptedModel


def test_a_stream_is_read_without_await() -> None:
    """Its chunks, its text, and its result."""
    agent = Agent(ScriptedModel([{"deltas": ["Hel", "lo"]}], repeat_last=True))
    with agent.stream_sync("Hi") as stream:
        kinds = [chunk.type for chunk in stream]
        assert (kinds[0], kinds[-1], stream.text, stream.status) == ("start", "finish", "Hello", "success")
    with agent.stream_sync("Hi") as stream:
        assert list(stream.text_stream) == ["Hel", "lo"]
        assert stream.result.status == "success"
    with agent.stream_sync("Hi") as stream:
        assert stream.text == "Hello"


class Limited:
    """A model that holds a scope across its chunks, and then waits."""

    name = "limited"
    open = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield a piece."""
        with anyio.fail_after(60):
            self.open += 1
            try:
                yield Chunk("text-delta", "Hi", "t")
                await anyio.sleep_forever()
            finally:
                self.open -= 1


def test_a_stream_that_is_left_early_is_closed() -> None:
    """And what was sent of it is its text."""
    model = Limited()
    with Agent(model).stream_sync("q") as stream:
        for chunk in stream:
            if chunk.type == "text-delta":
                break
    assert (model.open, stream.status) == (0, "cancelled")
    with pytest.raises(UsageError, match="left"):
        _ = stream.result


def test_errors_and_verdicts_come_as_in_the_async_form() -> None:
    """Raised where they are read; mistakes when it is made or entered."""

    @processor(edits="nothing")
    def refuses(ctx: InputContext) -> None:
        ctx.abort("no")

    with Agent(ScriptedModel(["x"]), processors=[refuses]).stream_sync("Hi") as stream:
        assert [chunk.type for chunk in stream] == ["tripwire"]
        assert stream.result.blocked
    failing = Agent(ScriptedModel([{"error": {"status": 500, "message": "down"}}]))
    with failing.stream_sync("Hi") as stream, pytest.raises(ModelError, match="down"):
        list(stream)
    with pytest.raises(UsageError, match="empty"), failing.stream_sync(""):
        pass
    with pytest.raises(OptionError):
        failing.stream_sync("Hi", max_steps=0)
    with pytest.raises(UsageError, match="enter"):
        list(failing.stream_sync("Hi"))


@pytest.mark.anyio
async def test_it_is_refused_where_an_event_loop_runs() -> None:
    """It would block it."""
    with pytest.raises(UsageError, match="event loop"):
        Agent(ScriptedModel(["x"])).stream_sync("Hi")
