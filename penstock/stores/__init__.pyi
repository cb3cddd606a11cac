from penstock.stores.memory_cache import MemoryCache as MemoryCache
from penstock.stores.postgres.state import PostgresState as PostgresState
from penstock.stores.postgres.storage import PostgresStorage as PostgresStorage
from penstock.stores.shared import open_state as open_state
from penstock.stores.sqlite.cache import SQLiteCache as SQLiteCache
from penstock.stores.sqlite.storage import InMemoryStorage as InMemoryStorage, SQLiteStorage as SQLiteStorage
from penstock.stores.valkey.state import ValkeyState as ValkeyState
