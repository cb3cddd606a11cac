"""Which answers are worth keeping, and whether one stands as the model gave it. It knows messages, no cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.answers import Assembly
from penstock.engine.values.frozen import EMPTY, Value
from penstock.engine.values.messages import DataPart, Message, ReasoningPart, StepStartPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.chunks import Chunk

_KEPT = frozenset({"stop", "length", "tool-calls"})
"""Why a model stops whose answer may be given again (the reference's list)."""

_FAILED = frozenset({"error", "abort", "tripwire", "retract"})
_REASONS = ("reason", "finish_reason", "finishReason")
_BESIDES = (DataPart, StepStartPart)  # what an application writes between, and marks: no words of the model

Said: TypeAlias = tuple[str, str, tuple[Value, ...]]
"""What a message says: its text, its thoughts, and everything else, without metadata."""


def refusal(chunks: Sequence[Chunk], finish_reason: str | None, *, calls: bool) -> str | None:
    """Return why an answer is not to be kept, in a word or two; None if it may be.

    Args:
        chunks: what the model sent.
        finish_reason: why it stopped, as the host tells it, if it does; the model's own end counts, too.
        calls: whether answers that call tools may be kept.
    """
    if not chunks:
        return "empty"
    if any(chunk.type in _FAILED for chunk in chunks):
        return "failed"
    if not {_finish_reason(chunks), finish_reason or "stop"} <= _KEPT:  # without an end, somebody has cut it off
        return "unfinished"
    if any(chunk.type == "text-start" and chunk.payload.get("refusal") is True for chunk in chunks):
        return "refused"
    if not calls and any(chunk.type.startswith("tool-") for chunk in chunks):
        return "tool-calls"
    return None


def _finish_reason(chunks: Sequence[Chunk]) -> Value:
    end = next((chunk.payload for chunk in reversed(chunks) if chunk.type == "finish"), EMPTY)
    return next((end[name] for name in _REASONS if name in end), None)


class Given:
    """An answer as the model gave it, to be compared with what becomes of it."""

    __slots__ = ("_open", "_said")

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        answer = Assembly()
        for chunk in chunks:
            answer.add(chunk)
        parts = answer.message.parts
        calls = [part for part in parts if isinstance(part, ToolPart) and part.state in ("call", "partial")]
        self._open = frozenset(part.call_id for part in calls)
        self._said = self._of(answer.message)

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing at all, so that nobody can have changed it."""
        return self._said == ("", "", ())

    def stands_in(self, message: Message | None) -> bool:
        """Tell whether a message says what the model said, and nothing else; results of its calls do not count."""
        return self.is_silent if message is None else self._of(message) == self._said

    def _of(self, message: Message) -> Said:
        text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
        thoughts = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
        others = [part for part in message.parts if not isinstance(part, (TextPart, ReasoningPart, *_BESIDES))]
        return text, thoughts, tuple(self._bare(part) for part in others)

    def _bare(self, part: Value) -> Value:
        """Return a part without what is noted about it, and a call without the result that it has got since."""
        if isinstance(part, ToolPart) and part.call_id in self._open:
            return ToolPart(part.call_id, part.name, part.arguments)
        return replace(part, metadata=EMPTY)
