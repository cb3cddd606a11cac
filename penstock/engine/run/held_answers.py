"""`HeldAnswers`: answers that are not judged yet, their held chunks, and the ids of texts that were sent already.

A text that was sent before its verdict is retracted if the verdict rejects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message

Release = Literal["auto", "live", "step", "result"]
"""When the chunks of an answer may leave a stream; see `Run.process_output_stream`."""


_WITH_ANSWER = frozenset({"tool-result", "tool-error", "tool-approval-request"})
"""Chunks that are made of the parts of a held answer when it leaves."""


class HeldAnswer(NamedTuple):
    """An answer that waits for the last stage: its message, its chunks, and the chunks that follow it."""

    message: Message
    chunks: list[Chunk]
    behind: list[Chunk]


class HeldAnswers:
    """The answers of one run that are held, and the texts that were sent before their last verdict."""

    __slots__ = ("_ends", "_held", "_sent")

    def __init__(self) -> None:
        self._held: list[HeldAnswer] = []
        self._ends: list[tuple[str, int]] = []  # of answers that were let go: message, and how many chunks lead there
        self._sent: list[tuple[int, Sequence[str]]] = []  # how many answers came before, and the ids of the texts

    @property
    def held(self) -> tuple[str, ...]:
        """The ids of the messages of held answers."""
        return tuple(held.message.id for held in self._held)

    def hold(self, message: Message, chunks: list[Chunk]) -> None:
        """Hold an answer until the last stage has judged it."""
        self._held.append(HeldAnswer(message, chunks, []))

    def hold_behind(self, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
        """Hold chunks that belong to no answer behind the last held one; return those that may leave at once.

        Without a held answer, that is all of them. Results of tools and requests for approval are not
        held: they are sent with their answer.
        """
        if not self._held:
            return tuple(chunks)
        self._held[-1].behind.extend(chunk for chunk in chunks if chunk.type not in _WITH_ANSWER)
        return ()

    def release(self, messages: MessageList) -> tuple[Chunk, ...]:
        """Return the chunks of all held answers, as the messages stand after the last stage, and hold none of them."""
        held, self._held, self._ends = self._held, [], []
        leaving: list[Chunk] = []
        for message, chunks, behind in held:
            leaving += edited_chunks(chunks, message, messages.get(message.id))
            ends = next((count for count, chunk in enumerate(behind, 1) if chunk.type == "step-finish"), 0)
            self._ends.append((message.id, len(leaving) + ends))
            leaving += behind
        return tuple(leaving)

    def let_go(self, message: str, chunks: int) -> None:
        """Note that an answer is sent which no later stage holds: the id of its message, and how many chunks it has."""
        self._ends = [(message, chunks)]

    def unsent(self, sent: int) -> list[str]:
        """Return the ids of the answers that were let go, but end behind the first ``sent`` of their chunks."""
        return [message for message, end in self._ends if end > sent]

    def drop(self) -> list[str]:
        """Stop holding answers; return the ids of their messages."""
        dropped = [held.message.id for held in self._held]
        if dropped:
            self._held = []
        return dropped

    def keep(self, messages: Container[object]) -> None:
        """Drop the held answers whose messages are not among these."""
        self._held = [held for held in self._held if held.message.id in messages]

    def note_sent(self, earlier: int, texts: Sequence[str]) -> None:
        """Note the ids of texts that were sent, and how many answers of the run came before theirs."""
        self._sent.append((earlier, texts))

    def retract(self, accepted: int) -> list[str]:
        """Return the ids of the texts that were sent and belong to none of the first ``accepted`` answers."""
        retracted = [text for earlier, texts in self._sent if earlier >= accepted for text in texts]
        self._sent = [sent for sent in self._sent if sent[0] < accepted]
        return retracted


def edited_chunks(chunks: list[Chunk], before: Message, after: Message | None) -> list[Chunk]:
    """Return the chunks of an answer as its message stands after a later stage; of a removed message, only its end."""
    from penstock.engine.streams.chunk_texts import resent  # loaded where an answer is streamed

    return resent(chunks, before, after)


def whole_chunks(answer: Message, run_id: str) -> list[Chunk]:
    """Return an answer of an earlier process as the chunks of a step."""
    from penstock.engine.streams.chunk_texts import sent  # loaded where an answer is streamed

    return [Chunk("step-start", run_id=run_id), *sent(answer, run_id)]


def texts_of(chunks: Sequence[Chunk]) -> Sequence[str]:
    """Return the ids of the texts that chunks belong to."""
    return tuple(dict.fromkeys([chunk.id for chunk in chunks if chunk.type in ("text-delta", "reasoning-delta")]))


def open_calls(answer: Message) -> tuple[ToolPart, ...]:
    """Return the tool calls of an answer that have no result yet."""
    return tuple(part for part in answer.parts if isinstance(part, ToolPart) and part.state == "call")


def info_of(answer: Message, chunks: Sequence[Chunk]) -> dict[str, Value]:
    """Return the details of an answer for the hooks that judge it: ``finish_reason``, ``usage``, ``tool_calls``."""
    info: dict[str, Value] = {"finish_reason": None}
    for chunk in reversed(chunks):
        if chunk.type in ("step-finish", "finish"):
            reason = next((chunk.payload[name] for name in _REASONS if name in chunk.payload), None)
            info = {"finish_reason": None if reason is None else str(reason), "usage": _usage(chunk.payload)}
            break
    return {**info, "tool_calls": open_calls(answer) or None}


_REASONS = ("reason", "finish_reason", "finishReason")


def _usage(end: Values) -> Value:
    """Return the usage that the last chunk of an answer reports; its counts where its form is unknown."""
    from penstock.engine.values.answer_builder import usage_of  # loaded where an answer is streamed
    from penstock.engine.values.terms import counts_of

    try:
        return usage_of(end.get("usage"))
    except TypeError:
        return counts_of(end["usage"])
