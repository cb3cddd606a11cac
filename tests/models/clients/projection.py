"""Recorded requests read back into what Penstock would have been asked, and what counts as the same request.

What is the same (`normalised`): whether and how an answer is streamed; ``tool_choice: auto``, which is what no choice
means; null for what is not said; one answer (``n: 1``); the two names of the largest number of tokens; a function
without a type, or with an empty description; ``strict: false``; an empty list of tools or calls.
"""

from typing import Any

from penstock import Message
from penstock.engine import ModelRequest, ResponseFormat, ToolSpec
from penstock.formats import openai_chat
from penstock.models.openai.providers import ANY, PROVIDERS, Provider

HOSTS = {
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.inference.crusoecloud.com": "crusoe",
    "api.mistral.ai": "mistral",
    "api.openai.com": "openai",
    "api.z.ai": "zai",
    "bedrock-mantle.us-east-1.api.aws": "bedrock",
    "generativelanguage.googleapis.com": "gemini",
    "ollama.com": "ollama-cloud",
    "openrouter.ai": "openrouter",
    "router.huggingface.co": "huggingface",
}
SETTINGS = (
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "parallel_tool_calls",
    "reasoning_effort",
)
OURS = {"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options"}


def provider_of(host: str) -> Provider:
    """Return the provider that a recorded host belongs to."""
    if host.endswith(".snowflakecomputing.com"):
        return PROVIDERS["snowflake"]
    if host.endswith(".openai.azure.com"):
        return PROVIDERS["azure"]
    return PROVIDERS[HOSTS[host]] if host in HOSTS else ANY


def projected(body: dict[str, Any]) -> ModelRequest:
    """Return the request that a recorded body answers to."""
    options = {key: value for key, value in body.items() if key not in OURS and key not in SETTINGS}
    settings = {key: body[key] for key in SETTINGS if body.get(key) is not None}
    limit = options.pop("max_completion_tokens", None) or options.pop("max_tokens", None)
    if limit is not None:
        settings["max_tokens"] = limit
    tools = [tool_of(tool) for tool in body.get("tools", [])]
    if None in tools:
        tools, options["tools"] = [], body["tools"]
    messages: tuple[Message, ...] = openai_chat.read(body["messages"])
    choice = choice_of(body.get("tool_choice"))
    if not tools and body.get("tool_choice") not in (None, "auto"):
        options["tool_choice"] = body["tool_choice"]
    return ModelRequest(messages, tuple(tools), choice, settings, form_of(body.get("response_format")), options)


def tool_of(tool: dict[str, Any]) -> ToolSpec | None:
    """Return a function; None for a tool that is more, or something else."""
    if tool.get("type", "function") != "function" or tool.keys() - {"type", "function"}:
        return None
    function = tool["function"]
    return ToolSpec(function["name"], function["parameters"], function.get("description", ""), function.get("strict"))


def choice_of(choice: Any) -> Any:
    """Return which tools may be called."""
    if isinstance(choice, dict):
        return (choice["function"]["name"],)
    return {"none": "none", "required": "required", "any": "required"}.get(choice, "auto")


def form_of(given: dict[str, Any] | None) -> ResponseFormat | None:
    """Return the form of the answer."""
    if given is None or given["type"] == "json_object":
        return None if given is None else ResponseFormat()
    inner = given["json_schema"]
    return ResponseFormat(inner["schema"], inner["name"], inner.get("description", ""), inner.get("strict", False))


def normalised(value: Any) -> Any:
    """Return a body without what makes no difference."""
    unsaid = ("stream", "stream_options", "n")
    body = {key: item for key, item in value.items() if key not in unsaid and item is not None and item != []}
    if body.get("tool_choice") == "auto":
        del body["tool_choice"]
    if "max_tokens" in body:
        body["max_completion_tokens"] = body.pop("max_tokens")
    body["messages"] = [without_nothing(item) for item in body["messages"]]
    if isinstance(body.get("tool_choice"), dict):
        body["tool_choice"] = {"type": "function", **body["tool_choice"]}
    if "tools" in body:
        body["tools"] = [plain_tool(tool) for tool in body["tools"]]
    form = body.get("response_format", {})
    if form.get("json_schema", {}).get("strict") is False:
        form["json_schema"].pop("strict")
    return body


def plain_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool with its type, without an empty description."""
    made = {"type": "function", **tool}
    if "function" in made:
        made["function"] = {key: item for key, item in made["function"].items() if item != "" or key != "description"}
    return made


def without_nothing(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without what is null."""
    return {key: item for key, item in message.items() if item is not None and item != []}
