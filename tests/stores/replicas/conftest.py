"""One server of each kind for all tests of shared state; they run on asyncio, as the drivers do."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.stores.replicas.servers import KINDS, Place, place, running

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def started() -> Iterator[dict[str, Any]]:
    """The servers that were needed so far."""
    with ExitStack() as stack:
        yield {"stack": stack}


@pytest.fixture(params=KINDS)
def shared(request: pytest.FixtureRequest, started: dict[str, Any]) -> Place:
    """A fresh place on a server of each kind."""
    kind = request.param
    if kind not in started:
        started[kind] = started["stack"].enter_context(running(kind))
    return place(kind, started[kind], next(_NUMBERS))
