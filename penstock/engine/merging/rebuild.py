"""Makes a payload of another and of changes to it; the reverse of `delta.diff`. It knows values, no step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.merging.changes import (
    KEYED_FIELDS,
    Added,
    Delta,
    Gone,
    Put,
    Tree,
    Twig,
    as_tree,
    keyed,
)
from penstock.engine.processor.payload import Payload
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_items, is_mapping
from penstock.engine.values.message_list import Entry, MessageList
from penstock.engine.values.texts import KeyText, TextPlace, free_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message


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
