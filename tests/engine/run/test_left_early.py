"""A reader who leaves while judged chunks are sent: the run and its stream tell only what was sent."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import Chunk, OutputResultContext, OutputStepContext, Processor, Run, Workflow
from penstock.engine.run.sync import SyncRun

pytestmark = pytest.mark.anyio

PIECES = ("one ", "two ", "three")


class Judges(Processor):
    """Judges answers when they have ended."""

    edits = "nothing"

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Judge the step."""

    def process_output_result(self, ctx: OutputResultContext) -> None:
        """Judge the whole."""


def answer(*pieces: str, calls: tuple[str, ...] = ()) -> list[Chunk]:
    """Return the chunks of an answer."""
    texts = [Chunk("text-delta", id="t", text=piece) for piece in pieces]
    called = [Chunk("tool-call", id=call, payload={"call_id": call, "name": "find", "args": {}}) for call in calls]
    reason = "tool-calls" if calls else "stop"
    return [
        Chunk("text-start", id="t"),
        *texts,
        Chunk("text-end", id="t"),
        *called,
        Chunk("finish", payload={"reason": reason}),
    ]


def started() -> Run:
    """Return a run of a workflow that judges late."""
    return Workflow("w").then(Judges()).start()


async def read(run: Run, texts: int, leaves: str, **options: Any) -> Any:
    """Read a stream up to that many pieces of text, leave it, and return it."""
    stream = run.process_output_stream(answer(*PIECES), **options)
    with anyio.CancelScope() as scope:
        try:
            async with stream:
                async for chunk in stream:
                    texts -= chunk.type == "text-delta"
                    if not texts and leaves == "break":
                        break
                    if not texts and leaves == "error":
                        _fail()
                    if not texts and leaves == "cancel":
                        scope.cancel()
                        await anyio.lowlevel.checkpoint()
        except ZeroDivisionError:
            pass
    return stream


def _fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("release", ["step", "result"])
@pytest.mark.parametrize("leaves", ["break", "error", "cancel"])
@pytest.mark.parametrize("texts", [1, 2, 3])
async def test_a_stream_that_was_left_tells_what_was_sent(release: str, leaves: str, texts: int) -> None:
    """The answer is not in the conversation, since it was not sent whole."""
    async with started() as run:
        await run.process_input("hi")
        stream = await read(run, texts, leaves, release=release)
        sent = "".join(PIECES[:texts])
        assert (stream.text, stream.message.text) == (sent, sent)
        assert (stream.outcome, stream.judged) == (None, None)
        assert [message.text for message in run.message_list] == ["hi"]


@pytest.mark.parametrize("release", ["step", "result"])
async def test_a_stream_that_was_read_to_its_last_chunk_is_whole(release: Any) -> None:
    """Also where the reader does not wait for its end."""
    async with started() as run:
        await run.process_input("hi")
        async with run.process_output_stream(answer(*PIECES), release=release) as stream:
            async for chunk in stream:
                if chunk.type == "finish":
                    break
        assert stream.outcome is not None
        assert stream.outcome.text == stream.text == "one two three"
        assert [message.text for message in run.message_list] == ["hi", "one two three"]


@pytest.mark.parametrize("release", ["step", "result"])
def test_a_sync_stream_that_was_left_tells_what_was_sent(release: Any) -> None:
    """As an async one."""
    run: SyncRun = Workflow("w").then(Judges()).start_sync()
    run.process_input("hi")
    with run.process_output_stream(answer(*PIECES), release=release) as stream:
        next(chunk for chunk in stream if chunk.type == "text-delta")
    assert (stream.text, stream.outcome) == ("one ", None)
    assert [message.text for message in run.run.message_list] == ["hi"]


@pytest.mark.parametrize(("texts", "kept"), [(1, []), (2, ["first"]), (3, ["first", "second"])])
async def test_of_several_held_answers_those_that_were_sent_stay(texts: int, kept: list[str]) -> None:
    """The first one waits for the last stage, since it calls a tool; its chunks leave before those of the second."""
    async with started() as run:
        await run.process_input("hi")
        async with run.process_output_stream(answer("first", calls=("c1",)), release="result") as stream:
            assert [chunk async for chunk in stream] == []
        async with run.process_output_stream(answer("second"), release="result") as stream:
            async for chunk in stream:
                texts -= chunk.type == "text-delta"
                if not texts:
                    break
        assert [message.text for message in run.message_list] == ["hi", *kept]


@pytest.mark.parametrize(("sent", "kept"), [(0, []), (3, []), (4, ["first"]), (7, ["first"]), (8, ["first", "second"])])
async def test_who_sends_the_chunks_of_the_last_stage_says_how_many(sent: int, kept: list[str]) -> None:
    """With ``last=False`` they leave in its outcome."""
    async with started() as run:
        await run.process_input("hi")
        for text in ("first", "second"):
            async with run.process_output_stream(answer(text), release="result", last=False) as stream:
                assert [chunk async for chunk in stream] == []
        outcome = await run.process_output_result()
        assert len(outcome.chunks) == 8
        run.drop_unsent(sent)
        assert [message.text for message in run.message_list] == ["hi", *kept]
