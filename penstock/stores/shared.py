"""`open_state`: what replicas share, by the address of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.stores.postgres._connections import SCHEMES as POSTGRES_SCHEMES
from penstock.stores.postgres.state import PostgresState
from penstock.stores.valkey.state import ValkeyState

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
    if url.partition("://")[0] in POSTGRES_SCHEMES:
        return PostgresState(url, schema=name)
    return ValkeyState(url, prefix=name)
