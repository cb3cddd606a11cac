"""Helpers for processors that change conversations: pairs of tool calls and results, and message lists rebuilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.message_list import Entry
from penstock.engine.values.messages import StepStartPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.engine.values.message_list import MessageList, Source
    from penstock.engine.values.messages import Message, Part


WAITING_CALLS: Key[frozenset[str]] = Key("waiting-calls")
"""The fact with the `call_key` of each call in a stored thread that a person was asked about, and has not answered."""


def names_of(processor: str, option: str, given: object, what: str = "tools' names") -> frozenset[str]:
    """Return an option that is a list of names.

    Raises:
        OptionError: it is not a list of str. A single str is refused too, since it would count as its letters.
    """
    names = _listed(given)
    if not all(isinstance(name, str) for name in names):
        raise OptionError(processor, option, given, f"a list of {what}")
    return frozenset(cast("list[str]", names))


def _listed(given: object) -> list[object]:
    """Return the items of a list; for anything else, a list that is refused."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return [None]
    return list(cast("Iterable[object]", given))


def call_key(part: ToolPart) -> str:
    """Return what a call and its result have in common: the id, or the name of the tool in formats without ids."""
    return part.call_id or f"\0{part.name}"


def count_tool_parts(messages: Iterable[Message]) -> Counter[str]:
    """Return how many calls and results there are of each `call_key`."""
    return Counter(call_key(part) for message in messages for part in message.parts if isinstance(part, ToolPart))


def without_tool_calls(messages: Iterable[Message], keys: Collection[str]) -> list[Message]:
    """Return the messages without the calls and results of those keys.

    Messages without content are removed. Calls and results are removed together: providers refuse a result without its
    call.
    """
    made: list[Message] = []
    for message in messages:
        parts = [part for part in message.parts if not (isinstance(part, ToolPart) and call_key(part) in keys)]
        if len(parts) == len(message.parts):
            made.append(message)
        elif has_content(parts):
            made.append(message.with_parts(parts))
    return made


def has_content(parts: Iterable[Part]) -> bool:
    """Return whether there is more than marks of where a step begins."""
    return any(not isinstance(part, StepStartPart) for part in parts)


def has_result(part: Part) -> TypeGuard[ToolPart]:
    """Return whether a part holds the result of a call."""
    return isinstance(part, ToolPart) and part.state in ("result", "error")


def is_decided(part: Part) -> TypeGuard[ToolPart]:
    """Return whether a part is a call that a person has approved or rejected, and that has not been run since."""
    return isinstance(part, ToolPart) and part.state == "call" and part.approval in ("approved", "rejected")


def brings_answer(part: Part) -> TypeGuard[ToolPart]:
    """Return whether a part holds the result of a call, or a person's decision about it."""
    return has_result(part) or is_decided(part)


def is_provider_executed(part: ToolPart) -> bool:
    """Return whether the notes of a format say that the provider runs the tool itself."""
    for notes in filter(is_mapping, part.metadata.values()):
        extras = (notes.get("extra"), notes.get("inner"))
        if "item" in notes or any(is_mapping(extra) and extra.get("providerExecuted") is True for extra in extras):
            return True
    return False


def unanswered_calls(messages: Iterable[Message]) -> set[str]:
    """Return the `call_key` of each call that has no result in the messages."""
    called, answered = set[str](), set[str]()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolPart):
                (answered if has_result(part) else called).add(call_key(part))
    return called - answered


def replace_messages(messages: MessageList, changes: Mapping[str, Sequence[Message]]) -> MessageList:
    """Return the list with some messages replaced by none, one or several others. Sources stay.

    Args:
        messages: the list.
        changes: the new messages by the id of the message that they replace.
    """
    added = [message for new in changes.values() for message in new]
    if all(message.id in changes for message in added):
        removed = [message_id for message_id, new in changes.items() if not new]
        return messages.replace(*added).remove(*removed)
    return list_with_entries(
        messages,
        [
            entry._replace(message=message)
            for entry in messages.entries
            for message in changes.get(entry.message.id, (entry.message,))
        ],
    )


def replace_source(messages: MessageList, source: Source, wanted: Sequence[Message]) -> MessageList:
    """Return the list with other messages of one source, in that order.

    They take the places of the old ones. Further messages follow the last of these, or stand first if there was none.
    """
    places = [index for index, entry in enumerate(messages.entries) if entry.source == source]
    last = places[-1] if places else -1
    entries: list[Entry] = [] if places else [Entry(message, source) for message in wanted]
    unanswered_calls = list(wanted) if places else []
    for index, entry in enumerate(messages.entries):
        if entry.source != source:
            entries.append(entry)
            continue
        count = len(unanswered_calls) if index == last else 1
        entries += [Entry(message, source) for message in unanswered_calls[:count]]
        unanswered_calls = unanswered_calls[count:]
    return list_with_entries(messages, entries)


def list_with_entries(messages: MessageList, entries: Iterable[Entry]) -> MessageList:
    """Return the list with other entries, for a hook to return, in linear time."""
    made = messages.with_entries([entry._replace(message=messages.completed(entry.message)) for entry in entries])
    # A second derivation, from a list of the same hook, marks that more than texts has changed.
    return made if messages.return_check is None else made.for_hook(messages.return_check).remove()
