"""`InMemoryLedger`: the `CostLedger` of one process, with amounts in buckets of time."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.processor.option_checks import check_count
from penstock.engine.values.expiry import ExpiryTimer
from penstock.engine.values.ledgers import UNSETTLED, Reservation, Window, fits, window_start
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.processors.budgets.prices import NOTHING

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from penstock.engine.values.expiry import Expiry
    from penstock.engine.values.protocols import Clock


_LOG = logging.getLogger("penstock")


class InMemoryLedger:
    """A `CostLedger` in the memory of one process; it is lost when the process ends. Safe to use from several threads.

    Amounts are exact. Their times are stored by the minute for 8 hours, by the hour for 8 days, by the day for 400
    days, and then not at all. A sum since some time may include amounts from up to a minute (hour, day) before it; it
    is never too low.

    Args:
        most_keys: the most keys that it stores, 1 or more. Beyond that it forgets the least recently used ones, and
            logs this once.
        clock: tells the time.

    Raises:
        OptionError: ``most_keys`` is not an int of 1 or more.
    """

    def __init__(self, *, most_keys: int = 100_000, clock: Clock = SYSTEM_CLOCK) -> None:
        self.most_keys = check_count("InMemoryLedger", "most_keys", most_keys, least=1)
        self._clock = clock
        self._timer = ExpiryTimer(clock.now)
        self._keys: OrderedDict[str, _KeyCosts] = OrderedDict()
        self._lock = Lock()
        self._warned_full = False

    def reserve(
        self, key: str, holder: str, cost: Decimal, *, limit: Decimal | None, window: Window, lease: float
    ) -> Reservation:
        """Reserve an amount if it fits; see `CostLedger.reserve`."""
        with self._lock:
            costs = self._keys.get(key)
            if costs is not None:
                self._expire(costs)
            spent = NOTHING if costs is None else costs.spent(window_start(window, self._clock.now()))
            held = NOTHING if costs is None else costs.held(holder)
            granted = fits(spent, held, cost, limit)
            if granted and cost:
                self._costs(key).hold(holder, cost, self._timer.after(lease))
            else:
                self._release(key, holder)
            return Reservation(spent, held, granted)

    def settle(self, key: str, charge: str, model: str, cost: Decimal, *, holder: str | None = None) -> None:
        """Count an amount as spent, once, in place of a reservation; see `CostLedger.settle`."""
        with self._lock:
            costs = self._costs(key)
            self._expire(costs)
            if costs.is_new(charge):
                counted = NOTHING if holder is None else costs.take(holder)
                self._spend(costs, model, max(cost - counted, NOTHING))

    def release(self, key: str, holder: str) -> None:
        """Remove the reservation of a holder, if there is one; one whose lease has ended counts as spent."""
        with self._lock:
            costs = self._keys.get(key)
            if costs is not None:
                self._expire(costs)
                self._release(key, holder)

    def breakdown(self, key: str, window: Window = None) -> dict[str, Decimal]:
        """Return the amounts spent under a key, by model, without zeros; ``window`` None: all."""
        with self._lock:
            costs = self._keys.get(key)
            if costs is None:
                return {}
            self._expire(costs)
            since = window_start(window, self._clock.now())
            sums = {model: found.total(since) for model, found in costs.models.items()}
        return {model: spent for model, spent in sums.items() if spent}

    def total(self, key: str, window: Window = None) -> Decimal:
        """Return the amount spent under a key by all models; ``window`` None: all."""
        return sum(self.breakdown(key, window).values(), NOTHING)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it stores."""
        with self._lock:
            return tuple(self._keys)

    def _costs(self, key: str) -> _KeyCosts:
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = _KeyCosts()
            if len(self._keys) > self.most_keys:
                self._forget_one()
        self._keys.move_to_end(key)
        return found

    def _forget_one(self) -> None:
        self._keys.popitem(last=False)
        if not self._warned_full:
            self._warned_full = True
            _LOG.warning(
                "an InMemoryLedger is full: with more than %s keys it forgets the oldest (logged once)", self.most_keys
            )

    def _spend(self, costs: _KeyCosts, model: str, cost: Decimal) -> None:
        costs.models.setdefault(model, TimeBuckets()).add(cost, self._clock.now().timestamp())

    def _expire(self, costs: _KeyCosts) -> None:
        """Count the reservations whose lease has ended as spent."""
        for holder in [holder for holder, (_, lease) in costs.holds.items() if self._timer.is_over(lease)]:
            self._spend(costs, UNSETTLED, costs.expire(holder))

    def _release(self, key: str, holder: str) -> None:
        costs = self._keys.get(key)
        if costs is not None:
            costs.holds.pop(holder, None)
            if not costs.holds and not costs.models:
                del self._keys[key]

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the content, without the lock."""
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the content, with a new lock."""
        vars(self).update(state)
        self._lock = Lock()

    def __repr__(self) -> str:
        """Show the number of keys, but none of them."""
        return f"InMemoryLedger({len(self._keys)} of {self.most_keys} keys)"


_MOST_CHARGES = 1_000
"""So many names of settled amounts, and of reservations that expired, a key remembers: nothing is lost on the way to
this ledger, so that no call is repeated much later."""


class _KeyCosts:
    """The amounts of one key: spent, by model, and reserved, by holder with the end of their lease."""

    __slots__ = ("_charges", "_expired", "holds", "models")

    def __init__(self) -> None:
        self.models: dict[str, TimeBuckets] = {}
        self.holds: dict[str, tuple[Decimal, Expiry]] = {}
        self._charges: dict[str, None] = {}
        self._expired: dict[str, Decimal] = {}

    def spent(self, since: datetime | None) -> Decimal:
        return sum([found.total(since) for found in self.models.values()], NOTHING)

    def held(self, holder: str) -> Decimal:
        """Return the amount that other holders have reserved."""
        return sum([cost for other, (cost, _) in self.holds.items() if other != holder], NOTHING)

    def hold(self, holder: str, cost: Decimal, lease: Expiry) -> None:
        """Reserve an amount, in place of the holder's earlier one."""
        self._expired.pop(holder, None)
        self.holds[holder] = (cost, lease)

    def expire(self, holder: str) -> Decimal:
        """Remove a reservation whose lease has ended, and remember its amount, which is returned."""
        cost = self._expired[holder] = self.holds.pop(holder)[0]
        if len(self._expired) > _MOST_CHARGES:
            del self._expired[next(iter(self._expired))]
        return cost

    def take(self, holder: str) -> Decimal:
        """Remove a reservation; return the amount that was counted as spent for it already."""
        self.holds.pop(holder, None)
        return self._expired.pop(holder, NOTHING)

    def is_new(self, charge: str) -> bool:
        """Tell whether an amount was not settled yet, and remember that it is."""
        if charge in self._charges:
            return False
        self._charges[charge] = None
        if len(self._charges) > _MOST_CHARGES:
            del self._charges[next(iter(self._charges))]
        return True


class _BucketLevel(NamedTuple):
    """The width of the buckets of a level, and how long amounts stay in it; both in seconds."""

    width: int
    keeps: int


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LEVELS = (_BucketLevel(_MINUTE, 8 * _HOUR), _BucketLevel(_HOUR, 8 * _DAY), _BucketLevel(_DAY, 400 * _DAY))


class TimeBuckets:
    """Sums of amounts by time, in buckets that grow with age: minutes for 8 hours, hours for 8 days, days for 400 days.

    All that is older is one sum, so the number of buckets is bounded. Buckets begin at full minutes, hours and days in
    UTC: sums since such a time are exact. If the clock was put back, sums may include older amounts, never fewer.
    """

    __slots__ = ("_levels", "_older", "_older_until", "_sum")

    def __init__(self) -> None:
        self._levels: tuple[dict[int, Decimal], ...] = ({}, {}, {})
        self._older = NOTHING
        self._older_until = 0  # when the last bucket of those ended
        self._sum = NOTHING

    def add(self, cost: Decimal, at: float) -> None:
        """Add an amount at a time, in seconds since 1970 (UTC)."""
        self._sum += cost
        newest, width = self._levels[0], _LEVELS[0].width
        place = int(at // width)
        if place not in newest:
            self._compact(at)
        newest[place] = newest.get(place, NOTHING) + cost

    def total(self, since: datetime | None) -> Decimal:
        """Return the sum since a time, including the whole bucket that the time lies in; None: the sum of all."""
        if since is None:
            return self._sum
        start = since.timestamp()
        older = self._older if start < self._older_until else NOTHING  # the clock was far ahead, and was put back
        return sum(
            [
                cost
                for level, buckets in zip(_LEVELS, self._levels, strict=True)
                for place, cost in buckets.items()
                if (place + 1) * level.width > start
            ],
            older,
        )

    def _compact(self, now: float) -> None:
        """Move old amounts into wider buckets."""
        for number, level in enumerate(_LEVELS):
            buckets = self._levels[number]
            for place in [place for place in buckets if place * level.width < now - level.keeps]:
                self._widen(number + 1, place * level.width, buckets.pop(place))

    def _widen(self, number: int, start: int, cost: Decimal) -> None:
        if number == len(_LEVELS):
            self._older += cost
            self._older_until = max(self._older_until, start + _DAY)
            return
        buckets, place = self._levels[number], start // _LEVELS[number].width
        buckets[place] = buckets.get(place, NOTHING) + cost
