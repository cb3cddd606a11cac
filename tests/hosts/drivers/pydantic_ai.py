"""pydantic-ai: agents with a scripted `FunctionModel`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from pydantic_ai import Agent, Tool, capture_run_messages
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_core import to_jsonable_python

from penstock.workflows.adapters.pydantic_ai import as_capability
from tests.hosts.contract import Job, Says, Seen, strings

NAME = "pydantic-ai"
PACKAGE = "pydantic-ai-slim"
REQUIRES = ("opentelemetry-sdk>=1.30",)  # the tests of the adapter read what pydantic-ai traces
LACKS: dict[str, str] = {}


def dumped(messages: list[ModelMessage]) -> list[Any]:
    """Return messages as JSON."""
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def scripted(job: Job, seen: Seen) -> FunctionModel:  # noqa: C901 - two ways of one script
    """Return a model that answers by the script."""
    script = iter(job.script)

    def ask(messages: list[ModelMessage]) -> Says:
        seen.asked.append(strings(dumped(messages)))
        said = next(script)
        if said.fails is not None:
            raise said.fails
        return said

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = ask(messages)
        if said.breaks is not None:
            raise said.breaks
        if job.gate is not None:
            await job.gate()
        if job.output_type is not None and not said.calls:
            return ModelResponse([ToolCallPart(info.output_tools[0].name, json.loads(said.whole))])
        calls = [ToolCallPart(call.name, dict(call.arguments), call.id) for call in said.calls]
        thoughts = [ThinkingPart("".join(said.reasoning))] if said.reasoning else []
        return ModelResponse([*thoughts, *([TextPart(said.whole)] if said.whole else []), *calls])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        said = ask(messages)
        if job.output_type is not None and not said.calls:
            yield {0: DeltaToolCall(name=info.output_tools[0].name, json_args=said.whole)}
            return
        for piece in said.reasoning:
            yield {0: DeltaThinkingPart(content=piece)}
        for number, piece in enumerate(said.streamed):
            if job.gate is not None and number == len(said.streamed) - 1:
                await job.gate()
            yield piece
        if said.breaks is not None:
            raise said.breaks
        for index, call in enumerate(said.calls, 1):
            text = json.dumps(call.arguments)
            half = len(text) // 2
            yield {index: DeltaToolCall(name=call.name, json_args=text[:half], tool_call_id=call.id)}
            yield {index: DeltaToolCall(json_args=text[half:])}

    return FunctionModel(answer, stream_function=stream)


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()

    async def note(context: Any, events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            seen.events += strings(to_jsonable_python(event))

    capabilities = [as_capability(*job.guards, **job.options)] if job.guards else []
    agent: Agent[None, Any] = Agent(
        scripted(job, seen),
        output_type=job.output_type or str,
        tools=[Tool(function) for function in job.tools],
        capabilities=capabilities,
    )
    with capture_run_messages() as messages:
        try:
            if job.streamed:
                async with agent.run_stream(job.text, message_history=job.earlier, event_stream_handler=note) as result:
                    if job.output_type is None:
                        async for piece in result.stream_text(delta=True, debounce_by=None):
                            seen.shown.append(piece)
                    seen.output = await result.get_output()
            else:
                seen.output = (await agent.run(job.text, message_history=job.earlier)).output
        except Exception as error:  # noqa: BLE001 - what the user gets
            seen.error, seen.tripwire = error, getattr(error, "tripwire", None)
    seen.memory = messages
    seen.history = strings(dumped(messages))
    return seen
