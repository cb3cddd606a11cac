"""Which headers go on to a provider, and which of its own go back to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.gateway.http import header_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.workflows.gateway.http import Headers, HttpRequest
    from penstock.workflows.gateway.upstreams.provider import UpstreamProvider

_NONE: frozenset[str] = frozenset()

KEY_HEADERS = ("authorization", "x-api-key", "api-key")
"""The headers in which clients send keys, by how often they are used."""

_OF_CONNECTION = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# The provider must not see them: who the client is, where it is, and what it may do at the gateway.
_OF_CLIENT = frozenset({*KEY_HEADERS, "accept-encoding", "cookie", "forwarded", "host", "origin", "referer", "via"})
_OF_CLIENT_PREFIXES = ("x-forwarded-", "x-real-", "cf-", "sec-", "x-penstock-", "x-amz-", "x-goog-")
# They choose an account of the key's owner; with a key of the gateway, its owner chooses.
_OF_ACCOUNT = frozenset({"openai-organization", "openai-project", "anthropic-organization-id"})
# A browser would act on them for the gateway's own address.
_OF_SITE = frozenset(
    {"alt-svc", "date", "location", "server", "set-cookie", "strict-transport-security", "www-authenticate"}
)
_NOT_FOR_CLIENTS = _OF_CONNECTION | _OF_SITE
_NOT_FOR_PROVIDERS = _OF_CONNECTION | _OF_CLIENT
_NOT_FOR_KEY_OWNERS = _NOT_FOR_PROVIDERS | _OF_ACCOUNT


def towards_provider(request: HttpRequest, provider: UpstreamProvider) -> list[tuple[str, str]]:
    """Return the headers of a request to a provider, with its key.

    Args:
        request: the request of a client.
        provider: the provider.
    """
    named = _named_by_connection(request.headers)
    dropped = _NOT_FOR_PROVIDERS if provider.passes_keys else _NOT_FOR_KEY_OWNERS
    made = [
        one
        for one in request.headers
        if one[0] not in dropped and one[0] not in named and not one[0].startswith(_OF_CLIENT_PREFIXES)
    ]
    if provider.headers:
        made += [(name, value.reveal()) for name, value in provider.headers]
    if provider.key is not None:
        made.append(_key_header(request.path, provider))
    elif provider.passes_keys:
        made += [(name, value) for name, value in request.headers if name in KEY_HEADERS]
    return made


def towards_client(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers of a provider's reply without those of the connection and of its site."""
    given = [(name.lower(), value) for name, value in headers]
    named = _named_by_connection(given)
    return tuple([one for one in given if one[0] not in _NOT_FOR_CLIENTS and one[0] not in named])


def client_key(headers: Headers) -> str | None:
    """Return the key that a client sent; None if it sent none."""
    for name in KEY_HEADERS:
        value = header_of(headers, name)
        if value:
            scheme, _, key = value.partition(" ")
            return key.strip() if name == "authorization" and scheme.lower() == "bearer" else value
    return None


def _key_header(path: str, provider: UpstreamProvider) -> tuple[str, str]:
    key = "" if provider.key is None else provider.key.reveal()
    name = provider.key_header or ("x-api-key" if path.startswith("/v1/messages") else "authorization")
    return name, f"Bearer {key}" if name == "authorization" else key


def _named_by_connection(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the headers that ``connection`` names: they are for the next hop only."""
    value = ",".join([value for name, value in headers if name == "connection"])
    return frozenset([one.strip().lower() for one in value.split(",")]) if value else _NONE
