"""Whole answers, read as the chunks of a stream: so a format has one encoder for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from penstock.engine.streams.chunk_texts import sent
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.usage import usage_payload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.web.sse import Encoder

Answer: TypeAlias = "AgentResult[object] | Message"
"""A whole answer: the result of an agent's request, or an assistant message."""

E = TypeVar("E")
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
    waits = {"suspended": True} if _asks_a_person(answer) else {}
    told = {"reason": answer.finish_reason, "usage": usage_payload(answer.usage), **waits}
    yield Chunk("finish", payload=told, run_id=answer.run_id)


def _asks_a_person(answer: AgentResult[object]) -> bool:
    """Return whether a request waits for somebody else than its client: a question, or the calls of an inner agent."""
    known = {call.call_id for call in answer.pending}
    calls = [part for message in answer.response.messages for part in message.parts if isinstance(part, ToolPart)]
    inner = any(call.state == "call" and call.call_id not in known for call in calls)
    return bool(answer.questions) or (answer.status == "suspended" and inner)


def events_of(answer: Answer, encoder: Encoder[E]) -> list[E]:
    """Return the events of a whole answer, as its stream would have them; the encoder is a new one."""
    return [*(event for chunk in chunks_of(answer) for event in encoder.events(chunk)), *encoder.end()]


def _step(message: Message) -> Iterator[Chunk]:
    yield Chunk("step-start")
    yield from sent(message)
    yield Chunk("step-finish")
