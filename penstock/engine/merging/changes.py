"""Apply `Changes` to a payload (`rebuild`), combine those of consecutive steps, and arrange them as a tree.

`Changes`, and the paths that are their keys, are defined beside `Payload`; `diff` computes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.processor.payload import Added, Changes, Gone, Payload, PayloadPath, Put
from penstock.engine.processor.stages import STAGES
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_items, is_mapping
from penstock.engine.values.message_list import Entry
from penstock.engine.values.texts import KeyText, TextPlace, UniqueKeys, editable_text, replaced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import Path


TEXT_FIELDS: frozenset[str] = frozenset(stage.value for stage in STAGES.values() if stage.value)
"""The stage fields whose strings are text: the values of the tool stages."""

KEYED_FIELDS: frozenset[str] = frozenset({"tools", "model_settings", "provider_options", "active_tools"})
"""The stage fields that merge key by key; the others are taken whole."""

MOVED: PayloadPath = ("parts", -1)
"""Where changes note of a message that its parts may stand elsewhere than before. No part has that index."""

ChangeNode: TypeAlias = Any
"""A node of a tree of changes: edits, `Put`, `Added`, `Gone`, or a mapping of nodes by key."""

Tree: TypeAlias = "dict[Value, ChangeNode]"
"""Changes as nested mappings, one mapping for each step of their paths, with a change at each leaf."""


# Places of texts, as paths


def path_of(place: TextPlace) -> PayloadPath:
    """Return the place of a text as a path from the payload down."""
    if place.message_id:
        return ("messages", place.message_id, "parts", place.part, *place.path)
    return ("fields", *place.path)


def text_place(path: PayloadPath) -> TextPlace:
    """Return the path to a text as the place of a text; the reverse of `path_of`."""
    if path[0] == "messages":
        return TextPlace(path[1], path[3], path[4:])
    return TextPlace("", 0, path[1:])


def holds_texts(path: PayloadPath) -> bool:
    """Tell whether a path leads to parts of a message, or into a field whose strings are texts."""
    return path[2:3] == ("parts",) if path[0] == "messages" else path[0] == "fields" and path[1] in TEXT_FIELDS


def value_at(base: Payload, path: PayloadPath) -> Value:
    """Return the value at a path in a payload, or None; where a key is edited, the key."""
    if isinstance(path[-1], KeyText):
        return path[-1].key
    if path[0] == "facts":
        return base.facts.get(path[1])
    value: Value = base.fields if path[0] == "fields" else None
    rest = path[1:]
    if path[0] == "messages":
        value, rest = base.message_list.get(path[1]), path[2:]
    for key in rest:
        try:
            value = getattr(value, key) if isinstance(key, str) and not is_mapping(value) else value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
    return value


def _is_flat(changes: Changes) -> bool:
    """Tell whether only texts of messages and facts changed, as most often, so that no change lies within another."""
    for path in changes.others:
        if path[0] != "facts":
            return False
    for place in changes.texts:  # noqa: SIM110 - asked for each join
        if not place[0]:
            return False
    return True


def as_tree(changes: Changes) -> Tree:
    """Return changes as nested mappings, with a change at each leaf."""
    tree: Tree = {}
    for place, edits in changes.texts.items():
        _plant(tree, path_of(place), edits)
    for path, change in changes.others.items():
        _plant(tree, path, change)
    return tree


def _plant(tree: Tree, path: PayloadPath, change: object) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = change


def flatten(tree: Tree, path: PayloadPath = ()) -> Changes:
    """Return a tree as changes; the reverse of `as_tree`. ``path`` is where the tree stands in the payload."""
    changes = Changes({}, {})
    _gather(tree, path, changes.texts, changes.others)
    return changes


def _gather(tree: Tree, path: PayloadPath, texts: Any, others: Any) -> None:
    for key, node in tree.items():
        if is_mapping(node):
            _gather(node, (*path, key), texts, others)
        elif isinstance(node, tuple):
            texts[text_place((*path, key))] = node
        else:
            others[*path, key] = node


# Consecutive steps


def followed_by(first: Changes, second: Changes) -> Changes:
    """Return the changes of two consecutive steps as one, from the payload before both.

    They are complete where the steps touched different parts of the payload, or edited texts only. Else the result
    holds the known changes: the edits, where text was hidden, and where parts may have moved. The rest has to be found
    by comparing.
    """
    if not first:
        return second
    if not second:
        return first
    if first.complete and second.complete and _apart(first, second):
        return Changes(composed(first.texts, second.texts), {**first.others, **second.others})
    later = second.texts
    hidden = {path[:2] for path, change in first.others.items() if change.hides}
    if hidden:  # they may be edits of what was hidden, at another place
        later = {at: edit_ops.stamp(edits, "", hides=path_of(at)[:2] in hidden) for at, edits in later.items()}
    return Changes(composed(first.texts, later), {**notes_on(first), **notes_on(second)}, complete=False)


def notes_on(changes: Changes) -> dict[PayloadPath, Gone]:
    """Return what incomplete changes hold besides edits: where text was hidden, and where parts may have moved.

    Parts may have moved in messages of which some were put anew or taken out.
    """
    notes = {path: Gone(hides=True) for path in hidden_in(changes)}
    for path, change in changes.others.items():
        if path[2:] == MOVED[:1] or (path[2:3] == MOVED[:1] and isinstance(change, Gone)):
            notes[*path[:2], *MOVED] = Gone()
    return notes


def hidden_in(changes: Changes) -> frozenset[PayloadPath]:
    """Return the paths of the messages and fields in which text was hidden."""
    edited = [path_of(place)[:2] for place, edits in changes.texts.items() if any(edit.hidden for edit in edits)]
    others = [path[:2] for path, change in changes.others.items() if change.hides]
    return frozenset((*edited, *others))


def _apart(first: Changes, second: Changes) -> bool:
    """Tell whether two steps touched different parts of the payload, or both only edited texts there."""
    if not first.others and not second.others:
        return not (renames_keys(first.texts) or renames_keys(second.texts))
    return not (
        _areas(first.others) & (_areas(second.others) | _text_areas(second.texts))
        or _areas(second.others) & _text_areas(first.texts)
        or renames_keys(first.texts)
        or renames_keys(second.texts)
    )


def _areas(paths: Mapping[PayloadPath, object]) -> set[PayloadPath]:
    """Return the parts of the payload that paths lead to: all messages are one, each fact and each field another."""
    return {path[:2] if path[0] in ("facts", "fields") else ("messages",) for path in paths}


def _text_areas(places: Mapping[TextPlace, object]) -> set[PayloadPath]:
    return {("messages",) if place.message_id else ("fields", place.path[0]) for place in places}


def renames_keys(texts: Mapping[TextPlace, Edits]) -> bool:
    """Tell whether some of the texts are keys of mappings, whose edits move the places below them."""
    for place in texts:  # noqa: SIM110 - asked for each edit of a step
        if type(place.path[-1]) is KeyText:
            return True
    return False


def credited(changes: Changes, step: str, makers: Mapping[PayloadPath, str] | None = None) -> Changes:
    """Return the changes with every change but edits credited to a step; ``makers`` has other steps, by path."""
    for path, change in changes.others.items():
        if change.step != (makers.get(path, step) if makers else step):
            break
    else:
        return changes
    known: Mapping[PayloadPath, str] = makers or {}
    others = {path: change.by(known.get(path, step)) for path, change in changes.others.items()}
    return Changes(changes.texts, others, complete=changes.complete)


def composed(first: Mapping[TextPlace, Edits], second: Mapping[TextPlace, Edits]) -> Mapping[TextPlace, Edits]:
    """Return the text edits of two consecutive steps as one, at the places and positions before both."""
    if not first or not second:
        return first or second
    both = dict(first)
    renamed = _renamed(first)
    for after, edits in second.items():
        place = _before_renaming(after, renamed) if renamed else after
        both[place] = edit_ops.compose(both.get(place, ()), edits)
    return both


def _renamed(texts: Mapping[TextPlace, Edits]) -> dict[TextPlace, dict[str, str]]:
    """Return for each mapping whose keys were edited the old names of its keys, by their new names."""
    found: dict[TextPlace, dict[str, str]] = {}
    for place, edits in texts.items():
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


# Applying


def keyed(value: dict[str, Value] | tuple[str, ...] | None) -> Values:
    """Return a field that merges key by key as a mapping; names alone become its keys."""
    if value is None:
        return EMPTY
    return value if isinstance(value, dict) else dict.fromkeys(value, True)


def rebuild(base: Payload, changes: Changes) -> Payload:
    """Return the payload with complete changes made."""
    if not changes:
        return base
    message_list = base.message_list
    kept = (base.data, base.tripwire, base.finished, base.changes)
    if _is_flat(changes):
        if changes.texts:
            edited = message_list.edit_text(changes.texts)
            message_list = edited.with_entries(edited.entries)
        put = {path[1]: change for path, change in changes.others.items()}
        return Payload(message_list, _rebuild_mapping(base.facts, put) if put else base.facts, base.fields, *kept)
    tree = as_tree(changes)
    if {"messages", "order", "sources"} & tree.keys():
        message_list = _rebuild_list(message_list, tree)
    facts = _rebuild_mapping(base.facts, tree["facts"]) if "facts" in tree else base.facts
    stage_fields = base.fields
    if "fields" in tree:
        changed = {name: _rebuild_field(name, base.fields.get(name), node) for name, node in tree["fields"].items()}
        stage_fields = FrozenDict({**base.fields, **changed})
    return Payload(message_list, facts, stage_fields, *kept)


def _rebuild_list(base: MessageList, tree: Tree) -> MessageList:
    changes: Mapping[str, ChangeNode] = tree.get("messages", EMPTY)
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
    """Put each new message behind its predecessor; where that is gone, behind the nearest one before it that is not.

    What stood before the predecessor is looked up in the conversation before the changes, however branches order it.
    """
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


def _rebuild_field(name: str, value: Value, node: ChangeNode) -> Value:
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
    if isinstance(node, tuple):  # the tree's other leaves are not tuples
        return replaced(value, edit_ops.apply(editable_text(value) or "", node))
    if is_mapping(value):
        return _rebuild_dict(value, node)
    if is_items(value):
        kept = [(index, item) for index, item in enumerate(value) if not isinstance(node.get(index), Gone)]
        return tuple(_rebuild_value(item, node[index]) if index in node else item for index, item in kept)
    return replace(value, **{name: _rebuild_value(getattr(value, name), below) for name, below in node.items()})


def _rebuild_dict(value: dict[Value, Value], node: Tree) -> FrozenDict[Value, Value]:
    made: dict[Value, Value] = {}
    keys = UniqueKeys()
    for key, item in value.items():
        rename = node.get(KeyText(key)) if isinstance(key, str) else None
        name = key if rename is None else _rebuild_value(key, rename)
        made[keys.unique(name)] = _rebuild_value(item, node[key]) if key in node else item
    return FrozenDict(made)
