"""Storages for threads, messages, working memories, vectors and suspended runs, caches, and what replicas share.

`SQLiteStorage` keeps them in a file, `InMemoryStorage` in memory, `PostgresStorage` in a server. They share
`checks` of arguments, `encoding` of messages and vectors, `matrices` for vector search. `MemoryCache` and
`SQLiteCache` keep texts for a limited time. `ValkeyState` and `PostgresState` hold what replicas of a service share;
`open_state` makes one by its address. Nothing here imports a processor.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
