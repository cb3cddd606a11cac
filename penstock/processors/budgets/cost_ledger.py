"""`CostLedger`: the port of what was spent under which key, and what is set aside; it knows no run and no price."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from datetime import datetime
    from decimal import Decimal


class Standing(NamedTuple):
    """How an account stands.

    Attributes:
        spent: what was spent since the time asked for.
        held: what others have set aside for calls under way.
        granted: whether what was wanted is set aside now.
    """

    spent: Decimal
    held: Decimal
    granted: bool


@runtime_checkable
class CostLedger(Protocol):
    """Keeps what was spent, and what is set aside for calls under way, by key: in memory, or where processes share it.

    Each method is one act: what two callers do at once is as if one had come after the other. A method may be async;
    what `add` and `release` return to be awaited is awaited before the run's next call of a model, or at its end.
    """

    def add(self, key: str, model: str, cost: Decimal, at: datetime) -> Awaitable[None] | None:
        """Enter what was spent under a key, by a model, at a time."""
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
    ) -> Standing | Awaitable[Standing]:
        """Set an amount aside in place of what the holder has set aside before, if `fits` says so; else nothing.

        Args:
            key: the account.
            holder: who sets aside; what it has set aside itself does not count against it.
            cost: how much; 0 sets nothing aside.
            limit: what must not be exceeded; None sets aside whatever is there already.
            since: count what was spent from then on; None: all.
            at: now.
            until: when what is set aside is forgotten, should nobody come for it.
        """
        ...

    def release(self, key: str, holder: str) -> Awaitable[None] | None:
        """Forget what a holder has set aside."""
        ...

    def breakdown(self, key: str, since: datetime | None) -> Mapping[str, Decimal] | Awaitable[Mapping[str, Decimal]]:
        """Return what was spent under a key, by model."""
        ...


def fits(spent: Decimal, held: Decimal, cost: Decimal, limit: Decimal | None) -> bool:
    """Tell whether an amount may be set aside: the limit must not be exceeded, and not be reached before."""
    if limit is None:
        return True
    taken = spent + held
    return taken < limit and taken + cost <= limit
