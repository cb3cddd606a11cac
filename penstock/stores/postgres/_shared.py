"""`PostgresCache`, `PostgresNames`, `PostgresRateLimit` and `PostgresBreaker`: what replicas share beside costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.stores.checks import check_breaker, check_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.shared import LeaseState
    from penstock.stores.postgres._connections import PostgresDatabase, Session

_GET = "SELECT value FROM {schema}.shared_texts WHERE key = $1 AND (until IS NULL OR until > clock_timestamp())"
_SET = """
    INSERT INTO {schema}.shared_texts VALUES ($1, $2, clock_timestamp() + $3::double precision * interval '1 second')
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until
"""
_CLEAN = """
    DELETE FROM {schema}.shared_texts WHERE key IN (
        SELECT key FROM {schema}.shared_texts WHERE until <= now() ORDER BY until LIMIT 20 FOR UPDATE SKIP LOCKED
    )
"""
_LEASE = "SELECT {schema}.lease_take($1, $2, $3)"
_END = "DELETE FROM {schema}.shared_leases WHERE key = $1 AND holder = $2"
_USELESS = """
    UPDATE {schema}.shared_leases SET holder = '', until = clock_timestamp() + interval '1 second'
    WHERE key = $1 AND holder = $2
"""
_NAMES = """
    UPDATE {schema}.shared_names SET until = clock_timestamp() + $2::double precision * interval '1 second'
    WHERE owner = $1 AND (until IS NULL OR until > clock_timestamp()) RETURNING names
"""
_ADD_NAMES = """
    INSERT INTO {schema}.shared_names AS n
    VALUES ($1, $2, clock_timestamp() + $3::double precision * interval '1 second')
    ON CONFLICT (owner) DO UPDATE SET until = excluded.until, names = CASE
        WHEN n.until <= clock_timestamp() THEN excluded.names
        ELSE n.names || ARRAY(
            SELECT name FROM unnest(excluded.names) WITH ORDINALITY AS new (name, place)
            WHERE name <> ALL (n.names) ORDER BY place) END
"""
_TAKE = "SELECT {schema}.rate_take($1, $2, $3)"
_CIRCUIT = "SELECT {schema}.circuit_ask($1, $2, $3, $4, $5)"
_CLOSE = "DELETE FROM {schema}.circuits WHERE key = $1"
_IS_OPEN = "SELECT EXISTS (SELECT FROM {schema}.circuits WHERE key = $1 AND opened IS NOT NULL)"

_CLEANED_EVERY = 50
"""After so many texts that it stored, a cache deletes some that have expired."""


async def value_of(database: PostgresDatabase, sql: str, *args: Value) -> Value:
    """Return the first value of a statement that may be repeated."""

    async def work(session: Session) -> Value:
        return await session.value(sql, *args)

    return await database.read(work)


class PostgresCache:
    """A `LeasingCache` in a PostgreSQL server."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._stored = 0

    async def get(self, key: str) -> str | None:
        """Return the value stored under the key, or None."""
        found: str | None = await value_of(self._database, _GET, key)
        return found

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store the value in place of an earlier one; for ``ttl`` seconds if that is given."""
        await value_of(self._database, _SET, key, value, ttl)
        self._stored += 1
        if self._stored % _CLEANED_EVERY == 0:
            await value_of(self._database, _CLEAN)

    async def lease(self, key: str, holder: str, *, seconds: float) -> LeaseState:
        """Ask for the lease of a key; see `LeasingCache.lease`."""
        found: LeaseState = await value_of(self._database, _LEASE, key, holder, float(seconds))
        return found

    async def end_lease(self, key: str, holder: str, *, useless: bool = False) -> None:
        """Give a lease back, if the holder has it; see `LeasingCache.end_lease`."""
        await value_of(self._database, _USELESS if useless else _END, key, holder)


class PostgresNames:
    """A `NameStore` in a PostgreSQL server."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def names(self, owner: str, *, ttl: float | None) -> Sequence[str]:
        """Return the names of an owner, in the order in which they were added."""
        found: list[str] | None = await value_of(self._database, _NAMES, owner, ttl)
        return found or []

    async def add_names(self, owner: str, names: Sequence[str], *, ttl: float | None) -> None:
        """Add names to those of an owner."""
        await value_of(self._database, _ADD_NAMES, owner, list(names), ttl)


class PostgresRateLimit:
    """A `RateLimiter` in a PostgreSQL server."""

    def __init__(self, database: PostgresDatabase, name: str, requests: int, per: float) -> None:
        check_rate("PostgresState", requests, per)
        self._database = database
        self._name = name
        self._figures = (float(per) / requests, float(per))

    async def take(self, client: str) -> float:
        """Count a request of a client; return 0, or after how many seconds it may try again."""
        found: float = await value_of(self._database, _TAKE, f"{self._name}/{client}", *self._figures)
        return found


class PostgresBreaker:
    """A `Breaker` in a PostgreSQL server."""

    def __init__(self, database: PostgresDatabase, name: str, failures: int, within: float, pause: float) -> None:
        check_breaker("PostgresState", failures, within, pause)
        self._database = database
        self._name = name
        self._options = (failures, float(within), float(pause))
        self.pause = pause

    async def failed(self, model: str) -> bool:
        """Count a failed call; return whether it may be retried."""
        return await self._ask(_CIRCUIT, model, True, *self._options)  # noqa: FBT003 - an argument of the statement

    async def admits(self, model: str) -> bool:
        """Return whether a first call may be made; of an open circuit, one after each pause, over all replicas."""
        return await self._ask(_CIRCUIT, model, False, *self._options)  # noqa: FBT003 - see `failed`

    async def succeeded(self, model: str) -> None:
        """Close the circuit."""
        await self._ask(_CLOSE, model)

    async def is_open(self, model: str) -> bool:
        """Return whether the circuit is open."""
        return await self._ask(_IS_OPEN, model)

    async def _ask(self, sql: str, model: str, *args: Value) -> bool:
        return bool(await value_of(self._database, sql, f"{self._name}/{model}", *args))
