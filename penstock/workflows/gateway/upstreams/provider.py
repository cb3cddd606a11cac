"""`UpstreamProvider`: the address of one provider, its key, and how long the gateway waits for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.workflows.gateway.secret import Secret

_VERSION = re.compile(r"/v\d+\w*(?=/|$)")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the gateway waits for a provider, in seconds.

    Attributes:
        connect: until the connection stands.
        first: until the status and the headers of the reply are there.
        idle: between two pieces of the body.
        total: for the whole exchange.
    """

    connect: float = 10.0
    first: float = 300.0
    idle: float = 120.0
    total: float = 3600.0


@dataclass(frozen=True, slots=True)
class UpstreamProvider:
    """One provider behind the gateway.

    Attributes:
        name: its name, for logs and metrics.
        url: its base URL, as its own clients take it: ``https://api.openai.com/v1``, ``https://api.anthropic.com``.
        key: its key; None if it has none, or the clients send theirs.
        passes_keys: whether it gets the keys that clients send.
        key_header: the header that carries the key; None: ``x-api-key`` for Anthropic's endpoints, else
            ``authorization``.
        headers: further headers that it gets.
        timeouts: how long to wait for it.
        most_bytes: how long the body of a reply may be, decompressed.
    """

    name: str
    url: str
    key: Secret | None = None
    passes_keys: bool = False
    key_header: str | None = None
    headers: tuple[tuple[str, Secret], ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    most_bytes: int = 256 * 1024 * 1024

    def url_of(self, path: str, query: str) -> str:
        """Return the address of an endpoint.

        Where the base URL names a version (``…/v1``, ``…/api/v3``), that of the path is left out.

        Args:
            path: the path, as in ``/v1/chat/completions``.
            query: the query; may be empty.
        """
        base, _, own = self.url.partition("?")
        base = base.rstrip("/")
        scheme, _, rest = base.partition("://")
        if _VERSION.search(rest):
            path = _VERSION.sub("", path, count=1) if path.startswith("/v") else path
        queries = "&".join(one for one in (own, query) if one)
        return f"{scheme}://{rest}{path}" + (f"?{queries}" if queries else "")
