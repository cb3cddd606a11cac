"""`Reviews`: the suspended runs of an application, in a store: listed, decided about, claimed, and kept up to date."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import anyio

from penstock.engine.values.answer_schema import answer_problem
from penstock.engine.values.errors import OptionError, ReviewError, StorageConflictError, StorageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, json_value, thaw
from penstock.engine.values.protocols import RANDOM_IDS, SYSTEM_CLOCK, RunStore
from penstock.engine.values.stored import Page, RunStatus, StoredRun
from penstock.processors.memory import vaults_of
from penstock.workflows.review.waiting import HAS_RULE, VERSION, CallDecision, WaitingRun, checked, waiting_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Clock
    from penstock.workflows.review.deciding import MayDecide
    from penstock.workflows.review.waiting import WaitingCall

OnChange: TypeAlias = Literal["refuse", "keep", "judge again"]
"""What happens when a run goes on and the agent's processors or tools are not those that suspended it."""

WEEK = 7 * 86_400.0
"""How long a decision may take by default, in seconds."""

LEASE = 600.0
"""How long a process that goes on with a run may take between two reports by default, in seconds."""

_ASKED_BY = "asked_by"
"""The field of a note about a call, which names the run that asks about it."""

_EXPIRES_AT = "expires_at"
"""The field of a run with the time until which its calls can be decided about, as ISO text; None: for ever."""

CLAIM = "claim"
"""The field of a run that says which process has made it or taken it over: drawn at random each time."""

RELEASED = "released"
"""The field of a nested run that has ended with its result, which the run that it is a call of may have yet to get."""

_NOTE = "asked-"
"""The beginning of the ids of such notes."""

_NOTES = "notes"
"""The field of a run with the keys of its notes."""

_KEPT = ("version", "policy", HAS_RULE, "waiting", "decisions", "earlier", "taken_by", _NOTES, "spent", "record")
"""The fields of a run that are kept when it has ended."""

_PAGE = 500
"""How many ended runs are read at once."""

_CLOSE_SECONDS = 10.0
"""How long it may take to give a run back."""

_ATTEMPTS = 5
"""How often a decision is stored anew because others have changed the run meanwhile."""


class Reviews:
    """The suspended runs of agents: give it to `Agent` as ``reviews``, and to whoever decides.

    A suspended run is stored as the guards left it. Waiting takes no task, connection or lock. Any process can decide,
    and any process with the agent can go on; of several that try at once, one does.

    Args:
        store: where the runs are: a `RunStore`, such as `SQLiteStorage` or `PostgresStorage`.
        expires_in: how long a decision may take, in seconds, above 0; None: for ever. When the time is over, nobody can
            decide any more. That is no refusal: the model is told that nobody has decided.
        lease: how long a process may take between two steps of a run that it goes on with, in seconds, above 0. Later,
            another process may take the run over. It should be longer than any model call or tool.
        on_change: ``refuse``: a run whose agent has other processors or tools by now does not go on. ``keep``: it goes
            on, with the new ones. ``judge again``: it goes on when `process_input` of the new ones has passed the
            conversation.
        from_start: whether each request is stored from the verdict on its input, and not only when it waits, so that
            another process can go on with it if its own dies: see `abandoned`.
        may_decide: a function of the run, with the one call that is to be decided about, and of the name of who
            decides, ``""`` for a client that decides with its messages; False refuses the decision. The runs that are
            stored with it are decided about with such a rule only, whatever process decides. None: anybody who can
            reach the store may decide about other runs.
        clock: tells when a decision is due.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        expires_in: float | None = WEEK,
        lease: float = LEASE,
        on_change: OnChange = "refuse",
        from_start: bool = False,
        may_decide: MayDecide | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not isinstance(cast("object", store), RunStore):
            raise OptionError("Reviews", "store", type(store).__name__, "a RunStore, such as SQLiteStorage(path)")
        for name, seconds in (("expires_in", expires_in), ("lease", lease)):
            if not (seconds is None and name == "expires_in") and not (
                isinstance(seconds, (int, float)) and seconds > 0
            ):
                raise OptionError("Reviews", name, seconds, "seconds, above 0")
        if on_change not in get_args(OnChange):
            raise OptionError("Reviews", "on_change", on_change, ", ".join(get_args(OnChange)))
        self.store = store
        self.vaults = vaults_of(store)
        self.expires_in = expires_in
        self.lease = lease
        self.on_change = on_change
        self.from_start = from_start
        self.may_decide = may_decide
        self.clock = clock

    # Who decides

    async def runs(
        self,
        *,
        status: RunStatus | None = "waiting",
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
        newest_first: bool = False,
    ) -> Page[WaitingRun]:
        """Return runs, the one that has waited longest first.

        Args:
            status: only those with this status; None: any.
            agent: only those of this agent; None: of any.
            limit: the maximum number of runs, 1 to 10,000.
            after: the ``following`` of the page before.
            newest_first: the other order.
        """
        found: list[WaitingRun] = []
        while True:
            page = await self.store.runs(
                status=status, agent=agent, limit=limit - len(found), after=after, newest_first=newest_first
            )
            found += [waiting_run(one) for one in page.items if _ASKED_BY not in one.body]
            after = page.following
            if after is None or len(found) >= limit:
                return Page(tuple(found), after)

    async def abandoned(self, *, agent: str | None = None) -> tuple[WaitingRun, ...]:
        """Return the runs whose process has not reported for longer than ``lease``: `Agent.resume` goes on with each.

        Args:
            agent: only those of this agent; None: of any.
        """
        found: list[WaitingRun] = []
        after: str | None = None
        while True:
            page = await self.runs(status="running", agent=agent, limit=_PAGE, after=after)
            found += [run for run in page.items if self.is_over(run.due_at)]
            after = page.following
            if after is None:
                return tuple(found)

    async def run(self, run_id: str) -> WaitingRun:
        """Return a run.

        Raises:
            ReviewError: there is none with that id.
        """
        return waiting_run(await self._stored(run_id))

    async def record(self, run_id: str) -> dict[str, Value]:
        """Return the record of a run for an audit, as JSON values; ``$defs.record`` of the schema has its fields.

        It has the verdicts of steps and judges, costs, and the ids of the answers of models, tools and people; of texts
        only the decisions, and what clients were told about a verdict. It is kept when the run has ended.

        Raises:
            ReviewError: there is no run with that id.
        """
        stored = await self._stored(run_id)
        body = checked(stored)
        decided = waiting_run(stored).calls
        people = [*body.get("earlier", ()), *({**one.dumped(), "decision": one.decision} for one in decided)]
        made: dict[str, Value] = {
            "version": body["version"],
            "run_id": stored.id,
            "agent": stored.agent,
            "status": stored.status,
            "policy": body.get("policy", ""),
            "decisions": [_as_decided(one) for one in people if one["decision"] is not None],
            "spent": body.get("spent", ()),
            **{name: body.get("record", EMPTY).get(name, ()) for name in ("verdicts", "judged", "answers")},
        }
        return {name: thaw(freeze(value)) for name, value in made.items()}

    async def approve(
        self, run_id: str, call_id: str | None = None, *, arguments: Value = None, by: str = ""
    ) -> WaitingRun:
        """Approve a call, so that it runs when the run goes on; return the run.

        Args:
            run_id: the id of the run.
            call_id: the id of the call; None: the only one that is undecided.
            arguments: other arguments for it. They are judged before the call runs.
            by: who decides.

        Raises:
            ReviewError: there is no such call, it was decided about, it waits for a result, its time is over, or the
                caller may not decide.
        """
        given = None if arguments is None else json_value(arguments, "arguments")
        return await self._decide(run_id, call_id, CallDecision("approve", arguments=given, by=by))

    async def reject(self, run_id: str, call_id: str | None = None, *, reason: str = "", by: str = "") -> WaitingRun:
        """Refuse a call; the model gets the reason when the run goes on. See `approve`."""
        return await self._decide(run_id, call_id, CallDecision("reject", reason=reason, by=by))

    async def answer(self, run_id: str, call_id: str, value: Value, *, by: str = "") -> WaitingRun:
        """Give the result of a call that the application runs itself: a JSON value. Guards judge it. See `approve`."""
        return await self._decide(run_id, call_id, CallDecision("answer", json_value(value, call_id), by=by))

    async def delete(self, run_id: str) -> bool:
        """Delete a run with everything in it. Returns whether there was one."""
        stored = await self.store.run(run_id)
        for key in () if stored is None else stored.body.get(_NOTES, ()):
            await self.store.delete_run(f"{_NOTE}{key}")
        for call in () if stored is None else stored.body.get("waiting", ()):
            if call.get("inner"):
                await self.delete(call["inner"])
        self.vaults.forget(run_id)
        return await self.store.delete_run(run_id)

    async def prune(self, older_than: float) -> int:
        """Delete runs that ended more than so many seconds ago. Returns how many there were."""
        limit = self._now() - timedelta(seconds=older_than)
        deleted = 0
        after: str | None = None
        while True:
            page = await self.store.runs(status="ended", limit=_PAGE, after=after)
            for run in page.items:
                if _ASKED_BY not in run.body and run.updated_at is not None and run.updated_at < limit:
                    deleted += await self.delete(run.id)
            after = page.following
            if after is None:
                return deleted

    async def _decide(self, run_id: str, call_id: str | None, decision: CallDecision) -> WaitingRun:
        left = _ATTEMPTS
        while True:
            stored = await self._stored(run_id)
            seen = waiting_run(stored)
            inner = await self._inner(seen, call_id)
            if inner is not None:
                await self._decide(*inner, decision)
                return seen
            call = self._decidable(seen, call_id, decision)
            made = replace(decision, at=self._now().isoformat(timespec="seconds"), digest=call.digest)
            decisions = FrozenDict({**stored.body.get("decisions", {}), call.call_id: made.dumped()})
            changed = replace(stored, body=FrozenDict({**stored.body, "decisions": decisions}))
            try:
                return waiting_run(await self.store.save_run(changed))
            except StorageConflictError:
                left -= 1
                if not left:
                    raise ReviewError(run_id, "others keep changing it; try again") from None

    async def _inner(self, seen: WaitingRun, call_id: str | None) -> tuple[str, str | None] | None:
        """Return the run of an agent that a decision is about, and the id of its call; None if it is about none."""
        if any(one.call_id == call_id and one.kind != "run" for one in seen.calls):
            return None
        open_runs = [one for one in seen.calls if one.kind == "run" and await self.undecided(one.inner)]
        for one in open_runs:
            if one.call_id == call_id or (call_id is None and len(open_runs) == len(seen.undecided) == 1):
                return one.inner, None
            if call_id is not None and await self._has_call(one.inner, call_id):
                return one.inner, call_id
        return None

    async def _has_call(self, run_id: str, call_id: str) -> bool:
        """Return whether a run waits for a call, or a run of an agent in it does."""
        for one in (await self.run(run_id)).calls:
            if one.call_id == call_id or (one.kind == "run" and await self._has_call(one.inner, call_id)):
                return True
        return False

    async def undecided(self, run_id: str) -> list[str]:
        """Return the ids of the undecided calls of a run, with those of the agents that it waits for.

        There are none if it does not wait, is gone, or its time is over.
        """
        stored = await self.store.run(run_id)
        if stored is None or stored.status != "waiting":
            return []
        return await self._undecided(waiting_run(stored))

    async def _undecided(self, seen: WaitingRun) -> list[str]:
        """Return the ids of the undecided calls of a run, with those of the agents that it waits for."""
        if self.is_over(seen.due_at):
            return []
        left: list[str] = []
        for call in seen.undecided:
            left += await self.undecided(call.inner) if call.kind == "run" else [call.call_id]
        return left

    def _decidable(self, seen: WaitingRun, call_id: str | None, decision: CallDecision) -> WaitingCall:
        """Return the call that a decision is about.

        Raises:
            ReviewError: it cannot be decided about, or not by this person.
        """
        run_id = seen.run_id
        if seen.status != "waiting":
            raise ReviewError(run_id, "it goes on already" if seen.status == "running" else "it has ended")
        if call_id is None:
            left = seen.undecided
            if len(left) != 1:
                names = ", ".join(call.call_id for call in left) or "none"
                raise ReviewError(run_id, f"say which call: {len(left)} are undecided ({names})")
            call_id = left[0].call_id
        call = seen.call(call_id)
        self._check_person(seen, call, decision.by)
        if call.decision is not None:
            by = f" by {call.decision.by}" if call.decision.by else ""
            raise ReviewError(run_id, f"the call {call_id} was decided about already{by}: {call.decision.verdict}")
        if call.kind != "question" and (decision.verdict == "answer") != (call.kind == "result"):
            wanted = "a result: use answer" if call.kind == "result" else "approval: use approve or reject"
            raise ReviewError(run_id, f"the call {call_id} waits for {wanted}")
        if call.kind == "question" and call.schema is not None:
            said = decision.value if decision.verdict == "answer" else {"decision": decision.verdict}
            if problem := answer_problem(call.schema, said):
                raise ReviewError(run_id, f"the answer does not fit the schema of the question: {problem}")
        if self.is_over(seen.due_at):
            raise ReviewError(run_id, "its time is over; go on with it, and the model is told that nobody has decided")
        return call

    def _check_person(self, seen: WaitingRun, call: WaitingCall, by: str) -> None:
        """Raise an error if a person may not decide about a call.

        Raises:
            ReviewError: the rule says so, or the run is stored with a rule and there is none here.
        """
        if self.may_decide is not None:
            allowed = cast("object", self.may_decide(replace(seen, calls=(call,)), by))
            if not isinstance(allowed, bool):  # such as the coroutine of an async function, which is true
                told = f"may_decide returned {type(allowed).__name__}; it has to return True or False"
                raise ReviewError(seen.run_id, told)
            if not allowed:
                raise ReviewError(seen.run_id, f"{by or 'nobody in particular'!r} may not decide about it")
        elif seen.has_rule:
            raise ReviewError(
                seen.run_id,
                "its application has a rule about who may decide, and none is known here; name the function: "
                "--may-decide module:name on a command line, may_decide: in a gateway file, or Reviews(may_decide=…)",
            )

    # Who goes on

    def opened(self, out: object) -> None:
        """Do nothing. Called with the emitter of a request when it begins, for subclasses that pause it."""

    async def suspend(self, run: StoredRun, *, expires_in: float | None = None) -> StoredRun:
        """Store a run that waits from now on; return it as stored.

        Args:
            run: the run.
            expires_in: the seconds for a decision, if they are fewer than `Reviews.expires_in`.
        """
        limits = [seconds for seconds in (self.expires_in, expires_in) if seconds is not None]
        due = self._now() + timedelta(seconds=min(limits)) if limits else None
        body = self.marked({**run.body, _EXPIRES_AT: None if due is None else due.isoformat()})
        return await self.store.save_run(replace(run, status="waiting", due_at=due, body=body))

    def marked(self, body: Values) -> Values:
        """Return the body of a run, which says that there is a rule about who may decide if there is one here."""
        return FrozenDict(body if self.may_decide is None else {**body, HAS_RULE: True})

    async def release(self, run: StoredRun) -> StoredRun:
        """Store that a run waits again which a process went on with, as long as before; return it as stored.

        One that never waited, since it is stored from its start, waits as long as a decision may take.

        Raises:
            StorageConflictError: another process has taken it over.
        """
        if _EXPIRES_AT not in run.body:
            return await self.suspend(run)
        until: str | None = run.body[_EXPIRES_AT]
        due = None if until is None else datetime.fromisoformat(until)
        return await self.store.save_run(replace(run, status="waiting", due_at=due))

    async def claim(self, run_id: str, *, of_agent: bool = True) -> StoredRun:
        """Take a run over, to go on with it: its calls are decided about, or their time is over.

        Args:
            run_id: the id of the run.
            of_agent: whether it has to be the request of an agent of Penstock.

        Raises:
            ReviewError: there is no such run, calls are undecided, another process goes on with it, or it has ended.
        """
        stored = await self._stored(run_id)
        seen = waiting_run(stored)
        if seen.status == "ended":
            raise ReviewError(run_id, "it has ended")
        if of_agent and "phase" not in stored.body:
            raise ReviewError(run_id, f"it is no request of an agent of Penstock; {seen.agent!r} goes on with it")
        if seen.status == "running" and not self.is_over(seen.due_at):
            raise ReviewError(run_id, "another process goes on with it")
        undecided = await self._undecided(seen) if seen.status == "waiting" else []
        if undecided:
            raise ReviewError(run_id, f"nobody has decided about {', '.join(undecided)}; use approve, reject or answer")
        body = stored.body
        late = [call.call_id for call in seen.undecided if call.kind != "run"] if seen.status == "waiting" else []
        if late:
            body = FrozenDict({**body, "expired": tuple(late)})
        claimed = replace(stored, body=FrozenDict({**body, CLAIM: RANDOM_IDS.next()}))
        try:
            return await self.renew(claimed)
        except StorageConflictError:
            raise ReviewError(run_id, "another process goes on with it") from None
        except BaseException:  # it may have been stored
            await self.unclaim(claimed)
            raise

    async def unclaim(self, run: StoredRun) -> None:
        """Let others go on with a run that this process has claimed, or may have; also in a task that is cancelled.

        If the store fails, they wait for the lease.
        """
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True), suppress(StorageError):
            found = await self.store.run(run.id)
            if found is not None and found.status == "running" and found.body.get(CLAIM) == run.body.get(CLAIM):
                await self.release(found)

    async def renew(self, run: StoredRun) -> StoredRun:
        """Store a run that goes on, with a new lease; return it as stored.

        Raises:
            StorageConflictError: another process has taken it over.
        """
        due = self._now() + timedelta(seconds=self.lease)
        return await self.store.save_run(replace(run, status="running", due_at=due, body=self.marked(run.body)))

    async def end(self, run: StoredRun, *, released: Value = None) -> StoredRun:
        """Store that a run has ended: only its decisions and its record are kept; return it as stored.

        Args:
            run: the run.
            released: its result, if the run that it is a call of may have yet to get it.
        """
        kept = {name: run.body[name] for name in _KEPT if name in run.body}
        if released is not None:
            kept[RELEASED] = released
        ended = await self.store.save_run(replace(run, status="ended", due_at=None, body=FrozenDict(kept)))
        self.vaults.forget(run.id)
        return ended

    async def note_asked(self, key: str, run: StoredRun) -> None:
        """Note which run asks about a call, so that an approval that comes with messages is found to be the same one.

        Args:
            key: names the call with its arguments; equal for all requests that an approval may be sent with.
            run: the run, as stored.
        """
        for _ in range(_ATTEMPTS):
            known = await self.store.run(f"{_NOTE}{key}")
            note = known or StoredRun(f"{_NOTE}{key}", run.agent, "ended", thread_id=run.thread_id)
            try:
                await self.store.save_run(replace(note, body=FrozenDict({"version": VERSION, _ASKED_BY: run.id})))
            except StorageConflictError:
                continue
            return

    async def take(self, key: str, taker: str, call_id: str, *, rejects: bool = False) -> bool:
        """Return whether a decision that comes with messages counts: the run that asked still waits, and now ends.

        Who sends messages has no name; `may_decide` is asked about that. Without such a rule, an approval counts too if
        no stored run has asked. Of several requests that bring one, and of those that go on with the stored run, it
        counts in one. A rejection counts in any, but for the rule.

        Args:
            key: see `note_asked`.
            taker: the id of the run of the request.
            call_id: the id of the call.
            rejects: whether it is a rejection.
        """
        note = await self.store.run(f"{_NOTE}{key}")
        if note is None:
            return rejects or self.may_decide is None
        run = await self.store.run(note.body[_ASKED_BY])
        if run is None:
            return rejects
        if not self._is_open_to_clients(run, call_id):
            return False
        if run.status != "waiting":
            return rejects or run.body.get("taken_by") == taker
        try:
            await self.end(replace(run, body=FrozenDict({**run.body, "taken_by": taker})))
        except StorageConflictError:
            return rejects
        return True

    async def refuses(self, key: str, call_id: str) -> bool:
        """Return whether `may_decide` refuses a decision that comes with messages, about a call that a run waits for.

        Args:
            key: see `note_asked`.
            call_id: the id of the call.
        """
        note = None if self.may_decide is None else await self.store.run(f"{_NOTE}{key}")
        run = None if note is None else await self.store.run(note.body[_ASKED_BY])
        if run is None or run.status != "waiting":
            return False
        seen = waiting_run(run)
        undecided = next((call for call in seen.undecided if call.call_id == call_id), None)
        if undecided is None or self.is_over(seen.due_at):
            return False
        try:
            self._check_person(seen, undecided, "")
        except ReviewError:
            return True
        return False

    def _is_open_to_clients(self, run: StoredRun, call_id: str) -> bool:
        """Return whether someone without a name may decide about a call, and it was not refused or its time is over."""
        try:
            seen = waiting_run(run)
            call = seen.call(call_id)
            self._check_person(seen, call, "")
        except ReviewError:
            return False
        if call.decision is None:
            return run.status != "waiting" or not self.is_over(seen.due_at)
        return call.decision.verdict == "approve"

    def is_over(self, due: datetime | None) -> bool:
        """Return whether a time has come."""
        return due is not None and self._now() >= due

    def _now(self) -> datetime:
        return self.clock.now().astimezone(UTC)

    async def _stored(self, run_id: str) -> StoredRun:
        found = await self.store.run(run_id)
        if found is None:
            raise ReviewError(run_id, "there is no suspended run with this id; it was deleted, or another store has it")
        checked(found)
        return found


def _as_decided(one: Mapping[str, Value]) -> dict[str, Value]:
    """Return a decision with the id and the tool of its call, without the arguments that were shown."""
    made: CallDecision | Values = one["decision"]
    said = made.dumped() if isinstance(made, CallDecision) else made
    return {"call_id": one["call_id"], "tool": one["tool"], "kind": one["kind"], **said}


def as_reviews(given: object, owner: str = "Agent") -> Reviews | None:
    """Return the reviews of an agent: the given ones, those of a store, or None; ``owner``: whose option it is.

    Raises:
        OptionError: it is something else.
    """
    if given is None or isinstance(given, Reviews):
        return given
    if isinstance(given, RunStore):
        return Reviews(given)
    allowed = "Reviews(store), a store such as SQLiteStorage, or None"
    raise OptionError(owner, "reviews", type(given).__name__, allowed)
