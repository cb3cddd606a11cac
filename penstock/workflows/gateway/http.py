"""HTTP as the gateway sees it: the request of a client, the provider behind, and replies whose bodies are streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

_Item = TypeVar("_Item")

Headers = tuple[tuple[str, str], ...]
"""Header names in lower case, with their values, in order; a name may repeat."""


@dataclass(slots=True)  # not frozen: that would triple what one costs, and a request makes several
class HttpRequest:
    """A request with a whole body. Nothing changes one that is made.

    Attributes:
        method: the method, in upper case.
        path: the path, decoded, without the query; it begins with a slash.
        headers: the headers.
        body: the body, decompressed.
        query: the query, as it came.
        route: the name of the route that serves it, for logs and metrics.
    """

    method: str
    path: str
    headers: Headers = field(default=(), repr=False)  # one of them may hold a key
    body: bytes = field(default=b"", repr=False)
    query: str = ""
    route: str = ""

    def header(self, name: str) -> str | None:
        """Return the first value of a header; None if it is missing."""
        return header_of(self.headers, name)

    def with_body(self, body: bytes) -> HttpRequest:
        """Return the request with another body."""
        return HttpRequest(self.method, self.path, self.headers, body, self.query, self.route)


def header_of(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """Return the first value of a header by its name in lower case; None if it is missing."""
    for key, value in headers:
        if key == name:
            return value
    return None


class UpstreamReply(Protocol):
    """The reply of a provider. Its body is read once, piece by piece, as it comes."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers, without those of the connection."""
        ...

    def pieces(self) -> AsyncGenerator[bytes]:
        """Return the body, decompressed, in the pieces in which it comes.

        Raises:
            UpstreamError: the provider breaks the connection, or is silent for too long.
        """
        ...


class Upstream(Protocol):
    """A provider of models behind the gateway, or several that serve the same models.

    It adds the provider's key and address, and drops the client's own headers that a provider must not see. It follows
    no redirect. No error, log or `repr` holds a key.
    """

    def send(self, request: HttpRequest) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send a request; leaving the block ends it, and its connection if the body was not read to its end.

        Raises:
            UpstreamError: no provider can be reached.
        """
        ...


class UpstreamError(Exception):
    """A provider cannot be reached, breaks the connection, is silent, or sends bytes that nobody can read.

    Attributes:
        kind: a word for logs and metrics: ``connect``, ``timeout``, ``broken``, ``malformed``, ``too_large``,
            ``circuit_open``.
        status: the HTTP status with which the gateway answers.
        retry_after: in how many seconds the client may try again; None if nobody knows.
    """

    def __init__(self, kind: str, message: str, *, status: int = 502, retry_after: float | None = None) -> None:
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        super().__init__(message)


class StreamedBody:
    """The pieces of a stream.

    A reader that sets `send` gets most pieces there, as soon as they may leave: they then need not go up through all
    that works on the stream. It is called by whoever iterates, in its task, between two pieces that are yielded.

    Args:
        pieces: makes the pieces; it gets this object.

    Attributes:
        send: sends a piece to the client; None: all pieces are yielded.
    """

    __slots__ = ("_pieces", "send")

    def __init__(self, pieces: Callable[[StreamedBody], AsyncGenerator[bytes]]) -> None:
        self.send: Callable[[bytes], Awaitable[None]] | None = None
        self._pieces = pieces(self)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the pieces, without those that `send` gets."""
        return self._pieces

    async def aclose(self) -> None:
        """End the stream, however far it was read."""
        await self._pieces.aclose()


@dataclass(slots=True)  # not frozen, as above
class HttpReply:
    """The reply to a client. Nothing changes one that is made.

    Attributes:
        status: the HTTP status.
        headers: the headers, without a length.
        body: the whole body; or the pieces of a stream, each sent at once.
    """

    status: int
    headers: Headers
    body: bytes | AsyncIterable[bytes] = field(repr=False)


async def each_of(items: Iterable[_Item]) -> AsyncGenerator[_Item]:
    """Yield items that are at hand."""
    for item in items:
        yield item
