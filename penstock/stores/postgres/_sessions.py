"""A connection in use, and how often a piece of work is tried on one; it knows no table and no driver."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

import anyio

from penstock.engine.values.errors import StorageError
from penstock.stores.postgres._connections import DRIVER_ERRORS, transaction
from penstock.stores.postgres._failures import passes, problem, quotes_data

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from penstock.engine.values.frozen import Value, Values
    from penstock.stores.postgres._connections import Connection, Connections, Place

T = TypeVar("T")

FIRST_WAIT = 0.02
LONGEST_WAIT = 1.0
"""Seconds between two attempts: the first wait, doubled each time up to the longest, and up to half of it at random."""


class Session:
    """A connection in use. In statements, ``{schema}`` stands for the store's schema."""

    __slots__ = ("_connection", "schema")

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self.schema = f'"{schema}"'

    def _named(self, sql: str) -> str:
        return sql.replace("{schema}", self.schema)

    async def rows(self, sql: str, *args: Value) -> Sequence[Values]:
        """Return what a statement gives."""
        return [dict(row.items()) for row in await self._connection.fetch(self._named(sql), *args)]

    async def row(self, sql: str, *args: Value) -> Values | None:
        """Return the first row that a statement gives, or None."""
        found = await self._connection.fetchrow(self._named(sql), *args)
        return None if found is None else dict(found.items())

    async def value(self, sql: str, *args: Value) -> Value:
        """Return the first value of the first row that a statement gives, or None."""
        return await self._connection.fetchval(self._named(sql), *args)

    async def run(self, sql: str, *args: Value, timeout: float | None = None) -> None:
        """Run a statement; without values, several of them. ``timeout``: in place of the store's, in seconds."""
        await self._connection.execute(self._named(sql), *args, timeout=timeout)

    async def run_each(self, sql: str, args: Iterable[Sequence[Value]]) -> None:
        """Run a statement with each of some rows of values."""
        await self._connection.executemany(self._named(sql), args)


class Database:
    """Runs pieces of work on a server, each on one connection, and again where what hindered it passes.

    So a piece of work may have been done before, by an attempt of which nobody heard the end: it must bear that.

    Args:
        label: what the store is called in errors, without passwords.
        connections: where connections come from.
        schema: the schema that holds the tables.
        timeout: seconds for one statement.
        retry_for: for how many seconds work is begun again after its first attempt.
        prepare: makes the tables, with the sessions it is given for single transactions.
    """

    def __init__(
        self,
        label: str,
        connections: Connections,
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

    async def read(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Return what the work gives; each of its statements is a transaction of its own.

        Raises:
            StorageError: it could not be done in time.
        """
        return await self._tried(self._read, work)

    async def write(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Return what the work gives, all of it in one transaction, once that is committed.

        Raises:
            StorageError: it could not be done in time.
        """
        return await self._tried(self._write, work)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._connections.close()

    async def _read(self, place: Place, work: Callable[[Session], Awaitable[T]]) -> T:
        async with self._connections.connection(place) as connection:
            return await work(Session(connection, self._schema))

    async def _write(self, place: Place, work: Callable[[Session], Awaitable[T]]) -> T:
        async with self._connections.connection(place) as connection, transaction(connection, self._timeout):
            return await work(Session(connection, self._schema))

    async def _tried(
        self,
        attempt: Callable[[Place, Callable[[Session], Awaitable[T]]], Awaitable[T]],
        work: Callable[[Session], Awaitable[T]],
    ) -> T:
        """Attempt the work until it is done, or what hinders it does not pass, or the time is over."""
        until = anyio.current_time() + self._retry_for
        wait = FIRST_WAIT
        while True:
            place = self._connections.place()
            try:
                await self._make_ready(place)
                return await attempt(place, work)
            except DRIVER_ERRORS as error:
                if anyio.current_time() + wait > until or not passes(error):
                    raise self._told(error) from (None if quotes_data(error) else error)
            await anyio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - so that waiters do not march in step
            wait = min(wait * 2, LONGEST_WAIT)

    async def _make_ready(self, place: Place) -> None:
        """See that the tables are there, once for all who wait for them."""
        if place.is_ready:
            return
        async with place.preparing:
            if not place.is_ready:
                await self._write(place, self._prepare)
                place.is_ready = True

    def _told(self, error: BaseException) -> StorageError:
        return StorageError(self.label, problem(error, self._timeout))
