"""`Notebook`: the working memories of a store, read and changed so that nothing is lost. It knows no template.

A change is made of the text as it stands, and stored only if that still stands: what others changed meanwhile is read
again. Within a process those who change one memory queue up for it.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import anyio
from anyio.lowlevel import RunVar

from penstock.engine.values.errors import NotStoredError, OwnershipError, StorageConflictError, UsageError
from penstock.engine.values.stored import Thread
from penstock.processors.memory._loading import named_resource, named_thread
from penstock.processors.memory._storable import storable
from penstock.processors.memory._working_updates import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ports import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope

    Change: TypeAlias = Callable[[MemoryRecord | None], str | Refusal]

_ATTEMPTS = 32
"""How often a memory is read again that other processes keep changing."""
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.1  # seconds


class Whose(NamedTuple):
    """Whose memory is meant: the thread and the resource of a request, as far as they are known."""

    thread_id: str | None = None
    resource_id: str | None = None

    @classmethod
    def of(cls, request_context: Mapping[str, Value]) -> Whose:
        """Return what a request context says.

        Raises:
            UsageError: it says something else than a str, or names an empty resource.
        """
        return cls(named_thread(request_context.get("thread_id")), named_resource(request_context.get("resource_id")))


@dataclass(frozen=True, slots=True)
class Notebook:
    """The working memories of a store, of one scope. Lives as long as the processor that it belongs to."""

    storage: Storage
    scope: MemoryScope
    max_characters: int

    def key(self, whose: Whose) -> str | None:
        """Return the key of the memory that is meant; None if its scope's id is not known."""
        return whose.resource_id if self.scope == "resource" else whose.thread_id

    async def read(self, whose: Whose) -> MemoryRecord | None:
        """Return a memory as it stands, or None.

        Raises:
            OwnershipError: the thread is another resource's.
            StorageError: the store gave up.
        """
        await self._thread(whose)
        return await self.storage.working_memory(self.scope, self._required(whose))

    async def change(self, whose: Whose, change: Change, author: str) -> MemoryRecord | Refusal | None:
        """Make a change and return the memory as it is then, or why it was not made; None if there is none.

        ``change`` is given the memory as it stands, and called again where others changed it meanwhile.

        Raises:
            OwnershipError: the thread is another resource's.
            StorageError: the store gave up, or others changed it all the time.
        """
        key = self._required(whose)
        async with _alone((id(self.storage), self.scope, key)):
            await self._own(whose, key)
            return await self._changed(key, change, author)

    async def write(self, whose: Whose, text: str, expected: int | None, author: str) -> MemoryRecord:
        """Store a text, and return it as it is kept.

        Raises:
            StorageConflictError: it has another version than is expected.
            OwnershipError: the thread is another resource's.
            StorageError: the store gave up.
        """
        key = self._required(whose)
        async with _alone((id(self.storage), self.scope, key)):
            await self._own(whose, key)
            kept = storable(text)
            return await self.storage.put_working_memory(self.scope, key, kept, expected=expected, author=author)

    async def undo(self, whose: Whose, version: int | None, author: str) -> MemoryRecord:
        """Store an earlier version again, the last but one by default.

        Raises:
            NotStoredError: the store does not keep that version, or there is none.
            OwnershipError: the thread is another resource's.
            StorageError: the store gave up.
        """
        past = {record.version: record.text for record in await self.history(whose, 1_000)}
        newest = max(past, default=0)
        wanted = newest - 1 if version is None else version
        text = "" if version is None and newest == 1 else past.get(wanted)
        if text is None:
            raise NotStoredError("working memory", "there is no such version any more: see its history")
        found = await self.change(whose, lambda _: text, author)
        if found is None or isinstance(found, Refusal):
            raise NotStoredError("working memory", "that version is longer than max_characters allows")
        return found

    async def history(self, whose: Whose, limit: int) -> tuple[MemoryRecord, ...]:
        """Return the last versions, the newest first."""
        await self._thread(whose)
        return await self.storage.working_memory_history(self.scope, self._required(whose), limit=limit)

    async def forget(self, whose: Whose) -> bool:
        """Delete a memory with all its versions; tell whether there was one.

        Raises:
            OwnershipError: the thread is another resource's.
            StorageError: the store gave up.
        """
        key = self._required(whose)
        async with _alone((id(self.storage), self.scope, key)):
            await self._thread(whose)
            return await self.storage.delete_working_memory(self.scope, key)

    async def _changed(self, key: str, change: Change, author: str) -> MemoryRecord | Refusal | None:
        wait = _FIRST_WAIT
        for attempt in range(_ATTEMPTS):
            record = await self.storage.working_memory(self.scope, key)
            now = "" if record is None else record.text
            made = change(record)
            if isinstance(made, Refusal):
                return made
            text = storable(made)
            if text == now:
                return record
            if self.max_characters < len(text) > len(now):
                most = f"at most {self.max_characters} are kept. Make it shorter."
                return Refusal("too-long", f"It would have {len(text)} characters, and {most}")
            expected = 0 if record is None else record.version
            try:
                return await self.storage.put_working_memory(self.scope, key, text, expected=expected, author=author)
            except StorageConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            await anyio.sleep(random.uniform(0, wait))  # noqa: S311 - spreads those who collide, keeps no secret
            wait = min(2 * wait, _LONGEST_WAIT)
        return None

    async def _own(self, whose: Whose, key: str) -> None:
        """See to it that the thread is there whose memory is to be written."""
        if await self._thread(whose) is None and self.scope == "thread":
            await self.storage.create_thread(Thread(key, whose.resource_id or key))

    async def _thread(self, whose: Whose) -> Thread | None:
        """Return the thread, if there is one; one of another resource is refused, whatever the scope."""
        if whose.thread_id is None:
            return None
        thread = await self.storage.thread(whose.thread_id)
        if thread is not None and whose.resource_id not in (None, thread.resource_id):
            raise OwnershipError("working memory", "the thread is another resource's; nothing was read or changed")
        return thread

    def _required(self, whose: Whose) -> str:
        key = self.key(whose)
        if key is None:
            raise UsageError(f"a working memory of a {self.scope} needs {self.scope}_id in the request context")
        return key


class _Queue:
    """Those who wait for one memory."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.waiting = 0


_Key: TypeAlias = tuple[int, str, str]
_QUEUES: RunVar[dict[_Key, _Queue]] = RunVar("penstock-working-memory")


@asynccontextmanager
async def _alone(key: _Key) -> AsyncGenerator[None]:
    """Let those of this event loop who change one memory do so one after the other."""
    try:
        queues = _QUEUES.get()
    except LookupError:
        queues = dict[_Key, _Queue]()
        _QUEUES.set(queues)
    queue = queues.setdefault(key, _Queue())
    queue.waiting += 1
    try:
        async with queue.lock:
            yield
    finally:
        queue.waiting -= 1
        if not queue.waiting:
            queues.pop(key, None)
