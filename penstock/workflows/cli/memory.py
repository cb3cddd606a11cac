"""The command ``penstock memory``: list, show, export, import and delete threads of a store; forget users."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

import anyio
from rich import box
from rich.table import Table
from rich.text import Text

from penstock.engine.tracing.display import visible
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.engine.values.stored import Thread
from penstock.formats import dump_messages, parse_messages
from penstock.stores.opening import open_storage
from penstock.workflows.cli.arguments.memory import STORE
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.formatting import console_for, plain
from penstock.workflows.cli.terminal import refuse_same, write_line, writing
from penstock.workflows.rows.files import opened
from penstock.workflows.rows.reading import is_object

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.protocols import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope, StoredMessage

_ROLES = {"user": "bold cyan", "assistant": "bold green", "tool": "magenta", "system": "dim"}
_LONGEST_JSON = 2_000
"""The length, in characters, at which a tool's arguments and results are cut: they may be whole files."""


def show_threads(out: IO[str], threads: Sequence[Thread], *, more: bool) -> None:
    """Print a table of threads; ``more``: there are others that are not in it."""
    console = console_for(out)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in ("thread", "resource", "title", "changed", "created"):
        table.add_column(name, overflow="fold", no_wrap=name in ("changed", "created"))
    for thread in threads:
        times = (shown_time(time, "minutes") for time in (thread.updated_at, thread.created_at))
        cells = (thread.id, thread.resource_id, thread.title, *times)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    if threads:
        console.print(table, "")
    console.print(f"{_counted(len(threads), 'thread')}{', and more' if more else ''}")


def show_thread(
    out: IO[str],
    thread: Thread,
    memories: Sequence[tuple[str, MemoryRecord]],
    messages: Iterable[Message],
    *,
    earlier: bool,
) -> None:
    """Print one thread, with control characters made visible; ``earlier``: there are messages before these."""
    console = console_for(out)

    def print_lines(text: str) -> None:
        for line in text.split("\n"):
            console.print(Text(f"  {visible(line)}"), soft_wrap=True)

    fields = [("thread", thread.id), ("resource", thread.resource_id), ("title", thread.title)]
    fields += [("created", shown_time(thread.created_at)), ("changed", shown_time(thread.updated_at))]
    fields += [("metadata", _json(thread.metadata))] if thread.metadata else []
    for label, text in fields:
        if text:
            console.print(Text.assemble((f"{label}: ", "dim"), plain(text)))
    for whose, record in memories:
        by = f", by {plain(record.author)}" if record.author else ""
        about = f"working memory of the {whose} (version {record.version}, {shown_time(record.updated_at)}{by})"
        console.print()
        console.print(Text(about, "bold yellow"))
        print_lines(record.text)
    if earlier:
        console.print()
        console.print(Text("… (earlier messages: --all)", "dim"))
    for message in messages:
        head = Text.assemble(
            (message.role, _ROLES.get(message.role, "")), (f"  {shown_time(message.created_at)}", "dim")
        )
        console.print()
        console.print(head)
        for text in _texts(message.parts):
            print_lines(text)


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the texts of parts; for a part without text, its type."""
    for part in parts:
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, ReasoningPart):
            yield f"(reasoning) {part.text}"
        elif isinstance(part, ToolPart):
            if part.arguments is not None:
                yield f"→ {part.name} {_cut(_json(part.arguments))}"
            if part.state == "result":
                yield f"← {part.name} {_cut(_json(part.result))}"
            elif part.state == "error":
                yield f"✗ {part.name} {_cut(str(part.error))}"
        else:
            yield f"[{part.type}]"


def _json(value: Value) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_JSON else f"{text[:_LONGEST_JSON]}… ({len(text):,} characters)"


def shown_time(time: datetime | None, unit: str = "seconds") -> str:
    """Return a time for a table; empty for None."""
    return "" if time is None else time.isoformat(" ", unit)


PAGE = 500
"""How many threads or messages are asked for at once."""

_HEAD = {"penstock": "memory", "version": 1}
AUTHOR = "penstock memory import"
"""Who is said to have changed a working memory that was imported."""


class BadLineError(CommandError):
    """A line that cannot be imported; its text says which and why, and quotes nothing of it."""


async def threads_of(storage: Storage, resource_id: str | None, limit: int | None = None) -> AsyncGenerator[Thread]:
    """Yield threads, the most recently changed first."""
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
    """Yield the lines of an export: each thread with its messages and working memory, each resource's memory once."""
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
    """Return a JSON value as a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def thread_as_json(thread: Thread) -> dict[str, Any]:
    """Return a thread as JSON."""
    return {
        "id": thread.id,
        "resource_id": thread.resource_id,
        "title": thread.title,
        "metadata": thaw(dict(thread.metadata)),
        "created_at": _iso(thread.created_at),
        "updated_at": _iso(thread.updated_at),
    }


def message_as_json(message: Message) -> Any:
    """Return a message as JSON, in Penstock's own format."""
    return dump_messages([message], "penstock")[0]


def memory_as_json(record: MemoryRecord) -> dict[str, Any]:
    """Return a working memory as JSON."""
    return {
        "text": record.text,
        "version": record.version,
        "updated_at": _iso(record.updated_at),
        "author": record.author,
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


class MemoryImporter:
    """Stores the lines of an export, in order, with messages in batches. Lives as long as one import.

    Attributes:
        threads: how many threads were imported.
        messages: how many messages.
        memories: how many working memories.
    """

    def __init__(self, storage: Storage) -> None:
        self.threads = self.messages = self.memories = 0
        self._storage = storage
        self._batch: list[Message] = []

    async def store(self, lines: Iterable[bytes]) -> None:
        """Store all lines.

        Raises:
            BadLineError: a line is malformed; the lines before it are stored.
            OwnershipError: a thread belongs to another resource.
            StorageError: the store failed.
        """
        try:
            for number, value in _values(lines):
                await self._take(number, value)
        finally:
            await self._flush()

    async def _take(self, number: int, value: dict[str, Any]) -> None:
        if "message" in value:
            self._batch.append(_message(number, value["message"]))
            if len(self._batch) == PAGE:
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
            raise BadLineError(f"line {number}: a working memory needs a scope (thread or resource), a key and a text")
        scope: MemoryScope = value["scope"]
        known = await self._storage.working_memory(scope, value["key"])
        if known is None or known.text != value["text"]:
            await self._storage.put_working_memory(scope, value["key"], value["text"], expected=None, author=AUTHOR)
        self.memories += 1

    async def _flush(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            await self._storage.save_messages(batch)
            self.messages += len(batch)


def _values(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the values of the lines with their numbers, except the header, which is checked."""
    begun = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not is_object(value):
            raise BadLineError(f"line {number}: it is not a JSON object")
        if not begun and value != _HEAD:
            raise BadLineError(
                f"line {number}: this is not the header of `penstock memory export`, or of a newer version"
            )
        if begun and len({"thread", "message", "working_memory"}.intersection(value)) != 1:
            raise BadLineError(f"line {number}: it must have one of thread, message and working_memory")
        if begun:
            yield number, value
        begun = True
    if not begun:
        raise BadLineError("line 1: the file is empty")


def _message(number: int, value: Any) -> Message:
    try:
        (message,) = parse_messages([value], "penstock", trusted=True)
    except MessageError as error:
        raise BadLineError(f"line {number}: it is not a valid message ({error.place})") from error
    if not message.id or not message.thread_id:
        raise BadLineError(f"line {number}: the message has no id or no thread")
    return message


def _thread(number: int, value: Any) -> Thread:
    if not _has(value, id=str, resource_id=str) or not isinstance(value.get("metadata", {}), dict):
        raise BadLineError(f"line {number}: a thread needs an id, a resource_id, and metadata that is an object")
    try:
        times = [value.get(name) and datetime.fromisoformat(value[name]) for name in ("created_at", "updated_at")]
    except (TypeError, ValueError):
        raise BadLineError(f"line {number}: a time of the thread is not in ISO 8601") from None
    created, updated = (time or None for time in times)
    title = value.get("title", "")
    return Thread(value["id"], value["resource_id"], str(title), value.get("metadata", {}), created, updated)


def _has(value: Any, **kinds: type) -> bool:
    return is_object(value) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())


def memory(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Run the action, and return the exit code."""
    actions = {"list": _list, "show": _show, "export": _export, "import": _import, "delete": _delete, "forget": _forget}
    storage = open_store(args.store, creates=args.action == "import")

    async def run_action() -> Exit:
        try:
            return await actions[args.action](storage, args, stdout)
        finally:
            with anyio.CancelScope(shield=True):
                await storage.close()

    return anyio.run(run_action)


def open_store(store: str | None, *, creates: bool) -> Storage:
    """Return the store, which connects at its first use. Only an import creates a file.

    Raises:
        CommandError: no store is named.
        UsageError: its file does not exist.
    """
    if not store:
        raise CommandError(f"no store is named; use --store FILE, or set {STORE}")
    return open_storage(store, creates=creates)


async def _list(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    wanted = (
        args.limit if args.limit is None or args.format == "jsonl" else args.limit + 1
    )  # one more shows whether there are others
    async with aclosing(threads_of(storage, args.resource, wanted)) as threads:
        if args.format == "jsonl":
            async for thread in threads:
                stdout.write(line_of(thread_as_json(thread)))
            return Exit.OK
        found = [thread async for thread in threads]
    show_threads(stdout, found[: args.limit], more=args.limit is not None and len(found) > args.limit)
    return Exit.OK


async def _show(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    (thread,) = await _threads_by_id(storage, [args.thread])
    stored, earlier = await _last(storage, thread.id, None if args.all else args.last)
    places: tuple[tuple[MemoryScope, str], ...] = (("resource", thread.resource_id), ("thread", thread.id))
    found = [(scope, await storage.working_memory(scope, key)) for scope, key in places]
    known = [(scope, record) for scope, record in found if record is not None and record.text]
    if args.format == "jsonl":
        stdout.write(line_of({"thread": thread_as_json(thread)}))
        memories = ({"scope": scope, **memory_as_json(record)} for scope, record in known)
        stdout.writelines(line_of({"working_memory": each}) for each in memories)
        stdout.writelines(line_of({"message": message_as_json(one.message)}) for one in stored)
        return Exit.OK
    show_thread(stdout, thread, known, (one.message for one in stored), earlier=earlier)
    return Exit.OK


async def _last(storage: Storage, thread_id: str, last: int | None) -> tuple[Sequence[StoredMessage], bool]:
    """Return the last messages of a thread, the oldest first, and whether there are earlier ones."""
    if last is None:
        return [one async for one in messages_of(storage, thread_id)], False
    found: list[StoredMessage] = []
    before: str | None = None
    while len(found) < last:
        page = await storage.messages(thread_id, limit=min(PAGE, last - len(found)), before=before)
        found += page.items
        before = page.following
        if before is None:
            break
    return found[::-1], before is not None


async def _export(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    if args.threads and args.resource:
        raise CommandError("name threads or a --resource, not both")
    refuse_same(args.store, args.output)
    named = await _threads_by_id(storage, args.threads)
    # the most recently changed last, so that an import keeps the order
    threads = named or [thread async for thread in threads_of(storage, args.resource)][::-1]
    async with aclosing(exported(storage, threads)) as written:
        with writing(args.output, stdout) as out:
            async for line in written:
                out.write(line)
    return Exit.OK


async def _import(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    importer = MemoryImporter(storage)
    refuse_same(args.file, args.store)
    code = Exit.OK
    with opened(args.file) as file:
        try:
            await importer.store(file.stream)
        except BadLineError as error:
            write_line(f"penstock: {error}; the lines before it are stored")
            code = Exit.INCOMPLETE
    counts = ((importer.threads, "thread"), (importer.messages, "message"), (importer.memories, "working memory"))
    stdout.write(f"imported {', '.join(f'{count:,} × {name}' for count, name in counts)}\n")
    return code


async def _delete(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    threads = await _threads_by_id(storage, args.threads)
    counted = _counted(len(threads), "thread")
    if not args.yes and not _confirmed(f"delete {counted} with all messages? [y/N] "):
        raise CommandError("nothing was deleted")
    for thread in threads:
        await storage.delete_thread(thread.id)
    stdout.write(f"deleted {counted}\n")
    return Exit.OK


async def _forget(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    resources = tuple(dict.fromkeys(args.resources))
    missing: list[str] = []
    for name in resources:
        page = await storage.threads(resource_id=name, limit=1)
        if not page.items and await storage.working_memory("resource", name) is None:
            missing.append(name)
    if missing:
        raise CommandError(f"the store has no thread and no working memory of {', '.join(map(repr, missing))}")
    counted = _counted(len(resources), "resource")
    if not args.yes and not _confirmed(f"forget {counted}, with all threads and working memories? [y/N] "):
        raise CommandError("nothing was forgotten")
    threads = [await storage.delete_resource(name) for name in resources]
    stdout.write(f"forgot {counted} with {_counted(sum(threads), 'thread')}\n")
    return Exit.OK


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _confirmed(question: str) -> bool:
    """Ask on the terminal.

    Raises:
        CommandError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise CommandError("nothing was done: without a terminal to ask on, --yes is required")
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _threads_by_id(storage: Storage, ids: Sequence[str]) -> list[Thread]:
    """Return the threads with these ids, each once.

    Raises:
        CommandError: a thread does not exist; nothing is done then.
    """
    found = {name: await storage.thread(name) for name in dict.fromkeys(ids)}
    missing = [name for name, thread in found.items() if thread is None]
    if missing:
        raise CommandError(f"there is no thread {', '.join(map(repr, missing))} in the store")
    return [thread for thread in found.values() if thread is not None]
