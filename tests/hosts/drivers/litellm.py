"""LiteLLM: a loop of calls and tools, as its users write it, with a scripted provider of their own kind."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

import litellm
from litellm.types.utils import ModelResponseStream

from penstock.workflows.adapters.litellm import GuardBlockedError, as_completion
from tests.hosts.contract import Job, Says, Seen, strings

NAME = "LiteLLM"
PACKAGE = "litellm"
LACKS: dict[str, str] = {}

litellm.suppress_debug_info = True


class Scripted(litellm.CustomLLM):
    """A provider that answers by the scripts of the jobs that run."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, tuple[Job, Seen, Any]] = {}

    def _next(self, given: dict[str, Any]) -> tuple[Job, Says]:
        job, seen, script = self.jobs[given["model"]]
        seen.asked.append(strings(given["messages"]))
        says = next(script)
        if says.fails is not None:
            raise says.fails
        return job, says

    async def acompletion(self, **given: Any) -> Any:
        """Return the next answer."""
        job, says = self._next(given)
        if job.gate is not None:
            await job.gate()
        if says.breaks is not None:
            raise says.breaks
        message: dict[str, Any] = {"role": "assistant", "content": says.whole}
        if says.calls:
            message["tool_calls"] = [called(call) for call in says.calls]
        if says.reasoning:
            message["reasoning_content"] = "".join(says.reasoning)
        return litellm.ModelResponse(model="scripted", choices=[{"message": message, "finish_reason": ended(says)}])

    async def astreaming(self, **given: Any) -> AsyncIterator[Any]:
        """Yield the pieces of the next answer."""
        job, says = self._next(given)
        for thought in says.reasoning:
            yield piece({"reasoning_content": thought})
        for number, text in enumerate(says.streamed):
            if job.gate is not None and number == len(says.streamed) - 1:
                await job.gate()
            yield piece({"content": text})
        if says.breaks is not None:
            raise says.breaks
        for index, call in enumerate(says.calls):
            whole = called(call)
            text = whole["function"]["arguments"]
            half = len(text) // 2
            first = {**whole, "function": {"name": call.name, "arguments": text[:half]}}
            yield piece({"tool_calls": [{**first, "index": index}]})
            yield piece({"tool_calls": [{"index": index, "function": {"arguments": text[half:]}}]})
        yield piece({}, ended(says))


def piece(delta: dict[str, Any], reason: str | None = None) -> Any:
    """Return a piece of an answer."""
    return ModelResponseStream(model="scripted", choices=[{"index": 0, "delta": delta, "finish_reason": reason}])


def called(call: Any) -> dict[str, Any]:
    """Return a call of the script in OpenAI's format."""
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def ended(says: Says) -> str:
    """Return why an answer ends."""
    return "tool_calls" if says.calls else "stop"


PROVIDER = Scripted()
litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": PROVIDER}]


class Bare:
    """LiteLLM as it is, with the names of a guarded request."""

    acompletion = staticmethod(litellm.acompletion)

    def current(self, messages: list[Any]) -> list[Any]:
        """Return the messages."""
        return messages

    async def arun_tool(self, call: Any, function: Any) -> dict[str, Any]:
        """Run the tool of a call, as LiteLLM's users do it."""
        said = function(**json.loads(call.function.arguments))
        return {"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": said}


async def run(job: Job) -> Seen:
    """Run one request."""
    seen, messages = Seen(), [*(job.earlier or ()), {"role": "user", "content": job.text}]
    PROVIDER.jobs[str(id(seen))] = (job, seen, iter(job.script))
    opened: Any = as_completion(*job.guards, **job.options).request() if job.guards else nullcontext(Bare())
    try:
        async with opened as request:
            text = await loop(job, seen, request, messages)
            messages = request.current(messages)
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error, seen.memory = error, messages
        seen.tripwire = error.tripwire if isinstance(error, GuardBlockedError) else None
        return seen
    finally:
        del PROVIDER.jobs[str(id(seen))]
    seen.output = text if job.output_type is None else job.output_type(**json.loads(text))
    seen.memory = messages
    seen.history = strings([dumped(message) for message in messages])
    return seen


async def loop(job: Job, seen: Seen, request: Any, messages: list[Any]) -> str:
    """Call the model and the tools until it answers without a call."""
    tools = {function.__name__: function for function in job.tools}
    more: dict[str, Any] = {"tools": [spec(function) for function in job.tools]} if tools else {}
    if job.output_type is not None:
        more["response_format"] = job.output_type
    while True:
        message = await answer(job, seen, request, messages, more)
        messages.append(message)
        if not message.tool_calls:
            return str(message.content or "")
        for call in message.tool_calls:
            messages.append(await request.arun_tool(call, tools[call.function.name]))
            seen.events += strings(dumped(messages[-1]))


async def answer(job: Job, seen: Seen, request: Any, messages: list[Any], more: dict[str, Any]) -> Any:
    """Return the message of one answer."""
    model = f"scripted/{id(seen)}"
    if not job.streamed:
        return (await request.acompletion(model, messages, **more)).choices[0].message
    pieces = []
    async for each in await request.acompletion(model, messages, stream=True, **more):
        pieces.append(each)
        delta = each.choices[0].delta
        if delta.content:
            seen.shown.append(delta.content)
        seen.events += strings({**delta.model_dump(), "content": ""})
    built: Any = litellm.stream_chunk_builder(pieces)
    return built.choices[0].message


def spec(function: Any) -> dict[str, Any]:
    """Return a function of texts as a tool."""
    names = [name for name in function.__annotations__ if name != "return"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    told = {"name": function.__name__, "description": function.__doc__, "parameters": schema}
    return {"type": "function", "function": told}


def dumped(message: Any) -> Any:
    """Return a message as JSON."""
    return message if isinstance(message, dict) else message.model_dump()
