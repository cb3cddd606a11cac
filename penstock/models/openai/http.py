"""Requests to one address over httpx, one client for each event loop, and their time limits; it knows no protocol.

A key stands in the headers of the requests, and nowhere else: in no `repr`, no error and no log.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.lowlevel import RunVar

from penstock.engine.values.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Mapping

    import httpx

    from penstock.engine.values.errors import ModelError
    from penstock.engine.values.frozen import Value
    from penstock.models.openai.failures import Failures

T = TypeVar("T")

_NUMBERS = count()
_CLOSING_SECONDS = 2.0
_KEPT_ALIVE = 100


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long to wait, in seconds; None is for ever.

    Attributes:
        connect: for a connection.
        between: for the next bytes of an answer, its first ones included.
        whole: for a whole answer.
    """

    connect: float | None = 10.0
    between: float | None = 120.0
    whole: float | None = None


USUAL = TimeLimits()


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go, and with what.

    Attributes:
        url: the address before the path.
        headers: what goes with each request, the key included.
        query: what each address ends in.
        limits: how long to wait.
        proxy: the proxy's address; None: as the environment says.
        verify: whether certificates are checked.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)
    limits: TimeLimits = USUAL
    proxy: str | None = field(default=None, repr=False)
    verify: bool = True


class Deadline:
    """The moment by which an answer must be whole. Lives as long as the request."""

    __slots__ = ("_failures", "_seconds", "_when")

    def __init__(self, seconds: float | None, failures: Failures) -> None:
        self._seconds = seconds
        self._when = float("inf") if seconds is None else anyio.current_time() + seconds
        self._failures = failures

    async def keep(self, waiting: Awaitable[T]) -> T:
        """Return what is waited for.

        Raises:
            ModelError: the moment has come first, or the connection failed.
        """
        import httpx

        with anyio.CancelScope(deadline=self._when) as scope:
            try:
                return await waiting
            except httpx.HTTPError as error:
                raise _broken(error, self._failures) from error
            except httpx.InvalidURL as error:
                raise self._failures.made(f"the address is none: {error}") from error
        assert scope.cancelled_caught  # noqa: S101 - nothing else ends the block without an answer
        raise self._failures.made(f"there was no whole answer within {self._seconds:g} seconds", retryable=True)


class Http:
    """Sends requests to one place. Connections are kept, for each event loop its own, until it is closed."""

    __slots__ = ("_client", "_given", "failures", "place")

    def __init__(self, place: Place, failures: Failures, client: httpx.AsyncClient | None = None) -> None:
        """Take the place; a client that is given is used, and left open.

        Raises:
            MissingExtraError: httpx is not installed.
        """
        if find_spec("httpx") is None:
            raise MissingExtraError("a model by OpenAI's protocol", "openai")
        self.place = place
        self.failures = failures
        self._given = client
        self._client: RunVar[httpx.AsyncClient | None] = RunVar(f"penstock client {next(_NUMBERS)}", None)

    def __repr__(self) -> str:
        return f"Http({self.place!r})"

    @property
    def client(self) -> httpx.AsyncClient:
        """The client of the running event loop, made at first use."""
        if self._given is not None:
            return self._given
        client = self._client.get()
        if client is None:
            client = _client(self.place)
            self._client.set(client)
        return client

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return the moment by which an answer that is asked for now must be whole."""
        return Deadline(self.place.limits.whole if seconds is None else seconds, self.failures)

    @asynccontextmanager
    async def answer(self, path: str, body: Value, deadline: Deadline) -> AsyncGenerator[httpx.Response, None]:
        """Send a request; give its answer, whose body is still to be read. On every exit the connection is given back.

        Raises:
            ModelError: it could not be written, or not be sent.
        """
        client = self._ready()
        request = self._written(client, path, body)
        answer = await deadline.keep(client.send(request, stream=True))
        try:
            yield answer
        finally:
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await answer.aclose()

    def _ready(self) -> httpx.AsyncClient:
        """Return the client; what httpx says of proxies and certificates is no cause of the error: it may show keys.

        Raises:
            ModelError: there can be none.
        """
        import httpx

        try:
            return self.client
        except ImportError:
            problem = "proxies of the kind socks5:// need httpx[socks]"
        except OSError:
            problem = "the certificates cannot be read; look at SSL_CERT_FILE and SSL_CERT_DIR"
        except (ValueError, httpx.InvalidURL):
            problem = "a proxy's address is none; look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY"
        raise self.failures.made(f"no connection can be made: {problem}")

    def _written(self, client: httpx.AsyncClient, path: str, body: Value) -> httpx.Request:
        """Return the request; what cannot be written is told without quoting it.

        Raises:
            ModelError: the body is no JSON, or the address none.
        """
        import httpx

        place = self.place
        url, query = f"{place.url}/{path}", place.query or None
        try:
            return client.build_request("POST", url, json=body, headers=place.headers, params=query)
        except httpx.InvalidURL:
            problem = "the address is none"
        except UnicodeEncodeError:
            problem = "the request holds a text that is no Unicode: half of a surrogate pair"
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"the request cannot be written as JSON ({type(error).__name__})"
        raise self.failures.made(problem)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later request opens new ones."""
        client = self._client.get()
        if client is not None:
            self._client.set(None)
            await client.aclose()


def _client(place: Place) -> httpx.AsyncClient:
    import httpx

    limits = place.limits
    timeout = httpx.Timeout(limits.between, connect=limits.connect, pool=None)
    pool = httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_ALIVE)
    return httpx.AsyncClient(timeout=timeout, limits=pool, proxy=place.proxy, verify=place.verify)


def _broken(error: httpx.HTTPError, failures: Failures) -> ModelError:
    """Return the error for a connection that failed; the original is its cause, and must not carry the key around."""
    import httpx

    with suppress(RuntimeError):  # it has no request
        error.request = httpx.Request(error.request.method, error.request.url)
    if isinstance(error, httpx.TimeoutException):
        return failures.made(_TIMEOUTS.get(type(error).__name__, "a time limit has passed"), retryable=True)
    final = isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.DecodingError))
    told = f": {error}" if str(error) else ""
    return failures.made(f"the connection failed ({type(error).__name__}{told})", retryable=not final)


_TIMEOUTS = {
    "ConnectTimeout": "no connection within the time limit",
    "ReadTimeout": "nothing came within the time limit between two pieces",
    "WriteTimeout": "the request could not be sent within the time limit",
}
