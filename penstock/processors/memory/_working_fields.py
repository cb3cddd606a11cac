"""Changes to single fields of an object, by path: set, append, delete. Pure; it knows no memory.

Paths are JSON Pointers (RFC 6901): ``/address/city``; ``~1`` stands for a slash in a name, ``~0`` for a tilde.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import TypeIs

    from penstock.engine.values.frozen import Value, Values

_DEEPEST = 50
"""How many names a path may have."""

_NUMBER = re.compile(r"[0-9]{1,9}")


class WrongPathError(Exception):
    """A change that cannot be made where it is asked for; the text says why, and quotes no value."""


def changed(document: dict[str, Value], changes: Sequence[Values]) -> dict[str, Value]:
    """Return the object with all of the changes made, in order.

    Args:
        document: the object.
        changes: each with ``op`` (``set``, ``append`` or ``delete``), ``path``, and ``value``.

    Raises:
        WrongPathError: one cannot be made; the text says which.
    """
    made = copy.deepcopy(document)
    for place, change in enumerate(changes):
        try:
            _change(made, change["op"], _steps(change["path"]), change.get("value"))
        except WrongPathError as error:
            raise WrongPathError(f"changes[{place}]: {error}") from None
    return made


def _steps(path: str) -> list[str]:
    steps = path.removeprefix("/").split("/")
    if not path.strip("/") or len(steps) > _DEEPEST:
        raise WrongPathError(f"a path names a field, as in /address/city, with at most {_DEEPEST} names")
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


def _change(document: Value, op: str, steps: list[str], value: Value) -> None:
    *above, last = steps
    deletes = op == "delete" or (op == "set" and value is None)
    holder = document
    for step in above:
        below = _below(holder, step)
        if below is None and deletes:
            return
        if below is None:
            below = dict[str, "Value"]()
            _put(holder, step, below)
        holder = below
    if deletes:
        _delete(holder, last, value)
    elif op == "append":
        if value is None:
            raise WrongPathError("append wants a value")
        _append(holder, last, value)
    else:
        _put(holder, last, value)


def _below(holder: Value, step: str) -> Value:
    if is_mapping(holder):
        return holder.get(step)
    return holder[_index(holder, step)]


def _put(holder: Value, step: str, value: Value) -> None:
    if is_mapping(holder):
        holder[step] = value
    else:
        holder[_index(holder, step)] = value


def _append(holder: Value, step: str, value: Value) -> None:
    """Put a value behind a list's last, unless it is in the list; a list that is not there yet is made."""
    items = _below(holder, step)
    if items is None:
        _put(holder, step, [value])
    elif not _is_list(items):
        raise WrongPathError("append is for lists; set replaces what stands there")
    elif not any(_equal(item, value) for item in items):
        items.append(value)


def _delete(holder: Value, step: str, value: Value) -> None:
    """Take a field away, or a value out of a list; what is not there is gone already."""
    if value is None:
        if is_mapping(holder):
            holder.pop(step, None)
        else:
            del holder[_index(holder, step)]
        return
    items = _below(holder, step)
    if _is_list(items):
        items[:] = [item for item in items if not _equal(item, value)]
    elif items is not None:
        raise WrongPathError("a value is taken out of lists; to delete a field, give no value")


def _index(holder: Value, step: str) -> int:
    if not _is_list(holder):
        raise WrongPathError("the path goes on below a value that has no fields")
    if not _NUMBER.fullmatch(step) or int(step) >= len(holder):
        raise WrongPathError("the list has no such place; its first is 0, and append puts something behind the last")
    return int(step)


def _is_list(value: object) -> TypeIs[list[Value]]:
    return isinstance(value, list)


def _equal(one: Value, other: Value) -> bool:
    """Tell whether both are the same JSON: 1 and true are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
