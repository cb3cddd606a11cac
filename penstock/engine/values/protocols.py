"""Protocols that an application may implement (`Model`, `Storage`, `Clock` …), and a default clock, ids and cache.

Any object with the methods of a protocol will do: write your own, or use the fakes in `penstock.testing` for tests.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from datetime import UTC, datetime
from sys import getsizeof
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from penstock.engine.values.errors import OptionError
from penstock.engine.values.expiry import ExpiryTimer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.expiry import Expiry
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.values.stored import (
        MemoryRecord,
        MemoryScope,
        Page,
        RunStatus,
        StoredMessage,
        StoredRun,
        Thread,
        VectorEntry,
        VectorHit,
    )
    from penstock.engine.values.tripwire import Record


V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


@runtime_checkable
class Clock(Protocol):
    """Returns the time. Messages are stamped with it."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""
        ...


@runtime_checkable
class Ids(Protocol):
    """Generates ids for messages and runs."""

    def next(self) -> str:
        """Return an id that was not returned before."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Gets the record of each step when the step has ended. An error that it raises is logged and changes nothing.

    ``on_event`` (optional) is called with a `RunEvent` at the start and the end of each stage, each branch, and each
    attempt at a step with retries; of the run, if it is used with ``async with``; and, in an agent, of each model step,
    each model call and each tool call.

    ``enclose`` (optional) is called with a `CallSite` before a stage, hook, model or tool is called. It may return a
    function that makes a context manager. Each call is made within one, in the task or the thread of the call, so
    that the called code sees context variables that it sets.

    ``skips_passed`` (optional): True if it needs no records of steps that did nothing: no verdict, failure, edit,
    finding or note. Without other observers and records, such steps cost less then.

    ``for_run`` (optional) is called with each new `Run`, and returns the observer of that run. So it can keep state for
    each run, also where runs share an id. Keep only a weak reference to the run.
    """

    def on_record(self, record: Record) -> None:
        """Handle the record of one step. It is called in the run's own task, so it must be quick and must not block."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of texts.

    Two optional attributes make it cheaper to use on a stream. ``additive``: the counts of two texts add up to the
    count of both together wherever the first ends in a letter or digit and the second begins with a blank or a line
    end. ``monotone``: a text never has fewer tokens than any beginning of it. ``name`` is shown in records.
    """

    def count(self, text: str) -> int:
        """Return the number of tokens: 0 or more. It accepts any text, also one with the names of special tokens."""
        ...


@runtime_checkable
class Model(Protocol):
    """A language model: answers requests in chunks. See `penstock.engine.values.model` for requests and answers.

    An optional attribute ``identity``, a mapping, holds what else distinguishes the model from others of the same name,
    for example its address and settings. It must not contain an API key. Cached verdicts are shared only by models with
    the same identity.
    """

    @property
    def name(self) -> str:
        """The name of the model, for people: ``openai/gpt-5``. It must not contain an API key."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Return the answer, chunk by chunk. Closing the iterator (``aclose``) ends the request.

        Raises:
            ModelError: while the answer is read: the model could not be asked, or gave no complete answer.
        """
        ...


class Judged(Protocol[V_co]):
    """A verdict, and how it was reached."""

    @property
    def verdict(self) -> V_co:
        """The verdict."""
        ...

    @property
    def model(self) -> str:
        """The name of the model that gave it. It must not contain an API key."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """The entries of the verdict that could not be parsed and are left out; empty if it is complete."""
        ...


@runtime_checkable
class Judge(Protocol[V_co]):
    """Gives verdicts of one type about texts. `penstock.models.judges.Judge` asks a model for them."""

    async def ask(self, content: str, *, ctx: Value = None) -> Judged[V_co]:
        """Return the verdict about a text. ``ctx``: the context of the hook that asks, for its record.

        Raises:
            JudgeError: there is no verdict. Do not take that for "nothing found".
        """
        ...


@runtime_checkable
class JudgeSource(Protocol):
    """Makes judges that have something in common. Those of `penstock.models.judges.JudgePanel` share requests."""

    def judge_for(self, name: str, verdict: type[V], instructions: str) -> Judge[V]:
        """Return a judge for a type of verdicts; ``name``: what asks, such as the id of a guard."""
        ...


@runtime_checkable
class ScoreDetector(Protocol):
    """Scores texts by categories: a classifier, whatever it is made of. Guards take one as ``detector=``.

    ``scores`` may be async. If it is not, guards call it in a worker thread; it is never called twice at a time. Texts
    of concurrent requests are collected and passed in one call.

    Four optional attributes: ``name`` for errors and reports (by default the class), ``batch_size`` (the most texts of
    a call; 32), ``batch_seconds`` (how long a text waits for others; 0.002) and ``call_seconds`` (how long a call may
    take; 30, None for no limit). The thread of a sync call that takes longer, or that nobody waits for, is given up,
    and the next call is made beside it; at most 8 such threads, then the guard fails without a call.
    """

    @property
    def categories(self) -> Sequence[str]:
        """The categories that it scores."""
        ...

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The score from which a category counts, 0 to 1. A category that is missing here counts from 0.5."""
        ...

    def scores(self, texts: Sequence[str]) -> Sequence[Mapping[str, float]] | Awaitable[Sequence[Mapping[str, float]]]:
        """Return for each text, in order, the score of each category, from 0 to 1. One that is missing has score 0."""
        ...


@runtime_checkable
class SpanDetector(Protocol):
    """Finds spans of some types in texts: names, addresses, anything else. `PIIDetector` takes one as ``detector=``.

    ``find`` may be async. How it is called, and the optional attributes, are those of `ScoreDetector`.
    """

    @property
    def types(self) -> Sequence[str]:
        """The types of spans that it finds."""
        ...

    def find(
        self, texts: Sequence[str]
    ) -> Sequence[Sequence[tuple[int, int, str, float]]] | Awaitable[Sequence[Sequence[tuple[int, int, str, float]]]]:
        """Return for each text, in order, its findings: ``(start, end, type, score)``, such as `Span` objects.

        ``start`` and ``end`` count characters (code points) of the text, from 0, ``end`` exclusive. Spans may overlap.
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in order. All vectors have the same length.

        Raises:
            ModelError: the model could not be asked, or gave no complete answer.
        """
        ...


@runtime_checkable
class Cache(Protocol):
    """Stores texts under keys for a limited time: in memory, or in a server that several processes share.

    It may drop entries at any time. An error that it raises is logged and counts as a miss.
    """

    async def get(self, key: str) -> str | None:
        """Return the value stored under the key, or None."""
        ...

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store the value in place of an earlier one; for ``ttl`` seconds if that is given.

        A cache in memory counts them by a monotonic clock, so that no change of the machine's time lengthens them. One
        that survives its process should store when the value was written, too, and drop what seems to come from the
        future.
        """
        ...


@runtime_checkable
class Storage(Protocol):
    """Stores threads, messages and working memories. Data is durable once the awaited call has returned.

    It is safe to use from many tasks and several processes, and opens itself at first use. Every method raises
    `StorageError` if the store cannot be reached, is broken, or gives up. No method silently does less than it was
    asked.
    """

    async def thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None if there is none with that id."""
        ...

    async def create_thread(self, thread: Thread) -> Thread:
        """Return the stored thread with that id; if there is none, store this one.

        Raises:
            OwnershipError: the stored thread belongs to another resource.
        """
        ...

    async def update_thread(
        self, thread_id: str, *, title: str | None = None, metadata: Values | None = None, expected: int | None = None
    ) -> Thread:
        """Set the title or replace the metadata of a thread, and return the thread.

        Args:
            thread_id: the id of the thread.
            title: the new title; None keeps the old one.
            metadata: the new metadata, in place of the old; None keeps the old.
            expected: the version that the thread must still have; None: any.

        Raises:
            StorageConflictError: the thread has another version by now.
            NotStoredError: there is no such thread.
        """
        ...

    async def threads(
        self, *, resource_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Thread]:
        """Return threads, the last changed first. ``after`` is the ``following`` of the page before."""
        ...

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread with its messages, their vectors, and its working memory. Returns whether there was one."""
        ...

    async def delete_resource(self, resource_id: str) -> int:
        """Delete everything of a resource: its threads (see `delete_thread`), its vectors and its working memory.

        Returns the number of threads that were deleted. Data stored for the resource afterwards starts afresh.
        """
        ...

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Store messages, all or none, and return them as stored, in the order given.

        Each message needs an id and a thread. A message that is already stored is replaced and keeps its place. New
        messages follow the last message of their thread, in the order given. Missing threads are created; their owner
        is the message's resource, or the thread itself if the message has no resource.

        Raises:
            MessageError: a message has no id or no thread.
            OwnershipError: a thread belongs to another resource, or the id belongs to a message of another thread.
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
            thread_id: the id of the thread.
            resource_id: the resource that must own the messages; None: any.
            limit: the maximum number of messages, 1 to 10,000.
            before: where to continue: the ``following`` of a page in the same order.
            oldest_first: whether to return the oldest first instead.
        """
        ...

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        """Return the messages with these ids, each once, by thread and order. Ids that are not stored are ignored."""
        ...

    async def messages_around(self, ids: Sequence[str], *, before: int, after: int) -> tuple[StoredMessage, ...]:
        """Return messages and their neighbours in their threads, each once, by thread and order."""
        ...

    async def delete_messages(self, ids: Sequence[str]) -> int:
        """Delete messages with their vectors. Returns how many of them were stored."""
        ...

    async def working_memory(self, scope: MemoryScope, key: str) -> MemoryRecord | None:
        """Return the current working memory of a thread or a resource, or None."""
        ...

    async def put_working_memory(
        self, scope: MemoryScope, key: str, text: str, *, expected: int | None, author: str = ""
    ) -> MemoryRecord:
        """Store a working memory, and return it.

        Args:
            scope: whether it belongs to a thread or a resource.
            key: the id of the thread or resource.
            text: the whole new content.
            expected: the version that it must still have; 0: there must be none; None: any.
            author: who makes the change.

        Raises:
            StorageConflictError: it has another version by now. Read it again first.
        """
        ...

    async def working_memory_history(
        self, scope: MemoryScope, key: str, *, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return the last versions of a working memory, the newest first. A store keeps at least 10."""
        ...

    async def delete_working_memory(self, scope: MemoryScope, key: str) -> bool:
        """Delete a working memory with all its versions. Returns whether there was one.

        A later write that expects a version of it fails. The versions of the next working memory start from 1 again.
        """
        ...

    async def close(self) -> None:
        """Close all connections. The storage opens them again when it is next used."""
        ...


@runtime_checkable
class RunStore(Protocol):
    """Stores suspended runs, so that another process can go on with them. It is as durable and shared as `Storage`.

    A run is only ever replaced if it has the version that the caller has read: of two that act on one version, one
    gets a `StorageConflictError` and nothing of it is stored.

    If it also stores threads, deleting a thread deletes its runs, and deleting a resource deletes those of the
    resource and of its threads.
    """

    async def run(self, run_id: str) -> StoredRun | None:
        """Return a run, or None if there is none with that id."""
        ...

    async def save_run(self, run: StoredRun) -> StoredRun:
        """Store a run in place of the version that it was made from, and return it as stored.

        Args:
            run: the run. Its ``version`` is the one that must be stored; 0: none. The stored run has the next version.
                The store sets ``created_at`` and ``updated_at``.

        Raises:
            StorageConflictError: another version is stored by now, or none. Read the run again first.
            MessageError: the body holds a value that is not a JSON value.
        """
        ...

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
        newest_first: bool = False,
    ) -> Page[StoredRun]:
        """Return runs in the order in which they were first stored. ``after`` is the ``following`` of the page before.

        Args:
            status: only those with this status; None: any.
            agent: only those of this agent; None: of any.
            limit: the maximum number of runs, 1 to 10,000.
            after: where to continue; the page before must have the same order.
            newest_first: the order: the one that was stored last first.
        """
        ...

    async def delete_run(self, run_id: str) -> bool:
        """Delete a run. Returns whether there was one."""
        ...


@runtime_checkable
class VectorStore(Protocol):
    """Stores vectors in named indexes and finds the ones nearest to a vector.

    If it also stores messages, deleting a message deletes its vectors.
    """

    async def upsert_vectors(self, index: str, entries: Sequence[VectorEntry]) -> None:
        """Store vectors, all or none. The index is created at first use, for vectors of their length.

        Raises:
            StorageError: a vector is empty, has another length than the index, or contains a number that is not finite.
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
        """Return the nearest entries by cosine, best first, ties by id. A missing index has no entries.

        Args:
            index: the name of the index.
            vector: the vector to compare with.
            limit: the maximum number of entries.
            thread_id: only entries of this thread; None: of any.
            resource_id: only entries of this resource; None: of any.
            threshold: the lowest score to return; None: any.
        """
        ...

    async def delete_vectors(self, index: str, message_ids: Sequence[str]) -> int:
        """Delete the vectors of messages from an index. Returns how many there were."""
        ...


class SystemClock:
    """The machine's clock, in UTC."""

    __slots__ = ()

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return datetime.now(UTC)


class RandomIds:
    """Random ids of 24 hexadecimal digits; unique across processes, also after a fork."""

    __slots__ = ()

    def next(self) -> str:
        """Return a new id."""
        try:
            return _spare_ids.pop()
        except IndexError:
            digits = os.urandom(_BYTES * _AT_ONCE).hex()
            _spare_ids.extend([digits[start : start + 2 * _BYTES] for start in range(0, len(digits), 2 * _BYTES)])
            return os.urandom(_BYTES).hex()


_BYTES = 12
_AT_ONCE = 64
_spare_ids: list[str] = []
"""Ids that `RandomIds` has not returned yet: to ask the system for each one takes five times as long."""

if hasattr(os, "register_at_fork"):  # a child that kept them would return the ids that its parent returns
    os.register_at_fork(after_in_child=_spare_ids.clear)


SYSTEM_CLOCK = SystemClock()
RANDOM_IDS = RandomIds()


class LRUCache:
    """Keeps the ``size`` most recently used texts, each for the time to live that it was stored with.

    That time is measured within the process: setting the machine's clock back does not lengthen it.

    Args:
        size: the most entries, 1 or more.
        max_bytes: the most bytes of all keys and values together. An entry that is larger alone is not stored.
        clock: a further clock by which entries expire.

    Raises:
        OptionError: ``size`` or ``max_bytes`` is not 1 or more.
    """

    __slots__ = ("_bytes", "_kept", "_max_bytes", "_size", "_timer")

    entry_bytes = 0
    """Bytes that an entry counts besides its texts: for the tuple, the time, its place in the mapping."""

    def __init__(self, size: int = 1024, *, max_bytes: int = 16 * 1024 * 1024, clock: Clock = SYSTEM_CLOCK) -> None:
        for option, given in (("size", size), ("max_bytes", max_bytes)):
            if type(given) is not int or given < 1:
                raise OptionError("LRUCache", option, given, "an int, 1 or more")
        self._size = size
        self._max_bytes = max_bytes
        self._bytes = 0
        self._timer = ExpiryTimer(clock.now)
        self._kept: OrderedDict[str, tuple[str, Expiry | None]] = OrderedDict()

    async def get(self, key: str) -> str | None:
        """Return the value stored under the key, or None if there is none or it has expired."""
        return self._get(key)

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store the value. If the cache is full, the least recently used entries are dropped."""
        self._set(key, value, ttl)

    def _get(self, key: str) -> str | None:
        value, expiry = self._kept.get(key, (None, None))
        if expiry is not None and self._timer.is_over(expiry):
            self._drop(key)
            return None
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def _set(self, key: str, value: str, ttl: float | None) -> None:
        self._drop(key)
        size = self._size_of(key, value)
        if size > self._max_bytes:
            return
        self._kept[key] = (value, None if ttl is None else self._timer.after(ttl))
        self._bytes += size
        while len(self._kept) > self._size or self._bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= self._size_of(key, kept[0])

    def _size_of(self, key: str, value: str) -> int:
        return getsizeof(key) + getsizeof(value) + self.entry_bytes

    def __len__(self) -> int:
        """Return the number of entries, expired ones included."""
        return len(self._kept)

    def __repr__(self) -> str:
        """Show the number of entries, but no content."""
        return f"LRUCache({len(self)} of {self._size})"
