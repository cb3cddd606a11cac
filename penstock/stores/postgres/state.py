"""`PostgresState`: what replicas share, in a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.stores.checks import check_connections
from penstock.stores.postgres._connections import (
    PostgresDatabase,
    ServerConnections,
    check_schema,
    shown_address,
)
from penstock.stores.postgres._ledger import PostgresLedger
from penstock.stores.postgres._migrations import migrate
from penstock.stores.postgres._shared import PostgresBreaker, PostgresCache, PostgresNames, PostgresRateLimit

if TYPE_CHECKING:
    from typing import Self

    from penstock.engine.values.frozen import Values
    from penstock.stores.postgres._connections import Session

_NAME = "PostgresState"


class PostgresState:
    """What replicas of a service share, in a PostgreSQL server (13 or newer): a `SharedState`.

    It connects, and creates its tables and functions, at first use. Each change is one statement, which goes by the
    server's clock. If the server goes away, calls are tried again for a while, and nothing is done twice.

    It runs on asyncio only. Several event loops can use it: each has its own connections.

    Args:
        url: the server: ``postgresql://user:password@host:5432/database``. No error or repr shows it.
        schema: the schema of the tables; it is created if it is missing.
        max_connections: the most connections of one event loop, 1 or more. Default: 10.
        timeout: seconds for one statement, for opening a connection, and for waiting for a free one, 0.001 or more.
        retry_for: seconds in which a call is tried again while the server is away; 0: no retries.
        connect_options: further options of asyncpg's ``create_pool``; see `PostgresStorage`.

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: the extra ``postgres`` is not installed.

    Attributes:
        ledger: a `CostLedger`, for ``ledger=`` of `TokenCostControl`.
        cache: a `LeasingCache`, for ``cache=`` of `ResponseCache`.
        names: a `NameStore`, for ``storage=`` of `ToolSearchProcessor` and `SkillSearchProcessor`.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "penstock",
        max_connections: int = 10,
        timeout: float = 2.0,
        retry_for: float = 3.0,
        connect_options: Values = EMPTY,
    ) -> None:
        shown_address(_NAME, url)
        check_schema(_NAME, schema)
        check_connections(_NAME, max_connections, timeout, retry_for)
        if not is_mapping(cast("object", connect_options)):
            raise OptionError(_NAME, "connect_options", "a value", "a mapping of asyncpg's own options")
        self._database = PostgresDatabase(
            _NAME,
            ServerConnections(url, max_connections, timeout, connect_options, _NAME),
            schema=schema,
            timeout=timeout,
            retry_for=retry_for,
            prepare=self._prepare,
        )
        self.ledger = PostgresLedger(self._database)
        self.cache = PostgresCache(self._database)
        self.names = PostgresNames(self._database)

    def rate_limit(self, name: str, requests: int, per: float) -> PostgresRateLimit:
        """Return a limit of requests, which all replicas with this name share; see `ValkeyState.rate_limit`."""
        return PostgresRateLimit(self._database, name, requests, per)

    def breaker(self, name: str, *, failures: int = 5, within: float = 60.0, pause: float = 30.0) -> PostgresBreaker:
        """Return a circuit breaker, which all replicas with this name share; see `ValkeyState.breaker`."""
        return PostgresBreaker(self._database, name, failures, within, pause)

    async def _prepare(self, session: Session) -> None:
        await migrate(session, "shared", _NAME)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._database.close()

    async def __aenter__(self) -> Self:
        """Return the state; it connects at first use."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    def __repr__(self) -> str:
        """Show no address."""
        return f"{_NAME}()"
