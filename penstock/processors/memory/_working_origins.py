"""Since when each field of an object is as it is, by the versions that are kept. Pure; it knows no store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_mapping
from penstock.processors.memory._working_updates import document_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.stored import MemoryRecord


def origins_of(history: Sequence[MemoryRecord]) -> dict[str, MemoryRecord]:
    """Return for each field, by its path, the version since which it is as it is; as far as versions are kept.

    Args:
        history: the versions, the newest first. Where the newest is no object, there are no fields.
    """
    fields = [dict(_leaves(document_of(record.text), "")) for record in history]
    found: dict[str, MemoryRecord] = {}
    for path, value in fields[0].items() if fields else ():
        same = 0
        while same + 1 < len(fields) and fields[same + 1].get(path, _NOTHING) == value:
            same += 1
        found[path] = history[same]
    return found


_NOTHING = object()


def _leaves(value: Value, path: str) -> Iterator[tuple[str, Value]]:
    """Yield what is no object, or an empty one, with its path as a JSON Pointer."""
    if is_mapping(value) and (value or not path):
        for name, item in value.items():
            yield from _leaves(item, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif path:
        yield path, value
