"""The work that is the same for all peers: three graphs, each a function of one number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

STEPS = 10
WAYS = 8
ARMS = 3

Request = Callable[[int], Awaitable[int]]
"""One request through a graph that was built before."""


class Peer(Protocol):
    """A module of peers/: one engine, used as its documentation says. Whatever can be built once is built here."""

    def chain(self) -> Request:
        """Return a request that adds one ten times, a step each."""
        ...

    def parallel(self) -> Request:
        """Return a request in which eight steps beside each other find one each, and their sum is added."""
        ...

    def branch(self) -> Request:
        """Return a request that takes one of three arms by its number, and gives the arm's."""
        ...
