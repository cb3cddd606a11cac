"""Ports to what replicas of a service share beside a `CostLedger`: leases, rate limits, circuits and loaded names.

A store behind them has a clock of its own, so that clocks of replicas may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from penstock.engine.values.protocols import Cache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from penstock.engine.values.ledgers import CostLedger

LeaseState: TypeAlias = Literal["lead", "wait", "ask"]
"""The caller makes the value (``lead``), waits for the one who does (``wait``), or makes a value for itself, since the
last holder had none for others (``ask``)."""


@runtime_checkable
class LeasingCache(Cache, Protocol):
    """A `Cache` that gives one caller at a time the right to make a value, over all processes that share it."""

    async def lease(self, key: str, holder: str, *, seconds: float) -> LeaseState:
        """Ask for the lease of a key.

        Args:
            key: the key.
            holder: names who asks; who has the lease keeps it, and does not prolong it.
            seconds: how long the lease lasts. If its holder dies, another one gets it then.
        """
        ...

    async def end_lease(self, key: str, holder: str, *, useless: bool = False) -> None:
        """Give a lease back, if the holder has it.

        Args:
            key: the key.
            holder: who has it.
            useless: tell those who wait to make a value each for itself; otherwise the next of them gets the lease.
        """
        ...


@runtime_checkable
class RateLimiter(Protocol):
    """Counts requests of clients within a time. A method may be async."""

    def take(self, client: str) -> float | Awaitable[float]:
        """Count a request of a client; return 0, or after how many seconds it may try again. Then it is not counted."""
        ...


@runtime_checkable
class Breaker(Protocol):
    """Circuits of models or providers; see `CircuitBreaker`. A method may be async.

    Attributes:
        pause: how long a circuit stays open, in seconds.
    """

    @property
    def pause(self) -> float:
        """How long a circuit stays open, in seconds."""
        ...

    def failed(self, model: str) -> bool | Awaitable[bool]:
        """Count a failed call; return whether it may be retried."""
        ...

    def admits(self, model: str) -> bool | Awaitable[bool]:
        """Return whether a first call may be made; of an open circuit, one after each pause."""
        ...

    def succeeded(self, model: str) -> Awaitable[None] | None:
        """Close the circuit."""
        ...

    def is_open(self, model: str) -> bool | Awaitable[bool]:
        """Return whether the circuit is open. It counts as open until it closes, also after the pause."""
        ...


@runtime_checkable
class NameStore(Protocol):
    """Sets of names that conversations have loaded."""

    async def names(self, owner: str, *, ttl: float | None) -> Sequence[str]:
        """Return the names of an owner, in the order in which they were added, and keep them for another ``ttl``."""
        ...

    async def add_names(self, owner: str, names: Sequence[str], *, ttl: float | None) -> None:
        """Add names. They are kept for ``ttl`` seconds after the last use; None: as long as the store decides."""
        ...


@runtime_checkable
class SharedState(Protocol):
    """What replicas of a service share on one server.

    Attributes:
        ledger: costs spent and reserved.
        cache: texts for a limited time, with leases.
        names: names that conversations have loaded.
    """

    @property
    def ledger(self) -> CostLedger:
        """Costs spent and reserved."""
        ...

    @property
    def cache(self) -> LeasingCache:
        """Texts for a limited time, with leases."""
        ...

    @property
    def names(self) -> NameStore:
        """Names that conversations have loaded."""
        ...

    def rate_limit(self, name: str, requests: int, per: float) -> RateLimiter:
        """Return a limit of ``requests`` at once, refilled evenly within ``per`` seconds, by a name of its own."""
        ...

    def breaker(self, name: str, *, failures: int = 5, within: float = 60.0, pause: float = 30.0) -> Breaker:
        """Return a circuit breaker with the options of `CircuitBreaker`; its name tells it from others."""
        ...

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        ...
