"""Changes to a payload, as values: a place, what happened there, and the same as a tree. It compares nothing itself.

A place is a path from the payload down: ``("messages", id, "parts", 0, "text")``, ``("facts", key)``,
``("fields", "model_settings", "temperature")``. A change is edits (of a text), `Put`, `Added` or `Gone`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import Entry

Place = tuple[Any, ...]
Hints: TypeAlias = "Mapping[TextPlace, Edits]"

NO_HINTS: Hints = {}
"""No edits are known; nobody writes to it."""

TEXT_FIELDS: frozenset[str] = frozenset({"arguments", "result"})
"""The stage fields whose strings are text."""

KEYED_FIELDS: frozenset[str] = frozenset({"tools", "model_settings", "provider_options", "active_tools"})
"""The stage fields that merge key by key; the others are taken whole."""


@dataclass(frozen=True, slots=True)
class Put:
    """A value stands there now."""

    value: Value
    step: str


@dataclass(frozen=True, slots=True)
class Added:
    """A message is new; ``after`` is the id before it, None at the start."""

    entry: Entry
    after: str | None
    step: str


@dataclass(frozen=True, slots=True)
class Gone:
    """What stood there is gone."""

    step: str


Change: TypeAlias = "Edits | Put | Added | Gone"
Delta: TypeAlias = dict[Place, Change]

Twig: TypeAlias = Any
"""A change, or a mapping of twigs by key: which of them, its place tells, and no type can."""

Tree: TypeAlias = "dict[Value, Twig]"
"""The changes as nested mappings, a change at each leaf."""


def only_edits(delta: Delta) -> bool:
    """Tell whether the changes leave the messages as they are but for edits of their texts."""
    return all(isinstance(change, tuple) or place[0] in ("facts", "fields") for place, change in delta.items())


def as_tree(delta: Delta) -> Tree:
    """Return the changes as nested mappings, a change at each leaf."""
    tree: Tree = {}
    for place, change in delta.items():
        node = tree
        for key in place[:-1]:
            node = node.setdefault(key, {})
        node[place[-1]] = change
    return tree


def flatten(tree: Tree, place: Place = ()) -> Delta:
    """Return nested changes place by place; the reverse of `as_tree`."""
    delta: Delta = {}
    for key, node in tree.items():
        if is_mapping(node):
            delta.update(flatten(node, (*place, key)))
        else:
            delta[*place, key] = node
    return delta


def text_edits(delta: Delta) -> dict[TextPlace, Edits]:
    """Return the edits of texts among the changes."""
    return {
        TextPlace(place[1], place[3], place[4:]) if place[0] == "messages" else TextPlace("", 0, place[1:]): change
        for place, change in delta.items()
        if isinstance(change, tuple)
    }


def keyed(value: dict[str, Value] | tuple[str, ...] | None) -> Values:
    """Return a field that merges key by key as a mapping; names alone become its keys."""
    if value is None:
        return EMPTY
    return value if isinstance(value, dict) else dict.fromkeys(value, True)
