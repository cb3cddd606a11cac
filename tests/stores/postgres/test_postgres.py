"""PostgresStorage does what every store must do."""

import pytest

from penstock.stores.postgres import PostgresStorage
from tests.stores.suite import SharedSuite, StoreSuite
from tests.stores.suite_vectors import VectorsSuite


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
