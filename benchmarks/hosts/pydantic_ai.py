"""Requests to an agent of pydantic-ai: as it is, with a processor that does nothing, and with `PIIDetector`."""

from __future__ import annotations

from asyncio import Runner
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import AgentCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from penstock import OutputStepContext, PIIDetector, processor
from penstock.workflows.adapters.pydantic_ai import as_capability

PIECES = [f"word {number} of the text. " for number in range(100)]
ANSWER = "".join(PIECES)


@processor("process_output_step", role="observer")
def look(_ctx: OutputStepContext) -> None:
    """Look at the answer, and find nothing."""


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return pairs of requests."""
    runner = Runner()
    bare = _agent([])
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for name, guard in (("no-op", look), ("PIIDetector", PIIDetector())):
        guarded = _agent([as_capability(guard)])
        pairs[f"whole, {name}"] = (lambda: runner.run(_whole(bare)), lambda agent=guarded: runner.run(_whole(agent)))
        pairs[f"streamed, {name}"] = (
            lambda: runner.run(_streamed(bare)),
            lambda agent=guarded: runner.run(_streamed(agent)),
        )
    return pairs


def _agent(capabilities: Sequence[AgentCapability[None]]) -> Agent[None, str]:
    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(ANSWER)])

    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[Any]:
        for piece in PIECES:
            yield piece

    return Agent(FunctionModel(answer, stream_function=stream), capabilities=capabilities)


async def _whole(agent: Agent[None, str]) -> str:
    return (await agent.run("Hi")).output


async def _streamed(agent: Agent[None, str]) -> str:
    async with agent.run_stream("Hi") as result:
        return "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])
