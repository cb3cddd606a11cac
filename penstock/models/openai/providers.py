"""The providers that speak OpenAI's protocol: their addresses, the variables of their keys, and how they differ.

Everything is taken from the providers' own documentation and from recorded exchanges.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

ReasoningReturn = Literal["as received", "left out", "reasoning_content", "reasoning", "details", "thinking"]
"""How a provider wants earlier reasoning back. ``as received``: in the field in which it came (unknown providers).
``left out``: not at all, since it refuses the field. ``reasoning_content``, ``reasoning``: in the field of that name.
``details``: in ``reasoning_details`` if it came there, else in ``reasoning``. ``thinking``: in parts of the content of
that type."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, or a server of your own.

    Attributes:
        name: the part of a model's name before the slash.
        url: the address; ``{NAME}`` stands for an environment variable, ``{NAME|text}`` for one with a default.
        keys: the environment variables that may hold the key; the first that is set is used.
        keyless: whether it works without a key.
        header: the header of the key; in ``Authorization`` the key follows the word ``Bearer``.
        query: the query of every address, as pairs; variables as in ``url``.
        reasoning: how it wants earlier reasoning back.
        limit: its name of the setting ``max_tokens``.
        required: its name of the tool choice ``required``.
        schemas: whether it enforces JSON Schemas; if not, the schema is written into the prompt.
        stream_options: whether it can be asked for the usage of a stream.
    """

    name: str
    url: str
    keys: tuple[str, ...] = ()
    keyless: bool = False
    header: str = "Authorization"
    query: tuple[tuple[str, str], ...] = ()
    reasoning: ReasoningReturn = "as received"
    limit: str = "max_tokens"
    required: str = "required"
    schemas: bool = True
    stream_options: bool = True


ANY = Provider("openai-compatible", "", keyless=True)
"""An unknown server."""

_OPENAI_LIMIT = "max_completion_tokens"

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "openai",
            "{OPENAI_BASE_URL|https://api.openai.com/v1}",
            ("OPENAI_API_KEY",),
            reasoning="left out",
            limit=_OPENAI_LIMIT,
        ),
        Provider("alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ("DASHSCOPE_API_KEY",)),
        Provider(
            "anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), reasoning="left out", schemas=False
        ),
        Provider(
            "azure",
            "{AZURE_OPENAI_ENDPOINT}/openai/v1",
            ("AZURE_OPENAI_API_KEY",),
            header="api-key",
            reasoning="left out",
            limit=_OPENAI_LIMIT,
        ),
        Provider("bedrock", "https://bedrock-mantle.{AWS_REGION|us-east-1}.api.aws/v1", ("AWS_BEARER_TOKEN_BEDROCK",)),
        Provider(
            "cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), reasoning="reasoning", limit=_OPENAI_LIMIT
        ),
        Provider("cohere", "https://api.cohere.ai/compatibility/v1", ("CO_API_KEY",), reasoning="left out"),
        Provider("crusoe", "https://api.inference.crusoecloud.com/v1", ("CRUSOE_API_KEY",)),
        Provider("deepinfra", "https://api.deepinfra.com/v1/openai", ("DEEPINFRA_API_KEY",)),
        Provider(
            "deepseek",
            "https://api.deepseek.com",
            ("DEEPSEEK_API_KEY",),
            reasoning="reasoning_content",
            schemas=False,
        ),
        Provider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
        Provider(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            reasoning="left out",
        ),
        Provider("github", "https://models.github.ai/inference", ("GITHUB_TOKEN",), reasoning="left out"),
        Provider(
            "groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), reasoning="reasoning", limit=_OPENAI_LIMIT
        ),
        Provider("heroku", "{HEROKU_INFERENCE_URL|https://us.inference.heroku.com}/v1", ("HEROKU_INFERENCE_KEY",)),
        Provider("huggingface", "https://router.huggingface.co/v1", ("HF_TOKEN",)),
        Provider("litellm", "{LITELLM_BASE_URL|http://127.0.0.1:4000/v1}", ("LITELLM_API_KEY",), keyless=True),
        Provider("llamacpp", "{LLAMACPP_BASE_URL|http://127.0.0.1:8080/v1}", ("LLAMACPP_API_KEY",), keyless=True),
        Provider("lmstudio", "{LMSTUDIO_BASE_URL|http://127.0.0.1:1234/v1}", ("LMSTUDIO_API_KEY",), keyless=True),
        Provider(
            "mistral",
            "https://api.mistral.ai/v1",
            ("MISTRAL_API_KEY",),
            reasoning="thinking",
            required="any",
            stream_options=False,
        ),
        Provider("moonshot", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), reasoning="reasoning_content"),
        Provider("nebius", "https://api.studio.nebius.com/v1", ("NEBIUS_API_KEY",)),
        Provider("nvidia", "https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
        Provider(
            "ollama",
            "{OLLAMA_BASE_URL|http://127.0.0.1:11434/v1}",
            ("OLLAMA_API_KEY",),
            keyless=True,
            reasoning="reasoning",
        ),
        Provider("ollama-cloud", "https://ollama.com/v1", ("OLLAMA_API_KEY",), reasoning="reasoning"),
        Provider("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), reasoning="details"),
        Provider("perplexity", "https://api.perplexity.ai", ("PERPLEXITY_API_KEY",), reasoning="left out"),
        Provider("sambanova", "https://api.sambanova.ai/v1", ("SAMBANOVA_API_KEY",)),
        Provider(
            "snowflake",
            "https://{SNOWFLAKE_ACCOUNT}.snowflakecomputing.com/api/v2/cortex/v1",
            ("SNOWFLAKE_TOKEN", "SNOWFLAKE_PAT"),
            reasoning="details",
            limit=_OPENAI_LIMIT,
        ),
        Provider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
        Provider("vercel", "https://ai-gateway.vercel.sh/v1", ("AI_GATEWAY_API_KEY",), reasoning="details"),
        Provider("vllm", "{VLLM_BASE_URL|http://127.0.0.1:8000/v1}", ("VLLM_API_KEY",), keyless=True),
        Provider("voyage", "https://api.voyageai.com/v1", ("VOYAGE_API_KEY",)),
        Provider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
        Provider("zai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",), reasoning="reasoning_content", schemas=False),
    )
}
"""The known providers, by name."""

_ALIASES = {"z.ai": "zai", "google": "gemini", "hf": "huggingface", "azure-openai": "azure", "lm-studio": "lmstudio"}
_VARIABLE = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")


def provider_named(name: str) -> Provider:
    """Return the provider of a name.

    Raises:
        OptionError: there is none; the error lists the known ones.
    """
    known = name.lower()
    found = PROVIDERS.get(_ALIASES.get(known, known))
    if found is not None:
        return found
    close = difflib.get_close_matches(known, [*PROVIDERS, *_ALIASES], n=1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    allowed = f"one of {', '.join(sorted(PROVIDERS))}{meant}; or give base_url=, and any name is the server's own"
    raise OptionError("model", "provider", name, allowed)


def filled(template: str, what: str) -> str:
    """Return an address with the environment variables filled in.

    Raises:
        OptionError: a variable without a default is not set.
    """

    def value(found: re.Match[str]) -> str:
        given = os.environ.get(found[1]) or found[2]
        if given is None:
            raise OptionError(what, "base_url", None, f"given, or {found[1]} set in the environment")
        return given.rstrip("/")

    return _VARIABLE.sub(value, template)


def key_for(provider: Provider, what: str) -> str | None:
    """Return the provider's key from the environment; None if there is none and the provider works without.

    Raises:
        OptionError: there is none and the provider needs one; the error names the variable.
    """
    found = next((key for name in provider.keys if (key := os.environ.get(name))), None)
    if found is None and not provider.keyless:
        names = " or ".join(provider.keys)
        raise OptionError(what, "api_key", None, f"given for this model, or {names} set in the environment")
    return found
