"""A model by its name; it knows which class speaks to which provider, and no protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.models.openai.model import OpenAICompatibleModel

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ports import Model


def model(name: str | Model, **options: Value) -> Model:
    """Return the model of a name such as ``openai/gpt-5`` or ``openrouter/openai/gpt-oss-safeguard-20b``.

    What is a model already is returned as it is. Options are those of `OpenAICompatibleModel`.

    Raises:
        OptionError: the provider is not known, no key is there, or an option cannot be.
        MissingExtraError: the extra ``openai`` is not installed.
    """
    return OpenAICompatibleModel(name, **options) if isinstance(name, str) else name
