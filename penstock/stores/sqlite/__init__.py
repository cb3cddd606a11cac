"""`SQLiteStorage` and `SQLiteCache`, whose file tasks, threads and processes can share, and `InMemoryStorage`."""
