"""A process of 200 tasks that write to the same threads of a SQLite file: ``python -m … FILE NAME``. It knows no test.

It waits for a line on its standard input before it begins, so that several begin at once.
"""

import sys

import anyio

from penstock import Message, SQLiteStorage
from penstock.engine import StorageConflictError, VectorEntry

TASKS = 200
THREADS = 4


async def write(store: SQLiteStorage, name: str, task: int) -> None:
    """Save two messages together, then one more with its vector, and enter oneself in a working memory."""
    own = f"{name}-{task}"
    thread = f"t{task % THREADS}"
    pair = [Message.user(f"{own} {part}", id=f"{own}-{part}", thread_id=thread) for part in "ab"]
    await store.save_messages(pair)
    await store.save_messages([Message.user(f"{own} c", id=f"{own}-c", thread_id=thread), pair[0]])
    await store.upsert_vectors("i", [VectorEntry(f"{own}-c", [1.0, float(task)], f"{own}-c", thread)])
    if task % 10 == 0:
        await enter(store, own)


async def enter(store: SQLiteStorage, own: str) -> None:
    """Add oneself to what is remembered, reading again until nobody else has meanwhile."""
    while True:
        now = await store.working_memory("resource", "r")
        text, version = (f"{now.text} {own}", now.version) if now else (own, 0)
        try:
            await store.put_working_memory("resource", "r", text, expected=version)
        except StorageConflictError:
            continue
        return


async def main(path: str, name: str) -> None:
    """Let all tasks write at once."""
    async with SQLiteStorage(path) as store, anyio.create_task_group() as group:
        for task in range(TASKS):
            group.start_soon(write, store, name, task)


if __name__ == "__main__":
    sys.stdin.readline()
    anyio.run(main, *sys.argv[1:3])
