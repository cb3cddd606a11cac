"""What changed between two payloads, place by place; this module knows values, no step.

Texts are compared by the edits that were really made where these are known, else by one trimmed edit.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from penstock.engine.merging.changes import (
    KEYED_FIELDS,
    NO_HINTS,
    TEXT_FIELDS,
    Added,
    Delta,
    Gone,
    Hints,
    Place,
    Put,
    keyed,
)
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.texts import KeyText, TextPlace, leaves, part_texts, rewrite, with_part_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.processor.payload import Payload
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Layer, Value
    from penstock.engine.values.message_list import Entry, MessageList
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.texts import Path


def diff(base: Payload, new: Payload, step: str, hints: Hints = NO_HINTS) -> Delta:
    """Return what leads from one payload to the other; ``hints`` are the text edits known to have been made."""
    delta: Delta = {}
    if new.message_list is base.message_list:
        pass
    elif new.edits_only and not any(isinstance(place.path[-1], KeyText) for place in hints):
        delta.update(_told(hints, step))  # a renamed key moves the places behind it, so then it is compared
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


def only_removes(base: MessageList, new: MessageList) -> bool:
    """Tell whether a list is another with messages taken out, and nothing else; quick where they were neighbours."""
    old, now = base.entries, new.entries
    front = 0
    while front < len(now) and front < len(old) and old[front] is now[front]:
        front += 1
    back = 0
    while front + back < len(now) and front + back < len(old) and old[-1 - back] is now[-1 - back]:
        back += 1
    between = iter(old[front : len(old) - back]) if front + back < len(now) else iter(())
    return all(any(one is entry for one in between) for entry in now[front : len(now) - back])


def compose_hints(first: Hints, second: Hints) -> dict[TextPlace, Edits]:
    """Return the text edits of two steps that ran one after the other as one, at the places there were before both."""
    composed = dict(first)
    renamed = _renamed(first)
    for told, edits in second.items():
        place = _before_renaming(told, renamed) if renamed else told
        composed[place] = edit_ops.compose(composed.get(place, ()), edits)
    return composed


def _renamed(hints: Hints) -> dict[TextPlace, dict[str, str]]:
    """Return by mapping what the keys that were edited in it were called before."""
    found: dict[TextPlace, dict[str, str]] = {}
    for place, edits in hints.items():
        end = place.path[-1]
        if isinstance(end, KeyText):
            names = found.setdefault(place._replace(path=place.path[:-1]), {})
            names[edit_ops.apply(end.key, edits)] = end.key
    return found


def _before_renaming(place: TextPlace, renamed: Mapping[TextPlace, Mapping[str, str]]) -> TextPlace:
    """Return the place as it was before keys on the way to it were renamed."""
    path: Path = ()
    for item in place.path:
        names = renamed.get(place._replace(path=path), EMPTY)
        if isinstance(item, KeyText):
            path = (*path, KeyText(names.get(item.key, item.key)))
        else:
            path = (*path, names.get(item, item))
    return place._replace(path=path)


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
            if was is not now:
                _diff_part(was, now, (*place, index), step, hints, delta)
        return
    kept = _subsequence(old.parts, new.parts)
    if kept is None:
        delta[place] = Put(new.parts, step)
        return
    for index in range(len(old.parts)):
        if index not in kept:
            delta[*place, index] = Gone(step)


def _diff_part(was: Part, now: Part, place: Place, step: str, hints: Hints, delta: Delta) -> None:
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


def _diff_field(name: str, was: Value, now: Value, step: str, hints: Hints, delta: Delta) -> None:
    place = ("fields", name)
    if was is now:
        return
    if name in KEYED_FIELDS and (name != "active_tools" or was is not None):  # no names at all: every tool is active
        _diff_mapping(keyed(was), keyed(now), place, step, delta)
        return
    mine = {hint.path: edits for hint, edits in hints.items() if not hint.message_id and hint.path[0] == name}
    if mine and _edited_value(was, name, mine) == now:
        delta.update({("fields", *path): edit_ops.stamp(edits, step) for path, edits in mine.items()})
        return
    _diff_value(was, now, place, step, delta, name in TEXT_FIELDS)


def _edited_value(value: Value, name: str, edits: Mapping[Path, Edits]) -> Value:
    """Return a JSON value after edits; None where an edit has no text to work on."""
    present = dict(leaves(value, (name,)))
    if not edits.keys() <= present.keys():
        return None
    return rewrite(value, {path: edit_ops.apply(present[path], made) for path, made in edits.items()}, (name,))


def _diff_mapping(
    was: Mapping[Value, Value], now: Mapping[Value, Value], place: Place, step: str, delta: Delta
) -> None:
    if was is now:
        return
    for key, value in now.items():
        if key not in was or not _alike(was[key], value):
            delta[*place, key] = Put(value, step)
    for key in was:
        if key not in now:
            delta[*place, key] = Gone(step)


def _diff_value(was: Layer, now: Layer, place: Place, step: str, delta: Delta, is_text: bool) -> None:  # noqa: FBT001
    if was is now:
        return
    if is_text and isinstance(was, str) and isinstance(now, str):
        if was != now:
            delta[place] = edit_ops.difference(was, now, step)
    elif is_text and isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        for key in was:
            _diff_value(was[key], now[key], (*place, key), step, delta, is_text)
    elif is_text and isinstance(was, tuple) and isinstance(now, tuple) and len(was) == len(now):
        for index, (old, new) in enumerate(zip(was, now, strict=True)):
            _diff_value(old, new, (*place, index), step, delta, is_text)
    elif not _alike(was, now):
        delta[place] = Put(now, step)


def _alike(was: Layer, now: Layer) -> bool:
    """Tell whether two values are equal and of one type: True is not 1 in JSON."""
    return was is now or (type(was) is type(now) and bool(was == now))


def _subsequence(long: tuple[Part, ...], short: tuple[Part, ...]) -> set[int] | None:
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
    was: dict[Path, str],
    now: dict[Path, str],
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
