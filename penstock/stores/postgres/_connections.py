"""Pools of connections, one for each event loop; it alone knows asyncpg, and so asyncio, and it knows no table."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import MissingExtraError, UsageError

_IS_INSTALLED = find_spec("asyncpg") is not None

if TYPE_CHECKING or _IS_INSTALLED:
    import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import TypeAlias

    from asyncpg.pool import PoolConnectionProxy

    from penstock.engine.values.frozen import Value, Values

    Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
    Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"

DRIVER_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, UnicodeError)
if _IS_INSTALLED:
    DRIVER_ERRORS += (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the driver raises where the server, the network or a value is at fault."""

AT_THE_END = 5.0
"""Seconds in which a connection that is given back must have answered, or it is dropped; a pool that closes, too."""


@dataclass(eq=False, slots=True)
class Place:
    """What a store has in one event loop.

    Attributes:
        opening: held while the pool is opened.
        preparing: held while the tables are made.
        pool: the pool, once it is open.
        is_ready: whether the tables are there.
    """

    opening: anyio.Lock = field(default_factory=anyio.Lock)
    preparing: anyio.Lock = field(default_factory=anyio.Lock)
    pool: Pool | None = None
    is_ready: bool = False


class Connections:
    """Connections to one server, opened as they are needed, at most so many in an event loop.

    Args:
        url: where the server is.
        most: how many connections there may be at most.
        timeout: seconds for a connection to be made or to become free, and for one statement.
        options: more for `asyncpg.create_pool`: ``ssl``, ``password`` (a function, too), ``statement_cache_size`` …

    Raises:
        MissingExtraError: asyncpg is not installed.
    """

    def __init__(self, url: str, most: int, timeout: float, options: Values) -> None:
        if not _IS_INSTALLED:
            raise MissingExtraError("PostgresStorage", "postgres")
        self._url = url
        self._most = most
        self._timeout = timeout
        self._options = options
        self._places: dict[asyncio.AbstractEventLoop, Place] = {}

    def place(self) -> Place:
        """Return what there is in the running event loop; what was in loops that are closed is dropped.

        Raises:
            UsageError: the loop is not asyncio's.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            cure = "run on asyncio, or take SQLiteStorage"
            raise UsageError(
                f"PostgresStorage runs on asyncio alone, as its driver asyncpg does, not on trio: {cure}"
            ) from None
        found = self._places.get(loop)
        if found is None:
            self._places = {each: place for each, place in self._places.items() if not each.is_closed()}
            found = self._places[loop] = Place()
        return found

    async def _pool(self, place: Place) -> Pool:
        async with place.opening:
            if place.pool is None:
                options: dict[str, Value] = {
                    "min_size": 0,
                    "max_size": self._most,
                    "timeout": self._timeout,
                    "command_timeout": self._timeout,
                    "reset": _leave,
                    **self._options,
                }
                settings = options.get("server_settings", {})
                options["server_settings"] = {"application_name": "penstock", **settings}
                place.pool = await asyncpg.create_pool(self._url, **options)
            return place.pool

    @asynccontextmanager
    async def connection(self, place: Place) -> AsyncGenerator[Connection]:
        """Give a connection, and take it back whatever happens.

        Raises:
            TimeoutError: none could be made or became free in time.
            ConnectionError: it broke, or the pool was closed meanwhile; also where the driver has other words for it.
        """
        pool = await self._pool(place)
        try:
            with anyio.fail_after(self._timeout):
                connection = await pool.acquire()
        except asyncpg.InterfaceError as error:
            if place.pool is pool:
                raise
            raise ConnectionAbortedError from error
        try:
            yield connection
        except asyncpg.InterfaceError as error:
            if not _is_lost(connection):
                raise
            raise ConnectionResetError from error
        except asyncpg.InternalClientError as error:  # so it is where the server says good-bye between two statements
            _drop(connection)
            raise ConnectionResetError from error
        finally:
            with anyio.CancelScope(shield=True), suppress(*DRIVER_ERRORS):  # a broken one is dropped by the pool
                await pool.release(connection, timeout=AT_THE_END)

    async def close(self) -> None:
        """Close the running event loop's pool, once its connections are free, or at last without waiting."""
        place = self.place()
        pool, place.pool, place.is_ready = place.pool, None, False
        if pool is None:
            return
        with anyio.move_on_after(AT_THE_END, shield=True), suppress(*DRIVER_ERRORS):
            await pool.close()
        pool.terminate()


async def _leave(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Reset nothing: no session is left with a setting, a listener or a cursor, so the question is spared."""


@asynccontextmanager
async def transaction(connection: Connection, timeout: float) -> AsyncGenerator[None]:
    """Begin a transaction; commit it, or roll it back if something was raised, a cancellation included.

    Raises:
        InterfaceError: asyncpg's: it could not be committed.
    """
    limit = max(1, round(timeout * 1000))
    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = {limit}"
    try:
        await connection.execute(f"{begin}; SET LOCAL idle_in_transaction_session_timeout = {limit}")
        yield
        await _commit(connection)
    except BaseException:
        await _roll_back(connection)
        raise


async def _commit(connection: Connection) -> None:
    told = await connection.execute("COMMIT")
    if told != "COMMIT":  # the server's word for a transaction in which something failed is ROLLBACK
        raise asyncpg.InterfaceError("a transaction could not be committed")


async def _roll_back(connection: Connection) -> None:
    """End a transaction that is not wanted, in bounded time; where that is not to be had, end the connection."""
    with anyio.CancelScope(shield=True):
        try:
            if not _is_lost(connection):
                await connection.execute("ROLLBACK", timeout=AT_THE_END)
        except DRIVER_ERRORS:  # what was raised before says more
            _drop(connection)
        except BaseException:
            _drop(connection)
            raise


def _drop(connection: Connection) -> None:
    if not _is_lost(connection):
        connection.terminate()


def _is_lost(connection: Connection) -> bool:
    """Tell whether a connection is closed; one that broke has left its pool, which does not let it be asked."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True
