"""`Recipient`: the providers and models that a prompt is for, read from the names of models.

Names may be those of Penstock (``openai/gpt-5``), of pydantic-ai (``anthropic:claude-haiku-4-5``) and of the AI SDK,
which adds details after a dot (``anthropic.messages``, ``google.generative-ai``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from penstock.detection.deferred import deferred
from penstock.engine.values.frozen import is_items

_COMMON_NAMES = {
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
_GATEWAY = "gateway/"  # of pydantic-ai: the protocol of the provider at another address
_FALLBACK = "fallback"  # of pydantic-ai: several models, tried in order
_SEPARATOR = deferred("[/:]")


@dataclass(frozen=True, slots=True)
class Recipient:
    """The providers and models that a prompt is for.

    There are several if a model has fallbacks, and none if the name of the model does not tell.

    Attributes:
        providers: the providers, in lower case, by their common names: ``anthropic``, ``azure``, ``openai``, ``vertex``
            …
        models: the models as their providers call them, in lower case: ``gpt-5``. Behind a gateway, with the prefix of
            the gateway.
    """

    providers: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()

    @property
    def families(self) -> frozenset[str]:
        """The providers whose models these offer: OpenAI for Azure, Google for Vertex."""
        return frozenset(map(family_of, self.providers))

    def is_any(self, *providers: str) -> bool:
        """Return whether one of those providers may receive the prompt."""
        return not self.providers.isdisjoint(providers)


def provider_named(given: str) -> str:
    """Return the common name of a provider: ``anthropic`` for ``anthropic.messages``."""
    labels = given.strip().lower().split(".")
    return "anthropic" if "anthropic" in labels else _COMMON_NAMES.get(labels[0], labels[0])


def family_of(provider: str) -> str:
    """Return the provider whose models a provider offers, by its common name."""
    return _FAMILIES.get(provider, provider)


def recipient_of(model: object) -> Recipient:
    """Return the recipient of a prompt for a model.

    Args:
        model: a name, an object with a ``name``, or a list of either. Anything else gives an empty `Recipient`.
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
    """Return provider and model of each model that a name stands for; the provider is empty if it is not named."""
    text = name.strip().lower().removeprefix(_GATEWAY)
    mark = _SEPARATOR.search(text)
    if mark is None:
        return [("", text)]
    head, rest = text[: mark.start()], text[mark.end() :]
    if head == _FALLBACK:
        return [found for each in rest.split(",") for found in _read(each)]
    return [(provider_named(head), rest)]
