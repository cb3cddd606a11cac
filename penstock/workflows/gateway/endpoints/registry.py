"""`ENDPOINTS`: the protocols that the gateway serves, by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.gateway.endpoints.completions import Completions
from penstock.workflows.gateway.endpoints.embeddings import Embeddings
from penstock.workflows.gateway.endpoints.messages import CountTokens, Messages
from penstock.workflows.gateway.endpoints.responses import Responses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.workflows.gateway.endpoints.endpoint import Endpoint

_ALL: tuple[Endpoint, ...] = (ChatCompletions(), Responses(), Messages(), CountTokens(), Completions(), Embeddings())

ENDPOINTS: Mapping[str, Endpoint] = {path: endpoint for endpoint in _ALL for path in endpoint.paths}
"""Each protocol under each path that it is served at."""


def closed_because(path: str) -> str:
    """Return why nothing under a path is passed to a provider, and what to do; empty if no protocol says so."""
    told = (one for endpoint in _ALL for one in endpoint.closed.items())
    return next((why for beginning, why in told if path.startswith(beginning)), "")
