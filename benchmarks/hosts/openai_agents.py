"""OpenAI Agents SDK: a whole and a streamed request, bare and with guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.testing import assistant_message
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent

from benchmarks.shared import Looks
from penstock import PIIDetector
from penstock.workflows.adapters.openai_agents import as_runner

PIECES = ["Some words of an answer "] * 100
OUTPUT = assistant_message("".join(PIECES), item_id="msg_1")


class Offline(Model):
    """Answers with the same pieces each time."""

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """Return the answer."""
        return ModelResponse(output=[OUTPUT], usage=Usage(requests=1), response_id="resp_1")

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yield the answer."""
        at: Any = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": [], "sequence_number": 0}
        for piece in PIECES:
            yield ResponseTextDeltaEvent(**at, delta=piece, type="response.output_text.delta")
        told: Any = {"created_at": 0, "model": "offline", "object": "response", "tool_choice": "auto", "tools": []}
        whole = Response(id="resp_1", output=[OUTPUT], parallel_tool_calls=True, **told)
        yield ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return, by label, a request of the bare SDK and the same one with a guard."""
    loop = asyncio.Runner()
    config = RunConfig(tracing_disabled=True)

    def asking(runner: Any, way: str) -> Callable[[], object]:
        agent = Agent[Any](name="agent", model=Offline())

        async def ask() -> object:
            if way == "whole":
                return await runner.run(agent, "Hello", run_config=config)
            result = runner.run_streamed(agent, "Hello", run_config=config)
            return [event async for event in result.stream_events()]

        return lambda: loop.run(ask())

    guards = {"no-op": Looks(), "PIIDetector": PIIDetector()}
    return {
        f"{way}, {label}": (asking(Runner, way), asking(as_runner(guard), way))
        for way in ("whole", "streamed")
        for label, guard in guards.items()
    }
