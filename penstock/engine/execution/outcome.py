"""`Outcome`: the result of one call of a stage; and `ModelOutcome`, the result of `Run.call_model`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypeVar

from penstock.engine.processor.questions import SuspendedPayload
from penstock.engine.tracing.span_log import known_log
from penstock.engine.values.chunks import notices
from penstock.engine.values.errors import UsageError
from penstock.engine.values.tripwire import BlockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.processor.payload import Payload, Retry
    from penstock.engine.processor.state import StageCall
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.facts import Facts, Key
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.questions import PendingQuestion
    from penstock.engine.values.tripwire import Record, Tripwire

T = TypeVar("T", default=Any)

GetRecords: TypeAlias = "Callable[[], tuple[Record, ...]]"
"""Gives the records of a stage. They are made when somebody asks for them."""


def no_records() -> tuple[Record, ...]:
    """Return the records of a stage in which nothing ran."""
    return ()


class Outcome:
    """The result of one call of a stage. If it is blocked, text and messages are empty.

    Attributes:
        tripwire: the verdict, if one stopped the run (or, with ``retry_granted``, only this attempt).
        retry_granted: whether the budget of the run allows the retry that the tripwire, or `Retry`, asks for.
    """

    __slots__ = (
        "_after_verdict",
        "_call",
        "_edited",
        "_get_records",
        "_payload",
        "_records",
        "_released",
        "_taken_back",
        "_trace",
        "retry_granted",
        "tripwire",
    )

    def __init__(
        self,
        call: StageCall,
        payload: Payload,
        records: GetRecords = no_records,
        retry_granted: bool = False,  # noqa: FBT001, FBT002 - a field, no switch
        *,
        edited: bool = False,
    ) -> None:
        self.tripwire: Tripwire | None = payload.tripwire
        self.retry_granted = retry_granted
        self._call = call
        self._edited = edited
        self._payload = payload
        self._get_records = records
        self._records: tuple[Record, ...] | None = None
        self._taken_back: Sequence[str] = ()
        self._released: tuple[Chunk, ...] = ()
        self._after_verdict = False
        self._trace: Trace | None = None  # only in a copy

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Pickle and copy it with the records and the finished trace: the log that they are made of stays here."""
        state: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        state["_get_records"], state["_records"] = no_records, self.records
        spans = self._call.run.spans
        if spans is not None:
            state["_call"] = self._call.without_log()
            state["_trace"] = self.trace if spans.keeps else None
        return None, state

    @property
    def stage(self) -> str:
        """The stage's name."""
        return self._call.stage.name

    @property
    def failure(self) -> Exception | None:
        """The error of the step, if its failure became the verdict; else None."""
        return self._payload.failure

    @property
    def blocked(self) -> bool:
        """Whether a verdict stopped this stage."""
        return self.tripwire is not None

    @property
    def suspended(self) -> bool:
        """Whether the stage waits for persons: answer its `questions` by `Run.resume_stage`."""
        return self.tripwire is None and isinstance(self._payload, SuspendedPayload)

    @property
    def questions(self) -> tuple[PendingQuestion, ...]:
        """What persons are asked, in the declared order of the steps; none unless the stage is `suspended`."""
        payload = self._payload
        return payload.questions if isinstance(payload, SuspendedPayload) and self.tripwire is None else ()

    @property
    def finished(self) -> tuple[str, ...]:
        """The paths of the steps of a suspended stage that need not run again; pass it to `Run.resume_stage`.

        These are the steps that ran to their end and those in arms that were not taken. Behind them stand the ways that
        branches and dags have taken, ``<path>//<number or id>``. It is empty unless the stage is `suspended`.
        """
        payload = self._payload
        return payload.done if isinstance(payload, SuspendedPayload) and self.tripwire is None else ()

    @property
    def fresh(self) -> frozenset[str]:
        """The ids of the messages that came with this call of the stage."""
        return self._call.fresh

    @property
    def message_list(self) -> MessageList:
        """The conversation after the stage; if it is blocked, the one before the stage."""
        return self._payload.message_list

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the stage, as edited; none if blocked."""
        return () if self.blocked else self._call.stage.shows(self._payload.message_list)

    @property
    def text(self) -> str:
        """The text of the stage, as edited; empty if blocked."""
        return "" if self.blocked else self._call.stage.text(self._payload, self._call)

    @property
    def details(self) -> Values:
        """The details that hooks got for this call, read-only: ``finish_reason``, ``usage``, ``steps`` and others."""
        return self._call.info

    @property
    def facts(self) -> Facts:
        """The facts after the stage, by key; if it is blocked, those before the stage."""
        return self._payload.facts

    def fact(self, key: Key[T]) -> T | None:
        """Return the fact stored under the key, or None."""
        found: T | None = self._payload.facts.get(key)
        return found

    @property
    def overrides(self) -> Values:
        """Model, tools, settings … by name, as `process_input_step` left them; empty if blocked."""
        return {} if self.blocked else self._payload.fields

    @property
    def answer(self) -> Value:
        """The value that replaces the model call or the tool; None if nothing does.

        If `asks`, it is the result of the tool where nobody can be asked.
        """
        return self.overrides.get("question" if self.asks else "answer")

    @property
    def asks(self) -> bool:
        """Whether a person is to be asked about the tool call: a step asked (`Answer.asks`), and no other answered."""
        return "question" in self.overrides and "answer" not in self.overrides

    @property
    def answered(self) -> bool:
        """Whether a step gave an answer in place of the model call or the tool, be it a question."""
        return "answer" in self.overrides or self.asks

    @property
    def arguments(self) -> Value:
        """The tool call's arguments, as edited."""
        return self.overrides.get("arguments")

    @property
    def result(self) -> Value:
        """The tool's result, as edited."""
        return self.overrides.get("result")

    @property
    def retry(self) -> Retry | None:
        """The retry that `process_api_error` asks for, if the budget allows it."""
        return self.overrides.get("retry") if self.retry_granted else None

    @property
    def data(self) -> tuple[Chunk, ...]:
        """The data chunks that hooks wrote, in order."""
        return self._payload.data

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks to send to a streaming client now.

        If the stage passed, these are the chunks that were held for it. If it is blocked: one ``tripwire`` chunk, or
        before another attempt one ``step-finish`` with the reason ``retry``. If text of the answer was already sent, a
        ``retract`` chunk with its ids comes first. There are none if the run was stopped before the stage was called.
        """
        if self.tripwire is None or self._after_verdict:
            return self._released
        return notices(self.tripwire, self._call.run.run_id, self._taken_back, retry=self.retry_granted)

    @property
    def taken_back(self) -> Sequence[str]:
        """The ids of texts that were sent and then rejected. A client must remove them."""
        return self._taken_back

    def with_stream(self, out: Sequence[str], released: tuple[Chunk, ...] = ()) -> Outcome:
        """Set the ids of texts to take back and the chunks to send now; return the outcome."""
        self._taken_back, self._released = out, released
        return self

    def after_verdict(self) -> Outcome:
        """Mark it as the outcome of a stage that was called after the run was stopped; return the outcome."""
        self._after_verdict = True
        return self

    @property
    def records(self) -> tuple[Record, ...]:
        """The record of each step; empty unless the run was started with ``records=True``."""
        if self._records is None:
            self._records = self._get_records()
        return self._records

    @property
    def trace(self) -> Trace:
        """The stage's trace as data: its steps, branches and attempts, with their time and result.

        Raises:
            UsageError: the run was started without ``records=True``.
        """
        if self._trace is not None:
            return self._trace
        spans = known_log(self._call.run.spans)
        return spans.trace(self._call.span or spans.root, self.tripwire)

    def with_records(self, records: GetRecords) -> Outcome:
        """Set what gives the records; return the outcome."""
        self._get_records = records
        return self

    def unwrap(self) -> Outcome:
        """Return the outcome itself, or raise.

        Raises:
            BlockedError: it is blocked; the error of a failed step is the ``__cause__``.
            UsageError: it is suspended.
        """
        if self.tripwire is not None:
            raise BlockedError(self.tripwire) from self.failure
        if self.suspended:
            raise UsageError(f"{self.stage} waits for a person; pass the answers to run.resume_stage(...)")
        return self

    def __bool__(self) -> bool:
        """Refuse a truth value, which would be ambiguous.

        Raises:
            UsageError: always.
        """
        raise UsageError("an outcome has no truth value; use outcome.blocked")

    def __repr__(self) -> str:
        """Show how it ended, without any text."""
        how = "edited" if self._edited else "passed"
        if self.tripwire is not None:
            who = repr(self.tripwire.processor_id)
            how = f"blocked: {who} failed" if self.failure is not None else f"blocked by {who}"
        elif self.suspended:
            how = f"suspended by {', '.join(repr(one.processor_id) for one in self.questions)}"
        return f"Outcome({self.stage}, {how})"


class ModelOutcome(Generic[T]):
    """The result of `Run.call_model`: the model's value, or the verdict of a check that ran beside the call.

    Attributes:
        value: the value of the model call; None if blocked.
        outcome: the outcome of the checks; None if there were none.
    """

    __slots__ = ("outcome", "value")

    def __init__(self, value: T | None, outcome: Outcome | None) -> None:
        self.value = value
        self.outcome = outcome

    @property
    def blocked(self) -> bool:
        """Whether a check stopped the run."""
        return self.outcome is not None and self.outcome.blocked

    @property
    def tripwire(self) -> Tripwire | None:
        """The verdict, if there is one."""
        return None if self.outcome is None else self.outcome.tripwire

    def unwrap(self) -> T:
        """Return the value, or raise.

        Raises:
            BlockedError: a check stopped the run.
        """
        if self.outcome is not None:
            self.outcome.unwrap()
        return self.value  # type: ignore[return-value]
