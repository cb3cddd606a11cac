"""Whole answers, read as the chunks of a stream: so a format has one encoder for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.streams.chunk_texts import sent
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.usage import usage_payload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.agent.results import AgentResult

Answer: TypeAlias = "AgentResult[object] | Message"
"""A whole answer: the result of an agent's request, or an assistant message."""

_ENDS = {"blocked": "tripwire", "failed": "error", "cancelled": "abort"}


def chunks_of(answer: Answer) -> Iterator[Chunk]:
    """Yield the chunks of a whole answer: nothing of a request that was blocked, failed or cancelled but its end.

    A result has the messages of the request, all of which have left the guards.
    """
    yield Chunk("start")
    if isinstance(answer, Message):
        yield from _step(answer)
        open_calls = any(isinstance(part, ToolPart) and part.state == "call" for part in answer.parts)
        yield Chunk("finish", payload={"reason": "tool-calls" if open_calls else "stop"})
        return
    ending = "tripwire" if answer.blocked else _ENDS.get(answer.status)
    if ending is not None:
        yield Chunk(ending, payload=EMPTY)
        return
    for message in answer.response.messages:
        if message.role == "assistant":
            yield from _step(message)
    yield Chunk("finish", payload={"reason": answer.finish_reason, "usage": usage_payload(answer.usage)})


def _step(message: Message) -> Iterator[Chunk]:
    yield Chunk("step-start")
    yield from sent(message)
    yield Chunk("step-finish")
