"""OpenAI Agents SDK: agents with a scripted model, and sessions."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.testing import assistant_message, function_call
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseReasoningItem,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_reasoning_item import Summary

from penstock.workflows.adapters.openai_agents import as_runner
from tests.hosts.contract import Job, Says, Seen, strings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAME = "OpenAI Agents SDK"
PACKAGE = "openai-agents"
LACKS: dict[str, str] = {}


def output(says: Says) -> list[Any]:
    """Return an answer of the script as items."""
    items: list[Any] = []
    if says.reasoning:
        summary = [Summary(text="".join(says.reasoning), type="summary_text")]
        items.append(ResponseReasoningItem(id="rs_1", summary=summary, type="reasoning"))
    if says.whole or not says.calls:
        items.append(assistant_message(says.whole, item_id="msg_1"))
    return [*items, *(function_call(call.name, dict(call.arguments), call_id=call.id) for call in says.calls)]


def asked(args: Any, kwargs: Any) -> tuple[str | None, Any]:
    """Return the instructions and the input of a model call; the SDK names them in one of its two ways to call."""
    named = {**dict(zip(("system_instructions", "input"), args, strict=False)), **kwargs}
    return named["system_instructions"], named["input"]


class Scripted(Model):
    """A model that answers by the script."""

    def __init__(self, job: Job, seen: Seen) -> None:
        self._job = job
        self._seen = seen
        self._script = iter(job.script)

    def _next(self, system: str | None, given: Any) -> Says:
        self._seen.asked.append([*([system] if system else []), *strings(given)])
        says = next(self._script)
        if says.fails is not None:
            raise says.fails
        return says

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the next answer."""
        says = self._next(*asked(args, kwargs))
        if self._job.gate is not None:
            await self._job.gate()
        if says.breaks is not None:
            raise says.breaks
        return ModelResponse(output=output(says), usage=Usage(requests=1), response_id="resp_1")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the events of the next answer."""
        says = self._next(*asked(args, kwargs))
        for piece in says.reasoning:
            yield ResponseReasoningSummaryTextDeltaEvent(
                delta=piece,
                item_id="rs_1",
                output_index=0,
                summary_index=0,
                sequence_number=0,
                type="response.reasoning_summary_text.delta",
            )
        place = 1 if says.reasoning else 0
        for number, piece in enumerate(says.streamed):
            if self._job.gate is not None and number == len(says.streamed) - 1:
                await self._job.gate()
            yield ResponseTextDeltaEvent(
                delta=piece,
                item_id="msg_1",
                output_index=place,
                content_index=0,
                logprobs=[],
                sequence_number=0,
                type="response.output_text.delta",
            )
        if says.breaks is not None:
            raise says.breaks
        response = Response(
            id="resp_1",
            created_at=0,
            model="scripted",
            object="response",
            output=output(says),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()
    agent = Agent[Any](
        name="scripted",
        model=Scripted(job, seen),
        tools=[function_tool(function) for function in job.tools],
        output_type=job.output_type,
    )
    runner: Any = as_runner(*job.guards, **job.options) if job.guards else Runner
    session = job.earlier or SQLiteSession("test")
    seen.memory = session
    try:
        if job.streamed:
            result = runner.run_streamed(agent, job.text, session=session)
            async for event in result.stream_events():
                if event.type != "raw_response_event":
                    seen.events += (
                        strings(json.loads(json.dumps(event.item.raw_item, default=_dumped)))
                        if (event.type == "run_item_stream_event")
                        else []
                    )
                elif event.data.type == "response.output_text.delta":
                    seen.shown.append(event.data.delta)
                else:
                    seen.events += strings(event.data.model_dump(mode="json"))
        else:
            result = await runner.run(agent, job.text, session=session)
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error = error
        told = getattr(error, "guardrail_result", None)
        seen.tripwire = told.output.output_info if told is not None else None
        return seen
    seen.output = result.final_output
    seen.history = [*strings(result.to_input_list()), *strings(await session.get_items())]
    return seen


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
