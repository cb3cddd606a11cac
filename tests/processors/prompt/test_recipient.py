"""Whom a prompt is for: what the names of models tell, in all the ways in which they are written."""

from typing import Any

import pytest

from penstock.processors.prompt import Recipient
from penstock.processors.prompt.recipient import family_of, provider_named, recipient_of
from penstock.testing import ScriptedModel


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("openai/gpt-5", "openai", "gpt-5"),
        (" OpenAI/GPT-5 ", "openai", "gpt-5"),
        ("openai-responses:gpt-5", "openai", "gpt-5"),
        ("openai.responses/gpt-5", "openai", "gpt-5"),
        ("azure-openai.chat/gpt-5", "azure", "gpt-5"),
        ("anthropic:claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ("vertex.anthropic.messages/claude-opus-4-6", "anthropic", "claude-opus-4-6"),
        ("bedrock:us.anthropic.claude-opus-4-6-v1:0", "bedrock", "us.anthropic.claude-opus-4-6-v1:0"),
        ("google-gla:gemini-3-pro", "google", "gemini-3-pro"),
        ("google.vertex.chat/gemini-3-pro", "google", "gemini-3-pro"),
        ("google-vertex/gemini-3-pro", "vertex", "gemini-3-pro"),
        ("gateway/anthropic:claude-opus-5", "anthropic", "claude-opus-5"),
        ("openrouter/google/gemini-3-pro", "openrouter", "google/gemini-3-pro"),
        ("ollama/gpt-oss:20b", "ollama", "gpt-oss:20b"),
    ],
)
def test_provider_and_model_are_read_from_a_name(name: str, provider: str, model: str) -> None:
    """However it is spelt, a provider has one name."""
    assert (
        recipient_of(name) == recipient_of(ScriptedModel([], name=name)) == Recipient(frozenset({provider}), (model,))
    )


def test_a_bare_name_tells_no_provider() -> None:
    """Anybody may offer a model of that name."""
    assert recipient_of("gpt-5") == Recipient(frozenset(), ("gpt-5",))


@pytest.mark.parametrize("model", [None, len, 1, ()])
def test_what_has_no_name_tells_nothing(model: Any) -> None:
    """A function that picks a model, say."""
    assert recipient_of(model) == Recipient()


@pytest.mark.parametrize(
    "models",
    [["openai/gpt-5", "azure:gpt-5"], ("fallback:openai:gpt-5,azure:gpt-5",), "fallback:openai:gpt-5,azure:gpt-5"],
)
def test_of_several_models_each_counts(models: Any) -> None:
    """Any of them may be asked."""
    found = recipient_of(models)
    assert (found.providers, found.models) == ({"openai", "azure"}, ("gpt-5", "gpt-5"))
    assert found.families == {"openai"}
    assert found.is_any("azure", "x")
    assert not found.is_any("anthropic")


def test_clouds_offer_the_models_of_others() -> None:
    """So they belong to their families."""
    assert [family_of(provider_named(name)) for name in ("azure", "vertex", "Google", "mistral")] == [
        "openai",
        "google",
        "google",
        "mistral",
    ]
