"""LangChain: a whole and a streamed request, bare and with guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from benchmarks.shared import Looks
from penstock import PIIDetector
from penstock.workflows.adapters.langchain import as_middleware

PIECES = ["Some words of an answer "] * 100


class Offline(BaseChatModel):
    """Answers with the same pieces each time."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def _generate(self, *_args: Any, **_kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(PIECES)))])

    async def _agenerate(self, *_args: Any, **_kwargs: Any) -> ChatResult:
        return self._generate()

    async def _astream(self, *_args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        manager = kwargs.get("run_manager")
        for text in PIECES:
            piece = ChatGenerationChunk(message=AIMessageChunk(content=text))
            if manager is not None:
                await manager.on_llm_new_token(text, chunk=piece)
            yield piece


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return, by label, a request of the bare framework and the same one with a guard."""
    runner = asyncio.Runner()
    asked = {"messages": [("user", "Hello")]}

    def whole(agent: Any) -> Callable[[], object]:
        return lambda: runner.run(agent.ainvoke(asked))

    def streamed(agent: Any) -> Callable[[], object]:
        async def ask() -> object:
            return [piece async for piece in agent.astream(asked, stream_mode="messages")]

        return lambda: runner.run(ask())

    bare = create_agent(Offline())
    looks, hides = (create_agent(Offline(), middleware=[as_middleware(guard)]) for guard in (Looks(), PIIDetector()))
    return {
        "whole, no-op": (whole(bare), whole(looks)),
        "whole, PIIDetector": (whole(bare), whole(hides)),
        "streamed, no-op": (streamed(bare), streamed(looks)),
        "streamed, PIIDetector": (streamed(bare), streamed(hides)),
    }
