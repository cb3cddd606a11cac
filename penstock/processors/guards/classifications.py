"""`Classification`: what a classifier found out about a text, and what may be done about it; it knows no classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, NoReturn, TypeVar

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Values

A = TypeVar("A")

ClassifiedPhase = Literal["input", "output", "stream"]


class Classification(Generic[A]):
    """What ``on_result`` is called with beside the answers.

    Attributes:
        phase: ``input`` (what goes to the model), ``output`` (what came from it) or ``stream`` (what comes from it).
        result: the answers.
        text: the text that they are about: a message's, or a window of an answer's; not what was shown before it.
        message_id: the message's id; empty in a stream, and for a tool's arguments or result.
        stage: the stage.
        filtered: whether `filter` was called.
    """

    __slots__ = ("_ctx", "filtered", "message_id", "phase", "result", "stage", "text")

    def __init__(self, phase: ClassifiedPhase, result: A, text: str, message_id: str, ctx: AnyContext) -> None:
        self.phase = phase
        self.result = result
        self.text = text
        self.message_id = message_id
        self.stage = ctx.stage
        self.filtered = False
        self._ctx = ctx

    def abort(self, reason: str | None = None, *, retry: bool = False, metadata: Values | None = None) -> NoReturn:
        """Stop the run with a verdict; see `penstock.Context.abort`. Do not quote what is to be hidden."""
        self._ctx.abort(reason, retry=retry, metadata=metadata)

    def filter(self) -> None:
        """Take the text away: on the way in with its whole message, elsewhere the text alone."""
        self.filtered = True

    def __repr__(self) -> str:
        """Show what it is about, but no text and no answer."""
        return f"Classification({self.phase!r}, {self.message_id!r})"
