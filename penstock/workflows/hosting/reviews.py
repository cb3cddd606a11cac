"""`HostReviews`: calls of tools that wait for people in a framework's agents, in a store: shown, decided, used once.

The framework keeps its own run, and goes on with it. The store has one run for each call that waits, so that
``penstock review`` and the studio show it, and so that of all processes one runs the tool.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from penstock.engine.values.errors import ReviewError, StorageConflictError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw
from penstock.engine.values.stored import StoredRun
from penstock.processors.tools.pins import definition_hash
from penstock.workflows.hosting.asking import CHANGED_SINCE, EXPIRED, NOT_ALLOWED, REJECTED, USED
from penstock.workflows.review.stored_run import redactor_of
from penstock.workflows.review.waiting import VERSION, WaitingCall, call_digest, checked, kept_rule, waiting_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.workflows.hosting.asking import HostCall
    from penstock.workflows.review.reviews import Reviews
    from penstock.workflows.review.waiting import CallDecision

PREFIX = "host-"
"""The beginning of the ids of calls that a framework's agent waits for."""

_ATTEMPTS = 5
"""How often something is stored anew because others have changed the run meanwhile."""


@dataclass(frozen=True, slots=True)
class HostDecision:
    """A decision about a call, for the framework.

    Attributes:
        approved: whether the tool may run.
        arguments: other arguments for it; None: those that were shown.
        rejected: whether a person refused it. If it is not approved either, nobody decided in time.
        reason: what the model reads: the reason of the person, or that nobody has decided.
    """

    approved: bool
    arguments: Value = None
    rejected: bool = False
    reason: str = ""


class HostReviews:
    """The calls of one framework's agents that wait for people, in a store. Shared by all requests of a `Host`.

    Args:
        reviews: the store, and how long a decision may take.
        host: the name of the guards in the framework.
        adapter: the name of the adapter, which is who decides where a framework does not say who did.
        policy: makes the fingerprint of the processors, when it is needed.
    """

    def __init__(self, reviews: Reviews, host: str, adapter: str, policy: Callable[[], str]) -> None:
        self.reviews = reviews
        self._host = host
        self._adapter = adapter
        self._agent = f"{adapter.partition('.')[0]}/{host}"
        self._policy = policy

    def id_of(self, call: HostCall) -> str:
        """Return the id under which a call is stored; the same in all processes."""
        whole = [self._agent, call.thread, call.call_id, call.name, thaw(freeze(call.arguments))]
        written = json.dumps(whole, sort_keys=True).encode("utf-8", "surrogatepass")
        return f"{PREFIX}{sha256(written).hexdigest()[:24]}"

    async def ask(self, call: HostCall, run: Run, answer: Message | None) -> str:
        """Store a call that waits from now on, and return its id; one that waits already keeps its decision.

        Args:
            call: the call.
            run: the run of the request.
            answer: the answer with the call, as the guards left it.

        Raises:
            ReviewError: other processes keep asking about it.
            StorageError: the store failed.
        """
        id = self.id_of(call)
        for _ in range(_ATTEMPTS):
            stored = await self.reviews.store.run(id)
            if stored is not None and self._waits(stored, call):
                return id
            made = StoredRun(id, self._agent, thread_id=call.thread) if stored is None else stored
            with suppress(StorageConflictError):
                await self.reviews.suspend(replace(made, body=self._body(call, run, answer, stored)))
                return id
        raise ReviewError(id, "others keep changing it; try again")

    def _waits(self, stored: StoredRun, call: HostCall) -> bool:
        seen = waiting_run(stored)
        return (
            seen.status == "waiting"
            and not self.reviews.is_over(seen.due_at)
            and seen.calls[0].digest == self._digest(call)
        )

    def _body(self, call: HostCall, run: Run, answer: Message | None, before: StoredRun | None) -> Values:
        """Return what is stored of a call; ``before``: how it was asked about before."""
        hide = redactor_of(run)
        shown = freeze(hide(thaw(freeze(call.arguments))))
        waiting = WaitingCall(call.call_id, call.name, shown, digest=self._digest(call))
        said = [one for one in run.message_list.all if one.role == "user" and one.text]
        known: Values = EMPTY if before is None else checked(before)
        earlier = [
            {**one, "decision": known["decisions"][one["call_id"]]}
            for one in known.get("waiting", ())
            if one["call_id"] in known.get("decisions", EMPTY)
        ]
        return FrozenDict(
            version=VERSION,
            policy=self._policy(),
            waiting=(waiting.dumped(),),
            earlier=freeze([*known.get("earlier", ()), *earlier]),
            question=hide(said[-1].text if said else ""),
            text=hide("" if answer is None else answer.text),
            **kept_rule(known),
        )

    def _digest(self, call: HostCall) -> str:
        return call_digest(definition_hash(call.name, call.tool), call.arguments, self._policy())

    async def use(self, call: HostCall, arguments: Value, run: Run, *, asks: bool) -> str | None:
        """Use the approval of a call that the framework is about to run; return why it does not count, or None.

        Of all processes that try, it counts in one. If nobody has decided in the store, the framework's approval is
        stored as the decision.

        Args:
            call: the call, as the person was shown it.
            arguments: the arguments that it is to run with.
            run: the run of the request.
            asks: whether a guard still asks about the call. If not, it may run without having been stored.

        Raises:
            StorageError: the store failed.
        """
        id = self.id_of(call)
        given = None if freeze(arguments) == freeze(call.arguments) else redactor_of(run)(thaw(freeze(arguments)))
        for _ in range(_ATTEMPTS):
            stored = await self.reviews.store.run(id)
            if stored is None:
                return USED if asks else None
            seen = waiting_run(stored)
            if seen.status != "waiting":
                return USED
            refused = self._refused(seen.calls[0], call, given)
            if refused is None and seen.calls[0].decision is None:
                refused = await self._approve(id, call.call_id, given)
                if refused is None:
                    continue
            with suppress(StorageConflictError):
                await self.reviews.end(stored)
                return refused
        return USED

    def _refused(self, shown: WaitingCall, call: HostCall, given: Value) -> str | None:
        """Return why an approval of a stored call does not count, or None.

        Args:
            shown: the call as it is stored.
            call: the call as the framework has it.
            given: other arguments that it is to run with; None: those that were shown.
        """
        if shown.digest != self._digest(call):
            return CHANGED_SINCE
        if shown.decision is None:
            return None
        if shown.decision.verdict != "approve":
            return REJECTED
        wanted = freeze(shown.decision.arguments)
        return None if freeze(given) == (None if wanted == freeze(shown.arguments) else wanted) else USED

    async def _approve(self, id: str, call_id: str, given: Value) -> str | None:
        """Store the framework's approval as the decision; return why it cannot be, or None."""
        try:
            await self.reviews.approve(id, call_id, arguments=given, by=self._adapter)
        except ReviewError:
            seen = await self.reviews.run(id)
            if seen.status != "waiting" or seen.calls[0].decision is not None:  # another process was faster
                return None
            return EXPIRED if self.reviews.is_over(seen.due_at) else NOT_ALLOWED
        return None

    async def give_back(self, call: HostCall) -> None:
        """Let an approval that this process has used count again, since the framework repeats the tool.

        Raises:
            StorageError: the store failed.
        """
        stored = await self.reviews.store.run(self.id_of(call))
        if stored is not None and stored.status == "ended":
            await self.reviews.suspend(stored)

    async def settle(self, call: HostCall) -> None:
        """Store that the framework has put something in the place of a call's result, so that it waits no more.

        Raises:
            StorageError: the store failed.
        """
        id = self.id_of(call)
        for _ in range(_ATTEMPTS):
            stored = await self.reviews.store.run(id)
            if stored is None or stored.status != "waiting":
                return
            if waiting_run(stored).undecided:
                with suppress(ReviewError):
                    await self.reviews.reject(id, call.call_id, by=self._adapter)
                stored = await self.reviews.store.run(id)
            if stored is None or stored.status != "waiting":
                return
            with suppress(StorageConflictError):
                await self.reviews.end(stored)
                return

    async def decision(self, id: str) -> HostDecision | None:
        """Return the stored decision about a call; None if it waits for one.

        Args:
            id: what `id_of` gave.

        Raises:
            ReviewError: the call is not stored.
            StorageError: the store failed.
        """
        seen = await self.reviews.run(id)
        made: CallDecision | None = seen.calls[0].decision
        if made is not None:
            return HostDecision(made.verdict == "approve", made.arguments, made.verdict == "reject", made.reason)
        if seen.status == "waiting" and not self.reviews.is_over(seen.due_at):
            return None
        return HostDecision(approved=False, reason=EXPIRED)

    async def decisions(self, ids: Mapping[str, str]) -> dict[str, HostDecision] | None:
        """Return the stored decisions about those calls that are stored; None if one of them waits.

        Args:
            ids: what `id_of` gave, by the keys of the result.

        Raises:
            StorageError: the store failed.
        """
        found: dict[str, HostDecision] = {}
        for key, id in ids.items():
            if await self.reviews.store.run(id) is None:
                continue
            made = await self.decision(id)
            if made is None:
                return None
            found[key] = made
        return found
