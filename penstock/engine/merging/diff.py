"""Find the changes between two payloads. There is one `diff` for each step call, and everything else reads its result.

Texts are compared by their known edits. Without known edits, the difference of a text is one edit, from the first
character that differs to the last.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.merging.changes import (
    KEYED_FIELDS,
    MOVED,
    TEXT_FIELDS,
    credited,
    hidden_in,
    keyed,
    renames_keys,
    text_place,
    value_at,
)
from penstock.engine.processor.payload import NO_CHANGES, Added, Changes, Gone, Put
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import equal
from penstock.engine.values.texts import (
    NO_KNOWN_EDITS,
    KnownEdits,
    TextPlace,
    editable_texts,
    leaves,
    part_texts,
    rewrite,
    with_part_texts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.processor.payload import Payload, PayloadPath
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Layer, Value
    from penstock.engine.values.message_list import Entry, MessageList
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.texts import Path

AnyMapping: TypeAlias = "Mapping[Value, Value]"
"""Facts, metadata, or a field that merges key by key."""


def diff(
    base: Payload,
    new: Payload,
    step: str = "",
    known_edits: KnownEdits = NO_KNOWN_EDITS,
    *,
    hides: bool = False,
    noted: Mapping[PayloadPath, Put | Added | Gone] = NO_CHANGES.others,
    put: Facts | None = None,
) -> Changes:
    """Return the changes from one payload to the other.

    Args:
        base: the payload before.
        new: the payload after.
        step: the path of the step, for text edits that name none, and for facts that are known to be set.
        known_edits: text edits that were recorded when they were made. They are used if they lead to the new text.
        hides: whether every change of a text hides what stood there, as those of a guard do.
        noted: the notes of incomplete changes from one to the other. Where text was hidden, what stood there is hidden
            wherever it is not known which text it was.
        put: the facts that were set, if that is known: the others are not compared.
    """
    texts: dict[TextPlace, Edits] = {}
    others: dict[PayloadPath, Put | Added | Gone] = {}
    if new.message_list is base.message_list:
        pass
    elif known_edits.complete and not renames_keys(known_edits.texts):
        for place, edits in known_edits.texts.items():
            if place.message_id:
                texts[place] = edit_ops.stamp(edits, step, hides=hides)
    else:  # also where a key was renamed, since that moves the places below it
        found = _Diff(texts, others, step, known_edits.texts, noted, hides=hides)
        found.lists(base.message_list, new.message_list)
    if new.facts is not base.facts:
        if put is None:
            _mapping(base.facts, new.facts, ("facts",), others)
        else:
            _keys_set(base.facts, put, ("facts",), others, step)
    if new.fields is not base.fields:
        found = _Diff(texts, others, step, known_edits.texts, noted, hides=hides)
        for name in {**base.fields, **new.fields}:
            found.field(name, base.fields.get(name), new.fields.get(name))
    return Changes(texts, others)


def branch_changes(base: Payload, end: Payload, branch: str) -> Changes:
    """Return the changes of a branch since its fork. ``branch`` is the path under which they are recorded.

    ``end.changes`` counts from the fork. The payloads are compared only if it is not complete. A member of a dag that
    changed nothing leaves the payload that it got, whose changes are those of the members before it.
    """
    if end is base:
        return NO_CHANGES
    made = diff(base, end, branch) if end.changes is None else completed(base, end, end.changes, branch)
    return credited(made, branch) if made.others else made


def completed(base: Payload, end: Payload, changes: Changes, branch: str) -> Changes:
    """Return the changes from one payload to the other; if they are not complete, the payloads are compared."""
    if changes.complete:
        return changes
    return diff(base, end, branch, KnownEdits(changes.texts, complete=False), noted=changes.others)


def edits_to_record(before: Payload, changes: Changes, step: str) -> Mapping[TextPlace, Edits]:
    """Return the text edits of a step for its record, also those of texts within a value that was set anew."""
    if not changes.others:
        return changes.texts
    texts = dict(changes.texts)
    for path, change in changes.others.items():
        if isinstance(change, Put) and _holds_texts(before, path):
            now = dict(leaves(change.value, path))
            for leaf, text in leaves(value_at(before, path), path):
                if now.get(leaf, text) != text:
                    texts[text_place(leaf)] = edit_ops.difference(text, now[leaf], step)
    return texts


def _holds_texts(before: Payload, path: PayloadPath) -> bool:
    """Tell whether the strings of the value at a path are texts."""
    if path[0] == "fields":
        return path[1] in TEXT_FIELDS
    return path[2:3] == ("parts",) and len(path) > 4 and path[4] in value_at(before, path[:4]).texts  # noqa: PLR2004


def only_removes(base: MessageList, new: MessageList) -> bool:
    """Tell whether a list is another one with messages removed, and nothing else.

    This is much quicker than `diff` where the removed messages stood side by side.
    """
    old, now, _ = _middles(base.entries, new.entries)
    rest = iter(old)
    return all(any(one is entry for one in rest) for entry in now)


class _Diff:
    """The changes found so far while two payloads are compared."""

    def __init__(
        self,
        texts: dict[TextPlace, Edits],
        others: dict[PayloadPath, Put | Added | Gone],
        step: str,
        known: Mapping[TextPlace, Edits],
        noted: Mapping[PayloadPath, Put | Added | Gone],
        *,
        hides: bool,
    ) -> None:
        self.texts = texts
        self.others = others
        self._step = step
        self._known = known
        self._guard = hides
        self._hidden: frozenset[PayloadPath] = hidden_in(Changes(known, noted)) if known or noted else frozenset()
        self._noted = noted

    def _note(self, place: TextPlace, edits: Edits, *, hides: bool) -> None:
        self.texts[place] = edit_ops.stamp(edits, self._step, hides=hides)

    def _hides(self, path: PayloadPath) -> bool:
        """Tell whether a change there, of which no edits are known, may hide text."""
        return self._guard or path[:2] in self._hidden

    def _put(self, path: PayloadPath, value: Value) -> None:
        """Note that a part, a field of one, or a value with texts was set anew."""
        self.others[path] = Put(value, hides=self._hides(path))

    def lists(self, base: MessageList, new: MessageList) -> None:
        """Compare two lists of messages."""
        was, now, previous = _middles(base.entries, new.entries)
        old = {entry.message.id: entry for entry in was}
        fresh = {entry.message.id: entry for entry in now}
        for message_id, entry in fresh.items():
            before = old.get(message_id)
            if before is None:
                self.others["messages", message_id] = Added(entry, previous)
            elif before is not entry:
                self._entry(before, entry)
            previous = message_id
        for message_id in old.keys() - fresh.keys():
            self.others["messages", message_id] = Gone()
        if [one for one in old if one in fresh] != [one for one in fresh if one in old]:
            kept = {entry.message.id for entry in base.entries} - (old.keys() - fresh.keys())
            self.others["order",] = Put(tuple(entry.message.id for entry in new.entries if entry.message.id in kept))

    def _entry(self, before: Entry, after: Entry) -> None:
        if before[1:] != after[1:]:
            self.others["sources", after.message.id] = Put(after[1:])
        old, new = before.message, after.message
        if old is new:
            return
        path = ("messages", new.id)
        for name in ("role", "created_at", "thread_id", "resource_id", "name", "from_client"):
            if getattr(old, name) != getattr(new, name):
                self.others[*path, name] = Put(getattr(new, name))
        _mapping(old.metadata, new.metadata, (*path, "metadata"), self.others)
        self._parts(old, new)

    def _parts(self, old: Message, new: Message) -> None:
        path = ("messages", new.id, "parts")
        if len(old.parts) == len(new.parts) and not self._moved(old, new):
            for index, (was, now) in enumerate(zip(old.parts, new.parts, strict=True)):
                if was is not now:
                    self._part(was, now, (*path, index))
            moved = (*path[:2], *MOVED)
            if moved in self._noted and old.parts != new.parts:
                self.others[moved] = Gone()
            return
        kept = _subsequence(old.parts, new.parts)
        if kept is None:
            self._put(path, new.parts)
            return
        for index in range(len(old.parts)):
            if index not in kept:
                self.others[*path, index] = Gone(hides=self._hides(path))

    def _moved(self, old: Message, new: Message) -> bool:
        """Return whether a part stands where another one stood, and not by known edits."""
        pairs = enumerate(zip(old.parts, new.parts, strict=True))
        changed = [(index, was, now) for index, (was, now) in pairs if was is not now and was != now]
        if len(changed) == 1:
            return False
        left = {was for _, was, _ in changed}
        came = [(index, was, now) for index, was, now in changed if now in left]
        return any(_edited_part(was, self._known_at(new.id, index)) != now for index, was, now in came)

    def _known_at(self, message_id: str, part: int) -> dict[Path, Edits]:
        return {at.path: edits for at, edits in self._known.items() if (at.message_id, at.part) == (message_id, part)}

    def _part(self, was: Part, now: Part, path: PayloadPath) -> None:
        if type(was) is not type(now):
            self._put(path, now)
            return
        mine = self._known_at(path[1], path[3])
        if mine and _edited_part(was, mine) == now:
            self._use(mine, path[1], path[3])
            return
        for item in fields(was):
            before, after = getattr(was, item.name), getattr(now, item.name)
            self._value(before, after, (*path, item.name), is_text=item.name in was.texts)

    def field(self, name: str, was: Value, now: Value) -> None:
        """Compare a field of the stage."""
        if was is now:
            return
        path = ("fields", name)
        if name in KEYED_FIELDS and (name != "active_tools" or was is not None):  # None: every tool is active
            _mapping(keyed(was), keyed(now), path, self.others)
            return
        mine = {at.path: edits for at, edits in self._known.items() if not at.message_id and at.path[0] == name}
        if mine and equal(_edited_value(was, name, mine), now):
            self._use(mine, "", 0)
            return
        self._value(was, now, path, is_text=name in TEXT_FIELDS)

    def _use(self, known: Mapping[Path, Edits], message_id: str, part: int) -> None:
        """Take known edits of a part's or a field's texts as the changes that were made there."""
        for leaf, edits in known.items():
            self._note(TextPlace(message_id, part, leaf), edits, hides=self._guard)

    def _value(self, was: Layer, now: Layer, path: PayloadPath, *, is_text: bool) -> None:
        if was is now:
            return
        if is_text and isinstance(was, str) and isinstance(now, str):
            if was != now:
                self._note(text_place(path), edit_ops.difference(was, now), hides=self._hides(path))
        elif is_text and isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
            for key in was:
                self._value(was[key], now[key], (*path, key), is_text=is_text)
        elif is_text and isinstance(was, tuple) and isinstance(now, tuple) and len(was) == len(now):
            for index, (old, new) in enumerate(zip(was, now, strict=True)):
                self._value(old, new, (*path, index), is_text=is_text)
        elif not _alike(was, now):
            self._put(path, now)


def _mapping(
    was: AnyMapping,
    now: AnyMapping,
    path: PayloadPath,
    others: dict[PayloadPath, Put | Added | Gone],
) -> None:
    """Compare two mappings key by key, and add what changed."""
    if was is now:
        return
    _keys_set(was, now, path, others)
    for key in was:
        if key not in now:
            others[*path, key] = Gone()


def _keys_set(
    was: AnyMapping,
    now: AnyMapping,
    path: PayloadPath,
    others: dict[PayloadPath, Put | Added | Gone],
    step: str = "",
) -> None:
    """Add the keys with another value than before."""
    for key, value in now.items():
        if key not in was or not _alike(was[key], value):
            others[*path, key] = Put(value, step)


def _middles(was: Sequence[Entry], now: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry], str | None]:
    """Return both without the entries at their begin and end that are the same, and the id before the rest."""
    shorter = min(len(was), len(now))
    front = 0
    while front < shorter and was[front] is now[front]:
        front += 1
    back = 0
    while front + back < shorter and was[-1 - back] is now[-1 - back]:
        back += 1
    previous = was[front - 1].message.id if front else None
    return was[front : len(was) - back], now[front : len(now) - back], previous


def _edited_value(value: Value, name: str, edits: Mapping[Path, Edits]) -> Value:
    """Return a JSON value after edits; None where an edit has no text to work on."""
    texts = _edited(dict(editable_texts(value, (name,))), edits)
    return None if texts is None else rewrite(value, texts, (name,))


def _edited_part(part: Part, edits: Mapping[Path, Edits]) -> Part | None:
    """Return a part after edits of its texts; None where an edit has no text to work on."""
    texts = _edited(dict(part_texts(part, editable_texts)), edits)
    return None if texts is None else with_part_texts(part, texts)


def _edited(present: Mapping[Path, str], edits: Mapping[Path, Edits]) -> dict[Path, str] | None:
    """Return texts after edits; None where an edit has no text to work on, so that it was made to another text."""
    texts: dict[Path, str] = {}
    for path, made in edits.items():
        text = present.get(path)
        if text is None or (made and made[-1].end > len(text)):
            return None
        texts[path] = edit_ops.apply(text, made)
    return texts


def _alike(was: Layer, now: Layer) -> bool:
    """Tell whether two values are equal and of one type: True is not 1 in JSON."""
    return was is now or (type(was) is type(now) and equal(was, now))


def _subsequence(long: tuple[Part, ...], short: tuple[Part, ...]) -> set[int] | None:
    """Return the indexes of ``long`` that make up ``short`` in order, or None."""
    kept: set[int] = set()
    at = 0
    for index, item in enumerate(long):
        if at < len(short) and (item is short[at] or item == short[at]):
            kept.add(index)
            at += 1
    return kept if at == len(short) else None
