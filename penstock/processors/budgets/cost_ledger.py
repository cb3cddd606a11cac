"""`CostLedger`: costs spent under a key, and costs reserved for calls under way; and the ledger in memory."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from penstock.engine.processor.option_checks import check_count
from penstock.processors.budgets.prices import NOTHING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from datetime import datetime
    from decimal import Decimal


class Reservation(NamedTuple):
    """The amounts under a key, as `CostLedger.reserve` returns them.

    Attributes:
        spent: the amount spent since the time asked for.
        held: the amount that other holders have reserved for calls under way.
        granted: whether the amount asked for is reserved now.
    """

    spent: Decimal
    held: Decimal
    granted: bool


@runtime_checkable
class CostLedger(Protocol):
    """Stores the amounts spent and reserved under keys: in memory, or in a store that several processes share.

    Each method must be atomic. A method may be async; awaitables that `add` and `release` return are awaited before the
    run's next model call, or at its end.
    """

    def add(self, key: str, model: str, cost: Decimal, at: datetime) -> Awaitable[None] | None:
        """Add an amount that a model cost at a time to a key."""
        ...

    def reserve(
        self,
        key: str,
        holder: str,
        cost: Decimal,
        *,
        limit: Decimal | None,
        since: datetime | None,
        at: datetime,
        until: datetime,
    ) -> Reservation | Awaitable[Reservation]:
        """Reserve an amount if `fits` allows it. The holder's earlier reservation is removed in any case.

        Args:
            key: the key.
            holder: names who reserves; its own earlier reservation does not count against it.
            cost: the amount; 0 reserves nothing.
            limit: the limit for spent and reserved amounts together; None: no limit.
            since: count amounts spent from this time on; None: all.
            at: the current time.
            until: the time when the reservation expires, unless it is released before.
        """
        ...

    def release(self, key: str, holder: str) -> Awaitable[None] | None:
        """Remove the reservation of a holder, if there is one."""
        ...

    def breakdown(self, key: str, since: datetime | None) -> Mapping[str, Decimal] | Awaitable[Mapping[str, Decimal]]:
        """Return the amounts spent under a key, by model."""
        ...


def fits(spent: Decimal, held: Decimal, cost: Decimal, limit: Decimal | None) -> bool:
    """Tell whether an amount may be reserved: ``spent + held`` is below the limit, and with ``cost`` not above it."""
    if limit is None:
        return True
    taken = spent + held
    return taken < limit and taken + cost <= limit


_LOG = logging.getLogger("penstock")


class InMemoryLedger:
    """A `CostLedger` in the memory of one process; it is lost when the process ends. Safe to use from several threads.

    Amounts are exact. Their times are stored by the minute for 8 hours, by the hour for 8 days, by the day for 400
    days, and then not at all. A sum since some time may include amounts from up to a minute (hour, day) before it; it
    is never too low.

    Args:
        most_keys: the most keys that it stores, 1 or more. Beyond that it forgets the least recently used ones, and
            logs this once.

    Raises:
        OptionError: ``most_keys`` is not an int of 1 or more.
    """

    def __init__(self, *, most_keys: int = 100_000) -> None:
        self.most_keys = check_count("InMemoryLedger", "most_keys", most_keys, least=1)
        self._keys: OrderedDict[str, _KeyCosts] = OrderedDict()
        self._lock = Lock()
        self._warned_full = False

    def add(self, key: str, model: str, cost: Decimal, at: datetime) -> None:
        """Add an amount that a model cost at a time to a key."""
        with self._lock:
            self._costs(key).models.setdefault(model, TimeBuckets()).add(cost, at.timestamp())

    def reserve(
        self,
        key: str,
        holder: str,
        cost: Decimal,
        *,
        limit: Decimal | None,
        since: datetime | None,
        at: datetime,
        until: datetime,
    ) -> Reservation:
        """Reserve an amount if it fits; see `CostLedger.reserve`."""
        with self._lock:
            costs = self._keys.get(key)
            spent = NOTHING if costs is None else costs.spent(since)
            held = NOTHING if costs is None else costs.held(holder, at)
            granted = fits(spent, held, cost, limit)
            if granted and cost:
                self._costs(key).holds[holder] = (cost, until)
            else:
                self._release(key, holder)
            return Reservation(spent, held, granted)

    def release(self, key: str, holder: str) -> None:
        """Remove the reservation of a holder, if there is one."""
        with self._lock:
            self._release(key, holder)

    def breakdown(self, key: str, since: datetime | None = None) -> dict[str, Decimal]:
        """Return the amounts spent under a key, by model, without zeros; ``since`` None: all."""
        with self._lock:
            costs = self._keys.get(key)
            sums = {} if costs is None else {model: found.total(since) for model, found in costs.models.items()}
        return {model: spent for model, spent in sums.items() if spent}

    def total(self, key: str, since: datetime | None = None) -> Decimal:
        """Return the amount spent under a key by all models; ``since`` None: all."""
        return sum(self.breakdown(key, since).values(), NOTHING)

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


class _KeyCosts:
    """The amounts of one key: spent, by model, and reserved, by holder with the time when they expire."""

    __slots__ = ("holds", "models")

    def __init__(self) -> None:
        self.models: dict[str, TimeBuckets] = {}
        self.holds: dict[str, tuple[Decimal, datetime]] = {}

    def spent(self, since: datetime | None) -> Decimal:
        return sum([found.total(since) for found in self.models.values()], NOTHING)

    def held(self, holder: str, at: datetime) -> Decimal:
        """Return the amount that other holders have reserved; expired reservations are removed."""
        now = at.timestamp()  # not the times themselves: in one zone they compare by the clock on the wall
        for late in [other for other, (_, until) in self.holds.items() if until.timestamp() <= now]:
            del self.holds[late]
        return sum([cost for other, (cost, _) in self.holds.items() if other != holder], NOTHING)


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
