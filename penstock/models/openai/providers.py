"""Who offers models by OpenAI's protocol: where, under which key, and in what they differ; it knows no connection.

Addresses, variables and differences are taken from the providers' own documentation and from recorded exchanges.
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

Thoughts = Literal["as they came", "left out", "reasoning_content", "reasoning", "details", "thinking"]
"""How a provider wants earlier thoughts back: in the field in which they came (a provider that nobody told us about);
not at all (it refuses the field); under that name; in ``reasoning_details``, if they came there, else under
``reasoning``; among the content, in parts of the type ``thinking``."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, or a server of one's own.

    Attributes:
        name: what stands before the slash of a model's name.
        url: its address; ``{NAME}`` stands for a variable of the environment, ``{NAME|text}`` for one that may lack.
        keys: the variables that may hold the key; the first that is set counts.
        keyless: whether it may do without a key.
        header: the header that the key goes into; with ``Bearer`` before it, if that is ``Authorization``.
        query: what every address ends in, by name; variables as in ``url``.
        thoughts: how it wants earlier thoughts back.
        limit: what it calls the largest number of tokens of an answer.
        required: what it calls the choice of any tool.
        schemas: whether it keeps answers to a JSON Schema; if not, the schema is told to the model.
        stream_options: whether it can be asked to count what a stream took.
    """

    name: str
    url: str
    keys: tuple[str, ...] = ()
    keyless: bool = False
    header: str = "Authorization"
    query: tuple[tuple[str, str], ...] = ()
    thoughts: Thoughts = "as they came"
    limit: str = "max_tokens"
    required: str = "required"
    schemas: bool = True
    stream_options: bool = True


ANY = Provider("openai-compatible", "", keyless=True)
"""A server that nobody told us about."""

_OPENAI_LIMIT = "max_completion_tokens"

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "openai",
            "{OPENAI_BASE_URL|https://api.openai.com/v1}",
            ("OPENAI_API_KEY",),
            thoughts="left out",
            limit=_OPENAI_LIMIT,
        ),
        Provider("alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ("DASHSCOPE_API_KEY",)),
        Provider(
            "anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), thoughts="left out", schemas=False
        ),
        Provider(
            "azure",
            "{AZURE_OPENAI_ENDPOINT}/openai/v1",
            ("AZURE_OPENAI_API_KEY",),
            header="api-key",
            thoughts="left out",
            limit=_OPENAI_LIMIT,
        ),
        Provider("bedrock", "https://bedrock-mantle.{AWS_REGION|us-east-1}.api.aws/v1", ("AWS_BEARER_TOKEN_BEDROCK",)),
        Provider(
            "cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), thoughts="reasoning", limit=_OPENAI_LIMIT
        ),
        Provider("cohere", "https://api.cohere.ai/compatibility/v1", ("CO_API_KEY",), thoughts="left out"),
        Provider("crusoe", "https://api.inference.crusoecloud.com/v1", ("CRUSOE_API_KEY",)),
        Provider("deepinfra", "https://api.deepinfra.com/v1/openai", ("DEEPINFRA_API_KEY",)),
        Provider(
            "deepseek",
            "https://api.deepseek.com",
            ("DEEPSEEK_API_KEY",),
            thoughts="reasoning_content",
            schemas=False,
        ),
        Provider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
        Provider(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            thoughts="left out",
        ),
        Provider("github", "https://models.github.ai/inference", ("GITHUB_TOKEN",), thoughts="left out"),
        Provider(
            "groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), thoughts="reasoning", limit=_OPENAI_LIMIT
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
            thoughts="thinking",
            required="any",
            stream_options=False,
        ),
        Provider("moonshot", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), thoughts="reasoning_content"),
        Provider("nebius", "https://api.studio.nebius.com/v1", ("NEBIUS_API_KEY",)),
        Provider("nvidia", "https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
        Provider(
            "ollama",
            "{OLLAMA_BASE_URL|http://127.0.0.1:11434/v1}",
            ("OLLAMA_API_KEY",),
            keyless=True,
            thoughts="reasoning",
        ),
        Provider("ollama-cloud", "https://ollama.com/v1", ("OLLAMA_API_KEY",), thoughts="reasoning"),
        Provider("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), thoughts="details"),
        Provider("perplexity", "https://api.perplexity.ai", ("PERPLEXITY_API_KEY",), thoughts="left out"),
        Provider("sambanova", "https://api.sambanova.ai/v1", ("SAMBANOVA_API_KEY",)),
        Provider(
            "snowflake",
            "https://{SNOWFLAKE_ACCOUNT}.snowflakecomputing.com/api/v2/cortex/v1",
            ("SNOWFLAKE_TOKEN", "SNOWFLAKE_PAT"),
            thoughts="details",
            limit=_OPENAI_LIMIT,
        ),
        Provider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
        Provider("vercel", "https://ai-gateway.vercel.sh/v1", ("AI_GATEWAY_API_KEY",), thoughts="details"),
        Provider("vllm", "{VLLM_BASE_URL|http://127.0.0.1:8000/v1}", ("VLLM_API_KEY",), keyless=True),
        Provider("voyage", "https://api.voyageai.com/v1", ("VOYAGE_API_KEY",)),
        Provider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
        Provider("zai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",), thoughts="reasoning_content", schemas=False),
    )
}
"""The providers that are known by name."""

_ALIASES = {"z.ai": "zai", "google": "gemini", "hf": "huggingface", "azure-openai": "azure", "lm-studio": "lmstudio"}
_VARIABLE = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")


def provider_named(name: str) -> Provider:
    """Return the provider of a name.

    Raises:
        OptionError: there is none; the known ones are told.
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
    """Return an address with the variables of the environment put in.

    Raises:
        OptionError: one that is needed is not set.
    """

    def value(found: re.Match[str]) -> str:
        given = os.environ.get(found[1]) or found[2]
        if given is None:
            raise OptionError(what, "base_url", None, f"given, or {found[1]} set in the environment")
        return given.rstrip("/")

    return _VARIABLE.sub(value, template)


def key_for(provider: Provider, what: str) -> str | None:
    """Return the key that the environment holds for a provider; None where it may do without.

    Raises:
        OptionError: it may not; the variable is named.
    """
    found = next((key for name in provider.keys if (key := os.environ.get(name))), None)
    if found is None and not provider.keyless:
        names = " or ".join(provider.keys)
        raise OptionError(what, "api_key", None, f"given, or {names} set in the environment")
    return found
