"""A suspended request: stored when it waits for people, and taken up again by any process that has the agent.

A `Checkpoint` is the stored form of one request. It is stored when the request is suspended; when it goes on, before
its tools run, after each of them, and after each step. Another process that takes it over then begins where it stood.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.errors import ReviewError, StorageConflictError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw
from penstock.engine.values.messages import ToolPart
from penstock.engine.values.stored import StoredRun
from penstock.engine.values.tripwire import Tripwire
from penstock.engine.values.usage import UsageEntry
from penstock.models.conversations import call_key
from penstock.processors.memory import VAULT
from penstock.processors.tools.pins import definition_hash
from penstock.tools.context import ToolError
from penstock.workflows.agent.approvals import thread_of
from penstock.workflows.agent.results import StepResult
from penstock.workflows.review.stored_run import (
    dump_run,
    dump_usage,
    dump_verdict,
    load_usage,
    load_verdict,
    redactor_of,
    restore_run,
)
from penstock.workflows.review.waiting import VERSION, CallDecision, Kind, WaitingCall, call_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.review.reviews import Reviews

Phase = Literal["input", "tools", "step", "end"]
"""What comes next: the answers about the input, calls of the last answer, another step, or the end."""

_REPEATED = ("retry", "error")
"""The finish reasons of attempts that were made again."""

_INTERRUPTED = "the process that ran it ended, and whether it did its work is unknown; do not assume either"
_UNANSWERED = "a person was asked about the input, and nobody answered in time"
_EXPIRED = "nobody decided about this call in time, so it did not run; that is no refusal"


def agent_fingerprint(drawing: str, tools: Mapping[str, Tool]) -> str:
    """Return a hash of an agent's processors and tools: 64 hexadecimal digits.

    Args:
        drawing: the processors with their options, drawn as JSON.
        tools: the tools by name.
    """
    pins = sorted((name, definition_hash(name, tool)) for name, tool in tools.items())
    return sha256(json.dumps([drawing, pins]).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class KnownCalls:
    """The decisions, results and problems of open calls when a request goes on.

    Attributes:
        decided: the calls that a person approved or rejected, as they are to run, by their ids.
        known: results that the application gave, or why a call does not run, by the ids of calls.
    """

    decided: Mapping[str, ToolPart]
    known: Mapping[str, tuple[Value, ToolError | None]]


class Checkpoint:
    """The stored form of one request. Lives as long as the request.

    Args:
        reviews: where it is stored.
        agent: the name of the agent.
        policy: makes the fingerprint of its processors and tools, when it is needed.
        stored: the form that is stored by now; None: none is.

    Attributes:
        earlier_spent: the usage entries of the processes before.
    """

    def __init__(
        self, reviews: Reviews, agent: str, policy: Callable[[], str], stored: StoredRun | None = None
    ) -> None:
        self._reviews = reviews
        self._agent = agent
        self._make_policy = policy
        self._stored = stored
        self._begun: frozenset[str] = frozenset()  # the calls whose tools have begun
        self.earlier_spent = _load_spent(self._body)

    @cached_property
    def _policy(self) -> str:
        return self._make_policy()

    @property
    def goes_on(self) -> bool:
        """Whether the request was suspended before, and goes on in this process."""
        return self._stored is not None

    @property
    def changed(self) -> bool:
        """Whether the agent has other processors or tools than when the request was suspended."""
        return self.goes_on and self._body["policy"] != self._policy

    @property
    def phase(self) -> Phase:
        """The next part of the request."""
        return cast("Phase", self._body["phase"])

    @property
    def _body(self) -> Values:
        return EMPTY if self._stored is None else self._stored.body

    # Going on

    def restore(self, run: Run, progress: RequestProgress, begin: MessageList) -> None:
        """Let a new run and its progress stand where the request stood; ``begin``: see `restore_run`.

        Raises:
            ReviewError: the agent has other processors or tools by now, which `Reviews` refuses.
        """
        if self.changed and self._reviews.on_change == "refuse":
            raise ReviewError(
                run.run_id,
                "the agent has other processors or tools than when it was suspended; go on with the old ones, or set "
                "Reviews(on_change='judge again' or 'keep')",
            )
        said = self._body["progress"]
        vault = self._reviews.vaults.get(run.run_id)
        restore_run(run, self._body["run"], begin, last_answer=said["pending_in"], vault=vault)
        for step in said["steps"]:
            progress.steps.append(_load_step(step))
        accepted = [step for step in progress.steps if step.tripwire is None and step.finish_reason not in _REPEATED]
        progress.accepted = len(accepted)
        progress.finish_reason = accepted[-1].finish_reason if accepted else None
        progress.pending_in = said["pending_in"]

    def known_calls(self, calls: Iterable[ToolPart], tools: Mapping[str, Tool]) -> KnownCalls:
        """Return the decisions, results and problems of the open calls of the last answer."""
        body = self._body
        decisions = {id: CallDecision(**said) for id, said in body.get("decisions", EMPTY).items()}
        decided: dict[str, ToolPart] = {}
        known: dict[str, tuple[Value, ToolError | None]] = {}
        for call in calls:
            tool, made = tools.get(call.name), decisions.get(call.call_id)
            if call.call_id in body.get("begun", ()) and not (tool is not None and tool.repeatable):
                known[call.call_id] = None, ToolError(call.name, "interrupted", _INTERRUPTED)
            elif call.call_id in body.get("expired", ()):
                known[call.call_id] = None, ToolError(call.name, "expired", _EXPIRED)
            elif made is not None and made.verdict == "answer":
                known[call.call_id] = made.value, None
            elif made is not None and (made.verdict == "reject" or made.digest == self._digest(call, tool)):
                decided[call.call_id] = _decided(call, made)
        return KnownCalls(decided, known)

    def hiding(self, run: Run) -> Callable[[Value], Value]:
        """Return a function that hides the values of a run that were put back, as people see its calls."""
        return redactor_of(run)

    async def counts(self, run: Run, call: ToolPart) -> bool:
        """Return whether an approval that comes with messages counts: in one request, over all processes."""
        hidden = replace(call, arguments=redactor_of(run)(thaw(call.arguments)))
        return await self._reviews.take(_key(thread_of(run), hidden), run.run_id)

    @property
    def asked(self) -> Values:
        """The names of the steps that are finished in the stage that asks, and the ids of its new messages."""
        return cast("Values", self._body["asked"])

    @property
    def answers(self) -> Values:
        """The answers of persons by the ids of their questions."""
        given = {id: _answer_of(CallDecision(**said)) for id, said in self._body.get("decisions", EMPTY).items()}
        return FrozenDict({**self._body["asked"]["answers"], **given})

    @property
    def expired(self) -> Tripwire | None:
        """The verdict on a request of which a question was not answered in time; None if all were."""
        if not self._body.get("expired"):
            return None
        asked = next(one for one in self._body["waiting"] if one["call_id"] in self._body["expired"])
        return Tripwire(_UNANSWERED, asked["tool"], "process_input", metadata={"suspended": True, "expired": True})

    # Storing

    async def ask(self, run: Run, progress: RequestProgress, outcome: Outcome) -> None:
        """Store a request whose input waits for answers of persons.

        Raises:
            StorageError: the store failed, or another process has taken the request over.
        """
        earlier = self.answers if "asked" in self._body else EMPTY
        waiting = [
            WaitingCall(
                one.id,
                one.processor_id,
                one.shown,
                "question",
                call_digest(one.id, [one.reason, one.schema, one.shown], self._policy),
                reason=one.reason,
                schema=one.schema,
            )
            for one in outcome.questions
        ]
        self._reviews.vaults.put(run.run_id, run.facts.get(VAULT))
        hide = redactor_of(run)
        asked = {"finished": outcome.finished, "fresh": sorted(outcome.fresh), "answers": earlier}
        body = self._dumped(run, progress, "input", begun=())
        shown = {"waiting": [call.dumped() for call in waiting], "question": outcome.text, "text": ""}
        made = FrozenDict({**body, **self._earlier(), "asked": freeze(asked), **freeze(hide(thaw(freeze(shown))))})
        times = [one.expires_in for one in outcome.questions if one.expires_in is not None]
        self._stored = await self._reviews.suspend(self._made(run, made), expires_in=min(times, default=None))

    async def suspend(self, run: Run, progress: RequestProgress, tools: Mapping[str, Tool]) -> None:
        """Store a request that waits for decisions about its calls.

        Raises:
            StorageError: the store failed, or another process has taken the request over.
        """
        self._reviews.vaults.put(run.run_id, run.facts.get(VAULT))
        hide = redactor_of(run)
        waiting = [self._waiting(call, tools, hide(call.arguments)) for call in progress.pending]
        body = self._dumped(run, progress, "tools", begun=())
        asked = next((one.text for one in reversed(run.message_list.input) if one.role == "user"), "")
        answer = run.message_list.get(progress.pending_in)
        shown = hide({"question": asked, "text": "" if answer is None else answer.text})
        made = FrozenDict({**body, **freeze(shown), "waiting": tuple(call.dumped() for call in waiting)})
        keys = [
            _key(thread_of(run), replace(call, arguments=shown.arguments))
            for call, shown in zip(progress.pending, waiting, strict=True)
            if shown.kind == "approval"
        ]
        earlier = self._earlier()
        notes = (*earlier["notes"], *keys)
        self._stored = await self._reviews.suspend(self._made(run, FrozenDict({**made, **earlier, "notes": notes})))
        for key in keys:
            await self._reviews.note_asked(key, self._stored)

    def _earlier(self) -> Values:
        """Return the record of the decisions before the calls and questions that are stored now."""
        body = self._body
        made = body.get("decisions", EMPTY)
        decided = tuple(
            FrozenDict({**one, "decision": made[one["call_id"]]})
            for one in body.get("waiting", ())
            if one["call_id"] in made
        )
        return FrozenDict(earlier=(*body.get("earlier", ()), *decided), notes=body.get("notes", ()))

    async def begin(self, run: Run, progress: RequestProgress, calls: Iterable[str]) -> None:
        """Store that the tools of these calls begin, unless the request never was suspended."""
        if self._stored is not None:
            await self._renew(run, progress, "tools", begun=sorted({*self._begun, *calls}))

    async def save(self, run: Run, progress: RequestProgress, phase: Phase) -> None:
        """Store how far the request has come, unless it never was suspended."""
        if self._stored is not None:
            await self._renew(run, progress, phase, begun=sorted(self._begun) if phase == "tools" else ())

    async def end(self) -> None:
        """Store that the request has ended, unless it never was suspended."""
        if self._stored is not None and self._stored.status == "running":
            self._reviews.vaults.forget(self._stored.id)
            self._stored = await self._reviews.end(self._stored)

    async def give_back(self) -> None:
        """Let others take the request up again where it stood last, since it failed here; unless others have it."""
        if self._stored is not None and self._stored.status == "running":
            with suppress(StorageConflictError):
                self._stored = await self._reviews.release(self._stored)

    async def _renew(self, run: Run, progress: RequestProgress, phase: Phase, *, begun: Sequence[str]) -> None:
        """Store how far the request has come.

        If the end of the request has yet to judge its answers, they are not stored before: only the calls that begin
        are noted, and a process that takes the request over begins where it was suspended.
        """
        if run.releases == "result":
            begun = sorted({*self._body["begun"], *begun})
            body = FrozenDict({**self._body, "begun": tuple(begun)})
        else:
            body = FrozenDict({**self._body, **self._dumped(run, progress, phase, begun=begun)})
        try:
            self._stored = await self._reviews.renew(self._made(run, body))
        except StorageConflictError as error:
            raise ReviewError(run.run_id, "another process has taken it over, so it does not go on here") from error
        self._begun = frozenset(begun)

    def _dumped(self, run: Run, progress: RequestProgress, phase: Phase, *, begun: Sequence[str]) -> Values:
        hide = redactor_of(run)
        spent = [
            {"model": one.model, "usage": dump_usage(one.usage), "by": one.by, "attempts": one.attempts}
            for one in (*self.earlier_spent, *run.spent)
        ]
        said = {
            "steps": [_dump_step(step) for step in progress.steps],
            "pending_in": progress.pending_in,
        }
        return FrozenDict(
            version=VERSION,
            policy=self._policy,
            phase=phase,
            run=dump_run(run),
            progress=cast("Values", freeze(hide(said))),
            begun=tuple(begun),
            spent=freeze(spent),
        )

    def _made(self, run: Run, body: Values) -> StoredRun:
        if self._stored is not None:
            return replace(self._stored, body=body)
        owner = run.request_context.get("resource_id")
        return StoredRun(
            run.run_id,
            self._agent,
            body=body,
            thread_id=thread_of(run),
            resource_id=None if owner is None else str(owner),
        )

    def _waiting(self, call: ToolPart, tools: Mapping[str, Tool], arguments: Value) -> WaitingCall:
        shown = replace(call, arguments=arguments)
        kind: Kind = "approval" if call.approval == "requested" else "result"
        return WaitingCall(call.call_id, call.name, arguments, kind, self._digest(shown, tools.get(call.name)))

    def _digest(self, call: ToolPart, tool: Tool | None) -> str:
        return call_digest("" if tool is None else definition_hash(call.name, tool), call.arguments, self._policy)


def _load_spent(body: Values) -> tuple[UsageEntry, ...]:
    stored = body.get("spent", ())
    return tuple(UsageEntry(one["model"], load_usage(one["usage"]), one["by"], one["attempts"]) for one in stored)


def _answer_of(made: CallDecision) -> Value:
    """Return a decision about a question as the answer that the step gets."""
    if made.verdict == "answer":
        return made.value
    reason = {"reason": made.reason} if made.reason else {}
    return FrozenDict({"decision": made.verdict, **reason})


def _key(thread: str | None, call: ToolPart) -> str:
    """Return the key of a call for `Reviews.note_asked`."""
    return call_digest(call.name, [thread, call_key(call), thaw(call.arguments)], "")


def _decided(call: ToolPart, made: CallDecision) -> ToolPart:
    """Return a call with the decision about it."""
    if made.verdict == "reject":
        return replace(call, approval="rejected", error=made.reason or None)
    return replace(call, approval="approved", arguments=call.arguments if made.arguments is None else made.arguments)


def _dump_step(step: StepResult) -> dict[str, Value]:
    """Return a step as JSON values. Its texts and calls are those of its message; a rejected one has only names."""
    return {
        "number": step.number,
        "finish_reason": step.finish_reason,
        "usage": dump_usage(step.usage),
        "tripwire": dump_verdict(step.tripwire),
        "model": step.model,
        "message_id": step.message_id,
        "metadata": dict(step.metadata),
        "from_cache": step.from_cache,
        "called": [] if step.message_id else [call.name for call in step.tool_calls],
    }


def _load_step(stored: Values) -> StepResult:
    given = {
        name: stored[name] for name in ("number", "finish_reason", "model", "message_id", "metadata", "from_cache")
    }
    called = tuple(ToolPart("", name) for name in stored["called"])
    verdict = load_verdict(stored["tripwire"])
    return StepResult(**given, usage=load_usage(stored["usage"]), tripwire=verdict, tool_calls=called)
