"""Changes to a payload, as values: a place, what happened there, and the same as a tree. It compares nothing itself.

A place is a path from the payload down: ``("messages", id, "parts", 0, "text")``, ``("facts", key)``,
``("fields", "model_settings", "temperature")``. A change is edits (of a text), `Put`, `Added` or `Gone`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.processor.payload import Payload
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_items, is_mapping
from penstock.engine.values.message_list import Entry
from penstock.engine.values.texts import KeyText, TextPlace, free_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message


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


def rebuild(base: Payload, delta: Delta) -> Payload:
    """Return the payload with the changes made."""
    if not delta:
        return base
    message_list = base.message_list
    texts = {
        TextPlace(p[1], p[3], p[4:]): edits for p, edits in delta.items() if p[0] == "messages" and type(edits) is tuple
    }
    if len(texts) == len(delta):
        edited = message_list.edit_text(texts)
        kept = (base.data, base.tripwire, base.settled, base.hints)
        return Payload(edited.with_entries(edited.entries), base.facts, base.fields, *kept)
    tree = as_tree(delta)
    if {"messages", "order", "sources"} & tree.keys():
        message_list = _rebuild_list(message_list, tree)
    facts = _rebuild_mapping(base.facts, tree["facts"]) if "facts" in tree else base.facts
    stage_fields = base.fields
    if "fields" in tree:
        changed = {name: _rebuild_field(name, base.fields.get(name), node) for name, node in tree["fields"].items()}
        stage_fields = FrozenDict({**base.fields, **changed})
    return Payload(message_list, facts, stage_fields, base.data, base.tripwire, base.settled, base.hints)


def _rebuild_list(base: MessageList, tree: Tree) -> MessageList:
    changes: Mapping[str, Twig] = tree.get("messages", EMPTY)
    sources: Mapping[str, Put] = tree.get("sources", EMPTY)
    entries: dict[str, Entry] = {}
    for entry in base.entries:
        change = changes.get(entry.message.id)
        if isinstance(change, Gone):
            continue
        message = entry.message if change is None else _rebuild_message(entry.message, change)
        put = sources.get(entry.message.id)
        source, tag = entry[1:] if put is None else put.value
        entries[message.id] = Entry(message, source, tag)
    order: Put | None = tree.get("order")
    if order is not None:
        entries = {message_id: entries[message_id] for message_id in order.value if message_id in entries}
    added = [change for change in changes.values() if isinstance(change, Added)]
    return base.with_entries(_insert(list(entries.values()), added, base))


def _insert(entries: list[Entry], added: list[Added], base: MessageList) -> list[Entry]:
    """Put each new message behind its predecessor; where that is gone, behind the nearest one before it that is not."""
    before: dict[str, str | None] = {}
    previous: str | None = None
    for entry in base.entries:
        before[entry.message.id] = previous
        previous = entry.message.id
    present = {entry.message.id for entry in entries} | {change.entry.message.id for change in added}
    followers: dict[str | None, list[Entry]] = {}
    for change in added:
        anchor = change.after
        while anchor is not None and anchor not in present:
            anchor = before.get(anchor)
        followers.setdefault(anchor, []).append(change.entry)
    result: list[Entry] = []
    waiting = [*reversed(entries), *reversed(followers.get(None, []))]
    while waiting:
        entry = waiting.pop()
        result.append(entry)
        waiting.extend(reversed(followers.get(entry.message.id, [])))
    return result


def _rebuild_message(message: Message, node: Tree) -> Message:
    changes: dict[str, Value] = {}
    for name, below in node.items():
        if isinstance(below, Put):
            changes[name] = below.value
        elif name == "metadata":
            changes[name] = _rebuild_mapping(message.metadata, below)
        else:
            changes[name] = _rebuild_value(message.parts, below)
    return replace(message, **changes)


def _rebuild_field(name: str, value: Value, node: Twig) -> Value:
    if name not in KEYED_FIELDS or not is_mapping(node):
        return _rebuild_value(value, node)
    made = _rebuild_mapping(keyed(value), node)
    return tuple(made) if name == "active_tools" else made


def _rebuild_mapping(value: Mapping[Value, Value], node: Tree) -> FrozenDict[Value, Value]:
    made: dict[Value, Value] = dict(value)
    for key, change in node.items():
        if isinstance(change, Gone):
            made.pop(key, None)
        else:
            made[key] = change.value
    return FrozenDict(made)


def _rebuild_value(value: Value, node: Edits | Put | Tree) -> Value:
    if isinstance(node, Put):
        return node.value
    if isinstance(node, tuple):  # the tree's other leaves are no tuples
        return edit_ops.apply(value, node)
    if is_mapping(value):
        return _rebuild_dict(value, node)
    if is_items(value):
        kept = [(index, item) for index, item in enumerate(value) if not isinstance(node.get(index), Gone)]
        return tuple(_rebuild_value(item, node[index]) if index in node else item for index, item in kept)
    return replace(value, **{name: _rebuild_value(getattr(value, name), below) for name, below in node.items()})


def _rebuild_dict(value: dict[Value, Value], node: Tree) -> FrozenDict[Value, Value]:
    made: dict[Value, Value] = {}
    for key, item in value.items():
        rename = node.get(KeyText(key)) if isinstance(key, str) else None
        name = key if rename is None else _rebuild_value(key, rename)
        made[free_key(name, made)] = _rebuild_value(item, node[key]) if key in node else item
    return FrozenDict(made)
