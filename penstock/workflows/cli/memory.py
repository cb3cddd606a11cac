"""``penstock memory``: threads of a store, listed, shown, exported, imported, deleted; users, forgotten."""

from __future__ import annotations

import sys
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio

from penstock.workflows.cli import memory_lines as lines
from penstock.workflows.cli.exits import CommandError, Exit
from penstock.workflows.cli.files import reading, refuse_same, writing
from penstock.workflows.cli.memory_arguments import STORE
from penstock.workflows.cli.memory_shown import ThreadShown, show_threads

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import Any, TypeAlias

    from penstock.engine.values.ports import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope, StoredMessage, Thread

    Action: TypeAlias = Callable[[Storage, argparse.Namespace, IO[str]], Awaitable[Exit]]

_SERVERS = ("postgresql://", "postgres://")


def memory(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Do what is asked for, and return the exit code."""
    actions = {"list": _list, "show": _show, "export": _export, "import": _import, "delete": _delete, "forget": _forget}
    storage = _opened(args.store, makes=args.action == "import")
    return anyio.run(partial(_done, storage, actions[args.action], args, stdout))


async def _done(storage: Storage, action: Action, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    try:
        return await action(storage, args, stdout)
    finally:
        with anyio.CancelScope(shield=True):
            await storage.close()


def _opened(store: str | None, *, makes: bool) -> Storage:
    """Return the store; it opens itself at first use. Only an import makes a file.

    Raises:
        CommandError: there is none.
    """
    if not store:
        raise CommandError(f"which store? say --store FILE, or set {STORE}")
    if store.startswith(_SERVERS):
        from penstock.stores.postgres.storage import PostgresStorage

        return PostgresStorage(store)
    from penstock.stores.sqlite.storage import SQLiteStorage

    if not makes and not Path(store).is_file():
        raise CommandError(f"there is no file {store!r}; a server's address begins with postgresql://")
    return SQLiteStorage(store)


async def _list(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    wanted = args.limit if args.limit is None or args.format == "jsonl" else args.limit + 1  # whether there are more
    async with aclosing(lines.threads_of(storage, args.resource, wanted)) as threads:
        if args.format == "jsonl":
            async for thread in threads:
                stdout.write(lines.line_of(lines.thread_as_json(thread)))
            return Exit.OK
        found = [thread async for thread in threads]
    show_threads(stdout, found[: args.limit], more=args.limit is not None and len(found) > args.limit)
    return Exit.OK


async def _show(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    (thread,) = await _named(storage, [args.thread])
    stored, earlier = await _last(storage, thread.id, None if args.all else args.last)
    known = [item async for item in _known(storage, thread)]
    if args.format == "jsonl":
        stdout.write(lines.line_of({"thread": lines.thread_as_json(thread)}))
        stdout.writelines(lines.line_of({"working_memory": _memory(scope, record)}) for scope, record in known)
        stdout.writelines(lines.line_of({"message": lines.message_as_json(one.message)}) for one in stored)
        return Exit.OK
    shown = ThreadShown(stdout)
    shown.head(thread)
    for scope, record in known:
        shown.memory(scope, record)
    if earlier:
        shown.earlier()
    for one in stored:
        shown.message(one.message)
    return Exit.OK


async def _last(storage: Storage, thread_id: str, last: int | None) -> tuple[Sequence[StoredMessage], bool]:
    """Return the last messages of a thread, the oldest first, and whether there are earlier ones."""
    if last is None:
        return [one async for one in lines.messages_of(storage, thread_id)], False
    found: list[StoredMessage] = []
    before: str | None = None
    while len(found) < last:
        page = await storage.messages(thread_id, limit=min(lines.PAGE, last - len(found)), before=before)
        found += page.items
        before = page.following
        if before is None:
            break
    return found[::-1], before is not None


async def _export(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    if args.threads and args.resource:
        raise CommandError("name threads, or --resource; not both")
    refuse_same(args.store, args.output)
    named = await _named(storage, args.threads)
    # the last changed last, so that an import leaves them in this order
    threads = named or [thread async for thread in lines.threads_of(storage, args.resource)][::-1]
    async with aclosing(lines.exported(storage, threads)) as exported:
        with writing(args.output, stdout) as out:
            async for line in exported:
                out.write(line)
    return Exit.OK


async def _import(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    importer = lines.Importer(storage)
    refuse_same(args.file, args.store)
    code = Exit.OK
    with reading(args.file) as stream:
        try:
            await importer.store(stream)
        except lines.BadLineError as error:
            sys.stderr.write(f"penstock: {error}; what stands before it is stored\n")
            code = Exit.INCOMPLETE
    counts = ((importer.threads, "thread"), (importer.messages, "message"), (importer.memories, "working memory"))
    stdout.write(f"imported {', '.join(f'{count:,} × {name}' for count, name in counts)}\n")
    return code


async def _delete(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    threads = await _named(storage, args.threads)
    counted = _counted(len(threads), "thread")
    if not args.yes and not _agreed(f"delete {counted} with all that was said in them? [y/N] "):
        raise CommandError("nothing was deleted")
    for thread in threads:
        await storage.delete_thread(thread.id)
    stdout.write(f"deleted {counted}\n")
    return Exit.OK


async def _forget(storage: Storage, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    resources = tuple(dict.fromkeys(args.resources))
    missing = [name for name in resources if not await _is_known(storage, name)]
    if missing:
        raise CommandError(f"of {', '.join(map(repr, missing))} the store has no thread and no working memory")
    counted = _counted(len(resources), "resource")
    if not args.yes and not _agreed(f"forget {counted}: all threads, and all that is known? [y/N] "):
        raise CommandError("nothing was forgotten")
    threads = [await storage.delete_resource(name) for name in resources]
    stdout.write(f"forgot {counted} with {_counted(sum(threads), 'thread')}\n")
    return Exit.OK


async def _is_known(storage: Storage, resource_id: str) -> bool:
    page = await storage.threads(resource_id=resource_id, limit=1)
    return bool(page.items) or await storage.working_memory("resource", resource_id) is not None


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _agreed(question: str) -> bool:
    """Ask, on the terminal.

    Raises:
        CommandError: there is nobody to be asked.
    """
    if not sys.stdin.isatty():
        raise CommandError("nothing was done: there is no terminal to ask at; say --yes")
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _named(storage: Storage, ids: Sequence[str]) -> list[Thread]:
    """Return the threads of those ids, each once.

    Raises:
        CommandError: there is no such thread; nothing is done then.
    """
    found = {name: await storage.thread(name) for name in dict.fromkeys(ids)}
    missing = [name for name, thread in found.items() if thread is None]
    if missing:
        raise CommandError(f"there is no thread {', '.join(map(repr, missing))} in the store")
    return [thread for thread in found.values() if thread is not None]


async def _known(storage: Storage, thread: Thread) -> AsyncGenerator[tuple[MemoryScope, MemoryRecord]]:
    """Yield what is known of a thread's resource, and of the thread."""
    places: tuple[tuple[MemoryScope, str], ...] = (("resource", thread.resource_id), ("thread", thread.id))
    for scope, key in places:
        record = await storage.working_memory(scope, key)
        if record is not None and record.text:
            yield scope, record


def _memory(scope: MemoryScope, record: MemoryRecord) -> dict[str, Any]:
    return {"scope": scope, **lines.memory_as_json(record)}
