"""The results of a request: each step, and the whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Literal

from typing_extensions import TypeVar

from penstock.engine.run.tracing import NO_TRACE, LazyTrace
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, json_value
from penstock.engine.values.messages import ReasoningPart, ToolPart
from penstock.engine.values.model import Usage
from penstock.engine.values.tripwire import BlockedError
from penstock.processors.structure.facts import EDITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.facts import AnyKey, Facts
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.questions import PendingQuestion
    from penstock.engine.values.tripwire import Record, Tripwire
    from penstock.engine.values.usage import UsageEntry

Status = Literal["running", "success", "suspended", "blocked", "cancelled", "failed"]
"""The status of a request; ``suspended`` means that calls to tools wait for the caller."""

T = TypeVar("T", default=object)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one model call.

    Attributes:
        number: the number of the step, from 0. Rejected attempts count; failed calls do not.
        text: the text of the answer after the guards; empty for a rejected or failed attempt.
        reasoning: the reasoning of the model after the guards.
        finish_reason: why the answer ended, in the words of the provider: ``stop``, ``length``, ``tool-calls`` …;
            ``retry`` for an attempt that was repeated, ``error`` for a failed one, ``other`` for a blocked one.
        tool_calls: the calls to tools in the answer; a call that was answered carries its result or its error.
        usage: the tokens of the call; None if the provider did not report them.
        tripwire: the verdict that rejected the attempt, or None.
        model: the name of the model.
        message_id: the id of the answer's message; empty if there is none.
        metadata: the provider's report about the answer: its id, the model …
        from_cache: whether a processor answered in place of the model.
    """

    number: int
    text: str = ""
    reasoning: str = ""
    finish_reason: str = "other"
    tool_calls: tuple[ToolPart, ...] = ()
    usage: Usage | None = None
    tripwire: Tripwire | None = None
    model: str = ""
    message_id: str = ""
    metadata: Values = EMPTY
    from_cache: bool = False

    @property
    def tool_results(self) -> tuple[ToolPart, ...]:
        """The calls that were answered, with a result or an error."""
        return tuple(call for call in self.tool_calls if call.state in ("result", "error"))


def text_of(message: Message | None) -> str:
    """Return the text of an answer; empty if there is none."""
    return "" if message is None else message.text


def reasoning_of(message: Message | None) -> str:
    """Return the reasoning of an answer; empty if there is none."""
    parts = () if message is None else message.parts
    return "".join([part.text for part in parts if isinstance(part, ReasoningPart)])


def calls_of(message: Message | None) -> tuple[ToolPart, ...]:
    """Return the calls to tools in an answer."""
    return () if message is None else tuple([part for part in message.parts if isinstance(part, ToolPart)])


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The provider's report about the last answer.

    Attributes:
        id: the id of the answer, or None.
        model: the name of the model that gave it, as the provider calls it, or None.
        created: the time of the answer, in seconds since 1970, or None.
        metadata: everything that the provider reports.
        messages: the messages that the request added to the conversation, after the guards.
    """

    id: str | None = None
    model: str | None = None
    created: float | None = None
    metadata: Values = EMPTY
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentResult(Generic[T]):
    """The result of a request. If the request was blocked, it holds nothing of the text that was blocked.

    Attributes:
        message_list: the conversation at the end, with system messages.
        text: the text of all accepted steps, one after the other, after the guards. Of a cancelled request, it is what
            had been sent.
        object: the object requested with ``output_type``; None if there is none.
        tripwire: the verdict that stopped the request, or None.
        status: ``success``, ``suspended`` (calls to tools wait for the caller), ``blocked``, ``cancelled``, or
            ``failed``.
        finish_reason: why the last step ended; ``other`` if blocked, ``aborted`` if cancelled, ``error`` if failed.
        steps: every attempt of the model, including rejected ones.
        usage: the tokens of all attempts.
        response: the provider's report about the last answer, and the messages that are new.
        pending: the calls without a result: to tools that the caller runs, or that wait for approval; empty unless
            the status is ``suspended``.
        questions: what persons are asked before the request goes on, by processors; only with ``reviews``.
        facts: the facts that processors have put, by key; not those about answers that were rejected or not sent.
        records: the record of each step of the workflows; empty unless the request had ``records=True``.
        spent: the usage of all models, including judges.
        run_id: the id of the run.
        error: the error that ended the request. Only a stream has a result with it; `Agent.generate` raises it.
    """

    message_list: MessageList
    text: str = ""
    object: T | None = None
    tripwire: Tripwire | None = None
    status: Status = "success"
    finish_reason: str | None = None
    steps: tuple[StepResult, ...] = ()
    usage: Usage = field(default_factory=lambda: Usage(requests=0))
    response: ModelResponse = field(default_factory=ModelResponse)
    pending: tuple[ToolPart, ...] = ()
    questions: tuple[PendingQuestion, ...] = ()
    facts: Facts = field(default_factory=dict["AnyKey", "Value"], repr=False)
    records: tuple[Record, ...] = field(default=(), repr=False)
    spent: tuple[UsageEntry, ...] = field(default=(), repr=False)
    run_id: str = ""
    error: Exception | None = None
    _trace: LazyTrace = field(default=NO_TRACE, repr=False, compare=False)

    @property
    def trace(self) -> Trace:
        """The trace of the request: its stages, steps, model calls and tool calls.

        Raises:
            UsageError: the request had no ``records=True``.
        """
        return self._trace()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, without system messages."""
        return self.message_list.conversation

    @property
    def blocked(self) -> bool:
        """Whether a verdict stopped the request."""
        return self.tripwire is not None

    @property
    def object_edited(self) -> bool:
        """Whether guards changed the answer that holds the object: texts in it may be redacted, numbers null or 0."""
        return self.object is not None and self.facts.get(EDITED) is not None

    def answered(
        self, results: Mapping[str, Value], *, approvals: Mapping[str, bool | str] = EMPTY
    ) -> tuple[Message, ...]:
        """Return the conversation with results for pending calls, to be passed to the agent as the next request.

        Args:
            results: JSON values by the ids of calls in ``pending``.
            approvals: decisions about calls that wait for approval, by their ids: True, False, or a str, the reason for
                a refusal. The agent then runs or refuses these calls, with its guards. See `approve` and `reject`.

        Raises:
            UsageError: an id is not that of a pending call; a call that waits for approval is answered with a bool, or
                one is approved that does not.
            MessageError: a result is not a JSON value.
        """
        waiting = {call.call_id: call.approval == "requested" for call in self.pending}
        unknown = sorted({*results, *approvals} - waiting.keys())
        if unknown:
            known = ", ".join(sorted(waiting)) or "none"
            raise UsageError(f"no call with the id {', '.join(unknown)} waits for a result; these do: {known}")
        for id, result in results.items():
            if id in approvals:
                raise UsageError(f"the call {id} has a result and a decision; give one of them")
            if waiting[id] and isinstance(result, bool):
                raise UsageError(
                    f"the call {id} waits for approval, and {result} would be the result of a tool that never ran; use "
                    f"result.approve({id!r}) or result.reject({id!r}, reason)"
                )
        external = sorted(id for id in approvals if not waiting[id])
        if external:
            raise UsageError(
                f"the call {', '.join(external)} waits for a result, not for approval; use answered({{…}})"
            )
        read = {id: json_value(result, id) for id, result in results.items()}
        return tuple([_answered(message, read, approvals) for message in self.messages])

    def approve(self, call_id: str) -> tuple[Message, ...]:
        """Return the conversation with an approval; if it is passed to the agent, the tool runs, with its guards.

        The approval is one of the arguments in ``pending``: if guards change them, the request is suspended again. If
        other calls wait too, decide about all of them with `answered`.

        Args:
            call_id: the id of a call in ``pending`` that waits for approval.

        Raises:
            UsageError: no such call waits for approval.
        """
        return self.answered({}, approvals={call_id: True})

    def reject(self, call_id: str, reason: str = "") -> tuple[Message, ...]:
        """Return the conversation with a refusal; if it is passed to the agent, the model gets the reason.

        Args:
            call_id: the id of a call in ``pending`` that waits for approval.
            reason: why, for the model.

        Raises:
            UsageError: no such call waits for approval.
        """
        return self.answered({}, approvals={call_id: reason or False})

    def unwrap(self) -> AgentResult[T]:
        """Return the result itself, unless it is blocked.

        Raises:
            BlockedError: a verdict stopped the request; the error holds its tripwire.
        """
        if self.tripwire is not None:
            raise BlockedError(self.tripwire)
        return self

    def __bool__(self) -> bool:
        """Refuse a truth value, which would be ambiguous.

        Raises:
            UsageError: always.
        """
        raise UsageError("a result has no truth value; use result.blocked, or result.status == 'success'")

    def __repr__(self) -> str:
        """Show how the request ended, without any text."""
        verdict = f", blocked by {self.tripwire.processor_id!r}" if self.tripwire is not None else ""
        return f"AgentResult({self.status}, {len(self.steps)} steps, finish_reason={self.finish_reason!r}{verdict})"


def _answered(message: Message, results: Mapping[str, Value], approvals: Mapping[str, bool | str]) -> Message:
    """Return a message with results for its open calls, or decisions about them."""
    parts = tuple([_answered_part(part, results, approvals) for part in message.parts])
    return message if parts == message.parts else message.with_parts(parts)


def _answered_part(part: Part, results: Mapping[str, Value], approvals: Mapping[str, bool | str]) -> Part:
    if not isinstance(part, ToolPart) or part.state != "call":
        return part
    if part.call_id in results:
        return replace(part, state="result", result=results[part.call_id], approval=None)
    verdict = approvals.get(part.call_id)
    if verdict is None:
        return part
    reason = verdict if isinstance(verdict, str) else None
    return replace(part, approval="approved" if verdict is True else "rejected", error=reason)
