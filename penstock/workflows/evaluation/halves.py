"""Which half of the rows a row belongs to: a threshold is chosen on the first half, and reported on the second."""

from __future__ import annotations

from hashlib import blake2b


def is_second_half(id: str | int | None, text: str) -> bool:
    """Return whether a row belongs to the second half.

    It depends on the row's id, or without one on its text, and on nothing else: the same row is in the same half in
    every run, in any order and beside any other rows.

    Args:
        id: the id of the row; None if it has none.
        text: the row as text.
    """
    key = f"t{text}" if id is None else f"i{id}"
    return bool(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] & 1)
