"""The differences of two JSON values, as a JSON value: `json_changes` finds it, `changed_json` applies it.

Values are the same if they are written as the same JSON: to Python, True, 1 and 1.0 are equal.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value, Values


def json_changes(before: Value, after: Value) -> dict[str, Value]:
    """Return the changes that make one value the other; empty if they are the same.

    It says ``to`` which other value; ``in``, ``put`` and ``gone`` of a dict; ``from``, ``drop`` and ``put`` of a list.

    It is small where dicts differ in few fields, and lists in one place, such as their end.
    """
    if is_mapping(before) and is_mapping(after):
        return _of_dicts(before, after)
    if same_json(before, after):
        return {}
    if is_items(before) and is_items(after):
        return _of_lists(before, after)
    return {"to": after}


def _of_dicts(before: Values, after: Values) -> dict[str, Value]:
    inner = {key: json_changes(before[key], after[key]) for key in before if key in after}
    found = {
        "in": {key: changes for key, changes in inner.items() if changes},
        "put": {key: value for key, value in after.items() if key not in before},
        "gone": [key for key in before if key not in after],
    }
    return {name: changes for name, changes in found.items() if changes}


def _of_lists(before: Sequence[Value], after: Sequence[Value]) -> dict[str, Value]:
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    return {"from": start, "drop": len(before) - start - end, "put": list(after[start : len(after) - end])}


def _same(one: Sequence[Value], other: Sequence[Value]) -> int:
    """Return at how many places from the beginning two lists are the same."""
    return sum(1 for _ in takewhile(lambda pair: same_json(*pair), zip(one, other, strict=False)))


def same_json(one: Value, other: Value) -> bool:
    """Return whether two values are written as the same JSON, whatever the order of the keys."""
    if is_mapping(one) and is_mapping(other):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if is_items(one) and is_items(other):
        return len(one) == len(other) and all(map(same_json, one, other))
    if type(one) is float:
        return type(other) is float and repr(one) == repr(other)  # 0.0 is not -0.0, and NaN is NaN
    return type(one) is type(other) and bool(one == other)


def changed_json(before: Value, changes: Values) -> Value:
    """Return the value that `json_changes` has compared with; parts that are equal are shared with ``before``."""
    if not changes:
        return before
    if "to" in changes:
        return changes["to"]
    if "from" in changes:
        start = changes["from"]
        return [*before[:start], *changes["put"], *before[start + changes["drop"] :]]
    kept = {key: value for key, value in before.items() if key not in changes.get("gone", ())}
    inner = {key: changed_json(kept[key], one) for key, one in changes.get("in", {}).items()}
    return {**kept, **inner, **changes.get("put", {})}
