"""`LRUCache`: the `Cache` in a process's own memory; it knows nothing of what it keeps."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.ports import SYSTEM_CLOCK

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.engine.values.ports import Clock


class LRUCache:
    """Keeps the ``size`` texts that were used last, each for as long as it was given.

    Raises:
        OptionError: the size is not 1 or more.
    """

    __slots__ = ("_clock", "_kept", "_size")

    def __init__(self, size: int = 1024, *, clock: Clock = SYSTEM_CLOCK) -> None:
        if type(size) is not int or size < 1:
            raise OptionError("LRUCache", "size", size, "an int, 1 or more")
        self._size = size
        self._clock = clock
        self._kept: OrderedDict[str, tuple[str, datetime | None]] = OrderedDict()

    async def get(self, key: str) -> str | None:
        """Return what is kept under the key, or None if nothing is, or not any more."""
        value, until = self._kept.get(key, (None, None))
        if until is not None and until <= self._clock.now():
            del self._kept[key]
            return None
        if value is not None:
            self._kept.move_to_end(key)
        return value

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep the value; the one that was not used for longest may have to go."""
        until = None if ttl is None else self._clock.now() + timedelta(seconds=ttl)
        self._kept[key] = (value, until)
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        """Return how many texts are kept, those whose time is over included."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show how much it holds, not what."""
        return f"LRUCache({len(self)} of {self._size})"
