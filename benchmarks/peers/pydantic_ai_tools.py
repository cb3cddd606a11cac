"""pydantic-ai's agent with a tool and with a history; it has no guards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


def tool_request(steps: int, calls: int, says: str, fetch: Callable[[int], object]) -> Callable[[], Awaitable[str]]:
    """Return a request in which a model calls a tool."""

    async def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        step = sum(isinstance(message, ModelResponse) for message in messages)
        pages = range(step * calls, (step + 1) * calls) if step < steps else ()
        made = [ToolCallPart("fetch", {"page": page}, f"c{page}") for page in pages]
        return ModelResponse(made or [TextPart(says)])

    async def asked() -> str:
        agent = Agent(FunctionModel(model), tools=[fetch])
        return (await agent.run("Read all pages", usage_limits=UsageLimits(request_limit=500))).output

    return asked


def turn(says: str) -> Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]:
    """Return a turn: a function of the conversation so far."""

    async def model(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(says)])

    agent = Agent(FunctionModel(model))

    async def asked(conversation: Sequence[Mapping[str, str]]) -> str:
        history: list[ModelMessage] = [
            ModelRequest([UserPromptPart(one["content"])])
            if one["role"] == "user"
            else ModelResponse([TextPart(one["content"])])
            for one in conversation[:-1]
        ]
        return (await agent.run(conversation[-1]["content"], message_history=history)).output

    return asked
