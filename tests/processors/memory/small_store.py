"""A store of threads and working memories in lists, for tests; it knows nothing else that a store does."""

from dataclasses import replace
from datetime import UTC, datetime

import anyio

from penstock import StorageError
from penstock.engine import OwnershipError, StorageConflictError
from penstock.engine.values.stored import MemoryRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SmallStore:
    """Keeps threads and working memories. Each call gives way to others, as a real one would."""

    def __init__(self):
        self.kept_threads = {}
        self.memories = {}
        self.broken = False
        self.before_put = None

    async def _reached(self):
        await anyio.lowlevel.checkpoint()
        if self.broken:
            raise StorageError("small store", "it is broken")

    async def thread(self, thread_id):
        await self._reached()
        return self.kept_threads.get(thread_id)

    async def create_thread(self, thread):
        await self._reached()
        found = self.kept_threads.setdefault(thread.id, replace(thread, created_at=NOW))
        if found.resource_id != thread.resource_id:
            raise OwnershipError("small store", "it is another's")
        return found

    async def working_memory(self, scope, key):
        await self._reached()
        past = self.memories.get((scope, key))
        return past[-1] if past else None

    async def put_working_memory(self, scope, key, text, *, expected, author=""):
        await self._reached()
        if self.before_put is not None:
            before, self.before_put = self.before_put, None
            await before()
        past = self.memories.setdefault((scope, key), [])
        if expected is not None and expected != len(past):
            raise StorageConflictError("small store", "it has changed", len(past))
        past.append(MemoryRecord(text, len(past) + 1, NOW, author))
        return past[-1]

    async def working_memory_history(self, scope, key, *, limit=10):
        await self._reached()
        return tuple(reversed(self.memories.get((scope, key), [])))[:limit]

    async def delete_working_memory(self, scope, key):
        await self._reached()
        return self.memories.pop((scope, key), None) is not None

    async def _missing(self, *args, **named):
        raise NotImplementedError

    update_thread = threads = delete_thread = delete_resource = save_messages = messages = _missing
    messages_by_id = messages_around = delete_messages = close = _missing
