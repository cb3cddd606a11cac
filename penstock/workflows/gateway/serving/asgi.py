"""The types of ASGI, and the headers of its requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.workflows.gateway.http import Headers

Scope: TypeAlias = "MutableMapping[str, Value]"
Event: TypeAlias = "MutableMapping[str, Value]"
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

ABORT = "penstock.abort"
"""The extension under which our server offers to cut a connection: a function without arguments."""

WATCH = "penstock.watch"
"""The extension under which our server offers its `ConnectionWatch`."""


class ConnectionWatch(Protocol):
    """Tells when a client's connection is gone. Without it, a task has to wait in ``receive``."""

    def add(self, on_gone: Callable[[], None]) -> bool:
        """Call a function when the connection is gone; return whether it is open now."""
        ...

    def discard(self, on_gone: Callable[[], None]) -> None:
        """Call it no more."""
        ...


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request, names in lower case."""
    return tuple([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]])


def header_bytes(scope: Scope) -> int:
    """Return how long the headers of a request are together."""
    return sum([len(name) + len(value) + 4 for name, value in scope["headers"]])


def raw_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return headers as ASGI takes them. A character that no header may have becomes a question mark."""
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace").translate(_SAFE))
        for name, value in headers
    ]


_SAFE = bytes(each if each == ord("\t") or (each >= ord(" ") and each != 0x7F) else ord("?") for each in range(256))  # noqa: PLR2004 - DEL
