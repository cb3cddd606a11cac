"""`Buckets`: sums of amounts by time, the coarser the longer ago, so that their number is bounded. It knows no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.processors.budgets.money import NOTHING

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal


class _Level(NamedTuple):
    """How wide the buckets of a level are, and for how long amounts stay in it; both in seconds."""

    width: int
    keeps: int


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LEVELS = (_Level(_MINUTE, 8 * _HOUR), _Level(_HOUR, 8 * _DAY), _Level(_DAY, 400 * _DAY))


class Buckets:
    """Amounts by time: the minutes of 8 hours, the hours of 8 days, the days of 400, and all that is older in one.

    The edges lie where UTC has them, so sums from a full minute (hour, day) on are exact.
    """

    __slots__ = ("_levels", "_older", "_sum")

    def __init__(self) -> None:
        self._levels: tuple[dict[int, Decimal], ...] = ({}, {}, {})
        self._older = NOTHING
        self._sum = NOTHING

    def add(self, cost: Decimal, at: float) -> None:
        """Add an amount at a time, in seconds since 1970."""
        self._sum += cost
        newest, width = self._levels[0], _LEVELS[0].width
        place = int(at // width)
        if place not in newest:
            self._compact(at)
        newest[place] = newest.get(place, NOTHING) + cost

    def total(self, since: datetime | None) -> Decimal:
        """Return the sum from a time on, the bucket that it lies in included; None: of all."""
        if since is None:
            return self._sum
        start = since.timestamp()
        return sum(
            [
                cost
                for level, buckets in zip(_LEVELS, self._levels, strict=True)
                for place, cost in buckets.items()
                if (place + 1) * level.width > start
            ],
            NOTHING,
        )

    def _compact(self, now: float) -> None:
        """Move what has grown old into wider buckets."""
        for number, level in enumerate(_LEVELS):
            buckets = self._levels[number]
            for place in [place for place in buckets if place * level.width < now - level.keeps]:
                self._widen(number + 1, place * level.width, buckets.pop(place))

    def _widen(self, number: int, start: int, cost: Decimal) -> None:
        if number == len(_LEVELS):
            self._older += cost
            return
        buckets, place = self._levels[number], start // _LEVELS[number].width
        buckets[place] = buckets.get(place, NOTHING) + cost
