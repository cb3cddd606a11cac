"""`plain`: the nearest JSON value of any value, for what is written of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import cast

_LARGEST = 10**600
"""Python may be set to write no more digits than 640 (`sys.set_int_max_str_digits`)."""
_DEEPEST = 200  # levels


def plain(value: object, above: tuple[int, ...] = ()) -> object:
    """Return the nearest JSON value of any value.

    Numbers that are not finite become None. All else that JSON cannot say becomes the name of its type, as do whole
    numbers of more digits than Python writes, a value in itself, and values that are nested too deeply.

    Args:
        value: the value.
        above: the ids of the values that it stands in.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return type(value).__name__ if abs(value) >= _LARGEST else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if len(above) < _DEEPEST and id(value) not in above:
        here = (*above, id(value))
        if isinstance(value, Mapping):
            return {str(key): plain(item, here) for key, item in cast("Mapping[object, object]", value).items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, here) for item in cast("Iterable[object]", value)]
    return type(value).__name__
