"""A store in lists, for tests of what uses one: it keeps the contract, counts its calls, and fails on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio

from penstock import Message, OwnershipError, StorageError
from penstock.engine.errors import MessageError, NotStoredError, StorageConflictError
from penstock.engine.frozen import Values
from penstock.engine.remembered import MemoryRecord, MemoryScope, Page, StoredMessage, Thread


class FakeStorage:
    """Threads and messages in lists.

    Attributes:
        rows: the messages, as they are kept.
        threads_kept: the threads, by id.
        calls: the names of the methods that were called.
        failing: the names of the methods that fail.
    """

    def __init__(self, *, failing: Sequence[str] = ()) -> None:
        self.rows: dict[str, StoredMessage] = {}
        self.threads_kept: dict[str, Thread] = {}
        self.calls: list[str] = []
        self.failing = set(failing)

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        await anyio.lowlevel.checkpoint()
        if name in self.failing:
            raise StorageError("FakeStorage", f"{name} was told to fail")

    def of(self, thread_id: str = "t") -> list[str]:
        """Return what is kept of a thread, as ``role:text``."""
        return [f"{row.message.role}:{row.message.text}" for row in self._thread(thread_id)]

    def _thread(self, thread_id: str) -> list[StoredMessage]:
        return sorted(
            (row for row in self.rows.values() if row.message.thread_id == thread_id), key=lambda row: row.order
        )

    async def thread(self, thread_id: str) -> Thread | None:
        """Return a thread."""
        await self._called("thread")
        return self.threads_kept.get(thread_id)

    async def create_thread(self, thread: Thread) -> Thread:
        """Store a thread that is missing."""
        await self._called("create_thread")
        return self.threads_kept.setdefault(thread.id, thread)

    async def update_thread(
        self, thread_id: str, *, title: str | None = None, metadata: Values | None = None, expected: int | None = None
    ) -> Thread:
        """Change a thread."""
        await self._called("update_thread")
        found = self.threads_kept.get(thread_id)
        if found is None:
            raise NotStoredError("FakeStorage", "no such thread")
        if expected not in (None, found.version):
            raise StorageConflictError("FakeStorage", "it has changed", found.version)
        kept = replace(
            found,
            title=found.title if title is None else title,
            metadata=found.metadata if metadata is None else metadata,
            version=found.version + 1,
        )
        self.threads_kept[thread_id] = kept
        return kept

    async def threads(
        self, *, resource_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> Page[Thread]:
        """Return the threads."""
        del limit, after
        await self._called("threads")
        return Page(tuple(one for one in self.threads_kept.values() if resource_id in (None, one.resource_id)))

    async def delete_thread(self, thread_id: str) -> bool:
        """Forget a thread."""
        await self._called("delete_thread")
        self.rows = {id: row for id, row in self.rows.items() if row.message.thread_id != thread_id}
        return self.threads_kept.pop(thread_id, None) is not None

    async def delete_resource(self, resource_id: str) -> int:
        """Refuse: no test here asks."""
        raise NotImplementedError

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Store messages, all or none."""
        await self._called("save_messages")
        rows, threads = dict(self.rows), dict(self.threads_kept)
        for message in messages:
            if not message.id or not message.thread_id:
                raise MessageError("messages", "each has an id and a thread")
            owner = message.resource_id or message.thread_id
            kept = threads.setdefault(message.thread_id, Thread(message.thread_id, owner))
            before = rows.get(message.id)
            if message.resource_id not in (None, kept.resource_id) or (
                before is not None and before.message.thread_id != message.thread_id
            ):
                raise OwnershipError("FakeStorage", "it is somebody else's")
            order = 1 + max((row.order for row in rows.values()), default=0) if before is None else before.order
            rows[message.id] = StoredMessage(message, order)
        self.rows, self.threads_kept = rows, threads
        return tuple(rows[message.id] for message in messages)

    async def messages(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> Page[StoredMessage]:
        """Return messages of a thread."""
        await self._called("messages")
        if not 1 <= limit <= 10_000:
            raise StorageError("FakeStorage", "limit is 1 to 10,000")
        thread = self.threads_kept.get(thread_id)
        if thread is None or resource_id not in (None, thread.resource_id):
            return Page()
        owners = (None, resource_id)
        found = [row for row in self._thread(thread_id) if resource_id is None or row.message.resource_id in owners]
        found = found if oldest_first else found[::-1]
        start = int(before or 0)
        following = str(start + limit) if len(found) > start + limit else None
        return Page(tuple(found[start : start + limit]), following)

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        """Return those that there are."""
        await self._called("messages_by_id")
        return tuple(self.rows[id] for id in ids if id in self.rows)

    async def messages_around(self, ids: Sequence[str], *, before: int, after: int) -> tuple[StoredMessage, ...]:
        """Return nothing: no test here asks."""
        del ids, before, after
        return ()

    async def delete_messages(self, ids: Sequence[str]) -> int:
        """Forget messages."""
        await self._called("delete_messages")
        return sum(self.rows.pop(id, None) is not None for id in ids)

    async def working_memory(self, scope: MemoryScope, key: str) -> MemoryRecord | None:
        """Return nothing: no test here asks."""
        del scope, key
        return None

    async def put_working_memory(
        self, scope: MemoryScope, key: str, text: str, *, expected: int | None, author: str = ""
    ) -> MemoryRecord:
        """Refuse: no test here asks."""
        raise NotImplementedError

    async def working_memory_history(
        self, scope: MemoryScope, key: str, *, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return nothing: no test here asks."""
        del scope, key, limit
        return ()

    async def delete_working_memory(self, scope: MemoryScope, key: str) -> bool:
        """Have none: no test here asks."""
        del scope, key
        return False

    async def close(self) -> None:
        """Do nothing."""
