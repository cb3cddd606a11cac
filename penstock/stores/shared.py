"""`open_state`: what replicas share, by the address of a server."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.engine.values.shared import SharedState


def open_state(url: str, *, name: str = "penstock") -> SharedState:
    """Return the state that a server holds: in PostgreSQL for ``postgresql://…``, otherwise in Valkey.

    It connects at first use.

    Args:
        url: the address of the server; see `ValkeyState` and `PostgresState`. No error shows it.
        name: the schema in PostgreSQL, what all keys begin with in Valkey. Services with other names share nothing.

    Raises:
        OptionError: the address or the name is not allowed.
        MissingExtraError: the extra ``valkey`` or ``postgres`` is not installed.
    """
    if url.partition("://")[0] in ("postgresql", "postgres"):  # a driver is imported where it is used
        from penstock.stores.postgres.state import PostgresState

        return PostgresState(url, schema=name)
    from penstock.stores.valkey.state import ValkeyState

    return ValkeyState(url, prefix=name)


@lru_cache(maxsize=100)
def state_at(url: str) -> SharedState:
    """Return the state at an address, the same one wherever the address is named in this process.

    It is for addresses in policy files, whose steps nobody closes: its connections last as long as their event loop.

    Args:
        url: the address of the server; see `open_state`.

    Raises:
        OptionError: the address is not allowed; the error does not show it.
        MissingExtraError: the extra ``valkey`` or ``postgres`` is not installed.
    """
    return open_state(url)
