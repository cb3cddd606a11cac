"""`listening`: a socket that listens, for the studio and the gateway."""

from __future__ import annotations

import socket

from penstock.engine.values.errors import UsageError
from penstock.workflows.studio.settings import address_of

IPV6 = 6
"""The version of an address."""


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        UsageError: the address is not one of this machine, or the port is taken.
    """
    address = address_of(host)
    family = socket.AF_INET6 if address is not None and address.version == IPV6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.removeprefix("[").removesuffix("]"), port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        hint = "; another program may use the port: try --port 0" if port else ""
        raise UsageError(f"cannot listen on {host} port {port}: {error}{hint}") from error
    return listener
