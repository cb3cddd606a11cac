"""What the index of an embedder's vectors is called: vectors of two models are never compared. It knows no store."""

from __future__ import annotations

import hashlib
import re

_PREFIX = "penstock_memory_"
_LONGEST = 63  # bytes of a name in PostgreSQL
_DIGITS = 8
_ODD = re.compile(r"[^A-Za-z0-9_]")


def index_name(model: str | None) -> str:
    """Return the name of the index for a model's vectors: letters, digits and underscores, 63 at most.

    A name that does not fit is cut, other characters become underscores, and eight digits of a hash keep what then
    looks alike apart.
    """
    if not model:
        return f"{_PREFIX}default"
    plain = _ODD.sub("_", model)
    room = _LONGEST - len(_PREFIX)
    if plain == model and len(plain) <= room:
        return _PREFIX + plain
    mark = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_PREFIX}{plain[: room - _DIGITS - 1]}_{mark}"
