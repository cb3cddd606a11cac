"""`PostgresStorage` and `PostgresState` in a PostgreSQL server (extra ``postgres``), on asyncio.

    storage         the storage: each method of the ports runs one piece of work
    state           what replicas share: makes the stores below, on one pool
    _ledger         costs spent and reserved, by the functions in _shared_tables
    _shared         texts with leases, names, rate limits and circuits
    _threads        the statements about threads and working memories, on a session
    _messages       the statements about messages
    _vectors        the statements about vectors
    _migrations     the tables, version by version
    _connections    addresses, errors, pools, and attempts; the only module that imports asyncpg

docs/storage.md and docs/replicas.md list the guarantees, and the settings of the server on which they depend.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
