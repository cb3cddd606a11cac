"""`Conversation`: messages and facts of one request, with roll-back and retry budgets; and parsing of input messages.

`Run` stores the result of each stage here. When a verdict rejects it, `Run` rolls it back: the answer of one model
step, or at the end all answers of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.merging.changes import rebuild
from penstock.engine.merging.diff import diff
from penstock.engine.processor.payload import Payload
from penstock.engine.values.errors import UsageError
from penstock.engine.values.facts import laid_over
from penstock.engine.values.frozen import FrozenDict, freeze, is_mapping
from penstock.engine.values.message_list import MessageList, as_items, as_messages
from penstock.engine.values.messages import Message
from penstock.lazy import by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.processor.stages import Stage
    from penstock.engine.processor.state import RunState
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Tripwire

MAX_ERROR_RETRIES = 3
"""How often a failed model call is made again by default (the reference's figure, runtime.md §12)."""

RETRY_TAG = "penstock-retry"
"""The owner of the system message that tells the model why its last answer was rejected."""


class Conversation:
    """The conversation of a run from stage to stage. Lives as long as the run.

    Attributes:
        payload: the messages and the facts as they stand.
        queued_from: the payload before the first stage whose checks still wait for the model call; None if none wait.
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

    def __init__(self, begin: Payload, max_retries: int, max_errors: int) -> None:
        if type(max_retries) is not int or max_retries < 0:
            raise _wrong_limit("max_processor_retries", max_retries)
        if type(max_errors) is not int or max_errors < 0:
            raise _wrong_limit("max_error_retries", max_errors)
        self.payload = begin
        self.queued_from: Payload | None = None
        self._input: MessageList | None = None  # as the stage that opens the run left it
        self._asked: list[Payload] = []  # as the model was called with it: before each accepted answer, and the next
        self._answered = True  # whether the last answer was accepted, so that the next one begins anew
        self._feedback: str | None = None
        self._attempts = 0
        self._max_retries = self._retries_left = max_retries
        self._max_errors = self._errors_left = max_errors

    @property
    def messages(self) -> MessageList:
        """The messages as they stand; setting them leaves the facts as they are."""
        return self.payload.message_list

    @messages.setter
    def messages(self, messages: MessageList) -> None:
        self.payload = Payload(messages, self.payload.facts)

    # A run that goes on elsewhere

    def standing(self) -> Values:
        """Return its retry budgets and the system messages of its input, for `restore`."""
        base = () if self._input is None else self._input.tagged(None)
        return FrozenDict(
            attempts=self._attempts,
            retries_left=self._retries_left,
            errors_left=self._errors_left,
            feedback=self._feedback,
            system=base,
        )

    def restore(
        self, payload: Payload, standing: Values, last_answer: str, state: RunState, *, answering: bool = False
    ) -> None:
        """Continue from a payload that another run left after an accepted answer, after its input, or in a step.

        Args:
            payload: the messages and the facts.
            standing: what `standing` returned there.
            last_answer: the id of the last answer, which a verdict takes back; empty if there is none.
            state: the state of the run; it gets the number of the step, and the counts of retries.
            answering: whether the last answer is not accepted yet, or the model was about to be called for it.
        """
        listed = payload.message_list
        given = listed.with_entries([entry for entry in listed.entries if entry.source != "response"])
        self._input = given if given.tagged(None) == standing["system"] else given.replace_system(standing["system"])
        self.payload = payload
        self._asked, self._answered = [Payload(given, payload.facts)], not answering
        if answering or last_answer in listed:
            before = [entry for entry in listed.entries if entry.message.id != last_answer]
            self._asked.append(Payload(listed.with_entries(before), payload.facts))
        self._attempts = standing["attempts"]
        self._retries_left = min(standing["retries_left"], self._max_retries)
        self._errors_left = min(standing["errors_left"], self._max_errors)
        self._feedback = standing["feedback"]
        state.step_number = max(self._attempts - 1, 0)
        state.retry_count = 0 if self._feedback is None else self._max_retries - self._retries_left
        state.error_retries = self._max_errors - self._errors_left

    # From stage to stage

    def begin(self, stage: Stage, state: RunState) -> Payload:
        """Return the payload that a stage starts from."""
        if stage.opens == "step":
            self._begin_step(state)
        elif stage.accepts:
            self._renew_retries(state)
        return self.payload

    def begin_answer(self, before: MessageList) -> None:
        """Note that a stage brings an answer of the model: if the last one was accepted, this is a new one."""
        if self._answered:
            self._ask(Payload(before, self.payload.facts))

    def _ask(self, asked: Payload) -> None:
        if not self._answered:
            self._asked.pop()
        elif self._asked:  # the views of its messages are not needed again: each takes as much memory as the list
            last = self._asked[-1]
            self._asked[-1] = Payload(last.message_list.with_entries([*last.message_list.entries]), last.facts)
        self._asked.append(asked)
        self._answered = False

    def keep(self, stage: Stage, before: Payload, end: Payload) -> None:
        """Take over the messages and facts that a stage left. Changes that another call made meanwhile are kept, too.

        Args:
            stage: the stage.
            before: the payload that the stage started from.
            end: the payload that it left.
        """
        now = self.payload
        messages = now.message_list
        if stage.keeps and end.message_list is not before.message_list:
            messages = end.message_list
            if now.message_list is not before.message_list:
                messages = rebuild(now, diff(before, Payload(messages, before.facts, before.fields), "")).message_list
        self.payload = Payload(messages, laid_over(now.facts, before.facts, end.facts))

    def add_facts(self, before: Facts, after: Facts) -> None:
        """Take over the facts of a check of the input, which changes nothing else."""
        self.payload = Payload(self.payload.message_list, laid_over(self.payload.facts, before, after))
        self._asked = [Payload(asked.message_list, laid_over(asked.facts, before, after)) for asked in self._asked]

    def passed(self, stage: Stage, state: RunState) -> None:
        """Note that no step of a stage objected."""
        if stage.accepts:
            self._accept(state)
        if stage.opens == "run":
            self._input = self.payload.message_list
            self._asked, self._answered = [], True  # what was said before is no answer to it
        if stage.asks:
            self._ask(self.payload)

    # Verdicts and retries

    def reject(self, stage: Stage, tripwire: Tripwire, state: RunState) -> bool:
        """Return whether the model gets another attempt: the verdict asks for one, and the stage's budget allows it."""
        if not (stage.retries and tripwire.retry):
            return False
        if stage.retries == "call":
            return self.grant_error_retry(state)
        if self._retries_left <= 0:
            return False
        self._retries_left -= 1
        state.retry_count = self._max_retries - self._retries_left
        self._feedback = tripwire.reason
        return True

    def grant_error_retry(self, state: RunState) -> bool:
        """Return whether a failed model call may be made again, and take it from the budget of such calls."""
        if self._errors_left <= 0:
            return False
        self._errors_left -= 1
        self._attempts = max(self._attempts - 1, 0)  # a call that failed was no attempt of the model
        state.error_retries = self._max_errors - self._errors_left
        return True

    def roll_back(self, stage: Stage, before: Payload, *, ends: bool) -> None:
        """Remove the answers that a stage rejected.

        Args:
            stage: the stage.
            before: the payload to go back to.
            ends: whether the run ends, so that the message about the last rejected answer goes, too.
        """
        kept = self._without_answer(stage, before)
        messages = kept.message_list
        if ends and messages.tagged(RETRY_TAG):
            messages = messages.replace_system((), tag=RETRY_TAG)
        self.payload = Payload(messages, kept.facts)

    def _without_answer(self, stage: Stage, before: Payload) -> Payload:
        """Return the payload without the answers that a verdict takes back, and without the facts about them."""
        if not self._asked or stage.takes_back is None:
            return before
        if stage.takes_back == "answer":
            return self._asked[-1]
        messages = before.message_list
        said = {message.id for message in messages.response if self._input is None or message.id not in self._input}
        left = messages.with_entries([entry for entry in messages.entries if entry.message.id not in said])
        del self._asked[1:]
        return Payload(left, self._asked[0].facts)

    def forget(self, messages: Iterable[str]) -> None:
        """Remove answers that nobody got, and the facts put since the model was asked for the first of them.

        Args:
            messages: the ids of their messages. The answer that has begun, and is not accepted, may have none yet.
        """
        now = self.payload.message_list
        gone = [message for message in messages if message in now]
        while len(self._asked) > 1 and any(message in self._asked[-1].message_list for message in gone):
            self._asked.pop()
        facts = self._asked[-1].facts if self._asked else self.payload.facts
        self.payload = Payload(now.remove(*gone) if gone else now, facts)

    def _begin_step(self, state: RunState) -> None:
        """Count the attempt, undo the last step's untagged system messages, and tell the model why it was rejected."""
        state.step_number = self._attempts
        self._attempts += 1
        self._renew_retries(state)
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
            self.messages = messages

    def _renew_retries(self, state: RunState) -> None:
        """Give the full budget to an attempt that is not a retry; not at acceptance: tool calls may yet be rejected."""
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
            self.messages = messages.replace_system((), tag=RETRY_TAG)


def _wrong_limit(option: str, given: object) -> UsageError:
    return UsageError(f"{option} is a number of retries, 0 or more, not {given!r}")


# What a caller gives to a stage

NO_IDS: frozenset[str] = frozenset()
"""The ids of the new messages of a call that brings none."""


def add_input(stage: Stage, messages: object, before: MessageList) -> tuple[MessageList, frozenset[str]]:
    """Return the conversation with the messages that a caller gives to a stage, and the ids of the new ones.

    A `MessageList` replaces the conversation. Anything else is parsed and added, with the stage's source; for a stage
    that keeps no messages (the provider prompt) it replaces the conversation, too.
    """
    if isinstance(messages, MessageList):
        if messages is before:
            return before, NO_IDS
        given = frozenset([entry[0].id for entry in messages.entries])
        return messages, given.difference([entry[0].id for entry in before.entries])
    base = before if stage.keeps else before.with_entries(())
    role: Literal["user", "assistant"] = "assistant" if stage.source == "response" else "user"
    if isinstance(messages, str):
        current, message = base.with_text(role, messages, stage.source)
        return current, frozenset((message.id,))
    new = [base.completed(message) for message in parse_input(messages, role)]
    return base.with_new(new, stage.source), frozenset([message.id for message in new])


def parse_input(messages: object, role: Literal["user", "assistant"]) -> tuple[Message, ...]:
    """Return messages from a str (of that role), messages, or dicts in a known format.

    Raises:
        MessageError: it is something else, or a dict is malformed; the error names the place.
    """
    if isinstance(messages, (str, Message)):
        return as_messages(messages, role)
    items = messages if is_mapping(messages) else as_items(messages)
    if is_mapping(items) or any(isinstance(item, dict) for item in items):
        parse_messages: Callable[[object], tuple[Message, ...]] = by_name("penstock.formats", "parse_messages")
        return parse_messages(items)
    return as_messages(items, role)


def check_settings(stage: Stage, settings: Values) -> Values:
    """Return the settings of a stage, frozen.

    Raises:
        UsageError: the stage has no such setting.
    """
    unknown = sorted(set(settings) - set(stage.fields))
    if unknown:
        raise UsageError(f"{stage.name} has no setting {', '.join(unknown)}; it has {', '.join(stage.fields)}")
    made: Values = freeze(dict(settings))
    return made
