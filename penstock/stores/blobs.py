"""Vectors as bytes: 32-bit floats, the lowest byte first; it knows no store."""

from __future__ import annotations

import struct
from math import isfinite
from typing import TYPE_CHECKING

from penstock.engine.values.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def blob(vector: Sequence[float], store: str, length: int | None = None) -> bytes:
    """Return a vector as bytes, four a number; ``length``: how many numbers it must have, if that is given.

    Raises:
        StorageError: it is empty, of another length, or holds what is no finite number, or none of 32 bits.
    """
    if not len(vector):
        raise StorageError(store, "a vector is empty; what embedded it gave nothing")
    if length is not None and len(vector) != length:
        problem = f"a vector has {len(vector)} numbers, but those of its index have {length}"
        raise StorageError(store, f"{problem}: use one index for each embedder")
    try:
        written = struct.pack(f"<{len(vector)}f", *vector)
        finite = all(map(isfinite, vector))
    except (struct.error, OverflowError, TypeError):
        finite, written = False, b""
    if not finite:
        raise StorageError(store, "a vector holds something that is no finite number of 32 bits")
    return written
