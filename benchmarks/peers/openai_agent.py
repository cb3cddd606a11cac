"""A streamed request to an agent of the OpenAI Agents SDK, of a model that says what was made before; not traced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.testing import assistant_message
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent


class Says(Model):
    """Says the same texts each time."""

    def __init__(self, texts: Sequence[str]) -> None:
        at: Any = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": [], "sequence_number": 0}
        told: Any = {"created_at": 0, "model": "says", "object": "response", "tool_choice": "auto", "tools": []}
        self._output = assistant_message("".join(texts), item_id="msg_1")
        self._deltas = [ResponseTextDeltaEvent(**at, delta=text, type="response.output_text.delta") for text in texts]
        whole = Response(id="resp_1", output=[self._output], parallel_tool_calls=True, **told)
        self._end = ResponseCompletedEvent(response=whole, sequence_number=0, type="response.completed")

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """Return the answer."""
        return ModelResponse(output=[self._output], usage=Usage(requests=1), response_id="resp_1")

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yield the answer."""
        for delta in self._deltas:
            yield delta
        yield self._end


def request(texts: Sequence[str]) -> Callable[[], Awaitable[str]]:
    """Return a request to an agent with that model."""
    agent = Agent[None](name="agent", model=Says(texts))
    config = RunConfig(tracing_disabled=True)

    async def asked() -> str:
        events = Runner.run_streamed(agent, "Hi", run_config=config).stream_events()
        data = [event.data async for event in events if event.type == "raw_response_event"]
        return "".join([event.delta for event in data if isinstance(event, ResponseTextDeltaEvent)])

    return asked
