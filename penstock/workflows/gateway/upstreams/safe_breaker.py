"""`SafeBreaker`: a circuit breaker whose own failure lets requests pass."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.engine.tasks import resolved

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.shared import Breaker

_LOG = logging.getLogger("penstock.gateway")


class SafeBreaker:
    """A breaker that may be in a server. While that is lost, all circuits count as closed: a breaker protects no text.

    Args:
        breaker: the breaker.

    Attributes:
        pause: how long a circuit stays open, in seconds.
    """

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self.pause = breaker.pause

    async def admits(self, provider: str) -> bool:
        """Return whether a provider may be asked first."""
        return await self._asked(self._breaker.admits, provider, otherwise=True)

    async def may_follow(self, provider: str) -> bool:
        """Return whether a provider may be asked after another: its circuit is closed."""
        return not await self._asked(self._breaker.is_open, provider, otherwise=False)

    async def failed(self, provider: str) -> None:
        """Count a failure of a provider."""
        await self._asked(self._breaker.failed, provider, otherwise=True)

    async def succeeded(self, provider: str) -> None:
        """Close the circuit of a provider."""
        await self._asked(self._breaker.succeeded, provider, otherwise=None)

    async def _asked(self, ask: Callable[[str], object], provider: str, *, otherwise: bool | None) -> bool:
        try:
            told = ask(provider)
            return bool(told if told is None or isinstance(told, bool) else await resolved(told))
        except Exception as error:  # noqa: BLE001 - of a server, or of code of the operator's
            _LOG.warning("the circuit breaker cannot be asked: %s", type(error).__name__)
            return bool(otherwise)
