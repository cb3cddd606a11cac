"""An object as texts that guards can read: JSON, where what it would escape stands as it is, in parts of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value


def written(data: Value) -> list[str]:
    """Return JSON values as texts: JSON at even places, at odd ones strings that JSON would show escaped.

    Put together they read as JSON does, but for those strings; `put_together` makes JSON of them.
    """
    texts = [""]
    for piece, is_raw in _pieces(data):
        if is_raw:
            texts += [piece, ""]
        else:
            texts[-1] += piece
    return texts


def put_together(texts: Sequence[str]) -> str:
    """Return the JSON that `written` gave as texts, whatever they hold by now."""
    return "".join(_written(text)[1:-1] if place % 2 else text for place, text in enumerate(texts))


def _pieces(data: Value) -> Iterator[tuple[str, bool]]:
    if is_mapping(data):
        pairs = ([*_pieces(str(key)), (": ", False), *_pieces(item)] for key, item in data.items())
        yield from _listed("{", pairs, "}")
    elif is_items(data):
        yield from _listed("[", map(_pieces, data), "]")
    elif isinstance(data, str) and _written(data) != f'"{data}"':
        yield from (('"', False), (data, True), ('"', False))
    else:
        yield _written(data), False


def _listed(begin: str, entries: Iterable[Iterable[tuple[str, bool]]], end: str) -> Iterator[tuple[str, bool]]:
    yield begin, False
    for number, entry in enumerate(entries):
        if number:
            yield ", ", False
        yield from entry
    yield end, False


def _written(data: Value) -> str:
    return json.dumps(data, ensure_ascii=False)
