"""`MemoryCache`: a `Cache` in the process's own memory, limited in bytes; it knows nothing of what it keeps."""

from __future__ import annotations

import sys
from collections import OrderedDict
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import OptionError
from penstock.engine.values.ports import SYSTEM_CLOCK

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.engine.values.ports import Clock

_ENTRY = 400
"""Bytes that an entry takes besides its texts, about: the tuple, the time, its place in the mapping."""


class _CacheItem(NamedTuple):
    value: str
    until: datetime | None
    size: int


class MemoryCache:
    """Keeps texts, those that were used last, within a number of bytes. Safe to share by threads and event loops.

    Args:
        max_bytes: what all of it may take in memory, keys and bookkeeping included; what is larger alone is not kept.
        clock: what tells when the time of a text is over.

    Raises:
        OptionError: the limit is not 1 or more.
    """

    __slots__ = ("_clock", "_kept", "_lock", "_max_bytes", "_size")

    def __init__(self, max_bytes: int = 64 * 1024 * 1024, *, clock: Clock = SYSTEM_CLOCK) -> None:
        if type(max_bytes) is not int or max_bytes < 1:
            raise OptionError("MemoryCache", "max_bytes", max_bytes, "a number of bytes, 1 or more")
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: OrderedDict[str, _CacheItem] = OrderedDict()
        self._lock = Lock()
        self._size = 0

    @property
    def size(self) -> int:
        """How many bytes it takes, about; never more than ``max_bytes``."""
        return self._size

    async def get(self, key: str) -> str | None:
        """Return what is kept under the key, or None if nothing is, or not any more."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if kept.until is not None and kept.until <= self._clock.now():
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return kept.value

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep the value, for ``ttl`` seconds if that is given; those that were not used for longest may have to go."""
        until = None if ttl is None else self._after(ttl)
        size = sys.getsizeof(key) + sys.getsizeof(value) + _ENTRY
        with self._lock:
            self._drop(key)
            if size > self._max_bytes:
                return
            self._kept[key] = _CacheItem(value, until, size)
            self._size += size
            while self._size > self._max_bytes:
                self._drop(next(iter(self._kept)))

    def _after(self, ttl: float) -> datetime | None:
        try:
            return self._clock.now() + timedelta(seconds=ttl)
        except OverflowError:  # beyond all calendars
            return None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle what it holds, without the lock."""
        with self._lock:
            held = {name: getattr(self, name) for name in self.__slots__ if name != "_lock"}
            return {**held, "_kept": self._kept.copy()}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what was copied, under a lock of its own."""
        for name, value in state.items():
            setattr(self, name, value)
        self._lock = Lock()

    def __len__(self) -> int:
        """Return how many texts are kept, those whose time is over included."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show how much it holds, not what."""
        return f"MemoryCache({self._size:,} of {self._max_bytes:,} bytes)"
