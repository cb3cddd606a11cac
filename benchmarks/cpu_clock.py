"""An event loop whose clock is the CPU time of this process, as if nothing else ran on its core.

Where it would sleep until a timer is due, it sets its clock forward instead. So what is late is late by work of this
process, whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import selectors
from time import process_time


class _NeverSleeps(selectors.SelectSelector):
    """Looks at its files without waiting, and adds up how long it should have waited."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the files that are ready.

        Raises:
            RuntimeError: there is no timer either, so that nothing would ever happen.
        """
        if timeout is None:
            raise RuntimeError("the loop waits for something other than a timer, which the CPU's clock cannot time")
        self.skipped += max(0.0, timeout)
        return super().select(0)


class CpuClockLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._never_sleeps = _NeverSleeps()
        super().__init__(self._never_sleeps)

    def time(self) -> float:
        """Return the seconds that the process computed, and those that it would have slept."""
        return process_time() + self._never_sleeps.skipped
