"""Connections to PostgreSQL: addresses without passwords, what errors mean, one pool for each event loop, and attempts.

This is the only module that imports asyncpg, and so asyncio. Errors are distinguished by SQLSTATE
(https://www.postgresql.org/docs/current/errcodes-appendix.html), which the driver's exceptions have as ``sqlstate``.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import deque
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, TypeVarTuple
from urllib.parse import parse_qs, unquote, urlsplit

import anyio

from penstock.engine.values.errors import MissingExtraError, OptionError, StorageError, UsageError
from penstock.engine.values.frozen import Value
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.stores.checks import HIDDEN

_IS_INSTALLED = find_spec("asyncpg") is not None

if TYPE_CHECKING or _IS_INSTALLED:
    import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
    from typing import TypeAlias
    from urllib.parse import SplitResult

    from asyncpg.pool import PoolConnectionProxy

    from penstock.engine.values.frozen import Values

    Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
    Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"


SCHEMES = frozenset({"postgresql", "postgres"})
"""The beginnings of addresses."""

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:@/\[\]]*)(?::[0-9]{1,5})?")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def check_schema(owner: str, schema: object) -> None:
    """Check the name of a schema.

    Raises:
        OptionError: it is not made of 1 to 63 letters, digits and ``_``, or begins with a digit or with ``pg_``.
    """
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema) or schema.lower().startswith("pg_"):
        allowed = "a name of up to 63 ASCII letters, digits and _ that does not begin with a digit or pg_"
        raise OptionError(owner, "schema", schema, allowed)


def shown_address(owner: str, url: object) -> str:
    """Return the hosts and the database of a URL such as ``postgresql://user:password@host:5432/database``.

    Raises:
        OptionError: it is not such a URL. The error does not show it, since any part of it may be a password.
    """
    if not isinstance(url, str):
        _refuse(owner)
    try:
        parts = urlsplit(url)
    except ValueError:
        _refuse(owner)
    hosts = parts.netloc.rpartition("@")[2]
    if not _is_read_rightly(parts, hosts):
        _refuse(owner)
    named = parse_qs(parts.query)
    database = unquote(parts.path[1:]) or next(iter(named.get("database", named.get("dbname", []))), "")
    return f"{hosts or ','.join(named.get('host', [])) or 'the default host'}/{database}"


def _is_read_rightly(parts: SplitResult, hosts: str) -> bool:
    """Tell whether hosts and database cannot hold a piece of a password that was not percent-encoded."""
    is_url = parts.scheme in SCHEMES and not parts.fragment
    return is_url and "@" not in parts.path and all(_HOST.fullmatch(host) for host in hosts.split(","))


def _refuse(owner: str) -> NoReturn:
    allowed = "a URL such as postgresql://user:password@host:5432/database, its password percent-encoded"
    raise OptionError(owner, "url", HIDDEN, allowed) from None


AGAIN = frozenset(
    {
        "25P03",  # the session was idle in a transaction for too long: this process was held up
        "40001",  # a transaction could not be serialised
        "40P01",  # a deadlock was found
        "53300",  # the server has too many connections
        "57P01",  # the server is being stopped
        "57P02",  # the server crashed
        "57P03",  # the server is starting, or cannot take connections now
        "57P05",  # the session was idle for too long
    }
)
"""Temporary errors: the same work is tried again on another connection. So are all errors of class 08, connection
errors."""

_SAID = {
    "28000": "it does not accept this user; see its pg_hba.conf",
    "28P01": "it refuses the user or the password",
    "3D000": "there is no such database; create it first",
    "3F000": "the schema was deleted; close the storage, and it is created again",
    "42501": "the user lacks a right (tables are created at first use: CREATE on the database, or on an existing "
    "schema, and CREATE EXTENSION vector for vectors)",
    "42P01": "a table was deleted; close the storage, and it is created again",
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "53300": "it has too many connections; lower max_connections of the storages, or raise the server's",
    "54000": "an id is longer than an index can hold (about 2,700 bytes)",
    "25006": "it is read-only: a standby, or a read-only database",
}

_KEPT_NOTHING = "an id or a name holds what PostgreSQL cannot keep (a NUL character, or half a surrogate pair)"
_CLASSES = {
    "08": "it cannot be reached, or the connection broke",
    "22": _KEPT_NOTHING,
    "40": "other transactions were in the way at every attempt",
    "57": "it is not taking connections now",
}
_WITH_DATA = frozenset({"22", "23"})


def state(error: BaseException) -> str:
    """Return the SQLSTATE of an error; an empty text if it has none."""
    found: object = getattr(error, "sqlstate", None)
    return found if isinstance(found, str) else ""


def is_temporary(error: BaseException) -> bool:
    """Tell whether the same work may succeed later: the server was away, or other transactions were in the way."""
    code = state(error)
    if code:
        return code in AGAIN or code.startswith("08")
    return isinstance(error, (OSError, EOFError)) and not isinstance(error, TimeoutError)


def quotes_data(error: BaseException) -> bool:
    """Tell whether an error's text may quote stored content, so that it must not become a ``__cause__``.

    That is true of the classes 22 (data) and 23 (constraints), and of the driver's own errors about values.
    """
    code = state(error)
    return code[:2] in _WITH_DATA or (not code and isinstance(error, ValueError))


def problem(error: BaseException, timeout: float) -> str:
    """Return the failure in words, without stored content.

    Args:
        error: the exception.
        timeout: the seconds that a statement may take.
    """
    code = state(error)
    if isinstance(error, TimeoutError) or code == "57014":
        return f"it took longer than {timeout:g} s (timeout=), or no connection was free (max_connections=)"
    if type(error).__name__ == "ClientConfigurationError":  # the driver's own; it never quotes a password
        return f"its URL, or an option of the driver, is wrong: {error}"
    if not code and isinstance(error, ValueError):
        return _KEPT_NOTHING
    said = _SAID.get(code) or _CLASSES.get(code[:2])
    if said is None:
        said = _CLASSES["08"] if isinstance(error, OSError) else "it failed"
    return f"{said} ({type(error).__name__}{f', SQLSTATE {code}' if code else ''})"


DRIVER_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    UnicodeError,
    *((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) if _IS_INSTALLED else ()),
)
"""What the driver raises where the server, the network or a value is at fault."""

AT_THE_END = 5.0
"""Seconds in which a connection that is given back must answer, or it is dropped; the same for a pool that is
closed."""


@dataclass(eq=False, slots=True)
class LoopConnections:
    """The connections of a storage in one event loop.

    Attributes:
        opening: held while the pool is opened.
        preparing: held while the tables are created.
        pool: the pool, once it is open.
        is_ready: whether the tables exist.
    """

    opening: anyio.Lock = field(default_factory=anyio.Lock)
    preparing: anyio.Lock = field(default_factory=anyio.Lock)
    pool: Pool | None = None
    is_ready: bool = False


class ServerConnections:
    """Connections to one server, opened when needed, up to a limit for each event loop.

    Args:
        url: the address of the server.
        most: the largest number of connections.
        timeout: seconds to open a connection, to wait for a free one, and for one statement.
        options: further options of `asyncpg.create_pool`: ``ssl``, ``password`` (or a function),
            ``statement_cache_size`` …
        owner: the class whose connections they are, for errors.

    Raises:
        MissingExtraError: asyncpg is not installed.
    """

    def __init__(self, url: str, most: int, timeout: float, options: Values, owner: str = "PostgresStorage") -> None:
        if not _IS_INSTALLED:
            raise MissingExtraError(owner, "postgres")
        self._owner = owner
        self._url = url
        self._most = most
        self._timeout = timeout
        self._options = options
        self._places: dict[asyncio.AbstractEventLoop, LoopConnections] = {}

    def place(self) -> LoopConnections:
        """Return the connections of the running event loop; drop those of closed loops.

        Raises:
            UsageError: the event loop is not asyncio's.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            cure = ": run on asyncio, or use SQLiteStorage" if self._owner == "PostgresStorage" else ""
            raise UsageError(
                f"{self._owner} runs on asyncio alone, like its driver asyncpg, not on trio{cure}"
            ) from None
        found = self._places.get(loop)
        if found is None:
            self._places = {each: place for each, place in self._places.items() if not each.is_closed()}
            found = self._places[loop] = LoopConnections()
        return found

    async def _pool(self, place: LoopConnections) -> Pool:
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
    async def connection(self, place: LoopConnections) -> AsyncGenerator[Connection]:
        """Yield a connection, and take it back in every case.

        Raises:
            TimeoutError: no connection could be opened, or became free, in time.
            ConnectionError: it broke, or the pool was closed meanwhile; the driver's own exceptions for this are
                converted.
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
        except asyncpg.InternalClientError as error:  # when the server closes the connection between two statements
            _drop(connection)
            raise ConnectionResetError from error
        finally:
            with anyio.CancelScope(shield=True), suppress(*DRIVER_ERRORS):  # a broken one is dropped by the pool
                await pool.release(connection, timeout=AT_THE_END)

    async def close(self) -> None:
        """Close the running event loop's pool when its connections are free, or after `AT_THE_END` seconds."""
        place = self.place()
        pool, place.pool, place.is_ready = place.pool, None, False
        if pool is None:
            return
        with anyio.move_on_after(AT_THE_END, shield=True), suppress(*DRIVER_ERRORS):
            await pool.close()
        pool.terminate()


async def _leave(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Reset nothing: no session keeps a setting, a listener or a cursor, so the round trip is saved."""


@asynccontextmanager
async def transaction(connection: Connection, timeout: float, first: str = "") -> AsyncGenerator[str]:
    """Begin a transaction; commit it, or roll it back after any exception, including a cancellation.

    Args:
        connection: the connection.
        timeout: seconds for each statement.
        first: a statement that is sent along with the beginning; the server's answer to it is yielded.

    Raises:
        InterfaceError: asyncpg's: it could not be committed.
    """
    limit = max(1, round(timeout * 1000))
    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = {limit}"
    try:
        yield await connection.execute(f"{begin}; SET LOCAL idle_in_transaction_session_timeout = {limit}; {first}")
        await _commit(connection)
    except BaseException:
        await _roll_back(connection)
        raise


async def _commit(connection: Connection) -> None:
    told = await connection.execute("COMMIT")
    if told != "COMMIT":  # for a transaction in which something failed, the server answers ROLLBACK
        raise asyncpg.InterfaceError("a transaction could not be committed")


async def _roll_back(connection: Connection) -> None:
    """End a transaction in bounded time; if that fails, end the connection."""
    with anyio.CancelScope(shield=True):
        try:
            if not _is_lost(connection):
                await connection.execute("ROLLBACK", timeout=AT_THE_END)
        except DRIVER_ERRORS:  # the exception before says more
            _drop(connection)
        except BaseException:
            _drop(connection)
            raise


def _drop(connection: Connection) -> None:
    if not _is_lost(connection):
        connection.terminate()


def _is_lost(connection: Connection) -> bool:
    """Tell whether a connection is closed. One that broke has left its pool, and cannot be asked."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True


T = TypeVar("T")
Args = TypeVarTuple("Args")

FIRST_WAIT = 0.02
LONGEST_WAIT = 1.0
"""The longest wait between two attempts, in seconds: waits double up to it, and are shortened by up to a half at
random."""


class Session:
    """A connection in use. In statements, ``{schema}`` stands for the storage's schema."""

    __slots__ = ("_connection", "schema")

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self.schema = f'"{schema}"'

    def _named(self, sql: str) -> str:
        return sql.replace("{schema}", self.schema)

    async def rows(self, sql: str, *args: Value) -> Sequence[Values]:
        """Return the rows of a statement's result."""
        return [dict(row.items()) for row in await self._connection.fetch(self._named(sql), *args)]

    async def row(self, sql: str, *args: Value) -> Values | None:
        """Return the first row of a statement's result, or None."""
        found = await self._connection.fetchrow(self._named(sql), *args)
        return None if found is None else dict(found.items())

    async def value(self, sql: str, *args: Value) -> Value:
        """Return the first value of the first row, or None."""
        return await self._connection.fetchval(self._named(sql), *args)

    async def run(self, sql: str, *args: Value, timeout: float | None = None) -> None:
        """Run a statement; without arguments, several. ``timeout`` replaces the storage's own, in seconds."""
        await self._connection.execute(self._named(sql), *args, timeout=timeout)

    async def run_each(self, sql: str, args: Iterable[Sequence[Value]]) -> None:
        """Run a statement with each of several rows of arguments."""
        await self._connection.executemany(self._named(sql), args)


_CHANGE = """
    INSERT INTO {schema}.writers AS kept (id, last_change, at) VALUES ('{writer}', '{name}', now())
    ON CONFLICT (id) DO UPDATE SET last_change = excluded.last_change, at = excluded.at
    WHERE kept.last_change <> excluded.last_change
"""
"""Names the change as the writer's last, in the transaction that makes it. If an earlier attempt was committed, no row
is changed; if it is still being committed, this waits for it."""

_WAS_MADE = "INSERT 0 0"


class _Change(Generic[T]):
    """A change that may take several attempts, and is made once. Lives as long as the call that makes it.

    Attributes:
        writer: the writer that makes it; no other change has this writer meanwhile.
        name: names the change.
        result: the result of the last attempt; a list of one item, or empty.
        is_in_doubt: whether the last attempt may have been committed, though nobody heard of it.
    """

    __slots__ = ("is_in_doubt", "name", "result", "writer")

    def __init__(self, writer: str) -> None:
        self.writer = writer
        self.name = RANDOM_IDS.next()
        self.result: list[T] = []
        self.is_in_doubt = False

    def statement(self, schema: str) -> str:
        """Return the statement with which an attempt begins."""
        sql = _CHANGE.replace("{schema}", f'"{schema}"')
        return sql.replace("{writer}", self.writer).replace("{name}", self.name)


class _Writers:
    """The names of the writers of one process, as many as it has made changes at the same time."""

    __slots__ = ("_idle", "_process")

    def __init__(self) -> None:
        self._process = 0
        self._idle: deque[str] = deque()

    @contextmanager
    def change(self) -> Generator[_Change[Value]]:
        """Yield a change with a writer of its own. A forked process has its own writers."""
        if self._process != os.getpid():
            self._process, self._idle = os.getpid(), deque()
        idle = self._idle
        try:
            writer = idle.pop()
        except IndexError:
            writer = RANDOM_IDS.next()
        change = _Change[Value](writer)
        try:
            yield change
        finally:
            if not change.is_in_doubt:  # otherwise it may still be being committed, and others would wait for it
                idle.append(writer)


class PostgresDatabase:
    """Runs work on a server, on one connection, and again after temporary errors.

    A change is made once: each attempt names it in its transaction, so that the next one sees whether it was committed.

    Args:
        label: names the storage in errors, without passwords.
        connections: the connections.
        schema: the schema of the tables.
        timeout: seconds for one statement.
        retry_for: seconds after the first attempt in which new attempts begin.
        prepare: creates the tables, in a transaction of the session that it is given; it may be called again after it
            was committed.
    """

    def __init__(
        self,
        label: str,
        connections: ServerConnections,
        *,
        schema: str,
        timeout: float,
        retry_for: float,
        prepare: Callable[[Session], Awaitable[None]],
    ) -> None:
        self.label = label
        self._connections = connections
        self._schema = schema
        self._timeout = timeout
        self._retry_for = retry_for
        self._prepare = prepare
        self._writers = _Writers()

    async def read(self, work: Callable[[Session, *Args], Awaitable[T]], *args: *Args) -> T:
        """Return the result of the work; each of its statements is a transaction.

        Raises:
            StorageError: it failed, or could not be done in time.
        """
        return await self._tried(partial(self._read, lambda session: work(session, *args)))

    async def read_in_transaction(self, work: Callable[[Session, *Args], Awaitable[T]], *args: *Args) -> T:
        """Return the result of the work; its statements are one transaction, for which it may set options.

        Raises:
            StorageError: it failed, or could not be done in time.
        """
        return await self._tried(partial(self._read_in_transaction, lambda session: work(session, *args)))

    async def write(self, work: Callable[[Session, *Args], Awaitable[T]], *args: *Args) -> T:
        """Return the result of the work, once its one transaction is committed. It is committed once.

        Raises:
            StorageError: it failed, or could not be done in time; the message says if it may have been done.
        """
        with self._writers.change() as change:
            return await self._tried(partial(self._write, change, lambda session: work(session, *args)), change)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._connections.close()

    async def _read(self, work: Callable[[Session], Awaitable[T]], place: LoopConnections) -> T:
        async with self._connections.connection(place) as connection:
            return await work(Session(connection, self._schema))

    async def _read_in_transaction(self, work: Callable[[Session], Awaitable[T]], place: LoopConnections) -> T:
        async with self._connections.connection(place) as connection, transaction(connection, self._timeout):
            return await work(Session(connection, self._schema))

    async def _write(self, change: _Change[T], work: Callable[[Session], Awaitable[T]], place: LoopConnections) -> T:
        """Make a change, unless an earlier attempt has made it."""
        first = change.statement(self._schema)
        async with (
            self._connections.connection(place) as connection,
            transaction(connection, self._timeout, first) as told,
        ):
            if not (told == _WAS_MADE and change.result):
                change.is_in_doubt = False
                change.result = [await work(Session(connection, self._schema))]
                change.is_in_doubt = True  # from here on it is committed
        change.is_in_doubt = False
        return change.result[0]

    async def _look_up(self, change: _Change[T], place: LoopConnections) -> bool:
        """Return whether a change that is in doubt was made; if not, it is not made any more."""
        first = change.statement(self._schema)
        async with (
            self._connections.connection(place) as connection,
            transaction(connection, self._timeout, first) as told,
        ):
            return told == _WAS_MADE

    async def _tried(self, attempt: Callable[[LoopConnections], Awaitable[T]], change: _Change[T] | None = None) -> T:
        """Attempt the work until it is done, an error is not temporary, or the time is up."""
        until = anyio.current_time() + self._retry_for
        wait = FIRST_WAIT
        while True:
            place = self._connections.place()
            try:
                await self._make_ready(place)
                return await attempt(place)
            except DRIVER_ERRORS as error:
                if anyio.current_time() + wait > until or not is_temporary(error):
                    if change is not None and change.is_in_doubt and await self._was_made(change, place):
                        return change.result[0]
                    raise self._told(error) from (None if quotes_data(error) else error)
            await anyio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - so that waiting tasks do not retry at the same time
            wait = min(wait * 2, LONGEST_WAIT)

    async def _was_made(self, change: _Change[T], place: LoopConnections) -> bool:
        """Return whether a change was made whose last attempt is in doubt, now that there is no time for another.

        Raises:
            StorageError: the server cannot be asked.
        """
        try:
            return await self._look_up(change, place)
        except DRIVER_ERRORS as error:
            told = "the connection broke while a change was committed: it may be stored or not; read it again"
            raise StorageError(self.label, told) from (None if quotes_data(error) else error)

    async def _make_ready(self, place: LoopConnections) -> None:
        """Create the tables if needed, once for all tasks that wait for them."""
        if place.is_ready:
            return
        async with place.preparing:
            if not place.is_ready:
                await self._read_in_transaction(self._prepare, place)
                place.is_ready = True

    def _told(self, error: BaseException) -> StorageError:
        return StorageError(self.label, problem(error, self._timeout))
