"""One server for all tests of PostgresStorage, and a schema for each; they run on asyncio, as the driver does."""

import itertools
import os

import anyio
import asyncpg
import pytest

from tests.stores.postgres.servers import running, why_not

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def server():
    """A server."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running() as server:
        yield server


@pytest.fixture
def schema(server):
    """The name of a schema that is not there, and will not be."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    yield name
    anyio.run(_drop, server.url, name)


async def _drop(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    await connection.close()
