"""Protocols that an application may implement (`Model`, `Storage`, `Clock` …), and a default clock, ids and cache.

Anything with these methods will do: bring your own, or take the ones in `penstock.testing` for tests.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.values.stored import (
        MemoryRecord,
        MemoryScope,
        Page,
        StoredMessage,
        Thread,
        VectorEntry,
        VectorHit,
    )
    from penstock.engine.values.tripwire import Record


V_co = TypeVar("V_co", covariant=True)


@runtime_checkable
class Clock(Protocol):
    """Tells the time; messages are stamped by it."""

    def now(self) -> datetime:
        """Return the time now, with its zone."""
        ...


@runtime_checkable
class Ids(Protocol):
    """Gives ids to messages and runs."""

    def next(self) -> str:
        """Return an id that was not given before."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Is told what the steps of a run did, as it happens. An error it raises is logged, and changes nothing."""

    def on_record(self, record: Record) -> None:
        """Take note of what one step did. Called in the run's own task: be quick, do not block."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of texts.

    Two attributes may say more about it, which makes it cheaper to use on a stream: ``additive``, if the counts of two
    texts add up to the count of both together wherever a letter or digit ends the first and a blank or a line end
    begins the second; ``monotone``, if a text never has fewer tokens than its beginning. ``name`` is shown in records.
    """

    def count(self, text: str) -> int:
        """Return how many tokens the text has: 0 or more, of any text, special tokens' names included."""
        ...


@runtime_checkable
class Model(Protocol):
    """Answers requests in chunks. `penstock.engine.values.model` says what a request and an answer hold.

    An attribute ``identity``, a mapping, may say what else tells it apart from others of its name: its address, its own
    settings. Never a key. Verdicts of models that differ in it are not taken for each other's.
    """

    @property
    def name(self) -> str:
        """What it is called, for people: ``openai/gpt-5``. Never a key."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Return the answer, chunk by chunk; closing it (``aclose``) ends the request.

        Raises:
            ModelError: while it is read: it could not be asked, or gave no whole answer.
        """
        ...


class Judged(Protocol[V_co]):
    """A verdict, and what it took."""

    @property
    def verdict(self) -> V_co:
        """The verdict."""
        ...

    @property
    def model(self) -> str:
        """The name of whoever gave it. Never a key."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """Which entries of it could not be read and are left out; empty if it is whole."""
        ...


@runtime_checkable
class Judge(Protocol[V_co]):
    """Gives verdicts of one type about texts: `penstock.models.judges.Judge` asks a model for them."""

    async def ask(self, content: str, *, ctx: Value = None) -> Judged[V_co]:
        """Return the verdict about a text; ``ctx``: the context of the hook that asks, for its record.

        Raises:
            JudgeError: there is none; never to be taken for "nothing found".
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order; all of one length.

        Raises:
            ModelError: it could not be asked, or gave no whole answer.
        """
        ...


@runtime_checkable
class Cache(Protocol):
    """Keeps texts under keys for a while: in memory, or in a server that several processes share.

    It may forget whatever it likes. What it raises is logged, and taken for "not there".
    """

    async def get(self, key: str) -> str | None:
        """Return what is kept under the key, or None."""
        ...

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep the value, for ``ttl`` seconds if that is given, in place of what was there."""
        ...


@runtime_checkable
class Storage(Protocol):
    """Keeps threads, messages and working memories. What has been awaited is kept, whatever happens to the process.

    Safe under many tasks and several processes. It opens itself at first use. Every method raises `StorageError` where
    the store cannot be reached, is broken, or gives up; never less than what was asked for is done in silence.
    """

    async def thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None."""
        ...

    async def create_thread(self, thread: Thread) -> Thread:
        """Return the thread of that id as it is kept; it is stored if there is none.

        Raises:
            OwnershipError: there is one, and it is another resource's.
        """
        ...

    async def update_thread(
        self, thread_id: str, *, title: str | None = None, metadata: Values | None = None, expected: int | None = None
    ) -> Thread:
        """Store a title, or metadata in place of the ones before, and return the thread.

        Args:
            thread_id: which.
            title: the title; None leaves it.
            metadata: the metadata; None leaves them.
            expected: the version that it must still have; None: any.

        Raises:
            StorageConflictError: it has another version by now.
            NotStoredError: there is no such thread.
        """
        ...

    async def threads(
        self, *, resource_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Thread]:
        """Return threads, the last changed first; ``after``: a page's ``following``."""
        ...

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread with its messages, their vectors, and its working memory; tell whether there was one."""
        ...

    async def delete_resource(self, resource_id: str) -> int:
        """Delete all that is a resource's: its threads as `delete_thread` does, its vectors, its working memory.

        Returns how many threads there were. What is stored for it afterwards begins anew.
        """
        ...

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Store messages, all or none, and return them as they are kept, in the order given.

        Each has an id and a thread. One that is there already is replaced and keeps its place; the others follow the
        last of their thread, in the order given. Threads that are missing are stored, as the resource's of the message
        (or, if it has none, the thread's own).

        Raises:
            MessageError: one has no id or no thread.
            OwnershipError: a thread is another resource's, or the id is that of another thread's message.
        """
        ...

    async def messages(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> Page[StoredMessage]:
        """Return messages of a thread, the newest first.

        Args:
            thread_id: which thread.
            resource_id: whose they must be; None: anybody's.
            limit: how many at most, 1 to 10,000.
            before: where to go on: a page's ``following``, of the same order.
            oldest_first: the oldest first instead.
        """
        ...

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        """Return those of the messages that there are, each once, by thread and order."""
        ...

    async def messages_around(self, ids: Sequence[str], *, before: int, after: int) -> tuple[StoredMessage, ...]:
        """Return messages and their neighbours in their threads, each once, by thread and order."""
        ...

    async def delete_messages(self, ids: Sequence[str]) -> int:
        """Delete messages with their vectors; return how many there were."""
        ...

    async def working_memory(self, scope: MemoryScope, key: str) -> MemoryRecord | None:
        """Return the working memory of a thread or a resource as it stands, or None."""
        ...

    async def put_working_memory(
        self, scope: MemoryScope, key: str, text: str, *, expected: int | None, author: str = ""
    ) -> MemoryRecord:
        """Store a working memory, and return it.

        Args:
            scope: whose.
            key: the id of the thread or resource.
            text: all that it is to hold.
            expected: the version that it must still have; 0: there must be none; None: whatever there is.
            author: who changes it.

        Raises:
            StorageConflictError: it has another version by now: read it again.
        """
        ...

    async def working_memory_history(
        self, scope: MemoryScope, key: str, *, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return a working memory's last versions, the newest first; a store keeps at least 10."""
        ...

    async def delete_working_memory(self, scope: MemoryScope, key: str) -> bool:
        """Delete a working memory with all its versions; tell whether there was one.

        Who expects a version of it cannot write it back; the versions of the next one count from 1 again.
        """
        ...

    async def close(self) -> None:
        """Close what is open; it may be used again."""
        ...


@runtime_checkable
class VectorStore(Protocol):
    """Keeps vectors by index and finds those near one. A store of messages that is one too deletes them together."""

    async def upsert_vectors(self, index: str, entries: Sequence[VectorEntry]) -> None:
        """Store vectors, all or none; the index is made at first use, of their length.

        Raises:
            StorageError: a vector has another length than the index's, is empty, or holds what is no finite number.
        """
        ...

    async def query_vectors(
        self,
        index: str,
        vector: Sequence[float],
        *,
        limit: int,
        thread_id: str | None = None,
        resource_id: str | None = None,
        threshold: float | None = None,
    ) -> tuple[VectorHit, ...]:
        """Return the nearest by cosine, the nearest first; of equal ones by id. An index that is not there has none.

        Args:
            index: which index.
            vector: near what.
            limit: how many at most.
            thread_id: of which thread; None: any.
            resource_id: of which resource; None: any.
            threshold: the least score; None: any.
        """
        ...

    async def delete_vectors(self, index: str, message_ids: Sequence[str]) -> int:
        """Delete the vectors of messages from an index; return how many there were."""
        ...


class SystemClock:
    """The machine's clock, in UTC."""

    __slots__ = ()

    def now(self) -> datetime:
        """Return the time now, in UTC."""
        return datetime.now(UTC)


class RandomIds:
    """Ids of 24 hexadecimal digits from the system's randomness: unique across processes, forks included."""

    __slots__ = ()

    def next(self) -> str:
        """Return a new id."""
        return os.urandom(12).hex()


SYSTEM_CLOCK = SystemClock()
RANDOM_IDS = RandomIds()


class LRUCache:
    """Keeps the ``size`` texts that were used last, each for as long as it was given.

    Raises:
        OptionError: the size is not 1 or more.
    """

    __slots__ = ("_clock", "_kept", "_size")

    def __init__(self, size: int = 1024, *, clock: Clock = SYSTEM_CLOCK) -> None:
        if type(size) is not int or size < 1:
            raise OptionError("LRUCache", "size", size, "an int, 1 or more")
        self._size = size
        self._clock = clock
        self._kept: OrderedDict[str, tuple[str, datetime | None]] = OrderedDict()

    async def get(self, key: str) -> str | None:
        """Return what is kept under the key, or None if nothing is, or not any more."""
        value, until = self._kept.get(key, (None, None))
        if until is not None and until <= self._clock.now():
            del self._kept[key]
            return None
        if value is not None:
            self._kept.move_to_end(key)
        return value

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep the value; the one that was not used for longest may have to go."""
        until = None if ttl is None else self._clock.now() + timedelta(seconds=ttl)
        self._kept[key] = (value, until)
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        """Return how many texts are kept, those whose time is over included."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show how much it holds, not what."""
        return f"LRUCache({len(self)} of {self._size})"
