"""Record the cost of one request in a ledger, and reserve what its next model call may cost."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Awaitable
from dataclasses import replace
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakValueDictionary

from penstock.engine.processor.processor import is_async
from penstock.engine.values.protocols import RANDOM_IDS

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.model import Usage
    from penstock.engine.values.protocols import Clock
    from penstock.engine.values.usage import UsageEntry
    from penstock.processors.budgets.call_estimates import CallEstimate
    from penstock.processors.budgets.cost_ledger import CostLedger, Reservation
    from penstock.processors.budgets.prices import Pricing


_LOG = logging.getLogger("penstock")

T = TypeVar("T")

UNLIMITED = Decimal("Infinity")


class RequestCost:
    """The cost of one request: the state of a cost control. Lives as long as the request.

    Attributes:
        recorder: records the cost; None until `is_open`, and for requests that are not counted.
        is_open: whether the request's scope has been determined.
        limit: the limit of this request; None until it is known.
        reported: the thresholds that have been reported.
    """

    def __init__(self) -> None:
        self.recorder: CostRecorder | None = None
        self.is_open = False
        self.limit: Decimal | None = None
        self.reported: set[str] = set()

    def is_first(self, threshold: str) -> bool:
        """Tell whether a threshold has not been reported yet, and mark it as reported."""
        new = threshold not in self.reported
        self.reported.add(threshold)
        return new


class CostRecorder:
    """Records the model usage of one request in a ledger.

    Attributes:
        key: the key in the ledger.
        run_id: the request's run.
        ledger: stores the amounts.
        estimate: the estimate for the next or current model call.
    """

    def __init__(self, ledger: CostLedger, key: str, run_id: str, pricing: Pricing, clock: Clock) -> None:
        self.key = key
        self.run_id = run_id
        self.ledger = ledger
        self.estimate: CallEstimate | None = None
        self._entries: RunEntries = entries_of(run_id)
        self._pricing = pricing
        self._clock = clock
        self._failure: Exception | None = None
        self._writes: list[Awaitable[None]] = []
        self._finalizer: weakref.finalize[..., CostRecorder] | None = None
        self._has_reservation = False

    def follow(self, ctx: AnyContext) -> None:
        """Record all usage of the run, past and future; release its reservation when it ends or is collected."""
        ctx.on_spend(self._on_spend)
        ctx.on_end(self._on_end)
        if not is_async(self.ledger.release):  # a run in sync form may be dropped without an end
            self._finalizer = weakref.finalize(self, _ABANDONED.append, (self.ledger, self.key, self._entries.holder))
            self._finalizer.atexit = False

    async def reserve(
        self, cost: Decimal, limit: Decimal | None, since: datetime | None, at: datetime, until: datetime
    ) -> Reservation:
        """Reserve the cost of the next call, in place of an earlier reservation.

        Raises:
            Exception: earlier usage could not be recorded, so the amount spent is unknown.
        """
        _release_abandoned()
        await self._finish_writes()
        if self._failure is not None:
            raise self._failure
        bound = None if limit == UNLIMITED else limit
        standing = await resolved(
            self.ledger.reserve(self.key, self._entries.holder, cost, limit=bound, since=since, at=at, until=until)
        )
        self._has_reservation = standing.granted and cost > 0
        return standing

    async def breakdown(self, since: datetime | None, most: int) -> dict[str, Decimal]:
        """Return the costs of the models that cost most; empty if the ledger fails."""
        try:
            found = await resolved(self.ledger.breakdown(self.key, since))
        except Exception as error:  # noqa: BLE001 - the decision does not depend on it
            _LOG.debug("a cost ledger could not return its breakdown by model: %s", type(error).__name__)
            return {}
        return dict(sorted(found.items(), key=lambda one: one[1], reverse=True)[:most])

    def release(self) -> None:
        """Release the reservation."""
        self.estimate = None
        if self._has_reservation:
            self._has_reservation = False
            self._queue(self.ledger.release(self.key, self._entries.holder))

    def _on_spend(self, spend: UsageEntry) -> None:
        """Record usage. A failure is raised before the next call, since the user of the model did not cause it."""
        try:
            self._record(spend)
        except Exception as error:  # noqa: BLE001 - see above
            self._failure = self._failure or error
            _LOG.warning("the usage of a model could not be recorded: %s", type(error).__name__)

    def _record(self, spend: UsageEntry) -> None:
        estimate = self.estimate if not spend.by else None
        if not self._entries.add_once(self.ledger, self.key, spend):
            return
        usage = _with_estimate(spend.usage, estimate)
        cost = None if usage is None else self._pricing.cost(spend.model, usage)
        if cost:
            self._queue(self.ledger.add(self.key, spend.model, cost, self._clock.now()))
        if not spend.by:
            self.release()

    def _queue(self, result: Awaitable[None] | None) -> None:
        if result is not None:
            self._writes.append(result)

    async def _finish_writes(self) -> None:
        waiting, self._writes = self._writes, []
        for result in waiting:
            await result

    def _on_end(self, _: RunEnd) -> Awaitable[None] | None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self.release()
        return self._finish_writes() if self._writes else None


_ABANDONED: deque[tuple[CostLedger, str, str]] = deque()
"""The reservations of runs that were garbage collected. The collector may run in the middle of a ledger's own work, so
it only lists them here; the next reservation releases them."""


def _release_abandoned() -> None:
    """Release the reservations of runs that were garbage collected. Failures are logged."""
    for _ in range(len(_ABANDONED)):
        try:
            ledger, key, holder = _ABANDONED.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            ledger.release(key, holder)
        except Exception as error:  # noqa: BLE001 - a reservation expires by itself
            _LOG.warning("a reservation could not be released: %s", type(error).__name__)


async def resolved(made: Awaitable[T] | T) -> T:
    """Return a value, or the result of an awaitable."""
    if isinstance(made, Awaitable):
        return await cast("Awaitable[T]", made)
    return made


def _with_estimate(usage: Usage | None, estimate: CallEstimate | None) -> Usage | None:
    """Return the usage, with numbers that the provider did not report taken from the estimate."""
    if estimate is None:
        return usage
    guess = estimate.usage
    if usage is None:
        return guess
    asked, answered = usage.input_tokens, usage.output_tokens
    return replace(
        usage,
        input_tokens=guess.input_tokens if asked is None else asked,
        output_tokens=guess.output_tokens if answered is None else answered,
    )


class RunEntries:
    """The usage entries of one run that were recorded, and in which ledger. Shared by the cost controls of the run.

    Controls of one run may share a ledger and a key: each usage is recorded there once, and the reservation for the
    next call is one amount.

    Attributes:
        holder: the name under which the run reserves amounts.
    """

    def __init__(self) -> None:
        self.holder = RANDOM_IDS.next()
        self._entered: dict[tuple[int, str, int], tuple[CostLedger, UsageEntry]] = {}

    def add_once(self, ledger: CostLedger, key: str, spend: UsageEntry) -> bool:
        """Tell whether a usage was not recorded under a ledger's key yet, and mark it as recorded.

        Usages are compared by identity: two equal ones count twice, also in runs that share an id.
        """
        place = (id(ledger), key, id(spend))
        with _LOCK:
            if place in self._entered:
                return False
            self._entered[place] = (ledger, spend)  # held, so that their ids are not used again
            return True


_LOCK = Lock()
_ENTRIES: WeakValueDictionary[str, RunEntries] = WeakValueDictionary()


def entries_of(run_id: str) -> RunEntries:
    """Return the entries of a run: the same object for all callers while one of them holds it."""
    with _LOCK:
        found = _ENTRIES.get(run_id)
        if found is None:
            found = _ENTRIES[run_id] = RunEntries()
        return found
