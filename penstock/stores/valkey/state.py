"""`ValkeyState`: what replicas share, in a Valkey server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.stores.checks import check_connections
from penstock.stores.valkey._cache import ValkeyCache, ValkeyNames
from penstock.stores.valkey._connections import ValkeyServer, check_url
from penstock.stores.valkey._ledger import ValkeyLedger
from penstock.stores.valkey._limits import ValkeyBreaker, ValkeyRateLimit

if TYPE_CHECKING:
    from typing import Self

    from penstock.engine.values.frozen import Values

_NAME = "ValkeyState"
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class ValkeyState:
    """What replicas of a service share, in a Valkey server (or Redis 7 or newer): a `SharedState`.

    Each change is one script, which goes by the server's clock. If the server goes away, calls are tried again for a
    while, and nothing is done twice. A budget survives a restart of the server only if it keeps a file of all changes
    (``appendonly yes``, and ``appendfsync always`` for a crash).

    It runs on asyncio only. Several event loops can use it: each has its own connections.

    Args:
        url: the server: ``valkey://user:password@host:6379/0``, ``valkeys://`` for TLS, ``unix:///path`` for a socket.
            No error or repr shows it.
        prefix: what all keys begin with.
        max_connections: the most connections of one event loop, 1 or more. Default: 10.
        timeout: seconds for one answer, for opening a connection, and for waiting for a free one, 0.001 or more.
        retry_for: seconds in which a call is tried again while the server is away; 0: no retries.
        connect_options: further options of `valkey.asyncio.Valkey`: ``ssl_ca_certs``, ``credential_provider`` …

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: the extra ``valkey`` is not installed.

    Attributes:
        ledger: a `CostLedger`, for ``ledger=`` of `TokenCostControl`.
        cache: a `LeasingCache`, for ``cache=`` of `ResponseCache`.
        names: a `NameStore`, for ``storage=`` of `ToolSearchProcessor` and `SkillSearchProcessor`.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "penstock",
        max_connections: int = 10,
        timeout: float = 2.0,
        retry_for: float = 3.0,
        connect_options: Values = EMPTY,
    ) -> None:
        check_url(_NAME, url)
        if not isinstance(cast("object", prefix), str) or not _PREFIX.fullmatch(prefix):
            raise OptionError(_NAME, "prefix", prefix, "up to 64 ASCII letters, digits, and _ . : -")
        check_connections(_NAME, max_connections, timeout, retry_for)
        self._server = ValkeyServer(
            _NAME, url, most=max_connections, timeout=timeout, retry_for=retry_for, options=connect_options
        )
        self._prefix = prefix
        self.ledger = ValkeyLedger(self._server, prefix)
        self.cache = ValkeyCache(self._server, prefix)
        self.names = ValkeyNames(self._server, prefix)

    def rate_limit(self, name: str, requests: int, per: float) -> ValkeyRateLimit:
        """Return a limit of requests, which all replicas with this name share.

        Args:
            name: tells it from other limits.
            requests: how many requests of a client may come at once.
            per: within how many seconds so many are allowed again, evenly.
        """
        return ValkeyRateLimit(self._server, f"{self._prefix}:{name}", requests, per)

    def breaker(self, name: str, *, failures: int = 5, within: float = 60.0, pause: float = 30.0) -> ValkeyBreaker:
        """Return a circuit breaker, for ``breaker=`` of `StreamErrorRetryProcessor`, which all replicas share.

        Args:
            name: tells it from other breakers.
            failures: see `CircuitBreaker`.
            within: see `CircuitBreaker`.
            pause: see `CircuitBreaker`.
        """
        return ValkeyBreaker(self._server, f"{self._prefix}:{name}", failures, within, pause)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._server.close()

    async def __aenter__(self) -> Self:
        """Return the state."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    def __repr__(self) -> str:
        """Show no address."""
        return f"{_NAME}()"
