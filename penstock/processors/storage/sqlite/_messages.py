"""What is read and written of messages, on a connection; it knows no task."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.errors import MessageError, OwnershipError, StorageError
from penstock.engine.remembered import Page, StoredMessage
from penstock.processors.storage.bodies import read_message, write_message
from penstock.processors.storage.cursors import cursor, place
from penstock.processors.storage.sqlite import _threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from sqlite3 import Connection

    from penstock.engine.messages import Message

_LATEST = 2**63 - 1
"""No place is later."""


class Draft(NamedTuple):
    """A message that is to be stored: itself with a time, as JSON text, and whether the time is only a guess."""

    message: Message
    body: str
    guessed: bool


def drafts(messages: Sequence[Message], now: datetime) -> list[Draft]:
    """Return what is to be stored.

    Raises:
        MessageError: one holds what is no JSON value.
    """
    timed = [message if message.created_at is not None else replace(message, created_at=now) for message in messages]
    return [
        Draft(message, write_message(message, f"messages[{index}]"), messages[index].created_at is None)
        for index, message in enumerate(timed)
    ]


def saved(
    connection: Connection, given: Sequence[Draft], owners: Mapping[str, str | None], now: datetime, store: str
) -> tuple[StoredMessage, ...]:
    """Store messages, and return them as they are kept.

    Raises:
        OwnershipError: a thread is another resource's, or an id that of another thread's message.
    """
    last = _threads.owned(connection, owners, now, store)
    known = {row[0]: row for row in _rows(connection, [draft.message.id for draft in given])}
    kept: dict[str, tuple[Draft, int]] = {}
    for draft in given:
        message, thread_id = draft.message, str(draft.message.thread_id)
        row = known.get(message.id)
        if row is not None and row[1] != thread_id:
            raise OwnershipError(store, "an id is that of another thread's message; nothing was stored")
        if row is None and message.id not in kept:
            last[thread_id] += 1
        at = row[2] if row is not None else kept[message.id][1] if message.id in kept else last[thread_id]
        kept[message.id] = (_timed(draft, row[3], store) if row is not None else draft, at)
    connection.executemany(
        "INSERT INTO penstock_messages VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        [(name, draft.message.thread_id, at, draft.body) for name, (draft, at) in kept.items()],
    )
    _threads.touch(connection, last, now)
    return tuple([StoredMessage(kept[draft.message.id][0].message, kept[draft.message.id][1]) for draft in given])


def _timed(draft: Draft, before: str, store: str) -> Draft:
    """Return the draft with the time that the message was first stored with, if it has none of its own."""
    if not draft.guessed:
        return draft
    message = replace(draft.message, created_at=_read(before, store).created_at)
    return Draft(message, write_message(message), guessed=False)


def page(
    connection: Connection,
    thread_id: str,
    resource_id: str | None,
    limit: int,
    start: int | None,
    oldest_first: bool,  # noqa: FBT001
    store: str,
) -> Page[StoredMessage]:
    """Return a page of a thread's messages."""
    whose = "" if resource_id is None else "AND ? = (SELECT resource_id FROM penstock_threads WHERE id = thread_id) "
    asked = [] if resource_id is None else [resource_id]
    beyond, order, first = (">", "ASC", -1) if oldest_first else ("<", "DESC", _LATEST)
    rows = connection.execute(
        f"SELECT place, body FROM penstock_messages WHERE thread_id = ? AND place {beyond} ? {whose}"  # noqa: S608
        f"ORDER BY place {order} LIMIT ?",
        (thread_id, first if start is None else start, *asked, limit + 1),
    ).fetchall()
    items = tuple([StoredMessage(_read(body, store), at) for at, body in rows[:limit]])
    return Page(items, cursor(_kind(oldest_first), items[-1].order) if len(rows) > limit else None)


def _kind(oldest_first: bool) -> str:  # noqa: FBT001
    return "messages, oldest first" if oldest_first else "messages, newest first"


def place_beyond(text: str | None, oldest_first: bool) -> int | None:  # noqa: FBT001
    """Return where a page of messages goes on.

    Raises:
        UsageError: the text is no place in that order.
    """
    if text is None:
        return None
    (at,) = place(_kind(oldest_first), text, int)
    return min(max(int(at), 0), _LATEST)


def _read(body: str, store: str) -> Message:
    try:
        return read_message(body)
    except MessageError as error:
        raise StorageError(
            store, f"a message in it cannot be read; a newer version may have written it: {error}"
        ) from None


def by_id(connection: Connection, ids: Iterable[str], store: str) -> tuple[StoredMessage, ...]:
    """Return the messages that there are, by thread and order."""
    rows = _rows(connection, ids)
    return tuple([StoredMessage(_read(body, store), at) for _, _, at, body in rows])


def _rows(connection: Connection, ids: Iterable[str]) -> list[tuple[str, str, int, str]]:
    return connection.execute(
        "SELECT id, thread_id, place, body FROM penstock_messages WHERE id IN (SELECT value FROM json_each(?)) "
        "ORDER BY thread_id, place",
        (json.dumps(list(ids)),),
    ).fetchall()


def around(
    connection: Connection, ids: Iterable[str], before: int, after: int, store: str
) -> tuple[StoredMessage, ...]:
    """Return messages and their neighbours, by thread and order."""
    found: dict[tuple[str, int], str] = {}
    for _, thread_id, at, _ in _rows(connection, ids):
        for beyond, order, count in (("<=", "DESC", before + 1), (">", "ASC", after)):
            rows = connection.execute(
                f"SELECT place, body FROM penstock_messages WHERE thread_id = ? AND place {beyond} ? "  # noqa: S608
                f"ORDER BY place {order} LIMIT ?",
                (thread_id, at, count),
            )
            found.update({(thread_id, place): body for place, body in rows})
    return tuple([StoredMessage(_read(found[key], store), key[1]) for key in sorted(found)])


def deleted(connection: Connection, ids: Iterable[str]) -> int:
    """Delete messages alone; return how many there were."""
    statement = "DELETE FROM penstock_messages WHERE id IN (SELECT value FROM json_each(?))"
    return connection.execute(statement, (json.dumps(list(ids)),)).rowcount


def deleted_of(connection: Connection, thread_id: str) -> None:
    """Delete a thread's messages alone."""
    connection.execute("DELETE FROM penstock_messages WHERE thread_id = ?", (thread_id,))
