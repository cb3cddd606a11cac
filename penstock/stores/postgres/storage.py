"""`PostgresStorage`: threads, messages, working memories, vectors and suspended runs in a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.stores import checks
from penstock.stores.postgres import _messages, _runs, _threads
from penstock.stores.postgres._connections import PostgresDatabase, ServerConnections, check_schema, shown_address
from penstock.stores.postgres._migrations import forget_writers, migrate
from penstock.stores.postgres._vectors import VectorQuery, Vectors

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    from penstock.stores.postgres._connections import Session

VectorSearch = Literal["exact", "hnsw"]
"""How vectors are searched: one by one, or with an index that may miss some."""

_NAME = "PostgresStorage"

LEAST_VERSIONS = 10
"""How many versions of a working memory a storage keeps at least; see `Storage.working_memory_history`."""


class PostgresStorage:
    """A storage in a PostgreSQL server (13 or newer), for many processes.

    It is a `Storage`, a `VectorStore` and a `RunStore`.

    It connects, and creates its tables, at first use. Vectors need the server's extension pgvector. If the server goes
    away, calls are tried again for a while: rows that a call has stored when it returns stay stored, and nothing is
    done twice, also where the server's answer to a commit is lost.

    It runs on asyncio only. Several event loops can use it: each has its own connections.

    Args:
        url: the server: ``postgresql://user:password@host:5432/database``. No error or repr shows user or password.
        schema: the schema of the tables; it is created if it is missing.
        max_connections: the most connections of one event loop, 1 or more. Default: 10.
        timeout: seconds for one statement, for opening a connection, and for waiting for a free one, 0.001 or more.
            Default: 30.
        retry_for: seconds in which a call is tried again while the server is away or other transactions are in the way;
            0: no retries. Default: 10.
        vector_search: ``exact`` compares vectors one by one; ``hnsw`` uses an index for millions of vectors, which may
            miss some.
        memory_versions: how many versions of a working memory are kept, including the current one; 10 or more.
        connect_options: further options of asyncpg's ``create_pool``: ``ssl``, ``password`` (a function for tokens that
            change), ``statement_cache_size=0`` (for pgbouncer), ``server_settings`` …
        clock: tells when something was stored.

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: the extra ``postgres`` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "penstock",
        max_connections: int = 10,
        timeout: float = 30.0,
        retry_for: float = 10.0,
        vector_search: VectorSearch = "exact",
        memory_versions: int = LEAST_VERSIONS,
        connect_options: Values = EMPTY,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._again = partial(
            PostgresStorage,
            url,
            schema=schema,
            max_connections=max_connections,
            timeout=timeout,
            retry_for=retry_for,
            vector_search=vector_search,
            memory_versions=memory_versions,
            connect_options=connect_options,
            clock=clock,
        )
        where = shown_address(_NAME, url)
        check_schema(_NAME, schema)
        checks.check_connections(_NAME, max_connections, timeout, retry_for)
        if vector_search not in get_args(VectorSearch):
            raise OptionError(_NAME, "vector_search", vector_search, "exact or hnsw")
        _check_options(memory_versions, connect_options)
        self._label = f"{_NAME} at {where}, schema {schema}"
        self._clock = clock
        self._versions = memory_versions
        self._vectors = Vectors(self._label, hnsw=vector_search == "hnsw")
        self._database = PostgresDatabase(
            self._label,
            ServerConnections(url, max_connections, timeout, connect_options),
            schema=schema,
            timeout=timeout,
            retry_for=retry_for,
            prepare=self._prepare,
        )

    async def _prepare(self, session: Session) -> None:
        await migrate(session, "memory", self._label)
        await forget_writers(session)

    async def thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None."""
        return await self._database.read(_threads.read, thread_id)

    async def create_thread(self, thread: Thread) -> Thread:
        """Store the thread if there is none with its id; return the stored one.

        Raises:
            OwnershipError: the stored one belongs to another resource.
        """
        checks.check_name(thread.id, "a thread's id")
        checks.check_name(thread.resource_id, "a thread's resource_id")
        return await self._database.write(_threads.create, thread, self._clock.now(), self._label)

    async def update_thread(
        self, thread_id: str, *, title: str | None = None, metadata: Values | None = None, expected: int | None = None
    ) -> Thread:
        """Store a title, or metadata that replace the old ones, and return the thread; see `Storage.update_thread`.

        Raises:
            StorageConflictError: the thread has another version than expected.
            NotStoredError: there is no such thread.
        """
        checks.check_version(expected)
        now = self._clock.now()
        return await self._database.write(_threads.update, thread_id, title, metadata, expected, now, self._label)

    async def threads(
        self, *, resource_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Thread]:
        """Return threads, the last changed first; ``after``: the ``following`` of a page."""
        checks.check_limit(limit)
        return await self._database.read(_threads.page, resource_id, limit, after)

    async def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread with everything in it; see `Storage.delete_thread`."""

        async def work(session: Session) -> bool:
            was_there = await _threads.delete(session, thread_id)
            await _runs.delete_of(session, [thread_id])
            await self._vectors.delete_thread(session, thread_id)
            return was_there

        return await self._database.write(work)

    async def delete_resource(self, resource_id: str) -> int:
        """Delete everything of a resource; see `Storage.delete_resource`."""

        async def work(session: Session) -> int:
            gone = await _threads.delete_of(session, resource_id)
            await _threads.delete_memory(session, "resource", resource_id)
            await _runs.delete_of(session, gone, resource_id)
            await self._vectors.delete_resource(session, resource_id, gone)
            return len(gone)

        return await self._database.write(work)

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Store messages, all or none, and return them as they are stored; see `Storage.save_messages`.

        Raises:
            MessageError: a message has no id or no thread.
            OwnershipError: a thread belongs to another resource, or an id to a message of another thread.
        """
        owners = checks.owners(messages, self._label)
        if not owners:
            return ()
        return await self._database.write(_messages.save, messages, owners, self._clock.now(), self._label)

    async def messages(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> Page[StoredMessage]:
        """Return messages of a thread, the newest first; see `Storage.messages`."""
        checks.check_limit(limit)
        return await self._database.read(_messages.page, thread_id, resource_id, limit, before, oldest_first)

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        """Return the messages that exist, each once, by thread and order."""
        return await self._database.read(_messages.by_id, ids)

    async def messages_around(self, ids: Sequence[str], *, before: int, after: int) -> tuple[StoredMessage, ...]:
        """Return messages and their neighbours in their threads, each once, by thread and order."""
        checks.check_limit(before, "before", 0)
        checks.check_limit(after, "after", 0)
        return await self._database.read(_messages.around, ids, before, after)

    async def delete_messages(self, ids: Sequence[str]) -> int:
        """Delete messages with their vectors; return how many there were."""
        return len(await self._database.write(_messages.delete, ids))

    async def working_memory(self, scope: MemoryScope, key: str) -> MemoryRecord | None:
        """Return the current working memory of a thread or a resource, or None."""
        return next(iter(await self.working_memory_history(scope, key, limit=1)), None)

    async def put_working_memory(
        self, scope: MemoryScope, key: str, text: str, *, expected: int | None, author: str = ""
    ) -> MemoryRecord:
        """Store a working memory, and return it; see `Storage.put_working_memory`.

        Raises:
            StorageConflictError: it has another version than expected: read it again.
        """
        checks.check_scope(scope)
        checks.check_name(key, "the key of a working memory")
        checks.check_version(expected)
        change = _threads.MemoryChange(text, author, expected, self._clock.now())
        return await self._database.write(_threads.put_memory, scope, key, change, self._versions, self._label)

    async def working_memory_history(
        self, scope: MemoryScope, key: str, *, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return the last versions of a working memory, the newest first; ``memory_versions`` are kept."""
        checks.check_scope(scope)
        checks.check_limit(limit)
        return await self._database.read(_threads.memory_versions, scope, key, limit)

    async def delete_working_memory(self, scope: MemoryScope, key: str) -> bool:
        """Delete a working memory with all its versions; return whether there was one."""
        checks.check_scope(scope)
        return await self._database.write(_threads.delete_memory, scope, key)

    async def upsert_vectors(self, index: str, entries: Sequence[VectorEntry]) -> None:
        """Store vectors, all or none. An index is created at first use, for vectors of that length.

        Raises:
            StorageError: a vector has another length than the index's, is empty, or holds a value that is not finite;
                or the server has no pgvector.
        """
        checks.check_name(index, "the name of an index")
        if entries:
            await self._database.write(self._vectors.upsert, index, entries)

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
        """Return the nearest vectors by cosine, the nearest first, equal ones by id. See `VectorStore.query_vectors`.

        Raises:
            StorageError: the vector has another length than the index's, is empty, or holds a value that is not finite.
        """
        checks.check_limit(limit)
        search = VectorQuery(vector, limit, thread_id, resource_id, threshold)
        database = self._database
        read = database.read_in_transaction if self._vectors.needs_settings else database.read
        return await read(self._vectors.query, index, search)

    async def delete_vectors(self, index: str, message_ids: Sequence[str]) -> int:
        """Delete the vectors of messages from an index; return how many there were."""
        return len(await self._database.write(self._vectors.delete, index, message_ids))

    async def build_hnsw(self, index: str) -> None:
        """Build the HNSW index over vectors that are stored already, while others read and write.

        It is only needed if ``vector_search`` became ``hnsw`` after more than 1,000 vectors were stored. It may take
        minutes.

        Raises:
            NotStoredError: there is no index of that name.
            StorageError: it is being built, or an earlier build did not finish; or the vectors are too long.
        """
        await self._database.read(self._vectors.build, index)

    async def run(self, run_id: str) -> StoredRun | None:
        """Return a suspended run, or None."""
        return await self._database.read(_runs.read, run_id, self._label)

    async def save_run(self, run: StoredRun) -> StoredRun:
        """Store a run in place of the version that it was made from, and return it; see `RunStore.save_run`.

        Raises:
            StorageConflictError: another version is stored by now, or none: read it again.
            MessageError: the body holds a value that is not a JSON value.
        """
        checks.check_run(run)
        return await self._database.write(_runs.save, run, self._clock.now(), self._label)

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
        newest_first: bool = False,
    ) -> Page[StoredRun]:
        """Return runs in the order in which they were first stored; ``after``: the ``following`` of a page."""
        checks.check_runs(status, limit)
        return await self._database.read(_runs.page, status, agent, limit, after, newest_first, self._label)

    async def delete_run(self, run_id: str) -> bool:
        """Delete a run; return whether there was one."""
        return await self._database.write(_runs.delete, run_id)

    async def close(self) -> None:
        """Close the connections of the running event loop. The storage can be used again."""
        self._vectors.forget()
        await self._database.close()

    async def __aenter__(self) -> Self:
        """Return itself; it connects at first use."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""
        await self.close()

    def __copy__(self) -> Self:
        """Return itself: copies would share the server anyway."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return itself: copied workflows share their storage."""
        return self

    def __reduce__(self) -> tuple[partial[PostgresStorage], tuple[()]]:
        """Pickle the URL (with its password) and the options, without connections."""
        return self._again, ()

    def __repr__(self) -> str:
        """Show the address, without user and password."""
        return f"<{self._label}>"


def _check_options(memory_versions: int, options: object) -> None:
    """Check the number of versions, and that the options are a mapping, without showing them."""
    if type(memory_versions) is not int or memory_versions < LEAST_VERSIONS:
        raise OptionError(_NAME, "memory_versions", memory_versions, f"an int, {LEAST_VERSIONS} or more")
    if not isinstance(options, Mapping):
        raise OptionError(_NAME, "connect_options", type(options), "a mapping of asyncpg's own options")
