"""What the tests of shared state have in common: servers of both kinds, and states on them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from penstock.stores.postgres.state import PostgresState
from penstock.stores.valkey import ValkeyState
from tests.stores.postgres import servers as postgres
from tests.stores.valkey import servers as valkey

KINDS = ("valkey", "postgres")


class Place(NamedTuple):
    """A server, and a part of it that nobody else uses."""

    kind: str
    url: str
    name: str
    server: Any

    def state(self, **options: Any) -> ValkeyState | PostgresState:
        """Return a state there."""
        if self.kind == "valkey":
            return ValkeyState(self.url, prefix=self.name, **options)
        return PostgresState(self.url, schema=self.name, **options)


def why_not(kind: str) -> str:
    """Return why there can be no server of a kind; empty if there can."""
    return valkey.why_not() if kind == "valkey" else postgres.why_not()


@contextmanager
def running(kind: str) -> Iterator[Any]:
    """Run a server of a kind."""
    with valkey.running() if kind == "valkey" else postgres.running() as server:
        yield server


def place(kind: str, server: Any, number: int) -> Place:
    """Return a fresh place on a server."""
    return Place(kind, server.url, f"test_{os.getpid()}_{number}", server)
