"""`WaitingRun`: the view of a suspended run for people: its calls and the decisions about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.errors import ReviewError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.stored import RunStatus, StoredRun

VERSION = 1
"""The version of the stored body that this Penstock writes."""

HAS_RULE = "has_rule"
"""The field of a stored body that says that its application has a rule about who may decide."""

Kind = Literal["approval", "result", "question", "run"]
"""What is waited for: approval of a call, its result from whoever runs the tool, the answer to a step's question, or
the decisions about the run of an agent that the call runs."""

Verdict = Literal["approve", "reject", "answer"]


@dataclass(frozen=True, slots=True)
class CallDecision:
    """The decision of a person, or a program, about a call.

    Attributes:
        verdict: ``approve``, ``reject`` or ``answer``.
        value: the result of the call, for ``answer``.
        arguments: other arguments for an approved call, which are judged again; None: those that were shown.
        reason: why it was rejected, for the model.
        by: who decided.
        at: when, as ISO text in UTC.
        digest: the digest of the call that was shown; a decision counts for no other one.
    """

    verdict: Verdict
    value: Value = None
    arguments: Value = None
    reason: str = ""
    by: str = ""
    at: str = ""
    digest: str = ""

    def dumped(self) -> Values:
        """Return it as JSON values; fields that are empty are left out."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return FrozenDict({name: value for name, value in fields.items() if value not in (None, "") or name == "value"})


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call of a tool that a suspended run waits for, or a question of a step.

    Attributes:
        call_id: the id of the call, or of the question.
        tool: the name of the tool, or of the processor that asks.
        arguments: its arguments, as the guards left them; of a question, the values to show.
        kind: ``approval``, ``result`` (the application runs the tool itself), ``question``, or ``run`` (the tool is an
            agent, whose run waits; decide about that one).
        digest: a hash of the tool's definition, the arguments and the policy; see `CallDecision.digest`.
        decision: the decision, or None.
        reason: why a step asks; empty for a call.
        schema: the JSON Schema of the answer; None: any JSON value, or a call.
        inner: the id of the run that is waited for, for ``run``; else empty.
    """

    call_id: str
    tool: str
    arguments: Value
    kind: Kind = "approval"
    digest: str = ""
    decision: CallDecision | None = None
    reason: str = ""
    schema: Values | None = None
    inner: str = ""

    def dumped(self) -> Values:
        """Return it as JSON values, without its decision."""
        names = ("call_id", "tool", "arguments", "kind", "digest")
        asked = {"reason": self.reason, "schema": self.schema} if self.kind == "question" else {}
        if self.kind == "run":
            asked = {"inner": self.inner}
        return FrozenDict({**{name: getattr(self, name) for name in names}, **asked})


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A suspended run as people see it, without anything that guards hid.

    Attributes:
        run_id: the id of the run.
        agent: the name of the agent.
        status: ``waiting``, ``running`` (a process goes on with it) or ``ended``.
        calls: the calls that it waits for, or did.
        thread_id: the thread of the request, or None.
        resource_id: the owner of the thread, or None.
        question: the last message of the user, as the guards left it; empty if there is none.
        text: the text of the answer with the calls.
        created_at: when it was first suspended.
        due_at: when its calls expire; while it runs, when another process may take it over.
        version: counts its changes.
        has_rule: whether its application has a rule about who may decide (``Reviews(may_decide=…)``).
    """

    run_id: str
    agent: str
    status: RunStatus
    calls: tuple[WaitingCall, ...]
    thread_id: str | None = None
    resource_id: str | None = None
    question: str = ""
    text: str = ""
    created_at: datetime | None = None
    due_at: datetime | None = None
    version: int = 0
    has_rule: bool = False

    @property
    def undecided(self) -> tuple[WaitingCall, ...]:
        """The calls without a decision."""
        return tuple(call for call in self.calls if call.decision is None)

    def to_json(self) -> dict[str, Value]:
        """Return it as JSON values: texts, calls with their decisions, times as ISO text."""
        calls = [
            {**call.dumped(), "decision": None if call.decision is None else call.decision.dumped()}
            for call in self.calls
        ]
        times = {"created_at": self.created_at, "due_at": self.due_at}
        names = ("run_id", "agent", "status", "thread_id", "resource_id", "question", "text")
        return {
            **{name: getattr(self, name) for name in names},
            **{name: None if at is None else at.isoformat() for name, at in times.items()},
            "calls": thaw(freeze(calls)),
        }

    def call(self, call_id: str) -> WaitingCall:
        """Return a call.

        Raises:
            ReviewError: the run waits for no such call.
        """
        found = next((call for call in self.calls if call.call_id == call_id), None)
        if found is None:
            known = ", ".join(call.call_id for call in self.calls) or "none"
            raise ReviewError(self.run_id, f"it waits for no call {call_id!r}; it waits for: {known}")
        return found


def waiting_run(stored: StoredRun) -> WaitingRun:
    """Return the view of a stored run for people.

    Raises:
        ReviewError: another version of Penstock has stored it.
    """
    body = checked(stored)
    decisions: Values = body.get("decisions", EMPTY)
    calls = tuple(
        WaitingCall(
            **call, decision=CallDecision(**decisions[call["call_id"]]) if call["call_id"] in decisions else None
        )
        for call in body.get("waiting", ())
    )
    return WaitingRun(
        stored.id,
        stored.agent,
        stored.status,
        calls,
        stored.thread_id,
        stored.resource_id,
        body.get("question", ""),
        body.get("text", ""),
        stored.created_at,
        stored.due_at,
        stored.version,
        bool(body.get(HAS_RULE)),
    )


def kept_rule(before: Values) -> Values:
    """Return the field of a stored body that stays when another one takes its place: that there is a rule."""
    return FrozenDict({HAS_RULE: True} if before.get(HAS_RULE) else {})


def checked(stored: StoredRun) -> Values:
    """Return the body of a stored run.

    Raises:
        ReviewError: another version of Penstock has stored it.
    """
    if stored.body.get("version") != VERSION:
        raise ReviewError(stored.id, f"it was stored in version {stored.body.get('version')!r}; this is {VERSION}")
    return stored.body


def call_digest(tool: str, arguments: Value, policy: str) -> str:
    """Return the digest that binds a decision to a call: 64 hexadecimal digits.

    Args:
        tool: the hash of the tool's definition; see `penstock.processors.tools.pins.definition_hash`.
        arguments: the arguments, a JSON value.
        policy: the fingerprint of the agent's processors and tools.
    """
    written = json.dumps([tool, thaw(freeze(arguments)), policy], sort_keys=True, ensure_ascii=False)
    return sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
