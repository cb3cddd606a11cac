"""`CachedEmbedder`: remembers vectors, and has texts that come at the same time embedded once. It knows no model."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import ModelError, OptionError, UsageError
from penstock.engine.values.ports import Embedder
from penstock.models.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENTRY = 300
"""Bytes that an entry takes besides its numbers, about: the key, the array's head, its place in the mapping."""


class CachedEmbedder:
    """Asks another embedder for what it does not know yet. Safe to share by tasks, threads and event loops.

    Texts are told apart by a SHA-256 of theirs, and are not kept. Those that were used last stay. If an embedder
    fails, nobody else is told: whoever waits asks for itself.

    Args:
        embedder: whom to ask.
        max_bytes: what all vectors may take in memory, bookkeeping included. A vector of 1,536 numbers takes 12.6 kB.

    Raises:
        OptionError: that is no embedder, or the limit is not 1 or more.
    """

    __slots__ = ("_calls", "_embedder", "_kept", "_lock", "_max_bytes", "_size")

    def __init__(self, embedder: Embedder, *, max_bytes: int = 64 * 1024 * 1024) -> None:
        if isinstance(embedder, type) or not isinstance(cast("object", embedder), Embedder):
            raise OptionError("CachedEmbedder", "embedder", embedder, "an Embedder: it has a method embed")
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
        """What the embedder is called; None if it does not say."""
        name: object = getattr(self._embedder, "name", None)
        return name if isinstance(name, str) else None

    @property
    def threshold(self) -> float | None:
        """From which cosine on texts have something to do with each other, if the embedder says so."""
        found: object = getattr(self._embedder, "threshold", None)
        return found if isinstance(found, float) else None

    @property
    def size(self) -> int:
        """How many bytes it takes, about; never more than ``max_bytes``."""
        return self._size

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order; what is not known yet is asked for at once.

        Raises:
            ModelError: the embedder raised it, or did not give one vector for each text.
            UsageError: it is given a text by itself, whose letters would be embedded.
        """
        if isinstance(texts, str):
            raise UsageError("embed takes a list of texts; a single one goes in a list, too")
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        found: dict[bytes, array[float]] = {}
        while missing := {key: text for key, text in wanted.items() if key not in found}:
            found.update(self._known(missing))
            await self._asked({key: text for key, text in missing.items() if key not in found}, found)
        return [found[key].tolist() for key in keys]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    async def _asked(self, missing: dict[bytes, str], found: dict[bytes, array[float]]) -> None:
        """Have embedded what nobody else has embedded at the moment, and wait for the rest.

        Nobody waits before its own is done, so no two wait for each other.
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
                problem = f"it was asked for {len(mine)} vectors, and gave {len(vectors)}"
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
        """Return how many vectors are kept."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show whom it asks, and how much it holds; no text is there to be shown."""
        return f"CachedEmbedder({self._embedder!r}, {self._size:,} of {self._max_bytes:,} bytes)"


def _size(vector: array[float]) -> int:
    return _ENTRY + vector.itemsize * len(vector)
