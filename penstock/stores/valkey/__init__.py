"""`ValkeyState`: what replicas share, in a Valkey server (extra ``valkey``), on asyncio.

    state           the state: makes the stores below, on one connection pool
    _ledger         costs spent and reserved
    _cache          texts for a limited time, with leases; names that conversations have loaded
    _limits         requests in a time, and circuits
    _connections    addresses, errors, pools, scripts, and attempts; the only module that imports valkey

docs/replicas.md lists the guarantees, and the settings of the server on which they depend.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
