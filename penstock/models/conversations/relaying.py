"""Puts other messages into the places of some in a list; it knows nothing of why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.message_list import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.message_list import MessageList, Source
    from penstock.engine.values.messages import Message


def relaid(messages: MessageList, changes: Mapping[str, Sequence[Message]]) -> MessageList:
    """Return the list with none, one or several messages in place of each whose id is named; sources stay."""
    kept = [message for new in changes.values() for message in new]
    if all(message.id in changes for message in kept):
        gone = [message_id for message_id, new in changes.items() if not new]
        return messages.replace(*kept).remove(*gone)
    return laid_out(
        messages,
        [
            entry._replace(message=message)
            for entry in messages.entries
            for message in changes.get(entry.message.id, (entry.message,))
        ],
    )


def refilled(messages: MessageList, source: Source, wanted: Sequence[Message]) -> MessageList:
    """Return the list with those as its messages of one source, in that order.

    They fill the places of that source; what is left over follows the last of them, or stands first if there is none.
    """
    places = [index for index, entry in enumerate(messages.entries) if entry.source == source]
    last = places[-1] if places else -1
    entries: list[Entry] = [] if places else [Entry(message, source) for message in wanted]
    waiting = list(wanted) if places else []
    for index, entry in enumerate(messages.entries):
        if entry.source != source:
            entries.append(entry)
            continue
        count = len(waiting) if index == last else 1
        entries += [Entry(message, source) for message in waiting[:count]]
        waiting = waiting[count:]
    return laid_out(messages, entries)


def laid_out(messages: MessageList, entries: Iterable[Entry]) -> MessageList:
    """Return a list of that lineage with those entries, for a hook to return, in linear time."""
    made = messages.with_entries([entry._replace(message=messages.completed(entry.message)) for entry in entries])
    # Deriving once more, from a list handed out to the same hook, tells that more has changed than texts.
    return made if messages.return_check is None else made.for_hook(messages.return_check).remove()
