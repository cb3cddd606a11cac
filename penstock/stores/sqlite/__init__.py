"""`SQLiteStorage`, which keeps a file that tasks, threads and processes can share, and `InMemoryStorage`."""
