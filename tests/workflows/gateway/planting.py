"""Plant a secret at every place of a JSON value: in texts, numbers, keys, lists, and under keys that nobody knows."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "ann.secret@example.com"
"""What is planted: an address, which `PIIDetector` finds wherever it reads."""

Place = tuple[str | int, ...]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the path of each value in a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def planted(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the value with the secret at each place, once for each way to put it there, with a name for it."""
    for path in places(value):
        found = at(value, path)
        name = ".".join(map(str, path))
        if isinstance(found, str):
            yield f"{name} is it", with_value(value, path, SECRET)
            yield f"{name} holds it", with_value(value, path, f"{found} {SECRET} ")
        elif isinstance(found, dict):
            yield f"{name} has a field more", with_value(value, path, {**found, "surprise": SECRET})
            yield f"{name} has a key", with_value(value, path, {**found, SECRET: 1})
            yield f"{name} has an object more", with_value(value, path, {**found, "surprise": {"a": [{"b": SECRET}]}})
        elif isinstance(found, list):
            yield f"{name} has an item more", with_value(value, path, [*found, SECRET])
            yield f"{name} has an object as item", with_value(value, path, [*found, {"type": "text", "text": SECRET}])
        else:
            yield f"{name} is it in place of {found}", with_value(value, path, SECRET)


def at(value: Any, path: Place) -> Any:
    for key in path:
        value = value[key]
    return value


def with_value(value: Any, path: Place, new: Any) -> Any:
    if not path:
        return new
    made = copy.deepcopy(value)
    at(made, path[:-1])[path[-1]] = new
    return made


def holds_secret(raw: bytes) -> bool:
    """Tell whether some bytes spell the secret, plainly or escaped."""
    text = raw.decode(errors="replace")
    return SECRET in text or SECRET in text.encode().decode("unicode_escape", errors="replace")
