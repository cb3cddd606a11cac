"""Kills processes that write to a SQLite store, at random, and looks whether anything that was awaited is lost.

    python -m tests.stores.killing 300

Each writer is a fork of this process: six tasks that save, replace and delete messages with their vectors, and change
working memories. It notes in a pipe what it is about to delete, and what has been awaited; then it gets a SIGKILL, now
and then while it still makes the file. Afterwards another fork opens the file and compares. A file lives for 25 kills.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from penstock import Message, SQLiteStorage
from penstock.engine import VectorEntry

KILLS_OF_A_FILE = 25
LONGEST_LIFE = 0.4
"""Seconds after which a writer is killed at the latest."""

TASKS = 6
PART_OF_A_BATCH = 3


@dataclass
class Expected:
    """What must be found, by what the writers noted."""

    kept: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    versions: dict[str, list] = field(default_factory=dict)

    def take(self, line: str) -> None:
        """Enter what a writer noted."""
        what, *rest = json.loads(line)
        if what == "saved":
            self.kept.update(rest[0])
        elif what == "deletes":
            self.open.update(rest[0])
            for name in rest[0]:
                self.kept.pop(name, None)
        elif what == "deleted":
            self.gone.update(rest[0])
            self.open.difference_update(rest[0])
        else:
            key, version, text = rest
            self.versions[key] = max(self.versions.get(key, [0, ""]), [version, text])


def note(pipe: int, *what: object) -> None:
    """Write a line at once: what was written before a kill can be read after it."""
    os.write(pipe, f"{json.dumps(what)}\n".encode())


async def write(path: Path, writer: int, pipe: int) -> None:
    """Write to the store until killed."""
    async with SQLiteStorage(path) as store, anyio.create_task_group() as group:
        for task in range(TASKS):
            group.start_soon(write_on, store, f"{writer}-{task}", pipe)


async def write_on(store: SQLiteStorage, name: str, pipe: int) -> None:
    """Save a batch with its vectors, replace one of it, change a working memory, delete one of it; and again."""
    thread = f"t{name[-1]}" if name[-1] in "01" else "t"
    turn = 0
    while True:
        turn += 1
        ids = [f"{name}-{turn}-{part}" for part in range(PART_OF_A_BATCH)]
        texts = {name: f"text of {name}" for name in ids}
        made = [Message.user(text, id=name, thread_id=thread) for name, text in texts.items()]
        await store.save_messages(made)
        note(pipe, "saved", texts)
        await store.upsert_vectors("i", [VectorEntry(name, [1.0, turn, 1.0], name, thread) for name in ids])
        await store.save_messages([Message.user("changed", id=ids[1], thread_id=thread)])
        note(pipe, "saved", {ids[1]: "changed"})
        record = await store.put_working_memory("resource", thread, f"by {name}, {turn}", expected=None)
        note(pipe, "remembered", thread, record.version, record.text)
        note(pipe, "deletes", [ids[2]])
        await store.delete_messages([ids[2]])
        note(pipe, "deleted", [ids[2]])


async def compare(path: Path, expected: Expected) -> None:
    """Look whether all that was awaited is there, and nothing is half."""
    async with SQLiteStorage(path) as store:
        names = [*expected.kept, *expected.gone]
        found = {item.message.id: item.message.text for item in await store.messages_by_id(names)}
        lost = [name for name, text in expected.kept.items() if found.get(name) not in {text, "changed"}]
        assert not lost, f"lost: {lost[:5]} of {len(lost)}"
        back = expected.gone & found.keys()
        assert not back, f"deleted, and there again: {sorted(back)[:5]}"
        hits = {hit.message_id for hit in await store.query_vectors("i", [1.0, 1.0, 1.0], limit=10_000)}
        left = expected.gone & hits
        assert not left, f"vectors of deleted messages: {sorted(left)[:5]}"
        await compare_threads(store, expected)
        for key, (version, text) in expected.versions.items():
            history = await store.working_memory_history("resource", key)
            assert history[0].version >= version, f"working memory {key}: version {version} is lost"
            same = [record.text for record in history if record.version == version]
            assert same in ([], [text]), f"working memory {key}: version {version} is another"


async def compare_threads(store: SQLiteStorage, expected: Expected) -> None:
    """Look whether every batch is there whole, and no place was given twice."""
    for thread in (await store.threads()).items:
        items = []
        page = await store.messages(thread.id, limit=10_000, oldest_first=True)
        items += page.items
        while page.following:
            page = await store.messages(thread.id, limit=10_000, oldest_first=True, before=page.following)
            items += page.items
        orders = [item.order for item in items]
        assert orders == sorted(set(orders)), f"places of {thread.id} are given twice"
        batches: dict[str, set[str]] = {}
        for item in items:
            batch, part = item.message.id.rsplit("-", 1)
            batches.setdefault(batch, set()).add(part)
        deleted = expected.gone | expected.open
        whole = {str(part) for part in range(PART_OF_A_BATCH)}
        half = [name for name, parts in batches.items() if parts != whole and f"{name}-2" not in deleted]
        assert not half, f"half of a batch: {half[:5]}"


def forked(work) -> int:
    """Run work in a fork, and return its process; it ends with 0 if the work did."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001  # a fork must not go on as its parent
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def kill_one(path: Path, writer: int, chance: random.Random, expected: Expected) -> int:
    """Start a writer, kill it, and enter what it noted; return how many lines that is."""
    reading, writing = os.pipe()
    child = forked(partial(anyio.run, write, path, writer, writing))
    os.close(writing)
    time.sleep(chance.uniform(0, LONGEST_LIFE))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as noted:
        lines = noted.readlines()
    for line in lines:
        expected.take(line)
    return len(lines)


def whole(path: Path) -> bool:
    """Return whether SQLite finds the file whole; one that was killed before it was made is."""
    if not path.exists():
        return True
    connection = sqlite3.connect(path)
    found = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    return found == [("ok",)]


def kill(times: int, folder: Path, seed: int) -> int:
    """Kill so many writers; return how many notes they left."""
    chance = random.Random(seed)  # noqa: S311
    noted = 0
    for number in range(times):
        if number % KILLS_OF_A_FILE == 0:
            expected = Expected()
        path = folder / f"{number // KILLS_OF_A_FILE}.db"
        noted += kill_one(path, number, chance, expected)
        assert whole(path), f"kill {number}: the file is damaged"
        checker = forked(partial(anyio.run, compare, path, expected))
        assert os.waitpid(checker, 0)[1] == 0, f"kill {number} of seed {seed}: see above"
    return noted


def main() -> None:
    """Kill as many as are asked for: ``killing [TIMES [SEED]]``."""
    times, seed = int((sys.argv[1:2] or ["100"])[0]), int((sys.argv[2:3] or ["1"])[0])
    with tempfile.TemporaryDirectory() as folder:
        noted = kill(times, Path(folder), seed)
    found = "none lost, nothing half, every file whole"
    sys.stdout.write(f"{times} writers killed, {noted} notes of what was awaited: {found}\n")


if __name__ == "__main__":
    main()
