"""`RequestProgress`: how far a request has come, its attempts, and the calls that wait for the caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY
from penstock.models.open_calls import CallCloser
from penstock.workflows.agent.questions import NOTHING_READ
from penstock.workflows.agent.step_log import StepLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message, ToolPart
    from penstock.workflows.agent.nested import InnerWaitsError
    from penstock.workflows.agent.questions import AskedStage, LateRead
    from penstock.workflows.agent.results import StepResult


@dataclass(slots=True)
class RequestProgress:
    """How far a request has come. Lives as long as the request.

    Attributes:
        steps: every attempt so far.
        accepted: how many of them were accepted.
        finish_reason: why the last accepted one ended.
        pending: calls without a result.
        pending_in: the id of the message that they stand in.
        error: the error that ended the loop.
        data: chunks that were written before the first answer, to be stored with it.
        answering: whether an answer of the model has begun that is neither rejected, nor accepted and sent whole.
        closer: closes the open calls of its prompts.
        read_late: what the guards of the last stage have read before it was stored.
        asked: the stages that wait for persons.
        open_answer: an answer that is not accepted yet, or whose calls are not judged yet, while a stage waits for
            persons; empty if there is none.
        inner: the agents that wait for people, by the ids of the calls that run them.
    """

    steps: StepLog = field(default_factory=StepLog)
    accepted: int = 0
    finish_reason: str | None = None
    pending: tuple[ToolPart, ...] = ()
    pending_in: str = ""
    error: Exception | None = None
    data: Sequence[Chunk] = ()
    answering: bool = False
    closer: CallCloser = field(default_factory=CallCloser)
    read_late: LateRead = NOTHING_READ
    asked: tuple[AskedStage, ...] = ()
    open_answer: Values = EMPTY
    inner: Mapping[str, InnerWaitsError] = EMPTY

    @property
    def last_answer(self) -> str:
        """The id of the last accepted answer; empty if there is none."""
        return self.steps.last_answer

    @property
    def last_reason(self) -> str:
        """Why the last attempt ended; ``other`` if there is none."""
        return "other" if self.steps.last is None else self.steps.last.finish_reason

    def note_pending(self, calls: Iterable[ToolPart], answer: Message | None) -> None:
        """Note the calls of an answer that the caller has to answer."""
        self.pending, self.pending_in = tuple(calls), "" if answer is None else answer.id

    def follow_ids(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Replace the ids of answers in the steps after a stage has changed the conversation.

        Ids are matched in order, and only if as many ids are new as are gone.

        Args:
            before: the ids of the answers before the stage.
            after: the ids after it.
        """
        gone = [id for id in before if id not in after]
        new = [id for id in after if id not in before]
        if gone and len(gone) == len(new):
            names = dict(zip(gone, new, strict=True))
            self.pending_in = names.get(self.pending_in, self.pending_in)
            self.steps.rename(names)

    def current(self, messages: MessageList) -> tuple[StepResult, ...]:
        """Return the steps with their answers as they are in the conversation now."""
        return self.steps.current(messages)
