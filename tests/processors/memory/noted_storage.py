"""The store in memory, for tests of what uses one: it notes its calls and what it was given, and fails on demand."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import Message, StorageError
from penstock.engine.values.frozen import Values
from penstock.engine.values.stored import Page, StoredMessage, Thread
from penstock.testing import InMemoryStorage


class NotedStorage(InMemoryStorage):
    """An `InMemoryStorage` that tests can look into.

    Attributes:
        rows: the messages that were saved and not deleted since, as the store returned them, by id.
        calls: the names of the methods that were called, of those that memory needs.
        failing: the names of the methods that fail, of the same ones.
    """

    def __init__(self, *, failing: Sequence[str] = ()) -> None:
        super().__init__()
        self.rows: dict[str, StoredMessage] = {}
        self.calls: list[str] = []
        self.failing = set(failing)

    def of(self, thread_id: str = "t") -> list[str]:
        """Return what was saved of a thread, as ``role:text``."""
        rows = sorted(self.rows.values(), key=lambda row: row.order)
        return [f"{row.message.role}:{row.message.text}" for row in rows if row.message.thread_id == thread_id]

    async def held(self, thread_id: str = "t") -> Thread:
        """Return a thread that is kept, and note nothing."""
        found = await super().thread(thread_id)
        assert found is not None
        return found

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise StorageError("NotedStorage", f"{name} was told to fail")

    async def thread(self, thread_id: str) -> Thread | None:
        """Note it, and return the thread."""
        self._called("thread")
        return await super().thread(thread_id)

    async def create_thread(self, thread: Thread) -> Thread:
        """Note it, and store the thread."""
        self._called("create_thread")
        return await super().create_thread(thread)

    async def update_thread(
        self, thread_id: str, *, title: str | None = None, metadata: Values | None = None, expected: int | None = None
    ) -> Thread:
        """Note it, and change the thread."""
        self._called("update_thread")
        return await super().update_thread(thread_id, title=title, metadata=metadata, expected=expected)

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Note it, and store the messages."""
        self._called("save_messages")
        saved = await super().save_messages(messages)
        self.rows.update({row.message.id: row for row in saved})
        return saved

    async def messages(
        self,
        thread_id: str,
        *,
        resource_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        oldest_first: bool = False,
    ) -> Page[StoredMessage]:
        """Note it, and return messages of the thread."""
        self._called("messages")
        return await super().messages(
            thread_id, resource_id=resource_id, limit=limit, before=before, oldest_first=oldest_first
        )

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        """Note it, and return those that there are."""
        self._called("messages_by_id")
        return await super().messages_by_id(ids)

    async def delete_messages(self, ids: Sequence[str]) -> int:
        """Note it, and forget the messages."""
        self._called("delete_messages")
        gone = await super().delete_messages(ids)
        self.rows = {id: row for id, row in self.rows.items() if id not in ids}
        return gone
