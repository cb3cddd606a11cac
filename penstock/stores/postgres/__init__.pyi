from penstock.stores.postgres.state import PostgresState as PostgresState
from penstock.stores.postgres.storage import PostgresStorage as PostgresStorage
