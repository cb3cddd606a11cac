"""Tasks that write messages in pairs to a few threads, and tell of each pair once it is stored; also as a process.

    python -m tests.stores.postgres.writing URL SCHEMA NAME TASKS TURNS

writes a line with a pair's name after each pair that was awaited, until all are done, or it is killed.
"""

import os
import sys
from collections.abc import Callable

import anyio

from penstock.stores.postgres import PostgresStorage
from tests.stores.made import said

THREADS = 3


async def write(
    store: PostgresStorage, name: str, tasks: int, turns: int, tell: Callable[[str], None], is_over: Callable[[], bool]
) -> None:
    """Let tasks write, each so many pairs, or until it is over."""

    async def one(number: int) -> None:
        for turn in range(turns):
            if is_over():
                return
            pair = f"{name}-{number}-{turn}"
            await store.save_messages([said(f"{pair}-{part}", thread=f"t{number % THREADS}") for part in "ab"])
            tell(pair)

    async with anyio.create_task_group() as group:
        for number in range(tasks):
            group.start_soon(one, number)


async def check(store: PostgresStorage, told: set[str]) -> int:
    """Assert that what was told is there, in pairs that stand together, each once; return how many pairs there are."""
    pairs: list[str] = []
    for number in range(THREADS):
        ids, place = [], None
        while True:
            page = await store.messages(f"t{number}", limit=10_000, before=place, oldest_first=True)
            ids += [item.message.id for item in page.items]
            place = page.following
            if place is None:
                break
        assert [f"{id[:-1]}b" for id in ids[::2]] == ids[1::2], "a pair does not stand together"
        pairs += [id[:-2] for id in ids[::2]]
    assert len(pairs) == len(set(pairs)), "a pair is there twice"
    assert told <= set(pairs), f"{len(told - set(pairs))} pairs were acknowledged and are not there"
    return len(pairs)


def _tell(pair: str) -> None:
    os.write(1, f"{pair}\n".encode())


async def _main(url: str, schema: str, name: str, tasks: int, turns: int) -> None:
    async with PostgresStorage(url, schema=schema) as store:
        await write(store, name, tasks, turns, _tell, lambda: False)


if __name__ == "__main__":
    anyio.run(_main, *sys.argv[1:4], *map(int, sys.argv[4:]))
