"""What a loop is to do, and how far it has come. It knows values, and runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY
from penstock.workflows.agent.results import StepResult, calls_of, reasoning_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.run.answers import Release
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import ToolPart
    from penstock.workflows.agent.options import Approve, StopWhen


@dataclass(frozen=True, slots=True)
class Task:
    """What a loop is to do.

    Attributes:
        start: the conversation it starts from.
        settings: what each step starts from: model, tools, tool_choice …, by the names of `process_input_step`.
        release: when chunks may leave.
        max_steps: how many accepted steps there may be.
        stop_when: what may end the run after a step whose tools have run.
        approve: decides about calls that want approval.
        allow_empty: whether a model may be asked without any message but the system's.
    """

    start: MessageList
    settings: Values
    release: Release = "auto"
    max_steps: int = 5
    stop_when: tuple[StopWhen, ...] = ()
    approve: Approve | None = None
    allow_empty: bool = False


@dataclass(slots=True)
class Progress:
    """How far a loop has come. Lives as long as the request.

    Attributes:
        steps: every attempt so far.
        accepted: how many of them were accepted.
        finish_reason: why the last accepted one ended.
        pending: calls that nobody has answered.
        error: what the loop failed with.
        data: what was written before the first answer, and is to be kept with it.
    """

    steps: list[StepResult] = field(default_factory=list[StepResult])
    accepted: int = 0
    finish_reason: str | None = None
    pending: tuple[ToolPart, ...] = ()
    error: Exception | None = None
    data: Sequence[Chunk] = ()

    @property
    def last_answer(self) -> str:
        """The id of the last accepted answer; empty if there is none."""
        return next((step.message_id for step in reversed(self.steps) if step.message_id), "")

    def renamed(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Follow answers that were given other ids, if as many are new as are gone."""
        gone = [id for id in before if id not in after]
        new = [id for id in after if id not in before]
        if gone and len(gone) == len(new):
            names = dict(zip(gone, new, strict=True))
            self.steps = [replace(step, message_id=names.get(step.message_id, step.message_id)) for step in self.steps]

    def now(self, messages: MessageList) -> tuple[StepResult, ...]:
        """Return the steps with the answers as they stand in the conversation by now."""
        return tuple([_as_it_stands(step, messages) if step.message_id else step for step in self.steps])


def _as_it_stands(step: StepResult, messages: MessageList) -> StepResult:
    message = messages.get(step.message_id)
    if message is None:  # taken back: what the provider says about it may repeat it
        return replace(step, text="", reasoning="", tool_calls=(), metadata=EMPTY)
    text, reasoning, calls = text_of(message), reasoning_of(message), calls_of(message)
    if (text, reasoning, calls) == (step.text, step.reasoning, step.tool_calls):
        return step
    return replace(step, text=text, reasoning=reasoning, tool_calls=calls)
