"""A suspended request: stored when it waits for people, and taken up again by any process that has the agent.

A `Checkpoint` is the stored form of one request. It is stored when the request is suspended; when it goes on, before
its tools run, after each of them, and after each step. Another process that takes it over then begins where it stood.
With ``Reviews(from_start=True)`` it is stored in the same way from the verdict on its input.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, cast

import anyio

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import ReviewError, StorageConflictError, StorageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.engine.values.questions import PendingQuestion
from penstock.engine.values.stored import StoredRun
from penstock.engine.values.tripwire import Tripwire
from penstock.engine.values.usage import UsageEntry, usage_payload
from penstock.models.conversations import call_key
from penstock.processors.memory import VAULT
from penstock.processors.tools.pins import definition_hash
from penstock.tools.context import ToolError
from penstock.workflows.agent.answers import answers_of
from penstock.workflows.agent.approvals import thread_of
from penstock.workflows.agent.late_guards import read_unreleased
from penstock.workflows.agent.nested import OuterRequest, inner_agent, inner_run_id, may_wait
from penstock.workflows.agent.planned_calls import PlannedCall, dump_plan, load_plan
from penstock.workflows.agent.questions import LateRead, StoredStage
from penstock.workflows.agent.results import StepResult
from penstock.workflows.review.reviews import CLAIM, RELEASED
from penstock.workflows.review.run_record import RunRecord
from penstock.workflows.review.stored_run import (
    dump_entries,
    dump_message,
    dump_run,
    dump_usage,
    dump_verdict,
    load_entries,
    load_message,
    load_usage,
    load_verdict,
    redactor_of,
    restore_run,
)
from penstock.workflows.review.waiting import VERSION, CallDecision, Kind, WaitingCall, call_digest, kept_rule

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.agent.questions import AskedStage
    from penstock.workflows.review.reviews import Reviews

Phase = Literal["input", "prompt", "request", "answer", "calls", "tools", "step", "end", "result"]
"""What comes next. ``tools``: calls of the last answer. ``step``: another step. ``end``: the last stage. The others are
stages that wait for persons: about the input, the messages of a step, its prompt, its answer, its calls, or the end."""

_PHASES: Mapping[str, Phase] = {
    "process_input": "input",
    "process_input_step": "prompt",
    "process_llm_request": "request",
    "process_llm_response": "answer",
    "process_output_step": "answer",
    "process_tool_call": "calls",
    "process_tool_result": "tools",
    "process_output_result": "result",
}

_STANDING = ("attempts", "retries_left", "errors_left", "feedback")
"""The budgets of a run, which `process_input` does not change."""

_REPEATED = ("retry", "error")
"""The finish reasons of attempts that were made again."""

_INTERRUPTED = "the process that ran it ended, and whether it did its work is unknown; do not assume either"
_UNANSWERED = "a person was asked, and nobody answered in time"
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
        nested: whether the request is a call of another agent, which has to get the result if a process ends.

    Attributes:
        earlier_spent: the usage entries of the processes before.
        record: the verdicts of the request so far.
    """

    def __init__(
        self,
        reviews: Reviews,
        agent: str,
        policy: Callable[[], str],
        stored: StoredRun | None = None,
        *,
        nested: bool = False,
    ) -> None:
        self._nested = nested
        self._reviews = reviews
        self._agent = agent
        self._make_policy = policy
        self._stored = stored
        self._begun = frozenset(self._body.get("begun", ()))  # the calls whose tools have begun, in any process
        self._where: tuple[str, bool] = "", False  # the id of the last answer, and whether it is open
        self._planned: Values = EMPTY  # what was decided about the calls of the last answer
        self.earlier_spent = _load_spent(self._body)
        self.record = RunRecord(self._body.get("record", EMPTY), self._store_record)
        self._storing = anyio.Lock()
        self._saving: StoredRun | None = None  # the run of a save of which nobody has heard yet
        self._for_agents = False  # whether it is stored only so that agents that are its tools may wait

    @cached_property
    def _policy(self) -> str:
        return self._make_policy()

    @property
    def reviews(self) -> Reviews:
        """Where it is stored."""
        return self._reviews

    def outer_request(self, run: Run) -> OuterRequest:
        """Return the request as agents that are its tools see it."""
        vault = run.facts.get(VAULT)
        return OuterRequest(self, FrozenDict() if vault is None else FrozenDict({VAULT: vault}))

    async def released(self, run_id: str) -> Values | None:
        """Return the ``text`` of a nested request that has ended, or why it was ``blocked``; None if there is none."""
        found = await self._reviews.store.run(run_id)
        return None if found is None else found.body.get(RELEASED)

    async def waits(self, run_id: str) -> tuple[PendingQuestion, ...] | None:
        """Return the questions of the run of an agent that still waits for people; None if it does not."""
        if not await self._reviews.undecided(run_id):
            return None
        found = (await self._reviews.run(run_id)).undecided
        return tuple(_asked_by(one) for one in found if one.kind == "question")

    async def inner_runs(self, run_id: str, calls: Iterable[ToolPart], tools: Mapping[str, Tool]) -> frozenset[str]:
        """Return the ids of the calls of agents that wait for people, or did, in an earlier process."""
        nested = [call.call_id for call in calls if inner_agent(tools.get(call.name)) is not None]
        store = self._reviews.store
        return frozenset([one for one in nested if await store.run(inner_run_id(run_id, one)) is not None])

    @property
    def goes_on(self) -> bool:
        """Whether the request was suspended before, and goes on in this process."""
        return self._stored is not None

    @property
    def claimed(self) -> bool:
        """Whether it is stored as a request that this process goes on with, or may be."""
        return self._saving is not None or (self._stored is not None and self._stored.status == "running")

    @property
    def _is_stored(self) -> bool:
        """Whether each part of the request that ends is stored."""
        return self._stored is not None or self._reviews.from_start

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

    def open(self, out: Emitter[Chunk]) -> None:
        """Tell the reviews where the request emits its chunks."""
        self._reviews.opened(out)

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
        body = self._body
        said, phase = body["progress"], self.phase
        self._planned = body.get("planned", EMPTY)
        vault = self._reviews.vaults.get(run.run_id)
        last = body["answer"].get("id", "") if phase == "answer" else "" if phase == "request" else said["pending_in"]
        answering = phase in ("request", "answer")
        restore_run(run, body["run"], begin, last_answer=last, answering=answering, vault=vault)
        self._where = last, answering
        for step in said["steps"]:
            progress.steps.append(load_step(step))
        accepted = [step for step in progress.steps if not is_repeated(step)]
        progress.accepted = len(accepted) - (phase == "calls")
        progress.finish_reason = accepted[-1].finish_reason if accepted else None
        progress.pending_in = said["pending_in"]
        if not self.changed:
            progress.read_late = LateRead(**body.get("read_late", EMPTY))
        self._hold_again(run, progress)

    def reopen(self, run: Run) -> None:
        """Let a restored run stand where it stood, after `process_input` has judged its conversation again."""
        last, answering = self._where
        standing = FrozenDict({**run.standing(), **{name: self._body["run"][name] for name in _STANDING}})
        run.restore(run.message_list, run.facts, standing, {}, last_answer=last, answering=answering)

    def _hold_again(self, run: Run, progress: RequestProgress) -> None:
        """Hold the accepted answers that the last stage has yet to judge, with the ends of their steps."""
        ends = {step.message_id: step for step in progress.steps}
        for id in self._body.get("held", ()):
            run.send_again(id, "result")
            step = ends.get(id)
            if step is not None and not (self.phase == "calls" and step is progress.steps.last):
                usage = usage_payload(step.usage)
                end: Values = FrozenDict(reason=step.finish_reason, is_continued=self.phase != "result", usage=usage)
                run.releasable([Chunk("step-finish", payload=end, run_id=run.run_id)])

    def known_calls(self, calls: Iterable[ToolPart], tools: Mapping[str, Tool]) -> KnownCalls:
        """Return the decisions, results and problems of the open calls of the last answer."""
        body = self._body
        decisions = {id: CallDecision(**said) for id, said in body.get("decisions", EMPTY).items()}
        decided: dict[str, ToolPart] = {}
        known: dict[str, tuple[Value, ToolError | None]] = {}
        calls = [*calls]
        stopped = self.interrupted(calls, tools)
        for call in calls:
            tool, made = tools.get(call.name), decisions.get(call.call_id)
            if call.call_id in stopped:
                known[call.call_id] = stopped[call.call_id]
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
        """Return whether a decision that comes with messages counts: an approval in one request, over all processes."""
        rejects = call.approval == "rejected"
        return await self._reviews.take(_asked_key(run, call), run.run_id, call.call_id, rejects=rejects)

    async def refuses(self, run: Run, call: ToolPart) -> bool:
        """Return whether a stored run waits for a call that only persons with names may decide about."""
        return await self._reviews.refuses(_asked_key(run, call), call.call_id)

    def asked(self, stage: str = "") -> tuple[StoredStage, ...]:
        """Return the stages that waited for persons; ``stage``: only those with that name.

        If the agent has changed, answers that were given before do not count. With ``judge again`` its steps that are
        finished run again, too.
        """
        body, changed = self._body, self.changed
        given = {id: _answer_of(CallDecision(**said)) for id, said in body.get("decisions", EMPTY).items()}
        anew = changed and self._reviews.on_change == "judge again"
        return tuple(
            StoredStage(
                one["stage"],
                EMPTY if changed else FrozenDict({**one["answers"], **given}),
                () if anew else one["finished"],
                one["fresh"],
                one["fields"],
                None if one["call"] is None else _load_call(one["call"]),
                None if one["prompt"] is None else load_entries(one["prompt"], MessageList()),
                self._expired,
            )
            for one in body.get("asked", ())
            if stage in ("", one["stage"])
        )

    @property
    def waiting_calls(self) -> frozenset[str]:
        """The ids of the calls that the request waits for."""
        return frozenset(one["call_id"] for one in self._body["waiting"] if one["kind"] != "question")

    def interrupted(
        self, calls: Iterable[ToolPart], tools: Mapping[str, Tool]
    ) -> Mapping[str, tuple[Value, ToolError]]:
        """Return why calls do not run again that had begun when another process ended, by their ids."""
        begun = self._body.get("begun", ())
        return {
            call.call_id: (None, ToolError(call.name, "interrupted", _INTERRUPTED))
            for call in calls
            if call.call_id in begun and not (call.name in tools and tools[call.name].repeatable)
        }

    def judged_calls(self) -> Mapping[str, StoredStage | Values]:
        """Return the verdicts of `process_tool_call` on calls, and the stages that waited, by the ids of the calls.

        If the agent has changed, the verdicts do not count.
        """
        judged = EMPTY if self.changed else self.open_answer["judged"]
        return {**judged, **{one.call.call_id: one for one in self.asked() if one.call is not None}}

    @property
    def open_answer(self) -> Values:
        """The answer that was not accepted yet, or whose calls were not judged yet; see `RequestProgress`."""
        return cast("Values", self._body["answer"])

    @property
    def _expired(self) -> Tripwire | None:
        """The verdict on a request of which a question was not answered in time; None if all were."""
        over = self._body.get("expired", ())
        asked = [one for one in self._body["waiting"] if one["call_id"] in over and one["kind"] == "question"]
        if not asked:
            return None
        stage = asked[0]["call_id"].split("/", 1)[0]
        return Tripwire(_UNANSWERED, asked[0]["tool"], stage, metadata={"suspended": True, "expired": True})

    # Storing

    async def suspend(self, run: Run, progress: RequestProgress, tools: Mapping[str, Tool]) -> None:
        """Store a request that waits for decisions about its calls, or for answers to its questions.

        Raises:
            StorageError: the store failed, or another process has taken the request over.
        """
        self._reviews.vaults.put(run.run_id, run.facts.get(VAULT))
        hide = redactor_of(run)
        waiting = [self._waiting(call, tools, hide(call.arguments)) for call in progress.pending]
        keys = [
            _key(thread_of(run), replace(call, arguments=shown.arguments))
            for call, shown in zip(progress.pending, waiting, strict=True)
            if shown.kind == "approval"
        ]
        questions = [question for one in progress.asked for question in one.outcome.questions]
        waiting += [self._question(one, hide) for one in questions]
        answer = run.message_list.get(progress.pending_in)
        for call in [] if answer is None else [one for one in answer.parts if isinstance(one, ToolPart)]:
            if call.call_id in progress.inner:
                inner = progress.inner[call.call_id].run_id
                waiting.append(WaitingCall(call.call_id, call.name, hide(call.arguments), "run", inner=inner))
        body = {
            **kept_rule(self._body),
            **self._dumped(run, progress, _phase_of(progress), begun=()),
            **self._shown(run, progress, hide),
            "waiting": tuple(call.dumped() for call in waiting),
            "asked": freeze(hide([_dump_asked(one) for one in progress.asked])),
            "answer": freeze(hide(_plain(progress.open_answer))),
        }
        made = FrozenDict({**body, "earlier": self._earlier(), "notes": (*self._body.get("notes", ()), *keys)})
        times = [one.expires_in for one in questions if one.expires_in is not None]
        self._for_agents = False
        async with self._writing():
            stored = self._made(run, made)
            for key in keys:  # before it waits: of an approval without a note, nobody would know whose it is
                await self._reviews.note_asked(key, stored)
            await self._write(partial(self._reviews.suspend, expires_in=min(times, default=None)), stored)

    def _question(self, asked: PendingQuestion, hide: Callable[[Value], Value]) -> WaitingCall:
        """Return a question as it is shown to people."""
        schema: Value = freeze(hide(thaw(freeze([asked.reason, asked.schema, asked.shown]))))
        reason, form, shown = schema
        digest = call_digest(asked.id, schema, self._policy)
        return WaitingCall(asked.id, asked.processor_id, shown, "question", digest, reason=reason, schema=form)

    def _shown(self, run: Run, progress: RequestProgress, hide: Callable[[Value], Value]) -> Values:
        """Return the question of the user, and the answer so far, as people see them."""
        asked = next((one.text for one in reversed(run.message_list.input) if one.role == "user"), "")
        outcome = progress.asked[0].outcome if progress.asked else None
        if outcome is not None and outcome.stage == "process_input":
            asked = outcome.text
        answer = run.message_list.get(progress.open_answer.get("id", "") or progress.pending_in)
        text = "" if answer is None else answer.text
        if outcome is not None and outcome.stage == "process_output_result":
            text = outcome.text
        return cast("Values", freeze(hide({"question": asked, "text": text})))

    def _earlier(self) -> tuple[Values, ...]:
        """Return the decisions before the calls and questions that are stored now."""
        body = self._body
        made = body.get("decisions", EMPTY)
        decided = tuple(
            FrozenDict({**one, "decision": made[one["call_id"]]})
            for one in body.get("waiting", ())
            if one["call_id"] in made
        )
        return (*body.get("earlier", ()), *decided)

    async def begin(self, run: Run, progress: RequestProgress, calls: Iterable[PlannedCall]) -> Outcome | None:
        """Store that the tools of these calls begin, and the decision about each; see `save`.

        A request whose tool is an agent that may wait for people is stored in any case: if its process ends before it
        waits itself, another one finds it, and what the agent waits for is not asked in vain.
        """
        plans = {plan.call.call_id: plan for plan in calls}
        begun = [id for id, plan in plans.items() if plan.tool is not None]
        if begun and self._begun.issuperset(begun):  # they had begun in the process before
            return None
        self._planned = FrozenDict({id: dump_plan(plan) for id, plan in plans.items() if plan.answer is None})
        if not self._is_stored:
            self._for_agents = any(may_wait(plan.tool) for plan in plans.values())
            if not self._for_agents:
                return None
        return await self._renew(run, progress, "tools", begun=sorted({*self._begun, *begun}))

    async def save(self, run: Run, progress: RequestProgress, phase: Phase) -> Outcome | None:
        """Store how far the request has come, if it was suspended or is stored from its start.

        The guards of the last stage read the answers first. If one objects, its outcome is returned. They do not read
        them after each tool: their results are stored with the next step.
        """
        if not self._is_stored:
            return None
        return await self._renew(run, progress, phase, begun=sorted(self._begun) if phase == "tools" else ())

    def planned(
        self, calls: Iterable[ToolPart], tools: Mapping[str, Tool], known: Mapping[str, tuple[Value, ToolError | None]]
    ) -> Mapping[str, PlannedCall]:
        """Return the stored decisions about open calls by their ids; the other calls are judged again.

        Args:
            calls: the calls.
            tools: the tools by name.
            known: the results and problems that are known by now; see `known_calls`.
        """
        plans: Values = EMPTY if self.changed else self._body.get("planned", EMPTY)
        loaded = {
            call.call_id: load_plan(call, plans[call.call_id], tools, known.get(call.call_id))
            for call in calls
            if call.call_id in plans
        }
        return {id: plan for id, plan in loaded.items() if plan is not None}

    async def end(self, run: Run, progress: RequestProgress) -> None:
        """Store that the request has ended, with the record of its verdicts, unless it is not stored.

        One that never waited, and was stored for the sake of its agents only, is deleted.
        """
        if not self.claimed:
            return
        verdict = run.tripwire
        text = "" if verdict else "".join([step.text for step in progress.current(run.message_list)])
        left: Value = {"text": text, "blocked": None if verdict is None else verdict.reason}
        released = freeze(redactor_of(run)(left)) if self._nested else None
        said = {"spent": self._spent(run), "record": self._recorded(run, progress)}
        async with self._writing() as stored:
            if stored is None or stored.status != "running":
                return
            ended = replace(stored, body=FrozenDict({**stored.body, **said}))
            await self._write(partial(self._reviews.end, released=released), ended)
            if self._for_agents:
                await self._reviews.store.delete_run(stored.id)

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator[StoredRun | None]:
        """Let nobody else write, and yield the stored run.

        It is read if nobody has heard of the last save, because of an error or a cancellation: it may have been made.
        """
        async with self._storing:
            made = self._saving
            if made is not None:
                found = await self._reviews.store.run(made.id)
                same = found is not None and found.body.get(CLAIM) == made.body.get(CLAIM)
                if found is not None and same and found.version == made.version + 1:  # else another process has it
                    self._stored = found
                self._saving = None
            yield self._stored

    async def _write(self, save: Callable[[StoredRun], Awaitable[StoredRun]], run: StoredRun) -> None:
        """Save the run, within `_writing`."""
        self._saving = run
        self._stored = await save(run)
        self._saving = None

    async def give_back(self) -> None:
        """Let others take the request up again where it stood last, since it failed here; unless others have it.

        One that was stored for the sake of its agents only is deleted, unless one of them is stored.
        """
        store = self._reviews.store
        with suppress(StorageConflictError):
            async with self._writing() as stored:
                if stored is None or stored.status != "running":
                    return
                id = stored.id
                agents = [await store.run(inner_run_id(id, call)) for call in self._begun] if self._for_agents else []
                if not self._for_agents or any(agents):
                    await self._write(self._reviews.release, stored)
                    return
                await self._write(self._reviews.end, stored)
                await store.delete_run(id)

    async def _renew(
        self, run: Run, progress: RequestProgress, phase: Phase, *, begun: Sequence[str]
    ) -> Outcome | None:
        news: Values = EMPTY
        if not (run.judges_late and phase == "tools" and self._begun.issuperset(begun)):
            objects = await read_unreleased(run, progress)
            if objects is not None:
                return objects
            self._reviews.vaults.put(run.run_id, run.facts.get(VAULT))
            news = self._dumped(run, progress, phase, begun=begun)
        try:
            async with self._writing():
                made = FrozenDict({**self._body, **news, "record": self._recorded(run, progress)})
                await self._write(self._reviews.renew, self._made(run, made))
        except StorageConflictError as error:
            raise ReviewError(run.run_id, "another process has taken it over, so it does not go on here") from error
        self._begun = frozenset(begun)
        return None

    async def _store_record(self) -> None:
        """Store the verdicts of judges so far, if the request goes on in this process and is stored.

        A crash then asks none of them again. If the store fails, the next `save` says so.
        """
        with anyio.CancelScope(shield=True):  # the guard may have a time limit, and a store that was left is unknown
            await self._store_judged()

    async def _store_judged(self) -> None:
        with suppress(StorageError):
            async with self._writing() as stored:
                if stored is None or stored.status != "running":
                    return
                judged = freeze(self.record.dumped()["judged"])
                record = FrozenDict({**stored.body.get("record", EMPTY), "judged": judged})
                body = FrozenDict({**stored.body, "record": record})
                await self._write(self._reviews.renew, replace(stored, body=body))

    def _recorded(self, run: Run, progress: RequestProgress) -> Values:
        """Return the record of verdicts and answers as JSON values, without texts of the conversation."""
        made = {**self.record.dumped(), "answers": answers_of(run, progress)}
        return cast("Values", freeze(redactor_of(run)(made)))

    def _spent(self, run: Run) -> Value:
        spent = [
            {"model": one.model, "usage": dump_usage(one.usage), "by": one.by, "attempts": one.attempts}
            for one in (*self.earlier_spent, *run.spent)
        ]
        return freeze(spent)

    def _dumped(self, run: Run, progress: RequestProgress, phase: Phase, *, begun: Sequence[str]) -> Values:
        hide = redactor_of(run)
        said = {
            "steps": [dump_step(step) for step in progress.steps],
            "pending_in": progress.pending_in,
        }
        return FrozenDict(
            version=VERSION,
            policy=self._policy,
            phase=phase,
            run=dump_run(run),
            progress=cast("Values", freeze(hide(said))),
            begun=tuple(begun),
            held=run.held_answers,
            read_late=freeze(progress.read_late._asdict()),
            planned=freeze(hide(thaw(dict(self._planned)))) if phase == "tools" else EMPTY,
            spent=self._spent(run),
            record=self._recorded(run, progress),
        )

    def _made(self, run: Run, body: Values) -> StoredRun:
        if self._stored is not None:
            return replace(self._stored, body=body)
        owner = run.request_context.get("resource_id")
        return StoredRun(
            run.run_id,
            self._agent,
            body=FrozenDict({**body, CLAIM: RANDOM_IDS.next()}),
            thread_id=thread_of(run),
            resource_id=None if owner is None else str(owner),
        )

    def _waiting(self, call: ToolPart, tools: Mapping[str, Tool], arguments: Value) -> WaitingCall:
        shown = replace(call, arguments=arguments)
        kind: Kind = "approval" if call.approval == "requested" else "result"
        return WaitingCall(call.call_id, call.name, arguments, kind, self._digest(shown, tools.get(call.name)))

    def _digest(self, call: ToolPart, tool: Tool | None) -> str:
        return call_digest("" if tool is None else definition_hash(call.name, tool), call.arguments, self._policy)


def _asked_by(call: WaitingCall) -> PendingQuestion:
    """Return a stored question as the step has asked it; see `question_id`."""
    stage, _, rest = call.call_id.partition("/")
    step = rest.partition("//")[0]
    return PendingQuestion(call.call_id, step, call.tool, stage, call.reason, call.schema, call.arguments)


def _phase_of(progress: RequestProgress) -> Phase:
    """Return the part of the request that waits; its calls and questions about results are answered together."""
    return "tools" if not progress.asked else _PHASES[progress.asked[0].outcome.stage]


def _dump_asked(one: AskedStage) -> dict[str, Value]:
    """Return a stage that waits as JSON values."""
    outcome = one.outcome
    return {
        "stage": outcome.stage,
        "finished": outcome.finished,
        "fresh": sorted(outcome.fresh),
        "answers": _plain(one.answers),
        "fields": _plain(one.fields),
        "call": None if one.call is None else thaw(freeze(dump_message(Message("assistant", (one.call,))))),
        "prompt": None if one.prompt is None else thaw(freeze(dump_entries(one.prompt))),
    }


def _plain(values: Values) -> Value:
    return thaw(freeze(values))


def _load_call(stored: Values) -> ToolPart:
    return cast("ToolPart", load_message(stored).parts[0])


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


def _asked_key(run: Run, call: ToolPart) -> str:
    """Return the key of a call of a request, whose arguments may hold values that people do not see."""
    return _key(thread_of(run), replace(call, arguments=redactor_of(run)(thaw(call.arguments))))


def _decided(call: ToolPart, made: CallDecision) -> ToolPart:
    """Return a call with the decision about it."""
    if made.verdict == "reject":
        return replace(call, approval="rejected", error=made.reason or None)
    return replace(call, approval="approved", arguments=call.arguments if made.arguments is None else made.arguments)


def dump_step(step: StepResult) -> dict[str, Value]:
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


def load_step(stored: Values) -> StepResult:
    """Return the step that `dump_step` wrote."""
    given = {
        name: stored[name] for name in ("number", "finish_reason", "model", "message_id", "metadata", "from_cache")
    }
    called = tuple(ToolPart("", name) for name in stored["called"])
    verdict = load_verdict(stored["tripwire"])
    return StepResult(**given, usage=load_usage(stored["usage"]), tripwire=verdict, tool_calls=called)


def is_repeated(step: StepResult) -> bool:
    """Return whether an attempt was rejected or failed, so that another one followed or none counts."""
    return step.tripwire is not None or step.finish_reason in _REPEATED
