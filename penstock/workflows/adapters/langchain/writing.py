"""Chunks as LangChain's answers: pieces of text as the guards release them, and behind them the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from penstock.engine.values.messages import Message
from penstock.workflows.adapters.langchain.left import Left
from penstock.workflows.adapters.langchain.reading import REASONING_FIELD
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting.answers import as_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.adapters.langchain.reading import LangChainAnswerReader
    from penstock.workflows.hosting import HostRequest


class LangChainAnswerWriter:
    """Writes the answer as the guards release it: pieces of text, and behind them the rest.

    Args:
        reader: returns the reader of the model's answer.
    """

    def __init__(self, reader: Callable[[], LangChainAnswerReader]) -> None:
        self._reader = reader
        self._shown = False

    def piece(self, chunk: Chunk) -> AIMessageChunk | None:
        """Return a piece of text as LangChain's; None for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return None
        self._shown = True
        place = self._reader().places.get(chunk.id)
        if place is not None:
            return AIMessageChunk(content=[place.holding(chunk.text)])
        if chunk.type == "reasoning-delta":
            return AIMessageChunk(content="", additional_kwargs={REASONING_FIELD: chunk.text})
        return AIMessageChunk(content=chunk.text)

    def rest(self, request: HostRequest) -> AIMessageChunk:
        """Return the rest after the shown texts, or the whole answer; with the fields that the provider needs back."""
        answer = request.answer or Message("assistant")
        whole = self._reader().whole or AIMessageChunk(content="")
        left = Left(whole, answer.parts)
        return AIMessageChunk(
            content=left.content(shown=self._shown),
            additional_kwargs=left.fields(shown=self._shown),
            response_metadata=left.reports(),
            tool_call_chunks=[
                tool_call_chunk(name=call.name, args=as_text(call.arguments), id=call.call_id, index=number)
                for number, call in enumerate(calls_of(answer))
            ],
            usage_metadata=_used(request, whole),
            id=None if self._shown else whole.id,
            chunk_position="last",
        )


def _used(request: HostRequest, whole: AIMessageChunk) -> Any:
    """Return the tokens of the call, rejected answers included."""
    used, last = request.usage, whole.usage_metadata
    spent = (used.input_tokens or 0, used.output_tokens or 0)
    if last is None or spent == (last["input_tokens"], last["output_tokens"]):
        return last
    return {"input_tokens": spent[0], "output_tokens": spent[1], "total_tokens": sum(spent)}
