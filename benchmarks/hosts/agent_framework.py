"""agent-framework: a whole and a streamed request, bare and with guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

from benchmarks.shared import Looks
from penstock import PIIDetector
from penstock.workflows.adapters.agent_framework import as_middleware

PIECES = ["Some words of an answer "] * 100


class Offline(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers with the same pieces each time."""

    def _inner_get_response(self, *, stream: bool, **_kwargs: Any) -> Any:  # type: ignore[override]
        return ResponseStream(self._stream(), finalizer=ChatResponse.from_updates) if stream else self._whole()

    async def _whole(self) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", ["".join(PIECES)])])

    async def _stream(self) -> AsyncIterator[ChatResponseUpdate]:
        for piece in PIECES:
            yield ChatResponseUpdate(contents=[Content.from_text(piece)], role="assistant")


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return, by label, a request of the bare framework and the same one with a guard."""
    runner = asyncio.Runner()

    def whole(agent: Agent[Any]) -> Callable[[], object]:
        async def ask() -> object:
            return await agent.run("Hello")

        return lambda: runner.run(ask())

    def streamed(agent: Agent[Any]) -> Callable[[], object]:
        async def ask() -> object:
            stream = agent.run("Hello", stream=True)
            async for _ in stream:
                pass
            return await stream.get_final_response()

        return lambda: runner.run(ask())

    bare = Agent(Offline())
    looks, hides = (Agent(Offline(), middleware=as_middleware(guard)) for guard in (Looks(), PIIDetector()))
    return {
        "whole, no-op": (whole(bare), whole(looks)),
        "whole, PIIDetector": (whole(bare), whole(hides)),
        "streamed, no-op": (streamed(bare), streamed(looks)),
        "streamed, PIIDetector": (streamed(bare), streamed(hides)),
    }
