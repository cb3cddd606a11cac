"""What comes of a request to an agent, as values: each step, and the whole. They know messages, no loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Literal

from typing_extensions import TypeVar

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, json_value
from penstock.engine.values.messages import ReasoningPart, ToolPart
from penstock.engine.values.model import Usage
from penstock.engine.values.tripwire import BlockedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.values.facts import AnyKey, Facts
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Record, Tripwire
    from penstock.engine.values.usage import UsageEntry

Status = Literal["running", "success", "suspended", "blocked", "cancelled", "failed"]
"""How a request stands: ``suspended`` waits for results of tools that the caller runs."""

T = TypeVar("T", default=object)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of one model call.

    Attributes:
        number: the step's number, from 0; rejected attempts count, failed calls do not.
        text: what the model said, as the guards left it; empty for a rejected or failed attempt.
        reasoning: what it thought, as the guards left it.
        finish_reason: why it stopped; ``retry`` for an attempt that was made again, ``error`` for a failed one,
            ``other`` for one that was blocked.
        tool_calls: the calls to tools in the answer; those that were answered carry their results.
        usage: the tokens that it took; None if the provider did not say.
        tripwire: the verdict, if the attempt was rejected.
        model: the name of the model.
        message_id: the id of the answer's message; empty if there is none.
        metadata: what the provider says about the answer: its id, the model that gave it …
        from_cache: whether a processor answered in the model's place.
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
        """The calls that were answered, by a result or an error."""
        return tuple(call for call in self.tool_calls if call.state in ("result", "error"))


def text_of(message: Message | None) -> str:
    """Return what an answer says."""
    return "" if message is None else message.text


def reasoning_of(message: Message | None) -> str:
    """Return what an answer thinks."""
    parts = () if message is None else message.parts
    return "".join([part.text for part in parts if isinstance(part, ReasoningPart)])


def calls_of(message: Message | None) -> tuple[ToolPart, ...]:
    """Return the calls to tools in an answer."""
    return () if message is None else tuple(part for part in message.parts if isinstance(part, ToolPart))


def summed(usages: Iterable[Usage | None]) -> Usage:
    """Return the usage of several calls together; what none of them says is None."""
    total = Usage(requests=0)
    for usage in usages:
        total = total if usage is None else total + usage
    return total


def counted(usage: Usage | None) -> Values | None:
    """Return a usage as chunks tell it: a mapping of what is known."""
    if usage is None:
        return None
    names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "requests")
    known = {name: getattr(usage, name) for name in names if getattr(usage, name) is not None}
    return FrozenDict({**known, **({"details": usage.details} if usage.details else {})})


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What the provider says about the last answer.

    Attributes:
        id: the answer's id.
        model: the model that gave it, by the provider's name.
        created: when, in seconds since 1970.
        metadata: all that it says.
        messages: what the request added to the conversation, as the guards left it.
    """

    id: str | None = None
    model: str | None = None
    created: float | None = None
    metadata: Values = EMPTY
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentResult(Generic[T]):
    """What came of a request. Of a blocked one, what was blocked is nowhere in it.

    Attributes:
        text: what the model said in all accepted steps, one after the other, as the guards left it.
        object: the object that was asked for with ``output_type``; None if there is none.
        tripwire: the verdict that stopped the run, if one did.
        status: ``success``, ``suspended`` (calls wait for the caller), ``blocked``, ``cancelled``, or ``failed``.
        finish_reason: why the last step ended; ``other`` if blocked, ``aborted`` if cancelled, ``error`` if failed.
        steps: every attempt of the model, rejected ones included.
        usage: the tokens of all attempts.
        message_list: the conversation as it ended, system messages included.
        response: what the provider says about the last answer, and the messages that are new.
        pending: calls that nobody has answered: to tools of the caller's own side, or waiting for approval.
        facts: what the steps of the workflow found out, by key.
        records: what the steps did, if the request was made with ``records=True``.
        spent: what models took, judges included.
        run_id: the run's id.
        error: what the run failed with; only a stream that was read tells it, `Agent.generate` raises it.
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
    facts: Facts = field(default_factory=dict["AnyKey", "Value"], repr=False)
    records: tuple[Record, ...] = field(default=(), repr=False)
    spent: tuple[UsageEntry, ...] = field(default=(), repr=False)
    run_id: str = ""
    error: Exception | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, without system messages."""
        return self.message_list.all

    @property
    def blocked(self) -> bool:
        """Whether a verdict stopped the run."""
        return self.tripwire is not None

    def answered(self, results: Mapping[str, Value]) -> tuple[Message, ...]:
        """Return the conversation with results for calls that wait: what to ask the agent next.

        Args:
            results: JSON values by the ids of the calls, see ``pending``.

        Raises:
            UsageError: no call of that id waits.
            MessageError: a result is no JSON value.
        """
        waiting = {call.call_id for call in self.pending}
        unknown = sorted(set(results) - waiting)
        if unknown:
            known = ", ".join(sorted(waiting)) or "none"
            raise UsageError(f"no call {', '.join(unknown)} waits for a result; those that do: {known}")
        read = {id: json_value(result, id) for id, result in results.items()}
        return tuple([_answered(message, read) for message in self.messages])

    def unwrap(self) -> AgentResult[T]:
        """Return the result itself, or raise.

        Raises:
            BlockedError: it is blocked.
        """
        if self.tripwire is not None:
            raise BlockedError(self.tripwire)
        return self

    def __repr__(self) -> str:
        """Show how it ended; never a text."""
        verdict = f", blocked by {self.tripwire.processor_id!r}" if self.tripwire is not None else ""
        return f"AgentResult({self.status}, {len(self.steps)} steps, finish_reason={self.finish_reason!r}{verdict})"


def _answered(message: Message, results: Mapping[str, Value]) -> Message:
    """Return a message with results for its open calls."""
    parts = tuple(
        replace(part, state="result", result=results[part.call_id])
        if isinstance(part, ToolPart) and part.state == "call" and part.call_id in results
        else part
        for part in message.parts
    )
    return message if parts == message.parts else message.with_parts(parts)
