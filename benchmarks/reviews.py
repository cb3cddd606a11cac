"""What reviews cost an agent, and how many bytes a run and a resumable stream write: ``python -m benchmarks.reviews``.

The CPU time of a request is a ratio: agents with and without reviews take turns in one process, and the quickest round
of each counts. Bytes are those of the stored run, and the growth of the store's log of changes: the ``-wal`` file of
SQLite, and with ``--postgres URL`` the position in PostgreSQL's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic import BaseModel

from penstock import (
    Agent,
    InMemoryStorage,
    Judge,
    PIIDetector,
    RegexFilterProcessor,
    SQLiteStorage,
    Tool,
    UnicodeNormalizer,
    processor,
)
from penstock.engine import InputContext, ToolResultContext
from penstock.engine.values.frozen import thaw
from penstock.engine.values.stored import StoredRun
from penstock.stores.sqlite.cache import SQLiteCache
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from penstock.workflows.web.shared_streams import SharedReleasedLog

if TYPE_CHECKING:
    from penstock.engine.values.protocols import Cache

ROUNDS, REQUESTS = 40, 8
WORDS = 120
ANSWER = " ".join([f"word{number}" for number in range(WORDS)])
CALL: dict[str, Any] = {"tool_calls": [{"name": "refund", "args": {"order": 7}}]}
PIECES, SECONDS = 100, 3.0  # pieces a second, and how long a stream is

Position = Callable[[], Awaitable[int]]


class Said(BaseModel):
    """The verdict of a judge."""

    bad: bool
    why: str


def refund(order: int) -> str:
    """Refund an order."""
    return f"order {order} is refunded"


def agent(reviews: Any, guards: Sequence[Any], *, approval: bool = False) -> Agent:
    """Return an agent that calls a tool, and then answers."""

    def answer(request: Any) -> Any:
        said = [part for one in request.messages for part in one.parts if part.type == "tool"]
        return ANSWER if said else CALL

    return Agent(ScriptedModel(answer), tools=[Tool(refund, approval=approval)], processors=guards, reviews=reviews)


def some_guards() -> list[Any]:
    """Return guards that do not judge."""
    return [UnicodeNormalizer(), PIIDetector(), RegexFilterProcessor(banned_words=["xyzzy"])]


def judges() -> list[Any]:
    """Return a guard that asks a model about each input and each result."""
    verdict = json.dumps({"bad": False, "why": "It asks for a refund, which is allowed, and nothing else."})
    judge = Judge(ScriptedModel(lambda _: verdict), Said, "Is it bad?")

    @processor(edits="nothing")
    async def judged(ctx: InputContext) -> None:
        await judge.ask(ctx.text, ctx=ctx)

    @processor(edits="nothing")
    async def judged_result(ctx: ToolResultContext) -> None:
        await judge.ask(ctx.text, ctx=ctx)

    return [judged, judged_result]


async def ratios() -> None:
    """Print what requests cost that never wait."""
    print(f"{'CPU of a request':24}{'alone':>10}{'reviews':>10}{'from start':>12}")
    for name, guards in (("no guard", list[Any]), ("three guards", some_guards)):
        made = [
            agent(given, guards()) for given in (None, InMemoryStorage(), Reviews(InMemoryStorage(), from_start=True))
        ]
        best = [float("inf")] * len(made)
        for _ in range(ROUNDS):
            for place, one in enumerate(made):
                began = process_time()
                for _ in range(REQUESTS):
                    await one.generate("Refund order 7")
                best[place] = min(best[place], (process_time() - began) / REQUESTS * 1e6)
        print(f"{name:24}{best[0]:7.0f} µs{best[1] / best[0]:10.3f}{best[2] / best[0]:12.3f}")


def watched(kind: type[Any], *given: Any, **options: Any) -> Any:
    """Return a store with ``largest``: the run with the longest body that it was given."""

    class Watched(kind):  # type: ignore[misc]
        largest: tuple[int, int] = (0, 0)
        saves = 0

        async def save_run(self, run: StoredRun) -> StoredRun:
            body = json.dumps(thaw(dict(run.body)), ensure_ascii=False)
            record = json.dumps(thaw(dict(run.body.get("record", {}))), ensure_ascii=False)
            self.largest = max(self.largest, (len(body.encode()), len(record.encode())))
            self.saves += 1
            saved: StoredRun = await super().save_run(run)
            return saved

    return Watched(*given, **options)


KINDS: dict[str, tuple[Callable[[], list[Any]], bool]] = {
    "three guards": (some_guards, False),
    "three guards, from start": (some_guards, True),
    "a judge, too": (lambda: [*judges(), *some_guards()], False),
    "a judge, too, from start": (lambda: [*judges(), *some_guards()], True),
}


async def runs(name: str, kind: str, store: Any, position: Position) -> None:
    """Print the bytes of a request with an approval: of its body, of the record in it, and those that are written."""
    guards, start = KINDS[kind]
    reviews, run_id = Reviews(store, from_start=start), ""
    await agent(reviews, guards(), approval=True).generate("Refund order 6")  # makes the tables
    store.largest, store.saves, before = (0, 0), 0, await position()
    for _ in range(10):
        run_id = (await agent(reviews, guards(), approval=True).generate("Refund order 7")).run_id
        await reviews.approve(run_id)
        await agent(reviews, guards(), approval=True).resume(run_id)
    written, (body, record) = (await position() - before) // 10, store.largest
    kept = len(json.dumps(thaw(dict((await store.run(run_id)).body)), ensure_ascii=False).encode())
    print(f"{name:12}{kind:28}{store.saves / 10:7.0f}{body:8}{record:8}{kept:8}{written:10}")


class CountedCache:
    """A cache that counts the values that it is given."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self.sets = self.size = 0

    async def get(self, key: str) -> str | None:
        """Return a value."""
        found: str | None = await self._cache.get(key)
        return found

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store a value."""
        self.sets, self.size = self.sets + 1, self.size + len(value.encode())
        await self._cache.set(key, value, ttl=ttl)


async def _pieces() -> AsyncGenerator[bytes]:
    for number in range(int(PIECES * SECONDS)):
        await anyio.sleep(1 / PIECES)
        chunk = {"type": "text-delta", "id": "0", "delta": f"wor{number % 10} "}
        yield f"data: {json.dumps(chunk)}\n\n".encode()


async def streams(name: str, store: Any, position: Position) -> None:
    """Print what a resumable stream writes in a second."""
    cache = CountedCache(store)
    before = await position()
    log = SharedReleasedLog(cast("Cache", cache))
    stream = log.begin((("content-type", "text/event-stream"),))
    await stream.record(_pieces())
    with anyio.move_on_after(5):
        await stream.beyond(stream.last)
    written = await position() - before
    each = [cache.sets / SECONDS, cache.size / SECONDS, written / SECONDS]
    print(f"{name:12}{'a stream, a second':28}{each[0]:7.0f}{each[1]:8.0f}{'':16}{each[2]:10.0f}")


async def in_files() -> None:
    """Print the bytes of runs in files, of which each has its own log."""
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "runs.db"
            async with watched(SQLiteStorage, file) as store:
                await runs("SQLite", kind, store, partial(_size, file))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cache.db"
        cache = SQLiteCache(file)
        await cache.set("warm", "it makes the tables", ttl=1)
        await streams("SQLite", cache, partial(_size, file))
        await cache.close()


async def _size(file: Path) -> int:
    return (await anyio.Path(f"{file}-wal").stat()).st_size


async def in_server(url: str) -> None:
    """Print the bytes of runs and streams in a server."""
    import asyncpg

    from penstock.stores.postgres import PostgresStorage
    from penstock.stores.postgres.state import PostgresState

    connection = await asyncpg.connect(url)

    async def at() -> int:
        return int(await connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))

    for kind in KINDS:
        async with watched(PostgresStorage, url, schema="bench_reviews") as store:
            await runs("PostgreSQL", kind, store, at)
    async with PostgresState(url, schema="bench_reviews") as state:
        await state.cache.set("warm", "it makes the tables", ttl=1)
        await streams("PostgreSQL", state.cache, at)
    await connection.execute("DROP SCHEMA bench_reviews CASCADE")
    await connection.close()


def main() -> int:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reviews", description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="a PostgreSQL server to measure, too")
    given = parser.parse_args()
    anyio.run(ratios)
    print(f"\n{'bytes':40}{'saves':>7}{'body':>8}{'record':>8}{'kept':>8}{'written':>10}")
    anyio.run(in_files)
    if given.postgres:
        anyio.run(in_server, given.postgres)
    return 0


if __name__ == "__main__":
    sys.exit(main())
