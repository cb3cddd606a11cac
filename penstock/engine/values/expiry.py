"""`ExpiryTimer`: tells when entries of a cache have expired, whatever the clock of the machine is set to."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


class Expiry(NamedTuple):
    """When an entry expires; made by `ExpiryTimer.after`.

    Attributes:
        monotonic: by the machine's monotonic clock.
        forward: by the steps forward of the clock of the day.
        begun: the time of that clock when the entry was stored; if it shows less now, the age is unknown.
    """

    monotonic: float
    forward: float
    begun: float


class ExpiryTimer:
    """Measures how long entries have been stored, in one process.

    An entry has expired as soon as any of two clocks says so: the machine's monotonic clock, which nobody sets, and the
    clock of the day, which goes on while the machine sleeps, and which tests can set. Where that is put back, no time
    is taken back.

    Args:
        now: tells the time by the clock of the day.
    """

    __slots__ = ("_forward", "_now", "_shown", "_start")

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._start = monotonic()
        self._forward = 0.0
        self._shown: float | None = None

    def after(self, ttl: float) -> Expiry:
        """Return the expiry of an entry that is stored now, for ``ttl`` seconds."""
        shown = self._look()
        return Expiry(monotonic() - self._start + ttl, self._forward + ttl, shown)

    def is_over(self, expiry: Expiry) -> bool:
        """Tell whether an entry has expired."""
        shown = self._look()
        is_over = monotonic() - self._start >= expiry.monotonic or self._forward >= expiry.forward
        return is_over or shown < expiry.begun

    def _look(self) -> float:
        """Return the clock's time, and count its step forward since the last look."""
        now = self._now().timestamp()
        if self._shown is not None and now > self._shown:
            self._forward += now - self._shown
        self._shown = now
        return now

    def __getstate__(self) -> tuple[Callable[[], datetime], float, float, float | None]:
        """Copy and pickle the seconds so far: another process has another monotonic clock."""
        return self._now, monotonic() - self._start, self._forward, self._shown

    def __setstate__(self, state: tuple[Callable[[], datetime], float, float, float | None]) -> None:
        """Go on from there; the time between is measured by the clock of the day."""
        self._now, passed, self._forward, self._shown = state
        self._start = monotonic() - passed
