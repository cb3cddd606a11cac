from penstock.stores.postgres.storage import PostgresStorage as PostgresStorage
