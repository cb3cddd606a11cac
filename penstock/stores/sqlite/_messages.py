"""Read and write messages on a SQLite connection."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import MessageError, OwnershipError, StorageError
from penstock.engine.values.stored import Page, StoredMessage
from penstock.stores.checks import cursor, place
from penstock.stores.encoding import read_message, write_message
from penstock.stores.sqlite import _threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from sqlite3 import Connection

    from penstock.engine.values.messages import Message

_LATEST = 2**63 - 1
"""The last possible place."""


class _Draft(NamedTuple):
    """A message that is to be stored: with a time, as JSON text, and whether its time was missing."""

    message: Message
    body: str
    guessed: bool


def _drafts(messages: Sequence[Message], now: datetime) -> list[_Draft]:
    """Return the messages to be stored.

    Raises:
        MessageError: a message holds a value that is not a JSON value.
    """
    timed = [_timed(message, now) for message in messages]
    return [
        _Draft(message, write_message(message, f"messages[{index}]"), messages[index].created_at is None)
        for index, message in enumerate(timed)
    ]


def _timed(message: Message, now: datetime) -> Message:
    """Return the message with a time and a time zone: now if it has no time, UTC if it has no zone."""
    at = message.created_at
    if at is not None and at.tzinfo is not None:
        return message
    return replace(message, created_at=now if at is None else at.replace(tzinfo=UTC))


def saved(
    connection: Connection, messages: Sequence[Message], owners: Mapping[str, str | None], now: datetime, store: str
) -> tuple[StoredMessage, ...]:
    """Store messages, and return them as they are stored.

    Raises:
        MessageError: a message holds a value that is not a JSON value.
        OwnershipError: a thread belongs to another resource, or an id to a message of another thread.
    """
    given = _drafts(messages, now)
    last = _threads.owned(connection, owners, now, store)
    known = {row[0]: row for row in _rows(connection, [draft.message.id for draft in given])}
    kept: dict[str, tuple[_Draft, int]] = {}
    for draft in given:
        message, thread_id = draft.message, str(draft.message.thread_id)
        row = known.get(message.id)
        if row is not None and row[1] != thread_id:
            raise OwnershipError(store, "an id belongs to a message of another thread; nothing was stored")
        if row is None and message.id not in kept:
            last[thread_id] += 1
        at = row[2] if row is not None else kept[message.id][1] if message.id in kept else last[thread_id]
        kept[message.id] = (_as_old(draft, row[3], store) if row is not None else draft, at)
    connection.executemany(
        "INSERT INTO penstock_messages VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        [(name, draft.message.thread_id, at, draft.body) for name, (draft, at) in kept.items()],
    )
    _threads.touch(connection, last, now)
    return tuple([StoredMessage(kept[draft.message.id][0].message, kept[draft.message.id][1]) for draft in given])


def _as_old(draft: _Draft, before: str, store: str) -> _Draft:
    """Return the draft with the time at which the message was first stored, if it has no time of its own."""
    if not draft.guessed:
        return draft
    message = replace(draft.message, created_at=_read([(0, before)], store)[0].message.created_at)
    return _Draft(message, write_message(message), guessed=False)


def page(
    connection: Connection,
    thread_id: str,
    resource_id: str | None,
    limit: int,
    start: int | None,
    oldest_first: bool,  # noqa: FBT001
    store: str,
) -> Page[StoredMessage]:
    """Return a page of a thread's messages; an empty one if the thread does not belong to the resource."""
    if resource_id is not None and _threads.owner(connection, thread_id) != resource_id:
        return Page()
    beyond, order, first = (">", "ASC", -1) if oldest_first else ("<", "DESC", _LATEST)
    rows = connection.execute(
        f"SELECT place, body FROM penstock_messages WHERE thread_id = ? AND place {beyond} ? "  # noqa: S608
        f"ORDER BY place {order} LIMIT ?",
        (thread_id, first if start is None else start, limit + 1),
    ).fetchall()
    items = _read(rows[:limit], store)
    return Page(items, cursor(_kind(oldest_first), items[-1].order) if len(rows) > limit else None)


def _kind(oldest_first: bool) -> str:  # noqa: FBT001
    return "messages, oldest first" if oldest_first else "messages, newest first"


def place_beyond(text: str | None, oldest_first: bool) -> int | None:  # noqa: FBT001
    """Return where a page of messages continues.

    Raises:
        UsageError: the text is not a cursor of that order.
    """
    if text is None:
        return None
    (at,) = place(_kind(oldest_first), text, int)
    return min(max(int(at), 0), _LATEST)


def _read(rows: Sequence[tuple[int, str]], store: str) -> tuple[StoredMessage, ...]:
    """Return the messages of rows of places and bodies."""
    try:
        return tuple([StoredMessage(read_message(body), at) for at, body in rows])
    except MessageError as error:
        problem = "a message in it cannot be read; a newer Penstock may have written it"
        raise StorageError(store, f"{problem}: {error}") from None


def by_id(connection: Connection, ids: Iterable[str], store: str) -> tuple[StoredMessage, ...]:
    """Return the messages that exist, by thread and order."""
    rows = _rows(connection, ids)
    return _read([row[2:] for row in rows], store)


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
    return _read([(key[1], found[key]) for key in sorted(found)], store)


def deleted(connection: Connection, ids: Iterable[str]) -> int:
    """Delete messages, without their vectors; return how many there were."""
    statement = "DELETE FROM penstock_messages WHERE id IN (SELECT value FROM json_each(?))"
    return connection.execute(statement, (json.dumps(list(ids)),)).rowcount


def deleted_of(connection: Connection, thread_id: str) -> None:
    """Delete a thread's messages, without their vectors."""
    connection.execute("DELETE FROM penstock_messages WHERE thread_id = ?", (thread_id,))
