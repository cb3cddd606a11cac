"""How a thread's history enters a conversation: remembered messages before the input, and none twice.

It knows stored messages and what the caller sent, no store and no stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import OwnershipError, UsageError
from penstock.engine.values.message_list import Entry
from penstock.engine.values.messages import ToolPart
from penstock.models.conversations.pairs import pair_key, says_something
from penstock.models.conversations.relaying import laid_out
from penstock.processors.memory._updates import answered, is_update, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Storage
    from penstock.engine.values.stored import StoredMessage, Thread


def thread_of(ctx: AnyContext) -> str | None:
    """Return the id of the thread at hand; None if the caller named none.

    Raises:
        UsageError: what the request context says of thread or resource is nobody's id.
    """
    named_resource(ctx.resource_id)
    return named_thread(ctx.thread_id)


def named_thread(given: object) -> str | None:
    """Return what a request context says is the thread; an empty one is none.

    Raises:
        UsageError: it is no str.
    """
    if given is not None and not isinstance(given, str):
        raise UsageError(f"thread_id in the request context is a str, not {type(given).__name__}")
    return given or None


def named_resource(given: object) -> str | None:
    """Return what a request context says is the resource.

    Raises:
        UsageError: it is no str; or an empty one, as of a user who is not known: to name nobody is to ask for any
            thread, so it is not taken for that.
    """
    if given is not None and not isinstance(given, str):
        raise UsageError(f"resource_id in the request context is a str, not {type(given).__name__}")
    if given == "":
        raise UsageError("resource_id in the request context is empty; leave it out where threads are nobody's")
    return given


def own(storage: Storage, thread: Thread | None, resource_id: str | None) -> Thread | None:
    """Return the thread, if there is one.

    Raises:
        OwnershipError: it is another resource's.
    """
    if thread is not None and resource_id is not None and thread.resource_id != resource_id:
        raise OwnershipError(
            type(storage).__name__, "the thread is another resource's; give its own, or another thread"
        )
    return thread


class Joined(NamedTuple):
    """A conversation with its history.

    Attributes:
        messages: the conversation; None if nothing has changed.
        loaded: how many messages were remembered.
    """

    messages: MessageList | None
    loaded: int


def joined(listed: MessageList, rows: Iterable[StoredMessage]) -> Joined:
    """Return a conversation with stored messages before its input.

    Messages of the system stay out, and results whose calls were made before the first. What is stored counts, and not
    what the caller sent under the same id. Only the results of tools that ran at the
    caller's are taken from there: a message whose calls get their answers so is input, and judged as such.
    """
    taken = {entry.message.id for entry in listed.entries if entry.source != "input"}
    ordered = [row.message for row in sorted(rows, key=lambda row: row.order)]
    stored = [message for message in _paired(ordered) if message.id not in taken]
    updates = _updates(listed.input, waiting(stored))
    remembered: list[Entry] = []
    for message in stored:
        filled = answered(message, updates)
        remembered.append(Entry(filled, "memory" if filled is message else "input"))
    known = {message.id for message in ordered}
    entries: list[Entry] = []
    for entry in listed.entries:
        if entry.source == "input":
            entries += remembered
            remembered = []
            entries += _fresh(entry, known, updates)
        else:
            entries.append(entry)
    changed = bool(stored) or len(entries) != len(listed.entries)
    return Joined(laid_out(listed, [*entries, *remembered]) if changed else None, len(stored))


def _paired(messages: Sequence[Message]) -> list[Message]:
    """Return messages without the system's, and without the results of calls that are not among those before them."""
    told: list[Message] = []
    called = set[str]()
    for message in messages:
        keys = {pair_key(part) for part in message.parts if isinstance(part, ToolPart)}
        if message.role != "tool":
            called |= keys
        elif not keys <= called:
            parts = [part for part in message.parts if not isinstance(part, ToolPart) or pair_key(part) in called]
            if says_something(parts):
                told.append(message.with_parts(parts))
            continue
        if message.role != "system":
            told.append(message)
    return told


def _updates(sent: Sequence[Message], calls: set[str]) -> dict[str, ToolPart]:
    """Return what answers calls that wait, of what the caller sent as the assistant's."""
    parts = [part for message in sent if message.role == "assistant" for part in message.parts]
    return {pair_key(part): part for part in parts if is_update(part) and pair_key(part) in calls}


def _fresh(entry: Entry, known: set[str], updates: Mapping[str, ToolPart]) -> list[Entry]:
    """Return what is new in a message that the caller sent."""
    message = entry.message
    if message.id in known:
        return []
    if message.role != "assistant" or not updates:
        return [entry]
    parts = [part for part in message.parts if not (is_update(part) and pair_key(part) in updates)]
    if len(parts) == len(message.parts):
        return [entry]
    return [entry._replace(message=message.with_parts(parts))] if says_something(parts) else []
