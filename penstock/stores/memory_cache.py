"""`MemoryCache`: a `Cache` in the memory of the process, limited in bytes."""

from __future__ import annotations

import sys
from threading import Lock
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.protocols import SYSTEM_CLOCK, LRUCache

if TYPE_CHECKING:
    from penstock.engine.values.protocols import Clock


class MemoryCache(LRUCache):
    """Stores texts within a number of bytes; the least recently used are dropped. Threads and event loops can share it.

    A time to live is measured within the process: setting the machine's clock back does not lengthen it.

    Args:
        max_bytes: the memory for all entries, including keys and bookkeeping, in bytes, 1 or more. Default: 64 MiB. An
            entry that is larger alone is not stored.
        clock: a further clock by which entries expire.

    Raises:
        OptionError: ``max_bytes`` is not an int of 1 or more.
    """

    __slots__ = ("_lock",)

    entry_bytes = 500

    def __init__(self, max_bytes: int = 64 * 1024 * 1024, *, clock: Clock = SYSTEM_CLOCK) -> None:
        if type(max_bytes) is not int or max_bytes < 1:
            raise OptionError("MemoryCache", "max_bytes", max_bytes, "a number of bytes, 1 or more")
        super().__init__(sys.maxsize, max_bytes=max_bytes, clock=clock)
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Approximate memory in use, in bytes; never more than ``max_bytes``."""
        return self._bytes

    async def get(self, key: str) -> str | None:
        """Return the value of a key; None if there is none, or it has expired."""
        with self._lock:
            return self._get(key)

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store a value, for ``ttl`` seconds if given. The least recently used entries may be dropped."""
        with self._lock:
            self._set(key, value, ttl)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the entries, without the lock."""
        with self._lock:
            held = {name: getattr(self, name) for name in LRUCache.__slots__}
            return {**held, "_kept": self._kept.copy()}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a copy, with a lock of its own."""
        for name, value in state.items():
            setattr(self, name, value)
        self._lock = Lock()

    def __repr__(self) -> str:
        """Show how much it holds, and no content."""
        return f"MemoryCache({self._bytes:,} of {self._max_bytes:,} bytes)"
