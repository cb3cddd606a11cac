"""A streamed request to LangChain's agent, as its documentation says, of a model that says what was made before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class Says(BaseChatModel):
    """Says the same texts each time."""

    texts: tuple[str, ...]

    @property
    def _llm_type(self) -> str:
        return "says"

    def _generate(self, *_args: Any, **_kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(self.texts)))])

    async def _astream(self, *_args: Any, **_kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for text in self.texts:
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))


def request(texts: Sequence[str]) -> Callable[[], Awaitable[str]]:
    """Return a request to an agent with that model."""
    agent: Any = create_agent(Says(texts=tuple(texts)))

    async def asked() -> str:
        pieces = agent.astream({"messages": [("user", "Hi")]}, stream_mode="messages")
        return "".join([chunk.text async for chunk, _ in pieces])

    return asked
