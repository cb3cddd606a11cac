from penstock.stores.memory_cache import MemoryCache as MemoryCache
from penstock.stores.postgres.storage import PostgresStorage as PostgresStorage
from penstock.stores.sqlite.cache import SQLiteCache as SQLiteCache
from penstock.stores.sqlite.storage import InMemoryStorage as InMemoryStorage, SQLiteStorage as SQLiteStorage
