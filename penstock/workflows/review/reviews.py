"""`Reviews`: the suspended runs of an application, in a store: listed, decided about, claimed, and kept up to date."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.values.answer_schema import answer_problem
from penstock.engine.values.errors import OptionError, ReviewError, StorageConflictError
from penstock.engine.values.frozen import FrozenDict, json_value
from penstock.engine.values.protocols import RANDOM_IDS, SYSTEM_CLOCK, RunStore
from penstock.engine.values.stored import Page, RunStatus, StoredRun
from penstock.processors.memory import vaults_of
from penstock.workflows.review.waiting import VERSION, CallDecision, WaitingRun, checked, waiting_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Clock
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

_NOTE = "asked-"
"""The beginning of the ids of such notes."""

_NOTES = "notes"
"""The field of a run with the keys of its notes."""

_PAGE = 500
"""How many ended runs are read at once."""

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
        may_decide: a function of the run and of the name of who decides; False refuses the decision. None: anybody who
            can reach the store may decide.
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
        may_decide: Callable[[WaitingRun, str], bool] | None = None,
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
    ) -> Page[WaitingRun]:
        """Return runs, the one that has waited longest first; ``after``: the ``following`` of the page before."""
        page = await self.store.runs(status=status, agent=agent, limit=limit, after=after)
        return Page(tuple(waiting_run(one) for one in page.items if _ASKED_BY not in one.body), page.following)

    async def run(self, run_id: str) -> WaitingRun:
        """Return a run.

        Raises:
            ReviewError: there is none with that id.
        """
        return waiting_run(await self._stored(run_id))

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
        for attempt in range(_ATTEMPTS):
            stored = await self._stored(run_id)
            seen = waiting_run(stored)
            call = self._decidable(seen, call_id, decision)
            made = replace(decision, at=self._now().isoformat(timespec="seconds"), digest=call.digest)
            decisions = FrozenDict({**stored.body.get("decisions", {}), call.call_id: made.dumped()})
            changed = replace(stored, body=FrozenDict({**stored.body, "decisions": decisions}))
            try:
                return waiting_run(await self.store.save_run(changed))
            except StorageConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise ReviewError(run_id, "others keep changing it; try again")

    def _decidable(self, seen: WaitingRun, call_id: str | None, decision: CallDecision) -> WaitingCall:
        """Return the call that a decision is about.

        Raises:
            ReviewError: it cannot be decided about, or not by this person.
        """
        run_id = seen.run_id
        if seen.status != "waiting":
            raise ReviewError(run_id, "it goes on already" if seen.status == "running" else "it has ended")
        if self.may_decide is not None and not self.may_decide(seen, decision.by):
            raise ReviewError(run_id, f"{decision.by or 'nobody in particular'!r} may not decide about it")
        if call_id is None:
            left = seen.undecided
            if len(left) != 1:
                names = ", ".join(call.call_id for call in left) or "none"
                raise ReviewError(run_id, f"say which call: {len(left)} are undecided ({names})")
            call_id = left[0].call_id
        call = seen.call(call_id)
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

    # Who goes on

    async def suspend(self, run: StoredRun, *, expires_in: float | None = None) -> StoredRun:
        """Store a run that waits from now on; return it as stored.

        Args:
            run: the run.
            expires_in: the seconds for a decision, if they are fewer than `Reviews.expires_in`.
        """
        limits = [seconds for seconds in (self.expires_in, expires_in) if seconds is not None]
        due = self._now() + timedelta(seconds=min(limits)) if limits else None
        body = FrozenDict({**run.body, _EXPIRES_AT: None if due is None else due.isoformat()})
        return await self.store.save_run(replace(run, status="waiting", due_at=due, body=body))

    async def release(self, run: StoredRun) -> StoredRun:
        """Store that a run which was claimed waits again, as long as before; return it as stored.

        Raises:
            StorageConflictError: another process has taken it over.
        """
        until: str | None = run.body.get(_EXPIRES_AT)
        due = None if until is None else datetime.fromisoformat(until)
        return await self.store.save_run(replace(run, status="waiting", due_at=due))

    async def claim(self, run_id: str) -> StoredRun:
        """Take a run over, to go on with it: its calls are decided about, or their time is over.

        Raises:
            ReviewError: there is no such run, calls are undecided, another process goes on with it, or it has ended.
        """
        stored = await self._stored(run_id)
        seen = waiting_run(stored)
        if seen.status == "ended":
            raise ReviewError(run_id, "it has ended")
        if seen.status == "running" and not self.is_over(seen.due_at):
            raise ReviewError(run_id, "another process goes on with it")
        if seen.status == "waiting" and seen.undecided and not self.is_over(seen.due_at):
            names = ", ".join(call.call_id for call in seen.undecided)
            raise ReviewError(run_id, f"nobody has decided about {names}; use approve, reject or answer")
        body = stored.body
        if seen.status == "waiting" and seen.undecided:
            body = FrozenDict({**body, "expired": tuple(call.call_id for call in seen.undecided)})
        try:
            return await self.renew(replace(stored, body=FrozenDict({**body, "claim": RANDOM_IDS.next()})))
        except StorageConflictError:
            raise ReviewError(run_id, "another process goes on with it") from None

    async def renew(self, run: StoredRun) -> StoredRun:
        """Store a run that goes on, with a new lease; return it as stored.

        Raises:
            StorageConflictError: another process has taken it over.
        """
        due = self._now() + timedelta(seconds=self.lease)
        return await self.store.save_run(replace(run, status="running", due_at=due))

    async def end(self, run: StoredRun) -> StoredRun:
        """Store that a run has ended: only its decisions are kept; return it as stored."""
        kept = {
            name: run.body[name]
            for name in ("version", "policy", "waiting", "decisions", "earlier", "taken_by", _NOTES)
            if name in run.body
        }
        return await self.store.save_run(replace(run, status="ended", due_at=None, body=FrozenDict(kept)))

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

    async def take(self, key: str, taker: str) -> bool:
        """Return whether an approval that comes with messages counts: the run that asked still waits, and now ends.

        It counts too if no stored run has asked. Of several requests that bring it, and of those that go on with the
        stored run, it counts in one.

        Args:
            key: see `note_asked`.
            taker: the id of the run of the request.
        """
        note = await self.store.run(f"{_NOTE}{key}")
        if note is None:
            return True
        run = await self.store.run(note.body[_ASKED_BY])
        if run is None or run.status != "waiting":
            return run is not None and run.body.get("taken_by") == taker
        try:
            await self.end(replace(run, body=FrozenDict({**run.body, "taken_by": taker})))
        except StorageConflictError:
            return False
        return True

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


def as_reviews(given: object) -> Reviews | None:
    """Return the reviews of an agent: the given ones, those of a store, or None.

    Raises:
        OptionError: it is something else.
    """
    if given is None or isinstance(given, Reviews):
        return given
    if isinstance(given, RunStore):
        return Reviews(given)
    allowed = "Reviews(store), a store such as SQLiteStorage, or None"
    raise OptionError("Agent", "reviews", type(given).__name__, allowed)
