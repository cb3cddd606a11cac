"""Storages for threads, messages, working memories and vectors, and a cache in memory.

`SQLiteStorage` keeps them in a file, `InMemoryStorage` in memory, `PostgresStorage` in a server. They share
`checks` of arguments, `encoding` of messages and vectors, `matrices` for vector search. Nothing here imports a
processor.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
