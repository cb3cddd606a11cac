"""`JudgedAction`: what guards with a detector and a judge do about findings, whatever it is that they find."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.text_guards.components import Action
from penstock.engine.text_guards.reporting import field_of
from penstock.processors.guards.detection import Detection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.guard_options import GuardSetup

V = TypeVar("V")
R = TypeVar("R")

REMOVES_MESSAGES = ("process_input", "process_input_step")
"""The stages in which a guard can remove a message. In other stages it removes the text that was judged."""


class JudgedAction(Action):
    """Removes messages, if the strategy is ``filter``. A subclass writes `act`.

    Attributes:
        strategy: what is done about findings.
        edits: whether texts are edited; if not, findings are blocked or reported.
        guard_id: the id of the guard, for reports.
        reporter: who is told about findings.
    """

    def __init__(self, setup: GuardSetup[V, R]) -> None:
        self.strategy = setup.strategy
        self.edits = setup.edits
        self.guard_id = setup.guard_id
        self.reporter = setup.reporter

    def removes(self, ctx: AnyContext) -> bool:
        """Return whether an edit of a text removes its message: with ``filter``, in the stages that can."""
        return self.strategy in ("filter", "decide") and ctx.stage in REMOVES_MESSAGES

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits made, or without the messages that have some; None without edits."""
        if not edits or not self.removes(ctx):
            return super().changed(ctx, edits)
        return self.without_messages(ctx, (place.message_id for place in edits))

    def without_messages(self, ctx: AnyContext, message_ids: Iterable[str]) -> MessageList:
        """Return the conversation without messages; stop the run if no user message of the request would remain."""
        gone = dict.fromkeys(message_ids)
        before = ctx.message_list.input if ctx.stage == "process_input" else ctx.message_list.conversation
        asked = [message for message in before if message.role == "user"]
        if asked and all(message.id in gone for message in asked):
            reason = "every message of the user's was filtered out, so there is nothing to answer"
            self.reporter.stop(ctx, reason, {"removed": len(gone)})
        ctx.note(removed=len(gone))
        return ctx.message_list.remove(*gone)

    def detection(self, ctx: AnyContext, place: TextPlace, text: str) -> partial[Detection]:
        """Return what makes the `Detection` for a text, given the rest; the text is in it only if callbacks get it."""
        shown = text if self.reporter.shows_text else None
        at = (place.message_id, place.part, field_of(place))
        return partial(Detection, self.guard_id, ctx.stage, *at, text=shown)

    def warn(self, ctx: AnyContext, names: Sequence[str]) -> None:
        """Log findings that are let through."""
        self.reporter.warn(ctx, names)
