"""`WorkingMemoryRecords`: reads and changes working memories in a store, without lost updates.

A change is computed from the stored text, and stored only if that text is still current; otherwise it is computed
again. Within a process, changes of one memory wait for each other.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from penstock.engine.values.errors import NotStoredError, OwnershipError, StorageConflictError, UsageError
from penstock.engine.values.stored import Thread
from penstock.processors.memory._options import checked_resource_id, checked_thread_id
from penstock.processors.memory._storing import storable_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope


RefusalProblem = Literal[
    "empty",
    "template-only",
    "duplicate",
    "no-search-text",
    "not-replaced",
    "does-not-fit",
    "not-json",
    "too-long",
    "changed",
]
"""The reasons for refusals, for programs."""

_LONG = 20_000  # characters

_ATTEMPTS = 32
"""How often a change is computed again if other processes keep changing the memory."""
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.1  # seconds


@dataclass(frozen=True, slots=True)
class RecordRefusal:
    """Why nothing was changed.

    Attributes:
        problem: the reason, for programs.
        reason: a sentence for the model. It quotes no value of the memory.
    """

    problem: RefusalProblem
    reason: str


MemoryChange: TypeAlias = "Callable[[MemoryRecord | None], str | RecordRefusal]"
"""Gets the memory as it is; returns its new text, or why it is not changed."""


class MemoryOwner(NamedTuple):
    """The thread and the resource whose memory is meant, as far as they are known."""

    thread_id: str | None = None
    resource_id: str | None = None

    @classmethod
    def of(cls, request_context: Mapping[str, Value]) -> MemoryOwner:
        """Return thread and resource of a request context.

        Raises:
            UsageError: an id is not a str, or the resource id is empty.
        """
        return cls(
            checked_thread_id(request_context.get("thread_id")), checked_resource_id(request_context.get("resource_id"))
        )


@dataclass(frozen=True, slots=True)
class WorkingMemoryRecords:
    """The working memories of one scope in a store. Lives as long as its processor."""

    storage: Storage
    scope: MemoryScope
    max_characters: int

    def key(self, owner: MemoryOwner) -> str | None:
        """Return the key of a memory; None if the id of the scope is not known."""
        return owner.resource_id if self.scope == "resource" else owner.thread_id

    async def read(self, owner: MemoryOwner) -> MemoryRecord | None:
        """Return a memory, or None.

        Raises:
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
            UsageError: the id of the scope is missing.
        """
        await self._checked_thread(owner)
        return await self.storage.working_memory(self.scope, self._required_key(owner))

    async def change(
        self, owner: MemoryOwner, change: MemoryChange, author: str, *, heavy: bool = False
    ) -> MemoryRecord | RecordRefusal | None:
        """Make a change. Return the memory after it, why it was not made, or None if there still is no memory.

        ``change`` gets the current memory. It is called again if the memory was changed meanwhile; in a worker thread
        if it takes long (``heavy``), or if the memory is long.

        Raises:
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed, or others kept changing the memory.
            UsageError: the id of the scope is missing.
        """
        key = self._required_key(owner)
        async with _exclusively((id(self.storage), self.scope, key)):
            await self._ensure_thread(owner, key)
            return await self._apply_change(key, change, author, heavy=heavy)

    async def write(self, owner: MemoryOwner, text: str, expected: int | None, author: str) -> MemoryRecord:
        """Store a text, and return the record.

        Raises:
            StorageConflictError: the memory does not have the expected version.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
            UsageError: the id of the scope is missing.
        """
        key = self._required_key(owner)
        async with _exclusively((id(self.storage), self.scope, key)):
            await self._ensure_thread(owner, key)
            stored = storable_text(text)
            return await self.storage.put_working_memory(self.scope, key, stored, expected=expected, author=author)

    async def undo(self, owner: MemoryOwner, version: int | None, author: str) -> MemoryRecord:
        """Store an earlier version again, by default the one before the last.

        Raises:
            NotStoredError: the store does not have that version.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
            UsageError: the id of the scope is missing.
        """
        past = {record.version: record.text for record in await self.history(owner, 1_000)}
        newest = max(past, default=0)
        wanted = newest - 1 if version is None else version
        text = "" if version is None and newest == 1 else past.get(wanted)
        if text is None:
            raise NotStoredError("working memory", "there is no such version, or it is no longer kept; see the history")
        found = await self.change(owner, lambda _: text, author)
        if found is None or isinstance(found, RecordRefusal):
            raise NotStoredError("working memory", "that version is longer than max_characters")
        return found

    async def history(self, owner: MemoryOwner, limit: int) -> tuple[MemoryRecord, ...]:
        """Return the last versions, newest first."""
        await self._checked_thread(owner)
        return await self.storage.working_memory_history(self.scope, self._required_key(owner), limit=limit)

    async def forget(self, owner: MemoryOwner) -> bool:
        """Delete a memory with all its versions. Return whether there was one.

        Raises:
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
            UsageError: the id of the scope is missing.
        """
        key = self._required_key(owner)
        async with _exclusively((id(self.storage), self.scope, key)):
            await self._checked_thread(owner)
            return await self.storage.delete_working_memory(self.scope, key)

    async def _apply_change(
        self, key: str, change: MemoryChange, author: str, *, heavy: bool
    ) -> MemoryRecord | RecordRefusal | None:
        wait = _FIRST_WAIT
        for attempt in range(_ATTEMPTS):
            record = await self.storage.working_memory(self.scope, key)
            now = "" if record is None else record.text
            # Long texts are changed in a thread, so that other requests go on.
            made = await to_thread.run_sync(change, record) if len(now) > _LONG or heavy else change(record)
            if isinstance(made, RecordRefusal):
                return made
            text = storable_text(made)
            if text == now:
                return record
            if self.max_characters < len(text) > len(now):
                most = f"at most {self.max_characters} are kept. Make it shorter."
                return RecordRefusal("too-long", f"It would have {len(text)} characters, and {most}")
            expected = 0 if record is None else record.version
            try:
                return await self.storage.put_working_memory(self.scope, key, text, expected=expected, author=author)
            except StorageConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            await anyio.sleep(random.uniform(0, wait))  # noqa: S311 - jitter, not a secret
            wait = min(2 * wait, _LONGEST_WAIT)
        return None

    async def _ensure_thread(self, owner: MemoryOwner, key: str) -> None:
        """Create the thread whose memory is to be written, if there is none."""
        if await self._checked_thread(owner) is None and self.scope == "thread":
            await self.storage.create_thread(Thread(key, owner.resource_id or key))

    async def _checked_thread(self, owner: MemoryOwner) -> Thread | None:
        """Return the thread, if there is one. A thread of another resource is refused, whatever the scope."""
        if owner.thread_id is None:
            return None
        thread = await self.storage.thread(owner.thread_id)
        if thread is not None and owner.resource_id not in (None, thread.resource_id):
            raise OwnershipError(
                "working memory", "the thread belongs to another resource; nothing was read or changed"
            )
        return thread

    def _required_key(self, owner: MemoryOwner) -> str:
        key = self.key(owner)
        if key is None:
            raise UsageError(f"the working memory of a {self.scope} needs {self.scope}_id in the request context")
        return key


class _Queue:
    """The tasks that wait for one memory."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.waiting = 0


_Key: TypeAlias = tuple[int, str, str]
_QUEUES: RunVar[dict[_Key, _Queue]] = RunVar("penstock-working-memory")


@asynccontextmanager
async def _exclusively(key: _Key) -> AsyncGenerator[None]:
    """Let tasks of this event loop change a memory one after the other."""
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
