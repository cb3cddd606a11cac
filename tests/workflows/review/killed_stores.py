"""The stores of the requests that `kills` kills: a SQLite file for each, or a schema of one PostgreSQL server."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
import asyncpg

from penstock import SQLiteStorage
from penstock.stores.postgres import PostgresStorage
from tests.stores.postgres.servers import Server, running
from tests.workflows.review.schema_check import check_body

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from penstock.engine.values.stored import StoredRun

STARTS = 12  # attempts to start a server on a machine that does much else
LONGEST = 0.6  # seconds, at the most, until the server is restarted


class Place(Protocol):
    """Where the store of one request is."""

    def open(self, log: Callable[[str, str], None]) -> SQLiteStorage | PostgresStorage:
        """Open it, as one process; ``log`` gets a line for each save of a request."""
        ...

    def messages(self) -> int:
        """Return how many messages the memory has."""
        ...

    def contents(self) -> bytes:
        """Return everything that is in it."""
        ...

    def files(self) -> bytes:
        """Return the bytes of the files that it shares with other requests."""
        ...

    def drop(self) -> None:
        """Delete it."""
        ...

    def runs(self) -> list[tuple[str, str]]:
        """Return the status and the id of each request."""
        ...

    def disturb(self, dice: random.Random) -> int:
        """Perhaps begin to restart its server; return the process that does it, or 0."""
        ...

    def recover(self, process: int) -> None:
        """Wait until that process has restarted the server."""
        ...


class _Logged:
    """Writes to the log when a request was saved; stands in front of a store."""

    log: Callable[[str, str], None]
    last: dict[str, StoredRun]

    async def save_run(self, run: StoredRun) -> StoredRun:
        check_body(run)
        saved: StoredRun = await super().save_run(run)  # type: ignore[misc]
        self.log(_kind(run, self.last), f"{saved.status} {saved.id}")
        self.last[run.id] = run
        return saved


class LoggedFile(_Logged, SQLiteStorage):
    """A file that writes to the log."""


class LoggedTables(_Logged, PostgresStorage):
    """Tables that write to the log."""


def _kind(run: StoredRun, last: Mapping[str, StoredRun]) -> str:
    """Return ``renewed`` if a request stands where it stood when it was saved last, with other verdicts; or ``saved``.

    Results of tools that guards of the last stage have yet to read are stored with the next step.
    """
    before = last.get(run.id)
    if before is None or before.status != run.status:
        return "saved"
    return "renewed" if _place_of(run) == _place_of(before) else "saved"


def _place_of(run: StoredRun) -> dict[str, object]:
    return {name: value for name, value in run.body.items() if name not in ("record", "spent", "claim")}


class InFile:
    """A SQLite file in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, log: Callable[[str, str], None]) -> SQLiteStorage:
        """Open the file."""
        store = LoggedFile(str(self._folder / "runs.db"))
        store.log, store.last = log, {}
        return store

    def messages(self) -> int:
        """Count its messages."""
        with closing(sqlite3.connect(self._folder / "runs.db")) as database:
            return int(database.execute("SELECT count(*) FROM penstock_messages").fetchone()[0])

    def contents(self) -> bytes:
        """Return the bytes of the file, and of its log."""
        return b"".join(file.read_bytes() for file in self._folder.glob("runs.db*"))

    def files(self) -> bytes:
        """Return nothing: it shares no file."""
        return b""

    def drop(self) -> None:
        """Do nothing: its folder is deleted."""

    def runs(self) -> list[tuple[str, str]]:
        """Read the table of requests."""
        with closing(sqlite3.connect(self._folder / "runs.db")) as database:
            return database.execute("SELECT status, id FROM penstock_runs").fetchall()

    def disturb(self, dice: random.Random) -> int:
        """Do nothing: there is no server."""
        del dice
        return 0

    def recover(self, process: int) -> None:
        """Do nothing."""


class InServer:
    """A schema of a server.

    Attributes:
        schema: its name.

    Args:
        among: counts the restarts.
        server: the server.
        schema: the name of the schema.
        restarts: how often the server is restarted while processes work: 0 to 1.
    """

    def __init__(self, among: Places, server: Server, schema: str, restarts: float) -> None:
        self._among = among
        self._server = server
        self.schema = schema
        self._restarts = restarts

    def open(self, log: Callable[[str, str], None]) -> PostgresStorage:
        """Open the tables."""
        store = LoggedTables(self._server.url, schema=self.schema, max_connections=3, retry_for=30)
        store.log, store.last = log, {}
        return store

    def messages(self) -> int:
        """Count its messages."""
        return len(self._read("SELECT 1 FROM {schema}.messages"))

    def runs(self) -> list[tuple[str, str]]:
        """Read the table of requests."""
        return [(row[0], row[1]) for row in self._read("SELECT status, id FROM {schema}.runs")]

    def contents(self) -> bytes:
        """Return each row of each table as text."""
        names = self._read("SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'")
        rows = [row for (name,) in names for row in self._read(f"SELECT t::text FROM {{schema}}.{name} t")]  # noqa: S608
        assert rows
        return "\n".join([text for (text,) in rows]).encode()

    def files(self) -> bytes:
        """Return the bytes of the tables of all requests, of the log of changes, and of the server's log."""
        if not self._server.is_our_own:
            return b""
        folder = self._server.folder
        found = [*folder.glob("base/**/*"), *folder.glob("pg_wal/*"), folder / "log"]
        return b"\n".join([file.read_bytes() for file in found if file.is_file()])

    def drop(self) -> None:
        """Delete the schema: a server with many files takes long to start again after a crash."""
        self._read("DROP SCHEMA {schema} CASCADE")

    def disturb(self, dice: random.Random) -> int:
        """Perhaps let the server crash and start again at a random moment."""
        moment = dice.uniform(0, LONGEST)
        if dice.random() >= self._restarts or not self._server.is_our_own:
            return 0
        process = os.fork()
        if process:
            self._among.restarted += 1
            return process
        code = 1
        try:
            time.sleep(moment)
            anyio.run(self._crash)
            code = 0
        finally:
            os._exit(code)

    async def _crash(self) -> None:
        await self._server.stop("immediate")
        for left in reversed(range(STARTS)):
            try:
                await self._server.start()
            except subprocess.SubprocessError:  # it gives up after 10 seconds
                if not left:
                    raise
            else:
                return

    def recover(self, process: int) -> None:
        """Wait for that process, and see where the server runs now."""
        if process:
            assert os.waitpid(process, 0)[1] == 0, "the server did not start again"
            anyio.run(self._server.start)

    def _read(self, sql: str) -> list[tuple[str, ...]]:
        async def read() -> list[tuple[str, ...]]:
            connection = await asyncpg.connect(self._server.url)
            rows = await connection.fetch(sql.replace("{schema}", self.schema))
            await connection.close()
            return [tuple(row) for row in rows]

        return anyio.run(read)


class Places:
    """Makes the places of requests.

    Attributes:
        restarted: how often the server was restarted.
    """

    def __init__(self, server: Server | None, restarts: float) -> None:
        self._server = server
        self._restarts = restarts
        self._made = 0
        self.restarted = 0

    def place(self, folder: Path) -> Place:
        """Return the place of a request."""
        if self._server is None:
            return InFile(folder)
        self._made += 1
        return InServer(self, self._server, f"kills_{self._made}", self._restarts)


@contextmanager
def places(kind: str, restarts: float) -> Generator[Places]:
    """Return what makes a place for each request; ``kind``: ``sqlite`` or ``postgres``, on a server of the tests."""
    if kind == "sqlite":
        yield Places(None, 0.0)
        return
    with running() as server:
        yield Places(server, restarts)


def kill(process: int) -> None:
    """Kill a process at once."""
    os.kill(process, signal.SIGKILL)
