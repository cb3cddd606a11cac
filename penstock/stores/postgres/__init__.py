"""`PostgresStorage`: a storage in a PostgreSQL server (extra ``postgres``), on asyncio.

    storage         the storage: each method of the ports runs one piece of work
    _threads        the statements about threads and working memories, on a session
    _messages       the statements about messages
    _vectors        the statements about vectors
    _migrations     the tables, version by version
    _connections    addresses, errors, pools, and attempts; the only module that imports asyncpg

docs/storage.md lists the guarantees, and the settings of the server on which they depend.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
