"""SQLiteStorage does what every store must do, and what only a file can be asked for."""

import pytest

from penstock.processors.storage.sqlite.storage import InMemoryStorage, SQLiteStorage
from tests.processors.storage.suite import SharedSuite, StoreSuite


class TestSQLiteStorage(StoreSuite, SharedSuite):
    """A file."""

    @pytest.fixture
    async def store(self, tmp_path):
        async with SQLiteStorage(tmp_path / "memory.db") as store:
            yield store

    @pytest.fixture
    async def second(self, tmp_path):
        async with SQLiteStorage(tmp_path / "memory.db") as store:
            yield store


class TestInMemoryStorage(StoreSuite):
    """No file."""

    @pytest.fixture
    async def store(self):
        return InMemoryStorage()
