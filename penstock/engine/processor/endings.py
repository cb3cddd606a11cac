"""How a run ended, and who wants to be told of it: what was lent for a run is given back here, however it ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.tripwire import Tripwire

_LOG = logging.getLogger("penstock")

PATIENCE = 5.0
"""Seconds for all that waits at the end of a run: whoever asked for the run is not to wait for it longer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended.

    Attributes:
        message_list: the conversation as the run left it.
        tripwire: the verdict that stopped it, if one did.
        completed: whether it came to its end: no verdict, no error, no cancellation.
    """

    message_list: MessageList
    tripwire: Tripwire | None
    completed: bool


AtEnd: TypeAlias = "Callable[[Ended], Awaitable[None] | None]"
"""Is told once how a run ended; what it returns to be awaited is given `PATIENCE` seconds."""


async def tell(waiting: list[AtEnd], ended: Ended) -> None:
    """Tell everybody, the last first. What one raises is logged, and keeps no other from being told."""
    left: list[Awaitable[None]] = []
    while waiting:
        callback = waiting.pop()
        try:
            more = callback(ended)
        except Exception as error:  # noqa: BLE001 - a run's outcome does not hang on it
            _report(error)
        else:
            if more is not None:
                left.append(more)
    if not left:
        return
    with anyio.move_on_after(PATIENCE, shield=True) as scope:
        for rest in left:
            try:
                await rest
            except Exception as error:  # noqa: BLE001 - see above
                _report(error)
    if scope.cancelled_caught:
        _LOG.warning("what was to be done at the end of a run took longer than %s s, and was cut off", PATIENCE)


def _report(error: Exception) -> None:
    _LOG.warning("what was to be done at the end of a run failed: %s", type(error).__name__)
