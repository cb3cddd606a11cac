"""Record the cost of one request in a ledger, and reserve what its next model call may cost."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import anyio

from penstock.engine.processor.processor import is_async
from penstock.engine.tasks import resolved
from penstock.engine.values.errors import PenstockError
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.processors.budgets.unrecorded_costs import UnrecordedCost, put_unrecorded, refusal, unrecorded_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.ledgers import CostLedger, Reservation, Window
    from penstock.engine.values.model import Usage
    from penstock.engine.values.protocols import Clock
    from penstock.engine.values.usage import UsageEntry, UsageLog
    from penstock.processors.budgets.call_estimates import CallEstimate
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

    def __init__(self, ledger: CostLedger, key: str, ctx: AnyContext, pricing: Pricing, clock: Clock) -> None:
        self.key = key
        self.run_id = ctx.run_id
        self.ledger = ledger
        self.estimate: CallEstimate | None = None
        self._entries: RunEntries = entries_of(ctx.usage_log)
        self._pricing = pricing
        self._clock = clock
        self._writes: deque[PendingWrite] = deque()
        self._finalizer: weakref.finalize[..., CostRecorder] | None = None
        self._has_reservation = False

    def follow(self, ctx: AnyContext) -> None:
        """Record all usage of the run, past and future; release its reservation when it ends or is collected."""
        ctx.on_spend(self._on_spend)
        ctx.on_end(self._on_end)
        if not is_async(self.ledger.release):  # a run in sync form may be dropped without an end
            self._finalizer = weakref.finalize(self, _ABANDONED.append, (self.ledger, self.key, self._entries.holder))
            self._finalizer.atexit = False

    async def reserve(self, cost: Decimal, limit: Decimal | None, window: Window, lease: float) -> Reservation:
        """Reserve the cost of the next call, in place of an earlier reservation.

        Raises:
            UnrecordedCostError: earlier usage under the key could not be recorded, so the amount spent is unknown.
        """
        _release_abandoned()
        await self._finish_writes()
        await self._record_late()
        bound = None if limit == UNLIMITED else limit
        self._has_reservation = self._has_reservation or cost > 0  # also if it is cancelled while the ledger answers
        standing = await resolved(
            self.ledger.reserve(self.key, self._entries.holder, cost, limit=bound, window=window, lease=lease)
        )
        self._has_reservation = standing.granted and cost > 0
        return standing

    async def breakdown(self, window: Window, most: int) -> dict[str, Decimal]:
        """Return the costs of the models that cost most; empty if the ledger fails."""
        try:
            found = await resolved(self.ledger.breakdown(self.key, window))
        except Exception as error:  # noqa: BLE001 - the decision does not depend on it
            _LOG.debug("a cost ledger could not return its breakdown by model: %s", type(error).__name__)
            return {}
        return dict(sorted(found.items(), key=lambda one: one[1], reverse=True)[:most])

    def release(self) -> None:
        """Release the reservation."""
        self.estimate = None
        if not self._has_reservation:
            return
        self._has_reservation = False
        try:
            result = self.ledger.release(self.key, self._entries.holder)
        except Exception as error:  # noqa: BLE001 - a reservation expires by itself
            _log_unreleased(error)
            return
        if result is not None:
            self._writes.append(PendingWrite(result, None))

    def _on_spend(self, spend: UsageEntry) -> None:
        """Record usage. What cannot be recorded is kept, and refused at the next call of whoever shares the key."""
        estimate = self.estimate if not spend.by else None
        known = spend.usage if spend.unreported is None else _sum(spend.usage, spend.unreported)
        if not self._entries.add_once(self.ledger, self.key, spend):
            return
        entry = self._priced(spend, _with_estimate(known, estimate))
        if entry is not None:
            self._write(entry)
        elif not spend.by:
            self.release()

    def _priced(self, spend: UsageEntry, usage: Usage | None) -> UnrecordedCost | None:
        """Return the cost of a usage, to be recorded; None if it is zero."""
        at = self._clock.now().astimezone(UTC)
        entry = UnrecordedCost(self.key, spend.model, usage, None, at, "", RANDOM_IDS.next(), None)
        try:
            cost = self._pricing.cost_of(spend.model, usage)
        except Exception as error:  # noqa: BLE001 - who asked the model must not fail for it
            self._put(entry, error)
            return None
        if not cost:
            return None
        return replace(entry, usage=None, cost=cost, holder=None if spend.by else self._entries.holder)

    def _write(self, entry: UnrecordedCost) -> None:
        """Settle a known cost; an async ledger's writes are awaited later.

        If that fails, the reservation stays: until the cost is recorded, it counts in its place.
        """
        if entry.cost is None:
            return
        if entry.holder is not None:
            self.estimate, self._has_reservation = None, False
        try:
            result = self.ledger.settle(entry.key, entry.charge, entry.model, entry.cost, holder=entry.holder)
        except Exception as error:  # noqa: BLE001 - see `_priced`
            self._put(entry, error)
            return
        if result is not None:
            self._writes.append(PendingWrite(result, entry))

    def _put(self, entry: UnrecordedCost, error: BaseException | None) -> None:
        entry = replace(entry, problem=_problem(entry, error))
        put_unrecorded(self.ledger, entry)
        _LOG.warning("%s", entry.problem)

    async def _finish_writes(self) -> None:
        """Await the pending calls of an async ledger, in bounded time, also if the request is cancelled meanwhile."""
        if not self._writes:
            return
        with anyio.move_on_after(WRITE_SECONDS, shield=True):
            while self._writes:
                await self._finish(self._writes.popleft())
        while self._writes:  # the time is up
            self._give_up(self._writes.popleft(), TimeoutError())

    async def _finish(self, write: PendingWrite) -> None:
        try:
            await write.result
        except Exception as error:  # noqa: BLE001 - see `_priced`
            self._give_up(write, error)
        except BaseException:  # it took too long
            self._give_up(write, TimeoutError())
            raise

    def _give_up(self, write: PendingWrite, error: Exception) -> None:
        close = getattr(write.result, "close", None)
        if close is not None:  # a coroutine that was not awaited would warn
            close()
        if write.entry is None:
            _log_unreleased(error)
        else:
            self._put(write.entry, error)

    async def _record_late(self) -> None:
        """Record what could not be recorded before, by any run under this key.

        Raises:
            UnrecordedCostError: some of it still cannot be.
        """
        outstanding = unrecorded_of(self.ledger)
        if outstanding is None:
            return
        entries = outstanding.take(self.key)
        failed: UnrecordedCost | None = None
        try:
            while entries:
                error = await self._recorded_late(entries[-1])
                entry = entries.pop()
                if error is not None:
                    failed = replace(entry, problem=_problem(entry, error))
                    outstanding.put(failed)
        finally:
            for entry in entries:
                outstanding.put(entry)
            outstanding.done(self.key)
        if failed is not None:
            raise refusal(failed)

    async def _recorded_late(self, entry: UnrecordedCost) -> Exception | None:
        """Record a cost, by this request's prices if it is unknown; return the error if that fails."""
        try:
            cost = self._pricing.cost_of(entry.model, entry.usage) if entry.cost is None else entry.cost
            if cost:
                settled = self.ledger.settle(self.key, entry.charge, entry.model, cost, holder=entry.holder)
                await resolved(settled)
        except Exception as error:  # noqa: BLE001 - the caller raises its own
            return error
        return None

    def _on_end(self, _: RunEnd) -> Awaitable[None] | None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self.release()
        return self._finish_writes() if self._writes else None


WRITE_SECONDS = 4.0
"""Seconds for all writes that an async ledger has begun together; less than a run has for its callbacks at the end."""


class PendingWrite(NamedTuple):
    """A write that an async ledger has begun: of a cost, or (without an entry) the release of a reservation."""

    result: Awaitable[None]
    entry: UnrecordedCost | None


def _problem(entry: UnrecordedCost, error: BaseException | None) -> str:
    """Return why a cost could not be recorded, and what to do, without quoting a foreign error."""
    kind = type(error).__name__
    if entry.cost is not None:
        return (
            f"what the model {entry.model!r} took could not be recorded: {kind}; check that the ledger can be written"
        )
    told = str(error) if isinstance(error, PenstockError) else f"the price table raised {kind}"
    return f"what the model {entry.model!r} took could not be recorded: {told}"


def _log_unreleased(error: BaseException) -> None:
    _LOG.warning("a reservation could not be released: %s", type(error).__name__)


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
            _log_unreleased(error)


def _sum(usage: Usage | None, unreported: Usage) -> Usage:
    return unreported if usage is None else usage + unreported


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
    """The usage entries of one request that were recorded, and in which ledger. Shared by the cost controls of its run.

    Controls of one run may share a ledger and a key: each usage is recorded there once, and the reservation for the
    next call is one amount. Runs that share a ``run_id`` share nothing: they may run at the same time.

    Attributes:
        holder: the name under which the request reserves amounts; no other request has it.
    """

    def __init__(self) -> None:
        self.holder = RANDOM_IDS.next()
        self._entered: dict[tuple[int, str, int], tuple[CostLedger, UsageEntry]] = {}

    def add_once(self, ledger: CostLedger, key: str, spend: UsageEntry) -> bool:
        """Tell whether a usage was not recorded under a ledger's key yet, and mark it as recorded.

        Usages are compared by identity: two equal ones count twice.
        """
        place = (id(ledger), key, id(spend))
        with _LOCK:
            if place in self._entered:
                return False
            self._entered[place] = (ledger, spend)  # held, so that their ids are not used again
            return True


_LOCK = Lock()
_ENTRIES: WeakKeyDictionary[UsageLog, RunEntries] = WeakKeyDictionary()


def entries_of(log: UsageLog) -> RunEntries:
    """Return the entries of a request, by the log of its usage: the same object for all cost controls of its run."""
    with _LOCK:
        found = _ENTRIES.get(log)
        if found is None:
            found = _ENTRIES[log] = RunEntries()
        return found
