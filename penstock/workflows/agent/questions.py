"""Stages of a request that wait for persons: as they are suspended, as the store has them, and how they go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.frozen import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import ToolPart
    from penstock.engine.values.tripwire import Tripwire

WAITING_STAGES = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_step",
    "process_tool_call",
    "process_tool_result",
    "process_output_result",
)
"""The stages at which a request of an agent waits for persons, if it is stored."""


class LateRead(NamedTuple):
    """What the guards of the last stage have read, because it had to be stored before the end of the request.

    Attributes:
        answers: a hash of the answers, with the results of their calls; empty if they have read none.
        steps: the paths of these guards.
    """

    answers: str = ""
    steps: Sequence[str] = ()


NOTHING_READ = LateRead()
"""No answer was read before the end."""


class AskedStage(NamedTuple):
    """A stage that waits for persons.

    Attributes:
        outcome: its outcome, which is suspended.
        answers: the answers to its earlier questions, by their ids.
        call: the call of a tool that it is about, or None. If it is about a result, the call has it.
        fields: settings of the step that its processors have changed, as JSON values.
        prompt: the prompt that waits, if it is not the conversation.
    """

    outcome: Outcome
    answers: Values = EMPTY
    call: ToolPart | None = None
    fields: Values = EMPTY
    prompt: MessageList | None = None


@dataclass(frozen=True, slots=True)
class StoredStage:
    """A stage that waited for persons, as the store has it.

    Attributes:
        stage: its name.
        answers: the answers by the ids of their questions.
        finished: the names of the steps that are finished.
        fresh: the ids of the messages that came with it.
        fields: settings of the step that its processors have changed; of a stage about a tool, its value and answers.
        call: the call of a tool that it is about, or None. If it is about a result, the call has it.
        prompt: the prompt that waited, if it is not the conversation.
        expired: the verdict if nobody has answered in time; else None.
    """

    stage: str
    answers: Values
    finished: Sequence[str]
    fresh: Sequence[str]
    fields: Values = EMPTY
    call: ToolPart | None = None
    prompt: MessageList | None = None
    expired: Tripwire | None = None

    async def resume(self, run: Run, **details: Value) -> Outcome:
        """Go on with the stage; ``details``: as for the method of the stage."""
        given: dict[str, Value] = {**details, **self.fields, "fresh": self.fresh}
        outcome = await run.resume_stage(self.stage, self.answers, self.finished, self.prompt, **given)
        if outcome.suspended and self.expired is not None:
            return run.refuse_question(outcome, self.expired)
        return outcome


def details_of(call: ToolPart) -> dict[str, Value]:
    """Return the details of a stage about a tool for `Run.resume_stage`."""
    details: dict[str, Value] = {"tool_name": call.name, "call_id": call.call_id}
    if call.state == "call":
        return details
    failed = call.state == "error"
    return {**details, "arguments": call.arguments, "is_error": failed}


def value_of(call: ToolPart) -> Values:
    """Return what a stage about a tool judges: the arguments of a call, or its result."""
    if call.state == "call":
        return FrozenDict(arguments=call.arguments)
    return FrozenDict(result=call.error if call.state == "error" else call.result)


def judged_call(call: ToolPart, outcome: Outcome) -> ToolPart:
    """Return a call with its arguments, or its result, as its guards left it."""
    if call.state == "call":
        return replace(call, arguments=outcome.arguments)
    if call.state == "error":
        return replace(call, error=outcome.result if isinstance(outcome.result, str) else str(outcome.result))
    return replace(call, result=outcome.result)
