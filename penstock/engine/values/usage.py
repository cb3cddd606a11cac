"""The log of the tokens that a run's models take, judges included; listeners are called for each entry.

A run has one `UsageLog`. Code that asks a model on behalf of a run adds an entry, and code that limits costs listens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.errors import ModelError, PenstockError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.model import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.values.frozen import Values


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """The tokens that one or several requests to a model took.

    Attributes:
        model: the name of the model, as in `Model.name`.
        usage: the tokens; None if the provider reported none.
        by: the path of the step that asked; empty for the agent itself.
        attempts: the number of requests, failed ones included.
        unreported: an estimate for the requests of which the provider reported nothing, in addition to ``usage``; None
            if there is no estimate.
        seconds: how long the requests took; 0 if that is not known.
        ended: when the last one ended, by the monotonic clock (`time.perf_counter`).
        error: the name of the type of the error that it failed with; None if it did not fail.
    """

    model: str
    usage: Usage | None
    by: str = ""
    attempts: int = 1
    unreported: Usage | None = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)
    ended: float = field(default=0.0, compare=False)
    error: str | None = field(default=None, compare=False)


_MAY_HAVE_READ = (408, 499)
"""HTTP's statuses of requests that took too long: the provider may have worked on them."""


def is_unbilled(error: BaseException) -> bool:
    """Tell whether a model call that failed before its answer began costs nothing.

    That is so if the provider refused the request (HTTP 400 to 499), or if an error of Penstock's own says that it was
    not sent. After a broken connection, an error of the server or a timeout, the provider may have read the prompt.
    """
    if not isinstance(error, ModelError):
        return isinstance(error, PenstockError)
    status = error.status
    return status is not None and 400 <= status < 500 and status not in _MAY_HAVE_READ  # noqa: PLR2004 - HTTP's


def total_usage(usages: Iterable[Usage | None]) -> Usage:
    """Return the sum of usages; a figure that none of them has is None."""
    total = Usage(requests=0)
    for usage in usages:
        total = total if usage is None else total + usage
    return total


def usage_payload(usage: Usage | None) -> Values | None:
    """Return a usage as the payload of a chunk: a mapping of the figures that are known."""
    if usage is None:
        return None
    names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "requests")
    known = {name: count for name in names if (count := getattr(usage, name)) is not None}
    return FrozenDict({**known, **({"details": usage.details} if usage.details else {})})


class UsageLog:
    """The usage of a run so far, in the order in which it was reported. Lives as long as the run.

    Each run has its own, also where runs share an id; so it can stand for the run in a weak mapping.

    Attributes:
        count: how many entries there are so far.
    """

    __slots__ = ("__weakref__", "_listeners", "_spent", "count")

    def __init__(self) -> None:
        self.count = 0
        self._spent: list[UsageEntry] = []
        self._listeners: list[Callable[[UsageEntry], None]] = []

    @property
    def spent(self) -> tuple[UsageEntry, ...]:
        """The entries so far."""
        return tuple(self._spent)

    def enter(self, spend: UsageEntry) -> None:
        """Add an entry, and call the listeners at once."""
        self._spent.append(spend)
        self.count += 1
        for listener in self._listeners:
            listener(spend)

    def listen(self, listener: Callable[[UsageEntry], None]) -> None:
        """Call a listener for every entry so far, and from now on for each new one."""
        for spend in self._spent:
            listener(spend)
        self._listeners.append(listener)
