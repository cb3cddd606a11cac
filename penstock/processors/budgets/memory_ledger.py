"""`InMemoryLedger`: the `CostLedger` of one process; it knows no run and no price."""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.processors.budgets._buckets import Buckets
from penstock.processors.budgets.cost_ledger import Standing, fits
from penstock.processors.budgets.money import NOTHING

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

_LOG = logging.getLogger("penstock")


class InMemoryLedger:
    """What was spent, kept in a process's own memory: gone when it ends. Safe to use from several threads.

    Amounts are exact. Times are kept by the minute for 8 hours, by the hour for 8 days, by the day for 400 days, then
    not at all: a sum from some time on may count what was spent up to a minute (hour, day) before, and never less.

    Args:
        most_keys: of how many keys it keeps account; beyond, those that were not used for longest are forgotten, which
            is logged once.

    Raises:
        OptionError: ``most_keys`` is no int of 1 or more.
    """

    def __init__(self, *, most_keys: int = 100_000) -> None:
        if type(most_keys) is not int or most_keys < 1:
            raise OptionError("InMemoryLedger", "most_keys", most_keys, "an int, 1 or more")
        self.most_keys = most_keys
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._lock = Lock()
        self._told_full = False

    def add(self, key: str, model: str, cost: Decimal, at: datetime) -> None:
        """Enter what was spent under a key, by a model, at a time."""
        with self._lock:
            self._account(key).models.setdefault(model, Buckets()).add(cost, at.timestamp())

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
    ) -> Standing:
        """Set an amount aside, if it fits; see `CostLedger.reserve`."""
        with self._lock:
            account = self._accounts.get(key)
            spent = NOTHING if account is None else account.spent(since)
            held = NOTHING if account is None else account.held(holder, at)
            granted = fits(spent, held, cost, limit)
            if granted and cost:
                self._account(key).holds[holder] = (cost, until)
            else:
                self._let_go(key, holder)
            return Standing(spent, held, granted)

    def release(self, key: str, holder: str) -> None:
        """Forget what a holder has set aside."""
        with self._lock:
            self._let_go(key, holder)

    def breakdown(self, key: str, since: datetime | None = None) -> dict[str, Decimal]:
        """Return what was spent under a key, by model; those that spent nothing are left out."""
        with self._lock:
            account = self._accounts.get(key)
            sums = {} if account is None else {model: found.total(since) for model, found in account.models.items()}
        return {model: spent for model, spent in sums.items() if spent}

    def total(self, key: str, since: datetime | None = None) -> Decimal:
        """Return what was spent under a key, by all models."""
        return sum(self.breakdown(key, since).values(), NOTHING)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of which it keeps account."""
        with self._lock:
            return tuple(self._accounts)

    def _account(self, key: str) -> _Account:
        found = self._accounts.get(key)
        if found is None:
            found = self._accounts[key] = _Account()
            if len(self._accounts) > self.most_keys:
                self._forget_one()
        self._accounts.move_to_end(key)
        return found

    def _forget_one(self) -> None:
        self._accounts.popitem(last=False)
        if not self._told_full:
            self._told_full = True
            _LOG.warning("a ledger of costs is full: it forgets those of %s keys and more (said once)", self.most_keys)

    def _let_go(self, key: str, holder: str) -> None:
        account = self._accounts.get(key)
        if account is not None:
            account.holds.pop(holder, None)
            if not account.holds and not account.models:
                del self._accounts[key]

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle what it holds, without the lock."""
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what was copied, under a lock of its own."""
        vars(self).update(state)
        self._lock = Lock()

    def __repr__(self) -> str:
        """Show of how many keys it keeps account, and none of them."""
        return f"InMemoryLedger({len(self._accounts)} of {self.most_keys} keys)"


class _Account:
    """What was spent under one key, by model, and what is set aside, by holder, until when."""

    __slots__ = ("holds", "models")

    def __init__(self) -> None:
        self.models: dict[str, Buckets] = {}
        self.holds: dict[str, tuple[Decimal, datetime]] = {}

    def spent(self, since: datetime | None) -> Decimal:
        return sum([found.total(since) for found in self.models.values()], NOTHING)

    def held(self, holder: str, at: datetime) -> Decimal:
        """Return what others than a holder have set aside; what nobody came for in time is forgotten."""
        for late in [other for other, (_, until) in self.holds.items() if until <= at]:
            del self.holds[late]
        return sum([cost for other, (cost, _) in self.holds.items() if other != holder], NOTHING)
