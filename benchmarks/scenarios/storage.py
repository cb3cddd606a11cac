"""A thread of 100,000 messages in `SQLiteStorage`: its last 50, and the 5 nearest of as many vectors.

By hand: the SQL query alone, on a connection that is open, in the event loop's own thread; and the same with the JSON
read. The vectors' floor is numpy: one product of a matrix and a vector, and the five largest. Ours asks a worker
thread, which the time includes, looks whether other processes have changed anything, and gives whole messages, or hits.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Contest, Timed, Work
from numpy.typing import NDArray

from penstock import Message, SQLiteStorage
from penstock.engine import VectorEntry
from penstock.stores.encoding import held

MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "messages.jsonl"
LENGTH = 100_000
LAST, NEAREST = 50, 5
NUMBERS = 256
BATCH = 5_000
QUERY = "SELECT place, body FROM penstock_messages WHERE thread_id = 't' ORDER BY place DESC LIMIT ?"


async def contests() -> list[Contest]:
    """Return the contests: loading, and searching."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    store = SQLiteStorage(Path(folder) / "memory.db", synchronous="normal")
    vectors = directions(LENGTH)
    await fill(store, vectors)
    connection = sqlite3.connect(store.path)
    name = f"the last {LAST} of {LENGTH:,} messages"
    looked_for = directions(LENGTH + 1)[-1]
    return [
        Contest(name, "the SQL query", _orders(store), _hand(lambda: [at for at, _ in rows(connection)]), 5.0),
        Contest(name, "the query, and each message's JSON read", _ids(store), _hand(lambda: read(connection)), 2.0),
        Contest(
            f"{name}, not read before",
            "the query, and each message's JSON read",
            _ids(store, forgets=True),
            _hand(lambda: read(connection)),
        ),
        Contest(
            f"the {NEAREST} nearest of {LENGTH:,} vectors of {NUMBERS} numbers",
            "one product with numpy, and the largest of it",
            _nearest(store, looked_for.tolist()),
            _hand(lambda: nearest(vectors, looked_for)),
            2.0,
        ),
    ]


def directions(count: int) -> NDArray[np.float32]:
    """Return vectors of length 1 in every direction; the last is always the same."""
    chance = np.random.default_rng(1)
    found = chance.standard_normal((count, NUMBERS), np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


async def fill(store: SQLiteStorage, vectors: NDArray[np.float32]) -> None:
    """Store real texts in one thread, and a vector for each."""
    texts = [json.loads(line)["text"] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    for start in range(0, LENGTH, BATCH):
        numbers = range(start, start + BATCH)
        await store.save_messages(
            [Message.user(texts[number % len(texts)], id=f"m{number}", thread_id="t") for number in numbers]
        )
        await store.upsert_vectors("i", [VectorEntry(f"{n:06}", vectors[n].tolist(), f"m{n}", "t") for n in numbers])


def rows(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    """Return places and JSON texts of the last messages."""
    return connection.execute(QUERY, (LAST,)).fetchall()


def read(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of the last messages, whose JSON is read for it."""
    return [json.loads(body)["id"] for _, body in rows(connection)]


def nearest(vectors: NDArray[np.float32], looked_for: NDArray[np.float32]) -> list[str]:
    """Return the ids of the nearest."""
    scores = vectors @ looked_for
    best = np.argpartition(scores, -NEAREST)[-NEAREST:]
    return [f"{number:06}" for number in best[np.argsort(-scores[best])].tolist()]


def _hand(work: Callable[[], list[int] | list[str]]) -> Work:
    async def run(times: int) -> object:
        found: object = None
        for _ in range(times):
            found = work()
        return found

    return run


def _orders(store: SQLiteStorage) -> Work:
    async def run(times: int) -> object:
        found: list[int] = []
        for _ in range(times):
            page = await store.messages("t", limit=LAST)
            found = [item.order for item in page.items]
        return found

    return run


def _ids(store: SQLiteStorage, *, forgets: bool = False) -> Work:
    async def run(times: int) -> object:
        found: list[str] = []
        for _ in range(times):
            if forgets:
                held.cache_clear()
            page = await store.messages("t", limit=LAST)
            found = [item.message.id for item in page.items]
        return found

    return run


def _nearest(store: SQLiteStorage, looked_for: list[float]) -> Work:
    async def run(times: int) -> object:
        found: list[str] = []
        for _ in range(times):
            hits = await store.query_vectors("i", looked_for, limit=NEAREST)
            found = [hit.id for hit in hits]
        return found

    return run


SCENARIO = Timed("storage", contests)
