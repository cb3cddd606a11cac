"""What a store keeps, as values: threads, messages in their order, working memory, vectors. It knows no store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from penstock.engine.values.frozen import EMPTY, freeze

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Message

T = TypeVar("T")

MemoryScope = Literal["thread", "resource"]
"""Whose something is: of one thread, or of all threads of a resource (a user, say)."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation.

    Attributes:
        id: its id, unique in the store.
        resource_id: whose it is.
        title: what it is called, for people.
        metadata: JSON values of the application's own.
        created_at: when it was first stored, with its zone.
        updated_at: when it, or a message of it, was last stored.
        version: counts the changes of title and metadata, from 1; see `Storage.update_thread`.
    """

    id: str
    resource_id: str
    title: str = ""
    metadata: Values = EMPTY
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        object.__setattr__(self, "metadata", freeze(self.metadata))


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it is kept.

    Attributes:
        message: the message, with its id, thread and time.
        order: its place in the thread: greater is later. Given when it is first stored, and kept when it is stored
            again; unlike times it has no ties.
    """

    message: Message
    order: int


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of what was asked for.

    Attributes:
        items: what there is, in the order asked for.
        following: where to go on, as the next call's ``after`` (or ``before``); None at the end.
    """

    items: tuple[T, ...] = ()
    following: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A working memory, at one version.

    Attributes:
        text: what it holds.
        version: counts its changes, from 1.
        updated_at: when it was stored.
        author: who changed it, if they said: a run's id, say.
    """

    text: str
    version: int
    updated_at: datetime
    author: str = ""


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """A vector to be kept, and what it is of.

    Attributes:
        id: the entry's id, unique in its index; one with the same id takes its place.
        vector: the numbers; all of an index have one length.
        message_id: the message that it is of: if that is deleted, so is the entry.
        thread_id: the message's thread.
        resource_id: whose it is.
    """

    id: str
    vector: Sequence[float]
    message_id: str
    thread_id: str
    resource_id: str = ""


@dataclass(frozen=True, slots=True)
class VectorHit:
    """What was found near a vector.

    Attributes:
        id: the entry's id.
        message_id: the message that it is of.
        thread_id: the message's thread.
        resource_id: whose it is.
        score: the cosine of the angle between both, -1 to 1.
    """

    id: str
    message_id: str
    thread_id: str
    resource_id: str
    score: float
