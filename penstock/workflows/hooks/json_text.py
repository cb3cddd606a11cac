"""Edit JSON text in place: all other bytes stay, in any indentation, order and kind of line ends."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.formats.wire import Value

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\n([ \t]+)\"")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Node:
    """A JSON value in a text.

    Attributes:
        start: where it begins.
        end: where it ends.
        value: the value.
        members: the values in an object by key, with where the key begins; empty for others.
        items: the values in an array; empty for others.
    """

    start: int
    end: int
    value: Value
    members: dict[str, tuple[int, Node]] = field(default_factory=dict["str", "tuple[int, Node]"])
    items: list[Node] = field(default_factory=list["Node"])

    def get(self, *path: str) -> Node | None:
        """Return the value under keys, one in another; None if it is not there."""
        found: Node | None = self
        for key in path:
            found = None if found is None or key not in found.members else found.members[key][1]
        return found


def parse_text(text: str) -> Node:
    """Return the JSON value of a text, with the places of all values in it.

    Raises:
        ValueError: it is no JSON, or an object has a key twice.
    """
    json.loads(text)  # with the usual errors
    return _node(text, _skip(text, 0))


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _node(text: str, at: int) -> Node:
    if text[at] == "{":
        return _object(text, at)
    if text[at] == "[":
        return _array(text, at)
    value, end = _DECODER.raw_decode(text, at)
    return Node(at, end, value)


def _object(text: str, start: int) -> Node:
    made = Node(start, start, {})
    at = _skip(text, start + 1)
    while text[at] != "}":
        at = _skip(text, at + 1) if text[at] == "," else at
        key, end = _DECODER.raw_decode(text, at)
        if key in made.members:
            raise ValueError(f"the key {key!r} stands there twice")
        child = _node(text, _skip(text, _skip(text, end) + 1))
        made.members[key] = (at, child)
        made.value[key] = child.value
        at = _skip(text, child.end)
    made.end = at + 1
    return made


def _array(text: str, start: int) -> Node:
    made = Node(start, start, [])
    at = _skip(text, start + 1)
    while text[at] != "]":
        child = _node(text, _skip(text, at + 1) if text[at] == "," else at)
        made.items.append(child)
        made.value.append(child.value)
        at = _skip(text, child.end)
    made.end = at + 1
    return made


def with_item(text: str, array: Node, item: Value, *, depth: int) -> str:
    """Return a text with an item at the end of an array that stands ``depth`` levels deep."""
    last = array.items[-1].end if array.items else None
    return _with(text, array, last, json.dumps(item, ensure_ascii=False), depth)


def with_member(text: str, owner: Node, key: str, value: Value, *, depth: int) -> str:
    """Return a text with a member at the end of an object that stands ``depth`` levels deep."""
    ends = [child.end for _, child in owner.members.values()]
    said = f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
    return _with(text, owner, max(ends, default=None), said, depth)


def _with(text: str, owner: Node, last: int | None, said: str, depth: int) -> str:
    """Return a text with a new last value in an object or an array, on a line of its own."""
    newline = "\r\n" if "\r\n" in text else "\n"
    found = _INDENT.search(text)
    unit = "  " if found is None else found[1]
    line = f"{newline}{unit * (depth + 1)}{said}"
    if last is None:
        return f"{text[: owner.start + 1]}{line}{newline}{unit * depth}{text[owner.end - 1 :]}"
    return f"{text[:last]},{line}{text[last:]}"


def without(text: str, owner: Node, gone: set[int]) -> str:
    """Return a text without some values of an object or an array, each with its comma and the space before it.

    Args:
        text: the text.
        owner: the object or the array.
        gone: the places of the values in it, from 0.
    """
    spans = list(_spans(owner))
    kept = [index for index in range(len(spans)) if index not in gone]
    if not kept:
        return f"{text[: owner.start + 1]}{text[owner.end - 1 :]}"
    for index in sorted(gone, reverse=True):
        if index > kept[0]:
            text = text[: spans[index - 1][1]] + text[spans[index][1] :]
        else:
            text = text[: spans[index][0]] + text[spans[index + 1][0] :]
    return text


def _spans(owner: Node) -> Iterator[tuple[int, int]]:
    for start, child in owner.members.values():
        yield start, child.end
    for child in owner.items:
        yield child.start, child.end
