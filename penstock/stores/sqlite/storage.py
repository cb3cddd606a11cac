"""`SQLiteStorage`: a storage in a SQLite file; `InMemoryStorage`: the same in memory."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.values.errors import OptionError
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.stores import checks
from penstock.stores.encoding import blob, write_values
from penstock.stores.matrices import MatrixQuery
from penstock.stores.sqlite import _messages, _runs, _threads, _vectors
from penstock.stores.sqlite._connections import FileConnections, FileDatabase, MemoryDatabase
from penstock.stores.sqlite._schema import IN_MEMORY, path_of
from penstock.stores.sqlite._vectors import Searches

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from sqlite3 import Connection
    from typing import Self

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.protocols import Clock
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

Synchronous = Literal["full", "normal"]

LEAST_VERSIONS = 10
"""How many versions of a working memory every store keeps at least."""


class SQLiteStorage:
    """Stores threads, messages, working memories, vectors and suspended runs in one SQLite file.

    It is a `Storage`, a `VectorStore` and a `RunStore`.

    Tasks, threads, event loops and the processes of one machine can share the file (not over a network file system,
    where SQLite cannot lock). When a call has returned, its changes are on the disk. A call that is cancelled or killed
    is done completely or not at all. A call that finds the file locked by another process waits, and can be cancelled
    meanwhile. Statements run in worker threads, so event loops are not blocked. The file is created and opened at first
    use.

    Vectors are compared one by one, with numpy if it is installed (extra ``vectors``), and are kept in memory for that:
    4 bytes a number. Deleted content is overwritten in the file.

    Args:
        path: the file, in a folder that exists. ``":memory:"``: no file; everything is in the memory of this object.
        synchronous: ``"full"``: changes survive a loss of power. ``"normal"``: calls wait less, and changes survive the
            end of the process; a loss of power may lose the last writes, but does not damage the file.
        busy_timeout: the seconds that a call waits for other processes before it fails, above 0. Default: 30.
        memory_versions: how many versions of a working memory are kept, including the current one; 10 or more.
        clock: tells when something was stored.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "full",
        busy_timeout: float = 30.0,
        memory_versions: int = LEAST_VERSIONS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        name = type(self).__name__
        self.path = path_of(name, path, "the path of a file, or ':memory:'")
        _check_options(name, synchronous, busy_timeout, memory_versions)
        self._again = partial(
            SQLiteStorage,
            self.path,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            memory_versions=memory_versions,
            clock=clock,
        )
        self._name = f"{name} {self.path!r}"
        self._versions = memory_versions
        self._clock = clock
        self._searches = Searches()
        self._database = self._file(synchronous, busy_timeout)

    def _file(self, synchronous: str, patience: float) -> FileDatabase | MemoryDatabase:
        if self.path == IN_MEMORY:
            return MemoryDatabase(self._name)
        connections = FileConnections(self.path, synchronous.upper(), self._name, self._searches.forget)
        return FileDatabase(connections, patience, self._name)

    async def thread(self, thread_id: str) -> Thread | None:
        """Return a thread; see `Storage.thread`."""
        return await self._database.read(_threads.found, thread_id)

    async def create_thread(self, thread: Thread) -> Thread:
        """Store a thread if there is none with its id; see `Storage.create_thread`."""
        checks.check_name(thread.id, "the id of a thread")
        checks.check_name(thread.resource_id, "the resource of a thread")
        metadata = write_values(thread.metadata, "thread.metadata")
        return await self._database.write(_threads.created, thread, metadata, self._clock.now(), self._name)

    async def update_thread(
        self, thread_id: str, *, title: str | None = None, metadata: Values | None = None, expected: int | None = None
    ) -> Thread:
        """Store a title or metadata; see `Storage.update_thread`."""
        checks.check_version(expected)
        change = {} if title is None else {"title": title}
        if metadata is not None:
            change["metadata"] = write_values(metadata, "metadata")
        now = self._clock.now()
        return await self._database.write(_threads.updated, thread_id, change, expected, now, self._name)

    async def threads(
        self, *, resource_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Thread]:
        """Return threads, the last changed first; see `Storage.threads`."""
        checks.check_limit(limit)
        start = _threads.place_after(after)
        return await self._database.read(_threads.listed, resource_id, limit, start)

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread with everything in it; see `Storage.delete_thread`."""
        return await self._database.write(_delete_thread, thread_id)

    async def delete_resource(self, resource_id: str) -> int:
        """Delete everything of a resource; see `Storage.delete_resource`."""
        return await self._database.write(_delete_resource, resource_id)

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Store messages, all or none; see `Storage.save_messages`."""
        owners = checks.owners(messages, self._name)
        if not messages:
            return ()
        now = self._clock.now()
        return await self._database.write(_messages.saved, tuple(messages), owners, now, self._name)

    async def messages(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> Page[StoredMessage]:
        """Return messages of a thread; see `Storage.messages`."""
        checks.check_limit(limit)
        start = _messages.place_beyond(before, oldest_first)
        page = _messages.page
        return await self._database.read(page, thread_id, resource_id, limit, start, oldest_first, self._name)

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        """Return the messages that exist; see `Storage.messages_by_id`."""
        return await self._database.read(_messages.by_id, tuple(ids), self._name)

    async def messages_around(self, ids: Sequence[str], *, before: int, after: int) -> tuple[StoredMessage, ...]:
        """Return messages and their neighbours; see `Storage.messages_around`."""
        checks.check_limit(before, "before", 0)
        checks.check_limit(after, "after", 0)
        return await self._database.read(_messages.around, tuple(ids), before, after, self._name)

    async def delete_messages(self, ids: Sequence[str]) -> int:
        """Delete messages with their vectors; see `Storage.delete_messages`."""
        return await self._database.write(_delete_messages, tuple(ids))

    async def working_memory(self, scope: MemoryScope, key: str) -> MemoryRecord | None:
        """Return the current working memory; see `Storage.working_memory`."""
        history = await self.working_memory_history(scope, key, limit=1)
        return history[0] if history else None

    async def put_working_memory(
        self, scope: MemoryScope, key: str, text: str, *, expected: int | None, author: str = ""
    ) -> MemoryRecord:
        """Store a working memory; see `Storage.put_working_memory`."""
        checks.check_scope(scope)
        checks.check_name(key, "the key of a working memory")
        checks.check_version(expected)
        work = partial(
            _threads.put_memory,
            text=text,
            author=author,
            expected=expected,
            keep=self._versions,
            now=self._clock.now(),
            store=self._name,
        )
        return await self._database.write(work, _threads.MemoryKey(scope, key))

    async def working_memory_history(
        self, scope: MemoryScope, key: str, *, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return a working memory's last versions; see `Storage.working_memory_history`."""
        checks.check_scope(scope)
        checks.check_limit(limit)
        return await self._database.read(_threads.memory_versions, _threads.MemoryKey(scope, key), limit)

    async def delete_working_memory(self, scope: MemoryScope, key: str) -> bool:
        """Delete a working memory with all its versions; see `Storage.delete_working_memory`."""
        checks.check_scope(scope)
        return await self._database.write(_threads.delete_memory, _threads.MemoryKey(scope, key))

    async def upsert_vectors(self, index: str, entries: Sequence[VectorEntry]) -> None:
        """Store vectors, all or none; see `VectorStore.upsert_vectors`."""
        checks.check_name(index, "the name of an index")
        if entries:
            await self._database.write(_vectors.upserted, index, tuple(entries), self._name)

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
        """Return the nearest vectors; see `VectorStore.query_vectors`."""
        checks.check_limit(limit)
        search = MatrixQuery(blob(vector, self._name), limit, thread_id, resource_id, threshold)
        return await self._database.read(self._searches.found, index, search, self._name)

    async def delete_vectors(self, index: str, message_ids: Sequence[str]) -> int:
        """Delete the vectors of messages from an index; see `VectorStore.delete_vectors`."""
        return await self._database.write(_vectors.deleted_from, index, tuple(message_ids))

    async def run(self, run_id: str) -> StoredRun | None:
        """Return a suspended run; see `RunStore.run`."""
        return await self._database.read(_runs.found, run_id, self._name)

    async def save_run(self, run: StoredRun) -> StoredRun:
        """Store a run in place of the version that it was made from; see `RunStore.save_run`."""
        checks.check_run(run)
        return await self._database.write(_runs.saved, run, self._clock.now(), self._name)

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
        newest_first: bool = False,
    ) -> Page[StoredRun]:
        """Return runs in the order in which they were first stored; see `RunStore.runs`."""
        checks.check_runs(status, limit)
        start = _runs.place_after(after)
        return await self._database.read(_runs.listed, status, agent, limit, start, newest_first, self._name)

    async def delete_run(self, run_id: str) -> bool:
        """Delete a run; see `RunStore.delete_run`."""
        return await self._database.write(_runs.deleted, run_id)

    async def close(self) -> None:
        """Close the file after the calls that are running; it can be used again. In memory, do nothing."""
        await self._database.close()

    async def __aenter__(self) -> Self:
        """Return itself; the file is opened at first use."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    def __copy__(self) -> Self:
        """Return itself: copies would share the file anyway."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return itself: copied workflows share their storage."""
        return self

    def __reduce__(self) -> tuple[partial[SQLiteStorage], tuple[()]]:
        """Pickle the path and the options.

        Raises:
            TypeError: it is in memory, so another process could not use it.
        """
        if self.path == IN_MEMORY:
            raise TypeError(f"{self!r} cannot be pickled: its content is in the memory of this process")
        return self._again, ()

    def __repr__(self) -> str:
        """Show the path, and no content."""
        return f"{type(self).__name__}({self.path!r})"


class InMemoryStorage(SQLiteStorage):
    """Stores threads, messages, working memories, vectors and suspended runs in memory: for tests and first steps.

    It is `SQLiteStorage` without a file, and behaves the same. Its calls run at once, without threads. Its content is
    gone with the object; closing it does nothing.

    Args:
        clock: tells when something was stored.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(IN_MEMORY, clock=clock)

    def __repr__(self) -> str:
        """Show no content."""
        return "InMemoryStorage()"


def _delete_thread(connection: Connection, thread_id: str) -> bool:
    _vectors.deleted_of(connection, thread_id)
    _messages.deleted_of(connection, thread_id)
    _runs.deleted_of(connection, thread_id)
    _threads.delete_memory(connection, _threads.MemoryKey("thread", thread_id))
    return _threads.deleted(connection, thread_id)


def _delete_resource(connection: Connection, resource_id: str) -> int:
    threads = _threads.of_resource(connection, resource_id)
    for thread_id in threads:
        _delete_thread(connection, thread_id)
    _vectors.deleted_of_resource(connection, resource_id)
    _runs.deleted_of_resource(connection, resource_id)
    _threads.delete_memory(connection, _threads.MemoryKey("resource", resource_id))
    return len(threads)


def _delete_messages(connection: Connection, ids: Sequence[str]) -> int:
    _vectors.deleted(connection, ids)
    return _messages.deleted(connection, ids)


def _check_options(name: str, synchronous: object, busy_timeout: object, memory_versions: object) -> None:
    if synchronous not in get_args(Synchronous):
        raise OptionError(name, "synchronous", synchronous, "'full' or 'normal'")
    if not isinstance(busy_timeout, (int, float)) or isinstance(busy_timeout, bool) or not 0 < busy_timeout < inf:
        raise OptionError(name, "busy_timeout", busy_timeout, "a number of seconds above 0")
    if type(memory_versions) is not int or memory_versions < LEAST_VERSIONS:
        raise OptionError(name, "memory_versions", memory_versions, f"an int, {LEAST_VERSIONS} or more")
