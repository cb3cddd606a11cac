"""What the tests of shared state have in common: servers of both kinds, and states on them."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

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


@contextmanager
def running(kind: str) -> Iterator[Any]:
    """Run a server of a kind. If there can be none, the test is skipped, with a warning."""
    reason = valkey.why_not() if kind == "valkey" else postgres.why_not()
    if reason:
        with warnings.catch_warnings(action="default"):
            warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    with valkey.running() if kind == "valkey" else postgres.running() as server:
        yield server


def place(kind: str, server: Any, number: int) -> Place:
    """Return a fresh place on a server."""
    return Place(kind, server.url, f"test_{os.getpid()}_{number}", server)
