"""The answer as UI messages on the finish chunk: what the client got, and nothing else."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from penstock import (
    Agent,
    Chunk,
    LanguageDetector,
    Message,
    OutputStepContext,
    OutputStreamContext,
    PIIDetector,
    processor,
)
from penstock.engine.values.chunks import retract_chunk
from penstock.testing import ScriptedModel
from penstock.workflows.agent.ui_messages import UIAnswer

SECRET = "joe.secret@example.com"
CALL = {"tool_calls": [{"id": "c1", "name": "look", "args": {"q": "x"}}]}


def look(q: str) -> str:
    """Look something up."""
    return f"{q}: {SECRET}"


async def finish_of(agent: Agent, **options: Any) -> tuple[dict[str, Any], list[Chunk]]:
    """Return the payload of the finish chunk, and all chunks."""
    async with agent.stream("hi", **options) as stream:
        chunks = [chunk async for chunk in stream.full_stream]
    return dict(next(chunk.payload for chunk in chunks if chunk.type == "finish")), chunks


async def test_the_finish_chunk_has_the_answer_as_ui_messages() -> None:
    """All steps in one message, with texts and tool calls."""
    agent = Agent(ScriptedModel([CALL, "It is there."]), tools=[look], ui_messages=True)
    payload, _ = await finish_of(agent)
    (message,) = payload["ui_messages"]
    kinds = [part["type"] for part in message["parts"]]
    assert message["role"] == "assistant"
    assert message["id"]
    assert kinds == ["step-start", "tool-look", "step-start", "text"]
    assert message["parts"][-1]["text"] == "It is there."
    assert message["parts"][1]["output"] == f"x: {SECRET}"


async def test_it_has_none_unless_that_is_asked_for() -> None:
    """They cost memory."""
    payload, _ = await finish_of(Agent(ScriptedModel(["hi"])))
    assert "ui_messages" not in payload


async def test_what_a_hook_keeps_from_the_client_is_not_in_it() -> None:
    """Also where only the stream hides it, and the history has it."""

    @processor("output_stream", edits="anything")
    def hide(chunk: Chunk, ctx: OutputStreamContext) -> Chunk | None:
        return None if chunk.type == "tool-result" else chunk

    agent = Agent(ScriptedModel([CALL, f"mail {SECRET}"]), tools=[look], ui_messages=True)
    payload, chunks = await finish_of(agent, processors=[hide])
    assert SECRET not in repr([chunk for chunk in chunks if chunk.type == "tool-result"])
    assert f"x: {SECRET}" not in repr(payload)
    payload, chunks = await finish_of(
        agent.__class__(ScriptedModel([f"mail {SECRET}"]), ui_messages=True), processors=[PIIDetector()]
    )
    assert SECRET not in repr(payload)
    assert SECRET not in repr(chunks)


async def test_a_rejected_step_is_not_in_it() -> None:
    """Nor a text that was taken back."""

    @processor("output_step", edits="nothing")
    def judge(ctx: OutputStepContext) -> None:
        if "bad" in ctx.text:
            ctx.abort("no", retry=True)

    for release in ("live", "step"):
        agent = Agent(ScriptedModel(["bad answer", "good answer"]), processors=[judge], ui_messages=True)
        payload, _ = await finish_of(agent, release=release)
        assert [part.get("text") for message in payload["ui_messages"] for part in message["parts"]] == [
            None,
            "good answer",
        ]


@pytest.mark.parametrize("release", ["live", "step", "result"])
@pytest.mark.parametrize("stage", ["output_step", "output_result"])
async def test_metadata_that_processors_add_are_in_it(
    stage: Literal["output_step", "output_result"], release: str
) -> None:
    """As in the response, whichever stage added them; the notes of formats stay inside."""

    @processor(stage, edits="anything")
    def note(ctx: Any) -> list[Message]:
        return [one.with_metadata(seen=one.text) if one.role == "assistant" else one for one in ctx.messages]

    processors = [note, LanguageDetector(strategy="block", phase="output")]
    text = "The weather is fine today, and it stays so until the evening."
    agent = Agent(ScriptedModel([CALL, text]), tools=[look], ui_messages=True)
    async with agent.stream("hi", processors=processors, release=release) as stream:
        (shown,) = [chunk.payload["ui_messages"] async for chunk in stream if chunk.type == "finish"]
        answers = (await stream.response).messages
    kept = {key: value for one in answers for key, value in one.metadata.items()}
    assert shown[0]["metadata"] == kept
    assert kept["seen"] == text
    assert kept["language_detection"]["iso_code"] == "en"


def test_notes_of_formats_are_no_metadata_for_a_client() -> None:
    """They hold addresses and ids of the provider."""
    sent = UIAnswer()
    for chunk in (Chunk("step-start"), Chunk("text-delta", "Hi", "t")):
        sent.add(chunk)
    notes = {"pydantic-ai": {"provider_url": "http://10.0.0.5"}, "openai-chat": {"extra": {"x": 1}}, "own": 1}
    (message,) = sent.finish(Chunk("finish"), [Message("assistant", "Hi", "m", metadata=notes)]).payload["ui_messages"]
    assert (message["id"], message["metadata"]) == ("m", {"own": 1})


def test_a_retracted_text_is_removed_from_its_own_step_only() -> None:
    """Other steps may have texts of the same id, before it and after it."""
    sent = UIAnswer()
    for text, blocks in (("first", ()), ("secret", ("t",)), ("last", ())):
        sent.add(Chunk("step-start"))
        sent.add(Chunk("text-delta", text, "t"))
        if blocks:
            sent.add(retract_chunk(blocks, "r"))
    (message,) = sent.finish(Chunk("finish"), []).payload["ui_messages"]
    assert [part["text"] for part in message["parts"] if part["type"] == "text"] == ["first", "last"]
