"""A streamed request to pydantic-ai's agent, as its documentation says, of a model that says what was made before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel


def model(texts: Sequence[str]) -> FunctionModel:
    """Return a model that says those texts."""

    async def says(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        for text in texts:
            yield text

    return FunctionModel(stream_function=says)


def traced_request(texts: Sequence[str]) -> Callable[[], Awaitable[str]]:
    """Return the same request with pydantic-ai's own spans and measurements, which are dropped."""
    from peers.dropped_spans import providers

    tracers, meters = providers()
    return request(
        texts, instrument=InstrumentationSettings(tracer_provider=tracers, meter_provider=meters, include_content=False)
    )


def request(texts: Sequence[str], *, instrument: InstrumentationSettings | None = None) -> Callable[[], Awaitable[str]]:
    """Return a request to an agent with that model."""
    agent = Agent(model(texts))
    agent.instrument = instrument

    async def asked() -> str:
        async with agent.run_stream("Hi") as answer:
            return "".join([text async for text in answer.stream_text(delta=True, debounce_by=None)])

    return asked
