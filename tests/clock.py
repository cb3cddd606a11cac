"""`SetClock`: a clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class SetClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time."""
        return self.at

    def move(self, seconds: float) -> None:
        """Move on, or back."""
        self.at += timedelta(seconds=seconds)
