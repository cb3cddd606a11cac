"""`CachedEmbedder`: caches the vectors of another embedder, and embeds equal texts that arrive together only once."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import ModelError, OptionError
from penstock.engine.values.protocols import Embedder
from penstock.models.embedders.texts import checked_texts
from penstock.models.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENTRY = 300
"""Approximate bytes of an entry besides its numbers: the key, the array's header, its place in the mapping."""


class CachedEmbedder:
    """Asks another embedder only for texts that it does not know yet. Tasks, threads and event loops can share it.

    Texts are identified by their SHA-256 hash, and are not stored. When the cache is full, the vectors that were not
    used for the longest time are dropped. If the embedder fails, only the caller that asked it gets the error; others
    that wait for the same text ask again.

    Args:
        embedder: the embedder to ask.
        max_bytes: memory for all vectors, bookkeeping included, in bytes, 1 or more. Default: 64 MiB. A vector of 1,536
            numbers takes 12.6 kB.

    Raises:
        OptionError: ``embedder`` is not an `Embedder`, or ``max_bytes`` is not an int of 1 or more.
    """

    __slots__ = ("_calls", "_embedder", "_kept", "_lock", "_max_bytes", "_size")

    def __init__(self, embedder: Embedder, *, max_bytes: int = 64 * 1024 * 1024) -> None:
        if isinstance(embedder, type) or not isinstance(cast("object", embedder), Embedder):
            raise OptionError("CachedEmbedder", "embedder", embedder, "an Embedder: an object with a method embed")
        if type(max_bytes) is not int or max_bytes < 1:
            raise OptionError("CachedEmbedder", "max_bytes", max_bytes, "a number of bytes, 1 or more")
        self._embedder = embedder
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, array[float]] = OrderedDict()
        self._lock = Lock()
        self._calls = SingleFlight[bytes, "array[float]"]()
        self._size = 0

    @property
    def name(self) -> str | None:
        """The embedder's name; None if it has none."""
        name: object = getattr(self._embedder, "name", None)
        return name if isinstance(name, str) else None

    @property
    def threshold(self) -> float | None:
        """The cosine from which texts are related, if the embedder has one; else None."""
        found: object = getattr(self._embedder, "threshold", None)
        return found if isinstance(found, float) else None

    @property
    def size(self) -> int:
        """Approximate memory that it takes, in bytes; never more than ``max_bytes``."""
        return self._size

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order.

        Raises:
            ModelError: the embedder raised it, or did not return one vector for each text.
            UsageError: ``texts`` is a single str, whose letters would be embedded, or holds something that is no text.
        """
        given = checked_texts(texts)
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in given]
        wanted = dict(zip(keys, given, strict=True))
        found: dict[bytes, array[float]] = {}
        while missing := {key: text for key, text in wanted.items() if key not in found}:
            found.update(self._known(missing))
            await self._asked({key: text for key, text in missing.items() if key not in found}, found)
        return [found[key].tolist() for key in keys]

    def clear(self) -> None:
        """Drop all vectors."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    async def _asked(self, missing: dict[bytes, str], found: dict[bytes, array[float]]) -> None:
        """Embed the texts that no other task is embedding, then wait for the others.

        A task waits only when its own texts are done, so two tasks never wait for each other.
        """
        pending = {key: self._calls.find(key) for key in missing}
        others = {key: call for key, call in pending.items() if call is not None}
        mine = {key: text for key, text in missing.items() if key not in others}
        if mine:
            found.update(await self._led(mine))
        for key, call in others.items():
            await call.ended()
            if call.is_done:
                found[key] = call.result

    async def _led(self, mine: dict[bytes, str]) -> dict[bytes, array[float]]:
        led = {key: self._calls.lead(key) for key in mine}
        try:
            vectors = await self._embedder.embed(list(mine.values()))
            if len(vectors) != len(mine):
                problem = f"it was asked for {len(mine)} vectors, but returned {len(vectors)}"
                raise ModelError(self.name or type(self._embedder).__name__, problem)
            made = {key: array("d", vector) for key, vector in zip(mine, vectors, strict=True)}
            for key, vector in made.items():
                led[key].deliver(vector)
                self._keep(key, vector)
        finally:
            for call in led.values():
                call.release()
        return made

    def _known(self, keys: dict[bytes, str]) -> dict[bytes, array[float]]:
        with self._lock:
            known = {key: self._kept[key] for key in keys if key in self._kept}
            for key in known:
                self._kept.move_to_end(key)
        return known

    def _keep(self, key: bytes, vector: array[float]) -> None:
        size = _size(vector)
        with self._lock:
            if key in self._kept or size > self._max_bytes:
                return
            self._kept[key] = vector
            self._size += size
            while self._size > self._max_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._size -= _size(dropped)

    def __len__(self) -> int:
        """Return how many vectors are cached."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show the embedder and the memory in use, and no text."""
        return f"CachedEmbedder({self._embedder!r}, {self._size:,} of {self._max_bytes:,} bytes)"


def _size(vector: array[float]) -> int:
    return _ENTRY + vector.itemsize * len(vector)
