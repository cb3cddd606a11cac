"""HTTP by httpx: where a model's requests go, one client for each event loop, and time limits.

The address, the key and the headers come from the model's name, the environment and the options. A key is only ever in
the headers of requests: in no `repr`, no error and no log.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import anyio
from anyio.lowlevel import RunVar

from penstock.engine.values.errors import MissingExtraError, OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.models.openai.failures import Failures
from penstock.models.openai.providers import ANY, filled, key_for, provider_named
from penstock.models.openai.unpacking import ACCEPTED, Unpacker, UnpackingError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from types import TracebackType
    from typing import Self

    import httpx

    from penstock.engine.values.errors import ModelError
    from penstock.engine.values.frozen import Value
    from penstock.models.openai.providers import Provider


T = TypeVar("T")

ApiKey: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""An API key, or a function that returns the key to use now, sync or async; it is called before each request."""

_NUMBERS = count()
_CLOSING_SECONDS = 2.0
_KEPT_ALIVE = 100


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long to wait, in seconds; None: without a limit.

    Attributes:
        connect: for a connection. Default: 10.
        between: for the next bytes of an answer, including its first. Default: 120.
        whole: for a whole answer. Default: None.
    """

    connect: float | None = 10.0
    between: float | None = 120.0
    whole: float | None = None


USUAL = TimeLimits()


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """Where requests go, and the headers and settings of each.

    Attributes:
        url: the address before the path.
        headers: the headers of every request, including the key.
        query: the query of every address.
        limits: the time limits.
        proxy: the address of a proxy; None: as the environment says.
        verify: whether TLS certificates are checked.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)
    limits: TimeLimits = USUAL
    proxy: str | None = field(default=None, repr=False)
    verify: bool = True


class Deadline:
    """The time by which an answer must be complete. It lives as long as the request."""

    __slots__ = ("_failures", "_seconds", "_when")

    def __init__(self, seconds: float | None, failures: Failures) -> None:
        self._seconds = seconds
        self._when = anyio.current_time() + (seconds or 0)
        self._failures = failures

    async def keep(self, waiting: Awaitable[T]) -> T:
        """Wait for something, at most until the deadline, and return it.

        Raises:
            ModelError: the deadline passed, or the connection failed.
        """
        import httpx

        try:
            if self._seconds is None:
                return await waiting
            with anyio.CancelScope(deadline=self._when) as scope:
                return await waiting
        except httpx.HTTPError as error:
            raise _broken(error, self._failures) from error
        except httpx.InvalidURL as error:
            raise self._failures.made(f"the address is invalid: {error}") from error
        assert scope.cancelled_caught  # noqa: S101 - only the deadline ends the block without an answer
        raise self._failures.made(f"the answer was not complete within {self._seconds:g} seconds", retryable=True)


class Http:
    """Sends requests to one endpoint. Each event loop has its own connections, which stay open until it is closed."""

    __slots__ = ("_client", "_given", "_key", "failures", "place")

    def __init__(
        self,
        place: ModelEndpoint,
        failures: Failures,
        client: httpx.AsyncClient | None = None,
        key: KeyHeader | None = None,
    ) -> None:
        """Use an endpoint. A client that is given is used, and never closed. ``key`` makes the header of each request.

        Raises:
            MissingExtraError: httpx is not installed.
        """
        if find_spec("httpx") is None:
            raise MissingExtraError("a model by OpenAI's protocol", "openai")
        self.place = place
        self.failures = failures
        self._given = client
        self._key = key
        self._client: RunVar[httpx.AsyncClient | None] = RunVar(f"penstock client {next(_NUMBERS)}", None)

    def __repr__(self) -> str:
        return f"Http({self.place!r})"

    @property
    def client(self) -> httpx.AsyncClient:
        """The client of the running event loop, made when first used."""
        if self._given is not None:
            return self._given
        client = self._client.get()
        if client is None:
            import httpx

            place, limits = self.place, self.place.limits
            timeout = httpx.Timeout(limits.between, connect=limits.connect, pool=None)
            pool = httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_ALIVE)
            client = httpx.AsyncClient(timeout=timeout, limits=pool, proxy=place.proxy, verify=place.verify)
            self._client.set(client)
        return client

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return the deadline of an answer that is requested now."""
        return Deadline(self.place.limits.whole if seconds is None else seconds, self.failures)

    @asynccontextmanager
    async def answer(
        self, path: str, body: Value, deadline: Deadline, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[httpx.Response, None]:
        """Send a request and yield its answer, whose body is not read yet. The connection is always given back.

        Raises:
            ModelError: the request could not be written or sent, or the function for the key failed.
            OptionError: a header of this request cannot be sent.
        """
        client = self._ready()
        if not is_mapping(headers or {}):
            raise OptionError("a request", "extra_headers", _HIDDEN, "a mapping of names to texts")
        own = _headers("a request", "extra_headers", headers or {})
        self.failures.hide(_secrets(None, own, {}, None))
        key = {} if self._key is None else await deadline.keep(self._key.header(self.failures))
        request = self._written(client, path, body, {"Accept-Encoding": ACCEPTED, **self.place.headers, **key, **own})
        answer = await deadline.keep(client.send(request, stream=True))
        try:
            yield answer
        finally:
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await answer.aclose()

    def _ready(self) -> httpx.AsyncClient:
        """Return the client. Errors of httpx about proxies and certificates do not become a cause: they may show keys.

        Raises:
            ModelError: no client can be made.
        """
        import httpx

        try:
            return self.client
        except ImportError:
            problem = "proxies of the kind socks5:// need httpx[socks]"
        except OSError:
            problem = "the certificates cannot be read; check SSL_CERT_FILE and SSL_CERT_DIR"
        except (ValueError, httpx.InvalidURL):
            problem = "the address of a proxy is invalid; check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY"
        raise self.failures.made(f"no connection can be made: {problem}")

    def _written(self, client: httpx.AsyncClient, path: str, body: Value, headers: Mapping[str, str]) -> httpx.Request:
        """Return the request. Errors do not quote its content.

        Raises:
            ModelError: the body cannot be written as JSON, or the address is invalid.
        """
        import httpx

        place = self.place
        url, query = f"{place.url}/{path}", place.query or None
        try:
            return client.build_request("POST", url, json=body, headers=headers, params=query)
        except httpx.InvalidURL:
            problem = "the address is invalid"
        except UnicodeEncodeError:
            problem = "the request holds half of a surrogate pair, which cannot be encoded as UTF-8"
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"the request cannot be written as JSON ({type(error).__name__})"
        raise self.failures.made(problem)

    def unpacker(self, answer: httpx.Response) -> Unpacker:
        """Return what unpacks the body of an answer.

        Raises:
            ModelError: the body is compressed in a way that is not accepted.
        """
        try:
            return Unpacker("" if answer.is_stream_consumed else answer.headers.get("content-encoding", ""))
        except UnpackingError as error:
            raise self.failures.made(error.problem, status=answer.status_code, headers=answer.headers) from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop. A later request opens new ones."""
        client = self._client.get()
        if client is not None:
            self._client.set(None)
            await client.aclose()


def raw_pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Return the body of an answer as it comes over the wire; unpacked, if a hook of the user's client has read it."""
    return answer.aiter_bytes() if answer.is_stream_consumed else answer.aiter_raw()


async def close_pieces(answer: httpx.Response, pieces: AsyncIterator[bytes]) -> None:
    """Close the connection, and run its generator to the end: trio complains of generators that are not."""
    with anyio.move_on_after(_CLOSING_SECONDS, shield=True), suppress(Exception):
        await answer.aclose()
        async for _ in pieces:
            pass


def _broken(error: httpx.HTTPError, failures: Failures) -> ModelError:
    """Return the error for a connection that failed. The original becomes its cause, so the key is removed from it."""
    import httpx

    with suppress(RuntimeError):  # the error has no request
        error.request = httpx.Request(error.request.method, error.request.url)
    if isinstance(error, httpx.TimeoutException):
        return failures.made(_TIMEOUTS.get(type(error).__name__, "a time limit has passed"), retryable=True)
    final = isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.DecodingError))
    told = f": {error}" if str(error) else ""
    return failures.made(f"the connection failed ({type(error).__name__}{told})", retryable=not final)


def is_broken(error: ModelError) -> bool:
    """Whether an error says that the connection broke, and not that a time limit has passed."""
    import httpx

    cause = error.__cause__
    return isinstance(cause, httpx.TransportError) and not isinstance(cause, httpx.TimeoutException)


_TIMEOUTS = {
    "ConnectTimeout": "no connection within the time limit",
    "ReadTimeout": "no data came within the time limit between two pieces",
    "WriteTimeout": "the request could not be sent within the time limit",
}


_KEY = re.compile(r"[\x21-\x7e]+")
_HEADER = re.compile(r"[\x20-\x7e\t]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROXIES = ("http", "https", "socks5", "socks5h")
_SECRET = re.compile(r"auth|key|token|secret|cookie|signature|password|credential", re.IGNORECASE)
_HIDDEN = "(not shown)"


@dataclass(frozen=True, slots=True)
class KeyHeader:
    """The header with the key that a function returns.

    Attributes:
        what: the class whose option the function is, for errors.
        provider: the provider, which names the header.
        function: the function.
    """

    what: str
    provider: Provider
    function: Callable[[], str | Awaitable[str]] = field(repr=False)

    async def header(self, failures: Failures) -> dict[str, str]:
        """Return the header for a request that is sent now. Later errors do not show its key.

        Raises:
            ModelError: the function failed, or returned something that cannot be a key.
        """
        try:
            key = self.function()
            if inspect.isawaitable(key):
                key = await key
        except Exception as error:
            raise failures.made(f"the function api_key= failed ({type(error).__name__})") from error
        if not isinstance(cast("object", key), str) or not _KEY.fullmatch(key.strip()):
            raise failures.made("the function api_key= returned no key: visible ASCII characters without blanks")
        failures.hide({key.strip()})
        return _key_header(self.what, self.provider, key)


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """The options by which users say how a model is reached."""

    provider: str | Provider | None = None
    base_url: str | None = None
    api_key: ApiKey | None = field(default=None, repr=False)
    headers: Mapping[str, str] | None = None
    query: Mapping[str, str] | None = None
    limits: TimeLimits = USUAL
    proxy: str | None = None
    verify: bool = True
    client: httpx.AsyncClient | None = None


def _provider(what: str, name: str, reach: EndpointOptions) -> tuple[Provider, str]:
    """Return the provider of a model, and its name of the model."""
    first, slash, rest = name.partition("/")
    if reach.provider is not None:
        given = reach.provider
        return (provider_named(given) if isinstance(given, str) else given), name
    if reach.base_url is not None:
        return ANY, name
    if not slash or not rest:
        raise OptionError(what, "name", name, "<provider>/<model>, such as 'openai/gpt-5', unless base_url= is given")
    return provider_named(first), rest


def _url(what: str, url: str) -> str:
    """Return an address without a slash at its end. A password in it is refused, since addresses are logged."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise OptionError(what, "base_url", _HIDDEN, "an address") from None
    if parts.username is not None or parts.password is not None:
        raise OptionError(what, "base_url", _HIDDEN, "an address without a name or password; put them into headers=")
    if parts.query or parts.fragment:
        raise OptionError(what, "base_url", _HIDDEN, "an address without a query; put the query into query=")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionError(what, "base_url", url, "an address that begins with http:// or https://")
    return url.rstrip("/").removesuffix("/chat/completions").removesuffix("/embeddings")


def _key_header(what: str, provider: Provider, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    key = key.strip()
    if not _KEY.fullmatch(key):
        raise OptionError(what, "api_key", _HIDDEN, "visible ASCII characters without blanks")
    return {provider.header: f"Bearer {key}" if provider.header == "Authorization" else key}


def _headers(what: str, option: str, given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not isinstance(cast("object", name), str) or not _HEADER_NAME.fullmatch(name):
            raise OptionError(what, option, name, "names of letters, digits and hyphens")
        if not isinstance(cast("object", value), str) or not _HEADER.fullmatch(value):
            raise OptionError(what, f"{option}[{name!r}]", _HIDDEN, "a text of one line, of ASCII characters")
    return {name: value.strip() for name, value in given.items()}


def _check_proxy(what: str, proxy: str) -> None:
    try:
        parts = urlsplit(proxy)
        sound = parts.scheme in _PROXIES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise OptionError(what, "proxy", _HIDDEN, f"an address that begins with one of {', '.join(_PROXIES)}")


def _secrets(key: str | None, headers: Mapping[str, str], query: Mapping[str, str], proxy: str | None) -> set[str]:
    """Return the secrets that no error or log may show: the key, and every value whose name sounds like a secret."""
    named = [*headers.items(), *query.items()]
    found = {value.removeprefix("Bearer ").strip() for name, value in named if _SECRET.search(name)}
    password = urlsplit(proxy).password if proxy else None
    return {*found, key.strip() if key else "", password or ""} - {""}


class EndpointClient:
    """The base of models and embedders: a client of one endpoint. Its connections stay open until it is closed.

    Attributes:
        name: the provider and the model, for people: ``openai/gpt-5``.
        model: the provider's name of the model: ``gpt-5``.
        provider: the provider, and its peculiarities.
    """

    __slots__ = ("_http", "model", "name", "provider")

    def __init__(self, name: str, reach: EndpointOptions) -> None:
        """Find the endpoint. With a base URL and no provider, the name is the server's own.

        Raises:
            OptionError: the provider is unknown, the key is missing, or an option has a value that is not allowed.
            MissingExtraError: the extra ``openai`` is not installed.
        """
        what = type(self).__name__
        provider, self.model = _provider(what, name, reach)
        self.provider = provider
        url = _url(what, filled(reach.base_url or provider.url, what))
        key = reach.api_key if isinstance(reach.api_key, str) else None
        function = reach.api_key if callable(reach.api_key) else None
        if reach.api_key is None and (reach.base_url is None or reach.provider is not None):
            key = key_for(provider if reach.base_url is None else replace(provider, keyless=True), what)
        headers = {**_key_header(what, provider, key), **_headers(what, "headers", reach.headers or {})}
        query = {name: filled(value, what) for name, value in provider.query} | dict(reach.query or {})
        self.name = name if reach.provider is None and provider is not ANY else f"{provider.name}/{self.model}"
        if reach.proxy is not None:
            _check_proxy(what, reach.proxy)
        failures = Failures(self.name, _secrets(key, headers, query, reach.proxy))
        place = ModelEndpoint(url, headers, query, reach.limits, reach.proxy, reach.verify)
        made = None if function is None else KeyHeader(what, provider, function)
        self._http = Http(place, failures, reach.client, made)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self._http.place.url!r})"

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
