"""Whom a prompt is for: the provider of a model, and the model, as far as their names tell. It knows no model's class.

Names are those of Penstock (``openai/gpt-5``), of pydantic-ai (``anthropic:claude-haiku-4-5``) and of the AI SDK, which
says more of a provider behind a dot (``anthropic.messages``, ``google.generative-ai``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from penstock.engine.values.frozen import is_items

_SAME = {
    "amazon-bedrock": "bedrock",
    "azure-openai": "azure",
    "azure-responses": "azure",
    "gemini": "google",
    "google-cloud": "vertex",
    "google-generative-ai": "google",
    "google-gla": "google",
    "google-vertex": "vertex",
    "googlevertex": "vertex",
    "openai-chat": "openai",
    "openai-codex": "openai",
    "openai-responses": "openai",
}
_FAMILIES = {"azure": "openai", "vertex": "google"}
_RELAYED = "gateway/"  # of pydantic-ai: the provider's own protocol, by another address
_EITHER = "fallback"  # of pydantic-ai: several models, one after the other
_MARK = re.compile("[/:]")


@dataclass(frozen=True, slots=True)
class Recipient:
    """Whom a prompt is for. Several providers where one model may stand in for another; none where no name tells.

    Attributes:
        providers: the providers, in lower case, each by one name: ``anthropic``, ``azure``, ``openai``, ``vertex`` …
        models: the models as their providers call them, in lower case: ``gpt-5``; behind a gateway with its own prefix.
    """

    providers: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()

    @property
    def families(self) -> frozenset[str]:
        """The providers by whose models they offer: Azure's are OpenAI's, and Vertex's are Google's."""
        return frozenset(map(family_of, self.providers))

    def is_any(self, *providers: str) -> bool:
        """Tell whether it may be one of those providers."""
        return not self.providers.isdisjoint(providers)


def provider_named(given: str) -> str:
    """Return the one name of a provider, however it is spelt: ``anthropic`` for ``anthropic.messages``."""
    labels = given.strip().lower().split(".")
    return "anthropic" if "anthropic" in labels else _SAME.get(labels[0], labels[0])


def family_of(provider: str) -> str:
    """Return the family of a provider's one name: whose models it offers."""
    return _FAMILIES.get(provider, provider)


def recipient_of(model: object) -> Recipient:
    """Return whom a model's prompt is for.

    Args:
        model: a name, a model with a ``name``, or several of either; anything else tells nothing.
    """
    return _recipient(_names(model))


def _names(model: object) -> tuple[str, ...]:
    if isinstance(model, str):
        return (model,)
    if is_items(model):
        return tuple(name for item in model for name in _names(item))
    name = getattr(model, "name", None)
    return (name,) if isinstance(name, str) else ()


@lru_cache(maxsize=256)
def _recipient(names: tuple[str, ...]) -> Recipient:
    read = [found for name in names for found in _read(name)]
    return Recipient(frozenset(provider for provider, _ in read if provider), tuple(model for _, model in read))


def _read(name: str) -> list[tuple[str, str]]:
    """Return provider and model of each that a name names; no provider where it names a model alone."""
    text = name.strip().lower().removeprefix(_RELAYED)
    mark = _MARK.search(text)
    if mark is None:
        return [("", text)]
    head, rest = text[: mark.start()], text[mark.end() :]
    if head == _EITHER:
        return [found for each in rest.split(",") for found in _read(each)]
    return [(provider_named(head), rest)]
