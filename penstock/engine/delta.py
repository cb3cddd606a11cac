"""What changed between two payloads, place by place, and how to make it so; this module knows values, no step.

A place is a path from the payload down: ``("messages", id, "parts", 0, "text")``, ``("facts", key)``,
``("fields", "model_settings", "temperature")``. A change is edits (a text), `Put`, `Added` or `Gone`.
Texts are compared by the edits that were really made where these are known, else by one trimmed edit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine import edits as edit_ops
from penstock.engine.frozen import EMPTY, FrozenDict
from penstock.engine.message_list import Entry, MessageList
from penstock.engine.payload import Payload
from penstock.engine.texts import KeyText, TextPlace, free_key, leaves, part_texts, with_part_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.edits import Edits
    from penstock.engine.messages import Message

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

    value: Any
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


def diff(base: Payload, new: Payload, step: str, hints: Hints = NO_HINTS) -> Delta:
    """Return what leads from one payload to the other; ``hints`` are the text edits known to have been made."""
    delta: Delta = {}
    if new.message_list is base.message_list:
        pass
    elif new.edits_only:
        delta.update(_told(hints, step))
    else:
        _diff_lists(base.message_list, new.message_list, step, hints, delta)
    if new.facts is not base.facts:
        _diff_mapping(base.facts, new.facts, ("facts",), step, delta)
    if new.fields is not base.fields:
        for name in {**base.fields, **new.fields}:
            _diff_field(name, base.fields.get(name), new.fields.get(name), step, hints, delta)
    return delta


def _told(hints: Hints, step: str) -> Delta:
    """Return told edits of messages as changes."""
    return {
        ("messages", place.message_id, "parts", place.part, *place.path): edit_ops.stamp(edits, step)
        for place, edits in hints.items()
        if place.message_id
    }


def only_edits(delta: Delta) -> bool:
    """Tell whether the changes leave the messages as they are but for edits of their texts."""
    return all(isinstance(change, tuple) or place[0] in ("facts", "fields") for place, change in delta.items())


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


def text_changes(before: Payload, after: Payload, known: Hints, step: str) -> dict[TextPlace, Edits]:
    """Return the text edits that one step made: those it told where they fit, else trimmed ones."""
    found: dict[TextPlace, Edits] = {}
    if after.message_list is not before.message_list and after.edits_only:
        found = {place: edit_ops.stamp(edits, step) for place, edits in known.items() if place.message_id}
    elif after.message_list is not before.message_list:
        old = {entry.message.id: entry.message for entry in before.message_list.entries}
        for entry in after.message_list.entries:
            message = entry.message
            previous = old.get(message.id)
            if previous is not None and previous is not message:
                _message_text_changes(previous, message, known, step, found)
    for name in TEXT_FIELDS:
        was, now = before.fields.get(name), after.fields.get(name)
        if was is not now:
            _leaf_changes(dict(leaves(was, (name,))), dict(leaves(now, (name,))), ("", 0), known, step, found)
    return found


def compose_hints(first: Hints, second: Hints) -> dict[TextPlace, Edits]:
    """Return the text edits of two steps that ran one after the other as one."""
    composed = dict(first)
    for place, edits in second.items():
        composed[place] = edit_ops.compose(composed.get(place, ()), edits)
    return composed


# Differences


def _diff_lists(base: MessageList, new: MessageList, step: str, hints: Hints, delta: Delta) -> None:
    old = {entry.message.id: entry for entry in base.entries}
    now = {entry.message.id: entry for entry in new.entries}
    previous: str | None = None
    for message_id, entry in now.items():
        before = old.get(message_id)
        if before is None:
            delta["messages", message_id] = Added(entry, previous, step)
        elif before is not entry:
            _diff_entry(before, entry, step, hints, delta)
        previous = message_id
    for message_id in old.keys() - now.keys():
        delta["messages", message_id] = Gone(step)
    survivors = [message_id for message_id in old if message_id in now]
    order = [message_id for message_id in now if message_id in old]
    if survivors != order:
        delta["order",] = Put(tuple(order), step)


def _diff_entry(before: Entry, after: Entry, step: str, hints: Hints, delta: Delta) -> None:
    if before[1:] != after[1:]:
        delta["sources", after.message.id] = Put(after[1:], step)
    old, new = before.message, after.message
    if old is new:
        return
    place = ("messages", new.id)
    for name in ("role", "created_at", "thread_id", "resource_id"):
        if getattr(old, name) != getattr(new, name):
            delta[*place, name] = Put(getattr(new, name), step)
    _diff_mapping(old.metadata, new.metadata, (*place, "metadata"), step, delta)
    _diff_parts(old, new, step, hints, delta)


def _diff_parts(old: Message, new: Message, step: str, hints: Hints, delta: Delta) -> None:
    place = ("messages", new.id, "parts")
    if len(old.parts) == len(new.parts):
        for index, (was, now) in enumerate(zip(old.parts, new.parts, strict=True)):
            if was is not now and was != now:
                _diff_part(was, now, (*place, index), step, hints, delta)
        return
    kept = _subsequence(old.parts, new.parts)
    if kept is None:
        delta[place] = Put(new.parts, step)
        return
    for index in range(len(old.parts)):
        if index not in kept:
            delta[*place, index] = Gone(step)


def _diff_part(was: Any, now: Any, place: Place, step: str, hints: Hints, delta: Delta) -> None:
    if type(was) is not type(now):
        delta[place] = Put(now, step)
        return
    mine = {hint.path: edits for hint, edits in hints.items() if (hint.message_id, hint.part) == (place[1], place[3])}
    if mine:
        present = dict(part_texts(was))
        if mine.keys() <= present.keys():
            texts = {path: edit_ops.apply(present[path], edits) for path, edits in mine.items()}
            if with_part_texts(was, texts) == now:
                delta.update({(*place, *path): edit_ops.stamp(edits, step) for path, edits in mine.items()})
                return
    for item in fields(was):
        _diff_value(
            getattr(was, item.name), getattr(now, item.name), (*place, item.name), step, delta, item.name in was.texts
        )


def _diff_field(name: str, was: Any, now: Any, step: str, hints: Hints, delta: Delta) -> None:
    place = ("fields", name)
    if was is now:
        return
    if name in KEYED_FIELDS:
        _diff_mapping(_keyed(was), _keyed(now), place, step, delta)
        return
    mine = {hint.path: edits for hint, edits in hints.items() if not hint.message_id and hint.path[0] == name}
    if mine and _texts_after(was, name, mine) == dict(leaves(now, (name,))):
        delta.update({("fields", *path): edit_ops.stamp(edits, step) for path, edits in mine.items()})
        return
    _diff_value(was, now, place, step, delta, name in TEXT_FIELDS)


def _texts_after(value: Any, name: str, edits: Mapping[Any, Edits]) -> dict[Any, str] | None:
    """Return the strings of a JSON value after edits, or None where an edit has no string or renames a key."""
    present = dict(leaves(value, (name,)))
    if not edits.keys() <= present.keys() or any(isinstance(path[-1], KeyText) for path in edits):
        return None
    return {path: edit_ops.apply(text, edits.get(path, ())) for path, text in present.items()}


def _diff_mapping(was: Mapping[Any, Any], now: Mapping[Any, Any], place: Place, step: str, delta: Delta) -> None:
    if was is now:
        return
    for key, value in now.items():
        if key not in was or (was[key] is not value and was[key] != value):
            delta[*place, key] = Put(value, step)
    for key in was:
        if key not in now:
            delta[*place, key] = Gone(step)


def _diff_value(was: Any, now: Any, place: Place, step: str, delta: Delta, is_text: bool) -> None:  # noqa: FBT001
    if was is now or was == now:
        return
    if is_text and isinstance(was, str) and isinstance(now, str):
        delta[place] = edit_ops.difference(was, now, step)
    elif is_text and isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        for key in was:
            _diff_value(was[key], now[key], (*place, key), step, delta, is_text)
    elif is_text and isinstance(was, tuple) and isinstance(now, tuple) and len(was) == len(now):
        for index, (old, new) in enumerate(zip(was, now, strict=True)):
            _diff_value(old, new, (*place, index), step, delta, is_text)
    else:
        delta[place] = Put(now, step)


def _subsequence(long: tuple[Any, ...], short: tuple[Any, ...]) -> set[int] | None:
    """Return the indexes of ``long`` that make up ``short`` in order, or None."""
    kept: set[int] = set()
    at = 0
    for index, item in enumerate(long):
        if at < len(short) and (item is short[at] or item == short[at]):
            kept.add(index)
            at += 1
    return kept if at == len(short) else None


def _message_text_changes(old: Message, new: Message, known: Hints, step: str, found: dict[TextPlace, Edits]) -> None:
    if len(old.parts) != len(new.parts):
        return
    for index, (was, now) in enumerate(zip(old.parts, new.parts, strict=True)):
        if was is not now and type(was) is type(now):
            _leaf_changes(dict(part_texts(was)), dict(part_texts(now)), (new.id, index), known, step, found)


def _leaf_changes(
    was: dict[Any, str],
    now: dict[Any, str],
    where: tuple[str, int],
    known: Hints,
    step: str,
    found: dict[TextPlace, Edits],
) -> None:
    """Note the edits of one part's texts: told ones as they are told, others by comparing path by path."""
    told = {path: known[place] for path in was if (place := TextPlace(*where, path)) in known}
    for path, edits in told.items():
        found[TextPlace(*where, path)] = edit_ops.stamp(edits, step)
    for path, text in was.items():
        if path not in told and path in now and now[path] != text:
            found[TextPlace(*where, path)] = edit_ops.difference(text, now[path], step)


def _keyed(value: Any) -> Mapping[Any, Any]:
    if value is None:
        return EMPTY
    return value if isinstance(value, dict) else dict.fromkeys(value, True)


# Making it so


def as_tree(delta: Delta) -> dict[Any, Any]:
    """Return the changes as nested mappings, a change at each leaf."""
    tree: dict[Any, Any] = {}
    for place, change in delta.items():
        node = tree
        for key in place[:-1]:
            node = node.setdefault(key, {})
        node[place[-1]] = change
    return tree


def flatten(tree: Mapping[Any, Any], place: Place = ()) -> Delta:
    """Return nested changes place by place; the reverse of `as_tree`."""
    delta: Delta = {}
    for key, node in tree.items():
        if isinstance(node, dict):
            delta.update(flatten(node, (*place, key)))
        else:
            delta[*place, key] = node
    return delta


def inherit(delta: Delta, seen: Delta) -> Delta:
    """Return the changes with those that were there already under the names of the steps that first made them."""
    return {
        place: seen[place] if place in seen and _same(change, seen[place]) else change
        for place, change in delta.items()
    }


def _same(change: Change, other: Change) -> bool:
    if isinstance(change, tuple) and isinstance(other, tuple):
        return [replace(e, step="") for e in change] == [replace(e, step="") for e in other]
    if isinstance(change, Put) and isinstance(other, Put):
        return bool(change.value == other.value)
    if isinstance(change, Added) and isinstance(other, Added):
        return change.entry == other.entry
    return isinstance(change, Gone) and isinstance(other, Gone)


def _rebuild_list(base: MessageList, tree: Mapping[Any, Any]) -> MessageList:
    changes: Mapping[str, Any] = tree.get("messages", EMPTY)
    sources: Mapping[str, Put] = tree.get("sources", EMPTY)
    entries: dict[str, Entry] = {}
    for entry in base.entries:
        change = changes.get(entry.message.id)
        if isinstance(change, Gone):
            continue
        message = entry.message if change is None else _rebuild_message(entry.message, change)
        put = sources.get(entry.message.id)
        entries[message.id] = Entry(message, *(entry[1:] if put is None else put.value))
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


def _rebuild_message(message: Message, node: Mapping[Any, Any]) -> Message:
    changes: dict[str, Any] = {}
    for name, below in node.items():
        if isinstance(below, Put):
            changes[name] = below.value
        elif name == "metadata":
            changes[name] = _rebuild_mapping(message.metadata, below)
        else:
            changes[name] = _rebuild_value(message.parts, below)
    return replace(message, **changes)


def _rebuild_field(name: str, value: Any, node: Any) -> Any:
    if name not in KEYED_FIELDS or not isinstance(node, dict):
        return _rebuild_value(value, node)
    made = _rebuild_mapping(_keyed(value), node)
    return tuple(made) if name == "active_tools" else made


def _rebuild_mapping(value: Mapping[Any, Any], node: Mapping[Any, Any]) -> FrozenDict[Any, Any]:
    made = dict(value)
    for key, change in node.items():
        if isinstance(change, Gone):
            made.pop(key, None)
        else:
            made[key] = change.value
    return FrozenDict(made)


def _rebuild_value(value: Any, node: Any) -> Any:
    if isinstance(node, Put):
        return node.value
    if isinstance(node, tuple):  # edits; the tree's other leaves are no tuples
        return edit_ops.apply(value, node)
    if isinstance(value, dict):
        return _rebuild_dict(value, node)
    if isinstance(value, tuple):
        kept = [(index, item) for index, item in enumerate(value) if not isinstance(node.get(index), Gone)]
        return tuple(_rebuild_value(item, node[index]) if index in node else item for index, item in kept)
    return replace(value, **{name: _rebuild_value(getattr(value, name), below) for name, below in node.items()})


def _rebuild_dict(value: Mapping[Any, Any], node: Mapping[Any, Any]) -> FrozenDict[Any, Any]:
    made: dict[Any, Any] = {}
    for key, item in value.items():
        rename = node.get(KeyText(key)) if isinstance(key, str) else None
        name = key if rename is None else _rebuild_value(key, rename)
        made[free_key(name, made)] = _rebuild_value(item, node[key]) if key in node else item
    return FrozenDict(made)
