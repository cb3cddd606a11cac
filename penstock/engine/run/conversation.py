"""`Conversation`: the conversation of one request as it stands, what to go back to, and the budgets of retries.

It runs nothing. What a stage left is kept; what was judged and refused is taken back to where it began: the answer of a
model step, or at the end all that the model said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.merging.changes import rebuild
from penstock.engine.merging.diff import diff
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import UsageError
from penstock.engine.values.facts import laid_over
from penstock.engine.values.frozen import freeze, is_mapping
from penstock.engine.values.message_list import MessageList, as_items, as_messages
from penstock.engine.values.messages import Message

if TYPE_CHECKING:
    from penstock.engine.processor.stages import Stage
    from penstock.engine.processor.state import RunState
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Tripwire


_INPUT = STAGES["process_input"]
_INPUT_STEP = STAGES["process_input_step"]
_API_ERROR = STAGES["process_api_error"]
_LLM_RESPONSE = STAGES["process_llm_response"]
_OUTPUT_STEP = STAGES["process_output_step"]
_OUTPUT_RESULT = STAGES["process_output_result"]

RETRY_TAG = "penstock-retry"
"""The owner of the system message that tells the model why its last answer was rejected."""


class Conversation:
    """What a run keeps from stage to stage. Lives as long as the run.

    Attributes:
        payload: the conversation and the facts, as they stand.
        queued_from: what stood there before the first stage whose checks still wait for the model call.
    """

    __slots__ = (
        "_answered",
        "_asked",
        "_attempts",
        "_errors_left",
        "_feedback",
        "_input",
        "_max_errors",
        "_max_retries",
        "_retries_left",
        "payload",
        "queued_from",
    )

    def __init__(self, messages: MessageList, max_retries: int, max_errors: int) -> None:
        self.payload = Payload(messages)
        self.queued_from: Payload | None = None
        self._input: MessageList | None = None  # as `process_input` left it
        self._asked: MessageList | None = None  # as the model was asked: the answer at hand is not in it
        self._answered = False  # whether the answer at hand was accepted, so that the next one begins anew
        self._feedback: str | None = None
        self._attempts = 0
        self._max_retries = self._retries_left = max_retries
        self._max_errors = self._errors_left = max_errors

    def begin(self, stage: Stage, state: RunState) -> Payload:
        """Return what a stage starts from."""
        if stage is _INPUT_STEP:
            self._begin_step(state)
        elif stage is _OUTPUT_STEP:
            self._renew(state)
        return self.payload

    def answers(self, stage: Stage, before: Payload) -> None:
        """Note that a stage brings what the model said: if it is a new answer, this is what it began from."""
        if stage in (_LLM_RESPONSE, _OUTPUT_STEP) and (self._asked is None or self._answered):
            self._asked = before.message_list
            self._answered = False

    def keep(self, stage: Stage, before: Payload, end: Payload) -> None:
        """Make the stage's messages and facts the run's; what another call changed meanwhile stays changed."""
        now = self.payload
        messages = now.message_list
        if stage.keeps and end.message_list is not before.message_list:
            messages = end.message_list
            if now.message_list is not before.message_list:
                messages = rebuild(now, diff(before, Payload(messages, before.facts, before.fields), "")).message_list
        self.payload = Payload(messages, laid_over(now.facts, before.facts, end.facts))

    def passed(self, stage: Stage, state: RunState) -> None:
        """Note that a stage has let everything pass."""
        if stage is _OUTPUT_STEP:
            self._accept(state)
        elif stage is _INPUT:
            self._input = self.payload.message_list
        elif stage in (_INPUT_STEP, _API_ERROR):
            self._asked = self.payload.message_list
            self._answered = False

    def roll_back(self, stage: Stage, before: Payload, *, ends: bool) -> None:
        """Take back what was judged; ``ends``: and what was said to the model about its last answer."""
        messages = self._without_answer(stage, before.message_list)
        if ends and messages.tagged(RETRY_TAG):
            messages = messages.replace_system((), tag=RETRY_TAG)
        self.payload = Payload(messages, before.facts)

    def reject(self, stage: Stage, tripwire: Tripwire, state: RunState) -> bool:
        """Tell whether the model gets another attempt: it is asked for, and the budget allows it."""
        if not (stage.retries and tripwire.retry):
            return False
        if stage is _API_ERROR:
            return self.grant_error_retry(state)
        if self._retries_left <= 0:
            return False
        self._retries_left -= 1
        state.retry_count = self._max_retries - self._retries_left
        self._feedback = tripwire.reason
        return True

    def grant_error_retry(self, state: RunState) -> bool:
        """Tell whether a failed model call may be made again; it has a budget of its own."""
        if self._errors_left <= 0:
            return False
        self._errors_left -= 1
        self._attempts = max(self._attempts - 1, 0)  # what failed was no attempt of the model
        state.error_retries = self._max_errors - self._errors_left
        return True

    def _without_answer(self, stage: Stage, messages: MessageList) -> MessageList:
        if stage is _OUTPUT_RESULT:
            said = {message.id for message in messages.response if self._input is None or message.id not in self._input}
            return messages.with_entries([entry for entry in messages.entries if entry.message.id not in said])
        if stage.order > _INPUT_STEP.order and self._asked is not None:
            return self._asked
        return messages

    def _begin_step(self, state: RunState) -> None:
        """Count the attempt, undo the last step's untagged system messages, and tell the model why it was rejected."""
        state.step_number = self._attempts
        self._attempts += 1
        self._renew(state)
        messages = self.payload.message_list
        if self._input is not None and messages is not self._input:
            base = self._input.tagged(None)
            if messages.tagged(None) != base:
                messages = messages.replace_system(base)
        if self._feedback is not None:
            stop = "" if self._feedback.rstrip().endswith((".", "!", "?", "…")) else "."
            text = f"Your last answer was not accepted: {self._feedback}{stop} Answer again, with that put right."
            messages = messages.replace_system(text, tag=RETRY_TAG)
        if messages is not self.payload.message_list:
            self.payload = Payload(messages, self.payload.facts)

    def _renew(self, state: RunState) -> None:
        """Count retries anew, unless this attempt is one; not at acceptance, since tool calls may be rejected yet."""
        if self._feedback is None:
            self._retries_left = self._max_retries
            state.retry_count = 0

    def _accept(self, state: RunState) -> None:
        self._feedback = None
        self._answered = True
        self._errors_left = self._max_errors
        state.error_retries = 0
        messages = self.payload.message_list
        if messages.tagged(RETRY_TAG):
            self.payload = Payload(messages.replace_system((), tag=RETRY_TAG), self.payload.facts)


NONE_FRESH: frozenset[str] = frozenset()
"""The ids of a call that brings no messages."""


def taken_in(stage: Stage, messages: object, before: MessageList) -> tuple[MessageList, frozenset[str]]:
    """Return the conversation with what the caller brings, and the ids that are new in it.

    A list takes the place of the one before; anything else is added to it, as the stage's own source. A prompt stands
    for itself.
    """
    if isinstance(messages, MessageList):
        if messages is before:
            return before, NONE_FRESH
        brought = frozenset([entry[0].id for entry in messages.entries])
        return messages, brought.difference([entry[0].id for entry in before.entries])
    base = before if stage.keeps else before.with_entries(())
    role: Literal["user", "assistant"] = "assistant" if stage.source == "response" else "user"
    completed = [base.completed(message) for message in parsed(messages, role)]
    return base.add(completed, source=stage.source), frozenset(message.id for message in completed)


def parsed(messages: object, role: Literal["user", "assistant"]) -> tuple[Message, ...]:
    """Return messages from a str (of that role), messages, or dicts in a known format.

    Raises:
        MessageError: something else, or a malformed dict; the error names the place.
    """
    if isinstance(messages, (str, Message)):
        return as_messages(messages, role)
    items = messages if is_mapping(messages) else as_items(messages)
    if is_mapping(items) or any(isinstance(item, dict) for item in items):
        from penstock.engine.formats import parse_messages  # loaded where a caller brings dicts

        return parse_messages(items)
    return as_messages(items, role)


def settings_of(stage: Stage, settings: Values) -> Values:
    """Return the settings of a stage, frozen.

    Raises:
        UsageError: one that the stage does not have.
    """
    unknown = sorted(set(settings) - set(stage.fields))
    if unknown:
        raise UsageError(f"{stage.name} has no setting {', '.join(unknown)}; it has {', '.join(stage.fields)}")
    made: Values = freeze(dict(settings))
    return made
