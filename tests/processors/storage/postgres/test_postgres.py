"""PostgresStorage does what every store must do."""

import pytest

from penstock.processors.storage.postgres import PostgresStorage
from tests.processors.storage.suite import SharedSuite, StoreSuite
from tests.processors.storage.suite_vectors import VectorsSuite


class TestPostgresStorage(StoreSuite, SharedSuite):
    """Vectors searched one by one."""

    @pytest.fixture
    async def store(self, server, schema):
        async with PostgresStorage(server.url, schema=schema) as store:
            yield store

    @pytest.fixture
    async def second(self, server, schema):
        async with PostgresStorage(server.url, schema=schema) as store:
            yield store


class TestPostgresStorageWithHNSW(VectorsSuite):
    """Vectors searched with an index."""

    @pytest.fixture
    async def store(self, server, schema):
        async with PostgresStorage(server.url, schema=schema, vector_search="hnsw") as store:
            yield store
