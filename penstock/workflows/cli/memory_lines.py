"""What a store remembers as JSON lines, and back: a line each for a thread, a message, a working memory.

It knows the port of stores, no store; files are whatever has lines.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.engine.formats import dump_messages, parse_messages
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.stored import Thread
from penstock.workflows.cli.exits import CommandError
from penstock.workflows.cli.inputs import is_object

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope, StoredMessage

PAGE = 500
"""How many threads or messages are asked for at once."""

_HEAD = {"penstock": "memory", "version": 1}
AUTHOR = "penstock memory import"
"""Who is said to have changed a working memory that was imported."""


class BadLineError(CommandError):
    """A line that cannot be imported; its text says which and why, and quotes nothing of it."""


async def threads_of(storage: Storage, resource_id: str | None, limit: int | None = None) -> AsyncGenerator[Thread]:
    """Yield threads, the last changed first."""
    after: str | None = None
    left = limit
    while left is None or left > 0:
        page = await storage.threads(
            resource_id=resource_id, limit=PAGE if left is None else min(PAGE, left), after=after
        )
        for thread in page.items:
            yield thread
        left = None if left is None else left - len(page.items)
        after = page.following
        if after is None:
            return


async def messages_of(storage: Storage, thread_id: str) -> AsyncGenerator[StoredMessage]:
    """Yield the messages of a thread, the oldest first."""
    before: str | None = None
    while True:
        page = await storage.messages(thread_id, limit=PAGE, before=before, oldest_first=True)
        for message in page.items:
            yield message
        before = page.following
        if before is None:
            return


async def exported(storage: Storage, threads: Iterable[Thread]) -> AsyncGenerator[str]:
    """Yield lines: of each thread, itself, its messages and its working memory; of each resource, that once."""
    yield line_of(_HEAD)
    resources = set[str]()
    for thread in threads:
        if thread.resource_id not in resources:
            resources.add(thread.resource_id)
            async for line in _memory_lines(storage, "resource", thread.resource_id):
                yield line
        yield line_of({"thread": thread_as_json(thread)})
        async for stored in messages_of(storage, thread.id):
            yield line_of({"message": message_as_json(stored.message)})
        async for line in _memory_lines(storage, "thread", thread.id):
            yield line


async def _memory_lines(storage: Storage, scope: MemoryScope, key: str) -> AsyncGenerator[str]:
    record = await storage.working_memory(scope, key)
    if record is not None:
        yield line_of({"working_memory": {"scope": scope, "key": key, **memory_as_json(record)}})


def line_of(value: Any) -> str:
    """Return a value of JSON as a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def thread_as_json(thread: Thread) -> dict[str, Any]:
    """Return a thread as JSON."""
    return {
        "id": thread.id,
        "resource_id": thread.resource_id,
        "title": thread.title,
        "metadata": thaw(dict(thread.metadata)),
        "created_at": _time(thread.created_at),
        "updated_at": _time(thread.updated_at),
    }


def message_as_json(message: Message) -> Any:
    """Return a message as JSON, in Penstock's own form."""
    return dump_messages([message], "penstock")[0]


def memory_as_json(record: MemoryRecord) -> dict[str, Any]:
    """Return a working memory as JSON."""
    return {
        "text": record.text,
        "version": record.version,
        "updated_at": _time(record.updated_at),
        "author": record.author,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


class Importer:
    """Stores lines, in their order; messages some hundred at once. Lives as long as one import.

    Attributes:
        threads: how many threads were in them.
        messages: how many messages.
        memories: how many working memories.
    """

    def __init__(self, storage: Storage) -> None:
        self.threads = self.messages = self.memories = 0
        self._storage = storage
        self._waiting: list[Message] = []

    async def store(self, lines: Iterable[bytes]) -> None:
        """Store all lines.

        Raises:
            BadLineError: one is malformed; what stands before it is stored.
            OwnershipError: a thread is another resource's.
            StorageError: the store gave up.
        """
        try:
            for number, value in _values(lines):
                await self._take(number, value)
        finally:
            await self._flush()

    async def _take(self, number: int, value: dict[str, Any]) -> None:
        if "message" in value:
            self._waiting.append(_message(number, value["message"]))
            if len(self._waiting) == PAGE:
                await self._flush()
            return
        await self._flush()
        if "thread" in value:
            thread = _thread(number, value["thread"])
            kept = await self._storage.create_thread(thread)
            if (kept.title, kept.metadata) != (thread.title, thread.metadata):
                await self._storage.update_thread(thread.id, title=thread.title, metadata=thread.metadata)
            self.threads += 1
        else:
            await self._remember(number, value["working_memory"])

    async def _remember(self, number: int, value: Any) -> None:
        if not _has(value, scope=str, key=str, text=str) or value["scope"] not in ("thread", "resource"):
            raise BadLineError(f"line {number}: a working memory has a scope (thread or resource), a key and a text")
        scope: MemoryScope = value["scope"]
        known = await self._storage.working_memory(scope, value["key"])
        if known is None or known.text != value["text"]:
            await self._storage.put_working_memory(scope, value["key"], value["text"], expected=None, author=AUTHOR)
        self.memories += 1

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            await self._storage.save_messages(waiting)
            self.messages += len(waiting)


def _values(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what stands in lines behind the first, which says what they are, each with its number."""
    begun = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        value = _value(number, line)
        if not begun and value != _HEAD:
            raise BadLineError(f"line {number}: this is no file of `penstock memory export`, or one of a newer version")
        if begun and len({"thread", "message", "working_memory"}.intersection(value)) != 1:
            raise BadLineError(f"line {number}: it has neither a thread, nor a message, nor a working_memory")
        if begun:
            yield number, value
        begun = True
    if not begun:
        raise BadLineError("line 1: there is nothing in it")


def _value(number: int, line: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not is_object(value):
        raise BadLineError(f"line {number}: it is no object of JSON")
    return value


def _message(number: int, value: Any) -> Message:
    try:
        (message,) = parse_messages([value], "penstock")
    except MessageError as error:
        raise BadLineError(f"line {number}: it is no message ({error.place})") from error
    if not message.id or not message.thread_id:
        raise BadLineError(f"line {number}: the message has no id or no thread")
    return message


def _thread(number: int, value: Any) -> Thread:
    if not _has(value, id=str, resource_id=str) or not isinstance(value.get("metadata", {}), dict):
        raise BadLineError(f"line {number}: a thread has an id, a resource_id, and metadata that are an object")
    try:
        times = [value.get(name) and datetime.fromisoformat(value[name]) for name in ("created_at", "updated_at")]
    except (TypeError, ValueError):
        raise BadLineError(f"line {number}: a time of the thread is no ISO time") from None
    created, updated = (time or None for time in times)
    title = value.get("title", "")
    return Thread(value["id"], value["resource_id"], str(title), value.get("metadata", {}), created, updated)


def _has(value: Any, **kinds: type) -> bool:
    return is_object(value) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())
