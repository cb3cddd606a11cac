"""Windows of time: since when what was spent counts. They know no ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias, cast, get_args

from penstock.engine.values.errors import OptionError

Sliding = Literal["1h", "6h", "24h", "7d", "30d", "365d"]
Calendar = Literal["day", "week", "month"]
Window: TypeAlias = "Sliding | Calendar | timedelta | None"
"""The last hours or days; since the day (week, month) began, in UTC; any span of time; None: for ever."""

_SPANS = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "365d": timedelta(days=365),
}
_LONGEST = timedelta(days=400)  # what a ledger must be able to tell apart


def checked(owner: str, given: object) -> Window:
    """Return the option if it is a window.

    Raises:
        OptionError: it is none.
    """
    known = (*get_args(Sliding), *get_args(Calendar))
    spans = isinstance(given, timedelta) and timedelta(0) < given <= _LONGEST
    if given is not None and given not in known and not spans:
        allowed = (
            f"one of {', '.join(map(repr, known))}, a timedelta of more than nothing and at most 400 days, or None"
        )
        raise OptionError(owner, "window", given, allowed)
    return cast("Window", given)


def start_of(window: Window, now: datetime) -> datetime | None:
    """Return since when a window counts; None if it always has."""
    if window is None:
        return None
    if isinstance(window, timedelta):
        return now - window
    if window in _SPANS:
        return now - _SPANS[window]
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    back = {"day": 0, "week": today.weekday(), "month": today.day - 1}[window]
    return today - timedelta(days=back)


def name_of(window: Window) -> str | None:
    """Return how a window is told."""
    return str(window) if isinstance(window, timedelta) else window
