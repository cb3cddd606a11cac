"""`PostgresStorage`: the store in a PostgreSQL server (extra ``postgres``), on asyncio. It knows no processor.

    storage         the store itself: the ports' methods, each one piece of work
    _threads        the statements about threads, on a session; so do
    _messages
    _memories
    _vectors
    _migrations     the tables, version by version
    _sessions       a connection in use, and how often a piece of work is tried on one
    _connections    the pools; the one module that knows asyncpg
    _failures       what an error means: try again, or say so
    _address        where the server is, without passwords

docs/storage.md says what is promised, and which of the server's own settings it rests on.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
