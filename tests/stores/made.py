"""The small values that the tests of stores are made of; it knows no store."""

from collections.abc import Iterable, Sequence

from penstock import Message
from penstock.engine.values.stored import StoredMessage, VectorEntry, VectorHit


def said(id: str, text: str = "", thread: str = "t", resource: str | None = "r") -> Message:
    """Return a user's message."""
    return Message.user(text or f"text of {id}", id=id, thread_id=thread, resource_id=resource)


def many(count: int, thread: str = "t", start: int = 1) -> list[Message]:
    """Return messages m1, m2 … of a thread."""
    return [said(f"{thread}-m{number}", thread=thread) for number in range(start, start + count)]


def ids(items: Iterable[StoredMessage]) -> list[str]:
    """Return the ids of stored messages."""
    return [item.message.id for item in items]


def texts(items: Iterable[StoredMessage]) -> list[str]:
    """Return the texts of stored messages."""
    return [item.message.text for item in items]


def entry(
    id: str,
    vector: Sequence[float],
    *,
    message: str | None = None,
    thread: str = "t",
    resource: str = "r",
) -> VectorEntry:
    """Return a vector of a message, by default of that id."""
    return VectorEntry(id, vector, message or id, thread, resource)


def found(hits: Iterable[VectorHit]) -> list[str]:
    """Return the ids of hits."""
    return [hit.id for hit in hits]
