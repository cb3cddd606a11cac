"""Haystack: agents with a scripted chat generator."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # read when haystack is imported

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall, ToolCallDelta
from haystack.dataclasses.chat_message import ReasoningContent
from haystack.tools.from_function import create_tool_from_function  # pyright: ignore[reportUnknownVariableType]

from penstock.workflows.adapters.haystack import as_agent, tripwire_of
from tests.hosts.contract import Job, Says, Seen, strings

NAME = "Haystack"
PACKAGE = "haystack-ai"
LACKS: dict[str, str] = {}


@component
class Scripted:
    """A chat generator that answers by the script."""

    def __init__(self, job: Job, seen: Seen) -> None:
        self._job = job
        self._seen = seen
        self._script = iter(job.script)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        """Not used: the driver runs agents in its event loop."""
        raise NotImplementedError

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        """Return the next answer; its pieces go to the callback."""
        self._seen.asked.append(strings([message.to_dict() for message in messages]))
        says = next(self._script)
        if says.fails is not None:
            raise says.fails
        if streaming_callback is not None:
            await self._stream(says, streaming_callback)
        elif self._job.gate is not None:
            await self._job.gate()
        if says.breaks is not None:
            raise says.breaks
        return {"replies": [reply(says)]}

    async def _stream(self, says: Says, show: Any) -> None:
        for thought in says.reasoning:
            await show(StreamingChunk("", index=0, reasoning=ReasoningContent(thought)))
        for number, piece in enumerate(says.streamed):
            if self._job.gate is not None and number == len(says.streamed) - 1:
                await self._job.gate()
            await show(StreamingChunk(piece, index=1, start=number == 0))
        for index, call in enumerate(says.calls, 2):
            text = json.dumps(call.arguments)
            half = len(text) // 2
            first = ToolCallDelta(index, call.name, text[:half], call.id)
            await show(StreamingChunk("", index=index, start=True, tool_calls=[first]))
            await show(StreamingChunk("", index=index, tool_calls=[ToolCallDelta(index, None, text[half:])]))


def reply(says: Says) -> ChatMessage:
    """Return an answer of the script as a message."""
    return ChatMessage.from_assistant(
        says.whole,
        tool_calls=[ToolCall(call.name, dict(call.arguments), call.id) for call in says.calls],
        reasoning="".join(says.reasoning) or None,
        meta={"model": "scripted", "finish_reason": "tool_calls" if says.calls else "stop"},
    )


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()
    tools = [create_tool_from_function(function) for function in job.tools]
    agent = Agent(chat_generator=Scripted(job, seen), tools=tools)
    if job.guards:
        agent = as_agent(agent, *job.guards, **job.options)

    async def show(chunk: StreamingChunk) -> None:
        if chunk.content:
            seen.shown.append(chunk.content)
        seen.events += strings({**chunk.to_dict(), "content": ""})

    messages: list[ChatMessage] = [*(job.earlier or ()), ChatMessage.from_user(job.text)]
    try:
        result = await agent.run_async(messages=messages, streaming_callback=show if job.streamed else None)
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error, seen.tripwire, seen.memory = error, tripwire_of(error), messages
        return seen
    text = result["last_message"].text
    seen.output = text if job.output_type is None else job.output_type(**json.loads(text))
    seen.memory = result["messages"]
    seen.history = strings([message.to_dict() for message in seen.memory])
    return seen
