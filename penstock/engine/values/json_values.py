"""What a JSON value is: the check that whatever a tool takes and gives can be read by guards; it knows no message.

A guard walks str, list and mapping. Anything else (a set, bytes, an object) could carry text past it, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import DEEPEST, FrozenDict, Value, is_items


def json_value(value: Value, place: str) -> Value:
    """Return the value frozen; ``place`` says in an error where it stands, for example ``result``.

    A JSON value is None, a bool, int, float or str, a list or tuple of such, or a mapping from str to such.

    Raises:
        MessageError: something in it is none, or it is nested deeper than `DEEPEST` levels. Keys are not told (they
            may be what is to be hidden): ``result.*[2]`` stands for any key, then index 2.
    """
    return _checked(value, place, 0)


def _checked(value: object, place: str, depth: int) -> Value:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if depth >= DEEPEST:
        outermost = place.split(".", 1)[0].split("[", 1)[0]
        raise MessageError(outermost, f"it is nested deeper than {DEEPEST} levels; flatten it")
    if is_items(value):
        return tuple([_checked(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)])
    if not isinstance(value, Mapping):
        cure = "convert it first, or a guard could not read the text in it"
        raise MessageError(place, f"expected a JSON value, not {type(value).__name__}; {cure}")
    mapping = cast("Mapping[object, object]", value)
    odd = next((key for key in mapping if not isinstance(key, str)), "")
    if not isinstance(odd, str):
        raise MessageError(place, f"expected a mapping with str keys, but a key is of type {type(odd).__name__}")
    below = f"{place}.*"
    return FrozenDict({key: _checked(item, below, depth + 1) for key, item in mapping.items()})
