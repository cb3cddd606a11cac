"""The contents of a store as values: threads, messages with their order, working memory, vectors, suspended runs."""

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
"""Whether something belongs to one thread, or to all threads of a resource (for example a user)."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation.

    Attributes:
        id: its id, unique in the store.
        resource_id: the id of its owner.
        title: a title for people.
        metadata: JSON values of the application.
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


RunStatus = Literal["waiting", "running", "ended"]
"""How a stored run stands: it waits for people, a process goes on with it, or it has ended."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that was suspended, as a store keeps it.

    Attributes:
        id: the id of the run, unique in the store.
        agent: the name of the agent whose request it is.
        status: how it stands.
        body: the run as JSON values. It holds what guards released, and nothing that they hid.
        thread_id: the thread of its request, or None. The run is deleted with the thread.
        resource_id: the owner of the thread, or None. The run is deleted with everything of the owner.
        due_at: when its status has to be looked at again, with its zone: the questions expire, or the process that goes
            on with it has not reported for too long. None: never.
        created_at: when it was first stored, with its zone.
        updated_at: when it was last stored.
        version: counts how often it was stored, from 1; 0: not yet.
    """

    id: str
    agent: str
    status: RunStatus = "waiting"
    body: Values = EMPTY
    thread_id: str | None = None
    resource_id: str | None = None
    due_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0

    def __post_init__(self) -> None:
        """Freeze the body."""
        object.__setattr__(self, "body", freeze(self.body))


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as a store keeps it.

    Attributes:
        message: the message, with its id, thread and time.
        order: its place in the thread: greater is later. Given when it is first stored, and kept when it is stored
            again; unlike times it has no ties.
    """

    message: Message
    order: int


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a result.

    Attributes:
        items: the items, in the order that was asked for.
        following: the value of ``after`` (or ``before``) for the next page; None on the last one.
    """

    items: tuple[T, ...] = ()
    following: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One version of a working memory.

    Attributes:
        text: its content.
        version: counts its changes, from 1.
        updated_at: when it was stored.
        author: who changed it, for example the id of a run; empty if nobody was named.
    """

    text: str
    version: int
    updated_at: datetime
    author: str = ""


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """A vector to be stored, and the message that it is of.

    Attributes:
        id: the id of the entry, unique in its index; an entry with the same id replaces it.
        vector: the numbers; all of an index have one length.
        message_id: the id of the message. If that is deleted, so is the entry.
        thread_id: the id of the message's thread.
        resource_id: the id of its owner.
    """

    id: str
    vector: Sequence[float]
    message_id: str
    thread_id: str
    resource_id: str = ""


@dataclass(frozen=True, slots=True)
class VectorHit:
    """An entry that was found near a vector.

    Attributes:
        id: the entry's id.
        message_id: the id of the message that it is of.
        thread_id: the id of the message's thread.
        resource_id: the id of its owner.
        score: the cosine of the angle between the two vectors, -1 to 1.
    """

    id: str
    message_id: str
    thread_id: str
    resource_id: str
    score: float
