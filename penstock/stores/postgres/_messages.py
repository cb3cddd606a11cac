"""Read and write messages on a PostgreSQL session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OwnershipError
from penstock.engine.values.stored import Page, StoredMessage
from penstock.stores.checks import cursor, place
from penstock.stores.encoding import read_message, write_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.stores.postgres._connections import Session

_LOCK_THREADS = """
    INSERT INTO {schema}.threads AS kept (id, resource_id, title, metadata, created_at, updated_at, last_order)
    SELECT id, coalesce(owner, id), '""', '{}', $3, $3, count
    FROM unnest($1::text[], $2::text[], $4::bigint[]) AS given (id, owner, count) ORDER BY id COLLATE "C"
    ON CONFLICT (id) DO UPDATE
    SET last_order = kept.last_order + excluded.last_order, updated_at = greatest(kept.updated_at, excluded.updated_at)
    RETURNING id, resource_id, last_order
"""
"""Creates missing threads, and locks all of them until the end of the transaction: others that store messages in one of
them wait, so that places in a thread are in the order of commits. A place is reserved for every message, also for those
that have one already: there are enough numbers."""

_STORE = """
    INSERT INTO {schema}.messages AS kept (id, thread_id, order_key, created_at, body)
    SELECT id, thread_id, order_key, coalesce(at, $6), body
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[], $5::text[])
        AS given (id, thread_id, order_key, at, body)
    ORDER BY id COLLATE "C"
    ON CONFLICT (id) DO UPDATE
    SET body = excluded.body,
        created_at = CASE WHEN excluded.id = ANY($7::text[]) THEN kept.created_at ELSE excluded.created_at END
    WHERE kept.thread_id = excluded.thread_id
    RETURNING id, order_key, created_at
"""
"""In the order of ids, so that two transactions that store the same messages cannot deadlock."""

_PAGE = """
    SELECT order_key, created_at, body FROM {schema}.messages
    WHERE {condition}
    ORDER BY order_key {direction} LIMIT $2
"""

_OF_THE_RESOURCE = "EXISTS (SELECT 1 FROM {schema}.threads WHERE id = $1 AND resource_id = ${number})"

_BY_ID = """
    SELECT order_key, created_at, body FROM {schema}.messages WHERE id = ANY($1::text[]) ORDER BY thread_id, order_key
"""

_DELETE = """
    DELETE FROM {schema}.messages WHERE id IN (
        SELECT id FROM {schema}.messages WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE
    ) RETURNING id
"""

_AROUND = """
    WITH hits AS (SELECT thread_id, order_key FROM {schema}.messages WHERE id = ANY($1::text[])), near AS (
        SELECT found.id FROM hits, LATERAL (
            (SELECT id FROM {schema}.messages WHERE thread_id = hits.thread_id AND order_key <= hits.order_key
             ORDER BY order_key DESC LIMIT $2 + 1)
            UNION ALL
            (SELECT id FROM {schema}.messages WHERE thread_id = hits.thread_id AND order_key > hits.order_key
             ORDER BY order_key LIMIT $3)
        ) AS found
    )
    SELECT order_key, created_at, body FROM {schema}.messages WHERE id IN (SELECT id FROM near)
    ORDER BY thread_id, order_key
"""


async def save(
    session: Session, messages: Sequence[Message], owners: Mapping[str, str | None], now: datetime, label: str
) -> tuple[StoredMessage, ...]:
    """Store messages, all or none, and return them as they are stored, in the given order.

    ``owners``: the resources that they name, by thread.
    """
    final = {message.id: message for message in messages}
    written = [write_message(message, f"message {message.id!r}") for message in final.values()]
    places = await _places(session, messages, owners, now, label)
    rows = await session.rows(
        _STORE,
        list(final),
        [message.thread_id for message in final.values()],
        [places[id] for id in final],
        [message.created_at for message in final.values()],
        written,
        now,
        [message.id for message in final.values() if message.created_at is None],
    )
    if len(rows) < len(final):
        raise OwnershipError(label, "an id belongs to a message of another thread; nothing was stored")
    kept: dict[str, StoredMessage] = {
        row["id"]: StoredMessage(_timed(final[row["id"]], row["created_at"]), row["order_key"]) for row in rows
    }
    return tuple(kept[message.id] for message in messages)


async def _places(
    session: Session, messages: Sequence[Message], owners: Mapping[str, str | None], now: datetime, label: str
) -> dict[str, int]:
    """Return a place for each message, the next of its thread in the given order. The threads are locked."""
    ids: dict[str, dict[str, None]] = {thread: {} for thread in owners}
    for message in messages:
        ids[str(message.thread_id)][message.id] = None
    counts = [len(ids[thread]) for thread in owners]
    rows = await session.rows(_LOCK_THREADS, list(owners), list(owners.values()), now, counts)
    if any(owners[row["id"]] not in {None, row["resource_id"]} for row in rows):
        raise OwnershipError(label, "a thread belongs to another resource; nothing was stored")
    places: dict[str, int] = {}
    for row in rows:
        own = ids[row["id"]]
        first = row["last_order"] - len(own) + 1
        places.update(zip(own, range(first, first + len(own)), strict=True))
    return places


def _timed(message: Message, at: datetime) -> Message:
    return message if message.created_at is not None else replace(message, created_at=at)


def _stored(row: Mapping[str, Value]) -> StoredMessage:
    return StoredMessage(_timed(read_message(row["body"]), row["created_at"]), row["order_key"])


async def page(
    session: Session,
    thread_id: str,
    resource_id: str | None,
    limit: int,
    before: str | None,
    oldest_first: bool,  # noqa: FBT001
) -> Page[StoredMessage]:
    """Return messages of a thread, the newest or the oldest first."""
    kind = "oldest" if oldest_first else "newest"
    values: list[Value] = [thread_id, limit + 1]
    where = ["thread_id = $1"]
    if before is not None:
        values += place(kind, before, int)
        where.append(f"order_key {'>' if oldest_first else '<'} $3")
    if resource_id is not None:
        values.append(resource_id)
        where.append(_OF_THE_RESOURCE.replace("{number}", str(len(values))))
    sql = _PAGE.replace("{condition}", " AND ".join(where))
    rows = await session.rows(sql.replace("{direction}", "ASC" if oldest_first else "DESC"), *values)
    items = tuple(_stored(row) for row in rows[:limit])
    return Page(items, cursor(kind, items[-1].order) if len(rows) > limit else None)


async def by_id(session: Session, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
    """Return the messages that exist, each once, by thread and order."""
    return tuple(_stored(row) for row in await session.rows(_BY_ID, list(ids)))


async def around(session: Session, ids: Sequence[str], before: int, after: int) -> tuple[StoredMessage, ...]:
    """Return messages and their neighbours in their threads, each once, by thread and order."""
    return tuple(_stored(row) for row in await session.rows(_AROUND, list(ids), before, after))


async def delete(session: Session, ids: Sequence[str]) -> Sequence[str]:
    """Delete messages with their vectors; return the ids of those that existed."""
    return [row["id"] for row in await session.rows(_DELETE, list(ids))]
