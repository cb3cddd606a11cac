"""Where a model's requests go, found from a name, the environment and what is given by hand; it knows no request."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.engine.values.errors import OptionError
from penstock.models.openai.failures import Failures
from penstock.models.openai.http import USUAL, Http, Place
from penstock.models.providers import ANY, filled, key_for, provider_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from penstock.models.openai.http import TimeLimits
    from penstock.models.providers import Provider

_KEY = re.compile(r"[\x21-\x7e]+")
_HEADER = re.compile(r"[\x20-\x7e\t]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROXIES = ("http", "https", "socks5", "socks5h")
_SECRET = re.compile(r"auth|key|token|secret|cookie|signature|password|credential", re.IGNORECASE)
_HIDDEN = "(not shown)"


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach a model: what users may say about it, by the names of their options."""

    provider: str | Provider | None = None
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] | None = None
    query: Mapping[str, str] | None = None
    limits: TimeLimits = USUAL
    proxy: str | None = None
    verify: bool = True
    client: httpx.AsyncClient | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """A model's place, found.

    Attributes:
        name: what it is called, for people.
        model: what the provider calls it.
        provider: who offers it.
        http: what sends requests there.
    """

    name: str
    model: str
    provider: Provider
    http: Http


def reached(what: str, name: str, reach: Reach) -> Reached:
    """Return the place of a model. With a base URL, and no provider, any name is the server's own.

    Raises:
        OptionError: the provider is not known, no key is there, or an option cannot be; ``what`` is said to have it.
        MissingExtraError: httpx is not installed.
    """
    provider, model = _provider(what, name, reach)
    url = _url(what, filled(reach.base_url or provider.url, what))
    key = reach.api_key
    if key is None and (reach.base_url is None or reach.provider is not None):
        key = key_for(provider if reach.base_url is None else replace(provider, keyless=True), what)
    headers = {**_key_header(what, provider, key), **_headers(what, reach.headers or {})}
    query = {name: filled(value, what) for name, value in provider.query} | dict(reach.query or {})
    shown = name if reach.provider is None and provider is not ANY else f"{provider.name}/{model}"
    if reach.proxy is not None:
        _check_proxy(what, reach.proxy)
    failures = Failures(shown, _secrets(key, headers, query, reach.proxy))
    place = Place(url, headers, query, reach.limits, reach.proxy, reach.verify)
    return Reached(shown, model, provider, Http(place, failures, reach.client))


def _provider(what: str, name: str, reach: Reach) -> tuple[Provider, str]:
    """Return who offers a model, and what it is called there."""
    first, slash, rest = name.partition("/")
    if reach.provider is not None:
        given = reach.provider
        return (provider_named(given) if isinstance(given, str) else given), name
    if reach.base_url is not None:
        return ANY, name
    if not slash or not rest:
        raise OptionError(what, "name", name, "<provider>/<model>, as in 'openai/gpt-5', unless base_url= is given")
    return provider_named(first), rest


def _url(what: str, url: str) -> str:
    """Return an address without a slash at its end; one with a password in it would show up in logs."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise OptionError(what, "base_url", _HIDDEN, "an address") from None
    if parts.username is not None or parts.password is not None:
        raise OptionError(what, "base_url", _HIDDEN, "an address without a name or password; put those into headers=")
    if parts.query or parts.fragment:
        raise OptionError(what, "base_url", _HIDDEN, "an address without a query; put that into query=")
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


def _headers(what: str, given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not _HEADER_NAME.fullmatch(name):
            raise OptionError(what, "headers", name, "named by letters, digits and hyphens")
        if not _HEADER.fullmatch(value):
            raise OptionError(what, f"headers[{name!r}]", _HIDDEN, "a text of one line, of ASCII characters")
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
    """Return what no text of ours may hold: the key, and whatever goes by a name that sounds like one."""
    named = [*headers.items(), *query.items()]
    found = {value.removeprefix("Bearer ").strip() for name, value in named if _SECRET.search(name)}
    password = urlsplit(proxy).password if proxy else None
    return {*found, key.strip() if key else "", password or ""} - {""}
