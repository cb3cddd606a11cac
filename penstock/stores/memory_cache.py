"""`MemoryCache`: a `Cache` in the memory of the process, limited in bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import OptionError
from penstock.engine.values.expiry import Expiry, ExpiryTimer
from penstock.engine.values.protocols import SYSTEM_CLOCK

if TYPE_CHECKING:
    from penstock.engine.values.protocols import Clock

_ENTRY = 500
"""Approximate bytes of an entry besides its texts: the tuple, the time, its place in the mapping."""


class _CacheItem(NamedTuple):
    value: str
    expiry: Expiry | None
    size: int


class MemoryCache:
    """Stores texts within a number of bytes; the least recently used are dropped. Threads and event loops can share it.

    A time to live is measured within the process: setting the machine's clock back does not lengthen it.

    Args:
        max_bytes: the memory for all entries, including keys and bookkeeping, in bytes, 1 or more. Default: 64 MiB. An
            entry that is larger alone is not stored.
        clock: a further clock by which entries expire.

    Raises:
        OptionError: ``max_bytes`` is not an int of 1 or more.
    """

    __slots__ = ("_kept", "_lock", "_max_bytes", "_size", "_timer")

    def __init__(self, max_bytes: int = 64 * 1024 * 1024, *, clock: Clock = SYSTEM_CLOCK) -> None:
        if type(max_bytes) is not int or max_bytes < 1:
            raise OptionError("MemoryCache", "max_bytes", max_bytes, "a number of bytes, 1 or more")
        self._max_bytes = max_bytes
        self._timer = ExpiryTimer(clock.now)
        self._kept: OrderedDict[str, _CacheItem] = OrderedDict()
        self._lock = Lock()
        self._size = 0

    @property
    def size(self) -> int:
        """Approximate memory in use, in bytes; never more than ``max_bytes``."""
        return self._size

    async def get(self, key: str) -> str | None:
        """Return the value of a key; None if there is none, or it has expired."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if kept.expiry is not None and self._timer.is_over(kept.expiry):
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return kept.value

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store a value, for ``ttl`` seconds if given. The least recently used entries may be dropped."""
        size = sys.getsizeof(key) + sys.getsizeof(value) + _ENTRY
        with self._lock:
            self._drop(key)
            if size > self._max_bytes:
                return
            self._kept[key] = _CacheItem(value, None if ttl is None else self._timer.after(ttl), size)
            self._size += size
            while self._size > self._max_bytes:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the entries, without the lock."""
        with self._lock:
            held = {name: getattr(self, name) for name in self.__slots__ if name != "_lock"}
            return {**held, "_kept": self._kept.copy()}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a copy, with a lock of its own."""
        for name, value in state.items():
            setattr(self, name, value)
        self._lock = Lock()

    def __len__(self) -> int:
        """Return how many entries it holds, including those that have expired."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show how much it holds, and no content."""
        return f"MemoryCache({self._size:,} of {self._max_bytes:,} bytes)"
