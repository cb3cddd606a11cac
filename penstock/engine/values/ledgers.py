"""`CostLedger`: the port to a store of costs spent and reserved under keys; and the windows of time of budgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from decimal import Decimal

Sliding = Literal["1h", "6h", "24h", "7d", "30d", "365d"]
Calendar = Literal["day", "week", "month"]
Window: TypeAlias = "Sliding | Calendar | timedelta | None"
"""The last hours or days; the current day, week or month in UTC; any span of time; None: all time."""

SPANS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "365d": timedelta(days=365),
}
LONGEST_WINDOW = timedelta(days=400)
"""A ledger need not store times for longer."""

UNSETTLED = "(reserved, never settled)"
"""The name of the model under which a ledger counts reservations that expired, in its breakdown."""


def window_start(window: Window, now: datetime) -> datetime | None:
    """Return the time when a window began, in UTC; None for all time."""
    if window is None:
        return None
    now = now.astimezone(UTC)
    span = window_span(window)
    if span is not None:
        return now - span
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    back = {"day": 0, "week": today.weekday(), "month": today.day - 1}[str(window)]
    return today - timedelta(days=back)


def window_span(window: Window) -> timedelta | None:
    """Return how long a sliding window is; None for a current day, week or month, and for all time."""
    return window if isinstance(window, timedelta) else SPANS.get(window or "")


class Reservation(NamedTuple):
    """The amounts under a key, as `CostLedger.reserve` returns them.

    Attributes:
        spent: the amount spent within the window.
        held: the amount that other holders have reserved for calls under way.
        granted: whether the amount asked for is reserved now.
    """

    spent: Decimal
    held: Decimal
    granted: bool


@runtime_checkable
class CostLedger(Protocol):
    """Stores the amounts spent and reserved under keys: in memory, or in a store that several processes share.

    Each method must be atomic, and must have no further effect if it is called again with the same ids: callers repeat
    a call whose answer was lost. The ledger has a clock of its own. A method may be async; awaitables that `settle` and
    `release` return are awaited before the run's next model call, or at its end.
    """

    def reserve(
        self, key: str, holder: str, cost: Decimal, *, limit: Decimal | None, window: Window, lease: float
    ) -> Reservation | Awaitable[Reservation]:
        """Reserve an amount if `fits` allows it. The holder's earlier reservation is removed in any case.

        A reservation that is neither settled nor released when its lease ends counts as spent: nobody knows what its
        holder has done.

        Args:
            key: the key.
            holder: names who reserves; its own earlier reservation does not count against it.
            cost: the amount; 0 reserves nothing.
            limit: the limit for spent and reserved amounts together; None: no limit.
            window: the time within which spent amounts count.
            lease: for how many seconds the amount is reserved.
        """
        ...

    def settle(
        self, key: str, charge: str, model: str, cost: Decimal, *, holder: str | None = None
    ) -> Awaitable[None] | None:
        """Count an amount as spent, once, and remove the reservation that was made for it.

        If the lease of that reservation has ended, it was counted already: only what the amount exceeds it by is added.

        Args:
            key: the key.
            charge: names the amount; one that was settled within the last hour is not counted again.
            model: the model that took it.
            cost: the amount.
            holder: whose reservation it was; None: there was none.
        """
        ...

    def release(self, key: str, holder: str) -> Awaitable[None] | None:
        """Remove the reservation of a holder, if there is one: nothing was spent."""
        ...

    def breakdown(self, key: str, window: Window) -> Mapping[str, Decimal] | Awaitable[Mapping[str, Decimal]]:
        """Return the amounts spent under a key within a window, by model."""
        ...


def fits(spent: Decimal, held: Decimal, cost: Decimal, limit: Decimal | None) -> bool:
    """Tell whether an amount may be reserved: ``spent + held`` is below the limit, and with ``cost`` not above it."""
    if limit is None:
        return True
    taken = spent + held
    return taken < limit and taken + cost <= limit
