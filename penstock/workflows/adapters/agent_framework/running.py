"""Middleware that belongs to the request of an agent's run, or opens one for each call; and its error for verdicts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agent_framework import MiddlewareFailure
from agent_framework.exceptions import AgentContentFilterException

from penstock.engine.values.tripwire import BlockedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.hosting import Host, HostRequest


class GuardBlockedError(BlockedError, MiddlewareFailure, AgentContentFilterException):
    """A guard stopped a run. It is the framework's error for filtered content, and carries the verdict.

    Attributes:
        tripwire: the verdict.
    """


CallNext = Callable[[], Awaitable[None]]


class Bound:
    """Middleware that may belong to the request of an agent's run; without one, each call is its own request."""

    def __init__(self, host: Host, request: HostRequest | None = None, own: Instructions | None = None) -> None:
        self.host = host
        self.request = request
        self.own = own

    def bound(self, request: HostRequest, own: Instructions) -> Bound:
        """Return the middleware for one request."""
        return type(self)(self.host, request, own)


class Instructions:
    """The instructions that an application gives itself. Context providers wrote the text between them.

    Args:
        first: those of the agent.
        last: those of the run.
    """

    def __init__(self, first: object, last: object) -> None:
        self._first = first
        self._last = last

    def split(self, given: object) -> Iterator[tuple[str, bool]]:
        """Yield the instructions of a model call in order, each with whether they are the application's own."""
        text = str(given)
        if given in (self._first, self._last):
            yield text, True
            return
        first = self._first if isinstance(self._first, str) else ""
        last = self._last if isinstance(self._last, str) else ""
        start = len(first) + 1 if first and text.startswith(f"{first}\n") else 0
        end = len(text) - len(last) - 1 if last and text.endswith(f"\n{last}") else len(text)
        if start:
            yield first, True
        if start <= end:
            yield text[start:end], False
        if end < len(text):
            yield last, True
