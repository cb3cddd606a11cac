"""`Called`: one completion that LiteLLM is about to make, as the stages see it, and as they left it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.frozen import EMPTY, freeze, thaw
from penstock.engine.values.messages import DataPart, Message
from penstock.engine.values.model import ModelRequest, ToolSpec
from penstock.formats.wire import has_text, is_array, is_object
from penstock.models.openai.providers import ANY
from penstock.models.openai.requests import body_of
from penstock.models.openai.wire import object_of, strict_json
from penstock.workflows.adapters.litellm.messages import (
    PARAMETERS,
    LiteLLMMessages,
    plain,
    read,
    readable,
    restored,
)
from penstock.workflows.hosting import PLAIN_SETTINGS, ModelCall
from penstock.workflows.hosting.answers import data_left, refuse_answered
from penstock.workflows.web.client_request import read_response_format, read_tool_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ResponseFormat
    from penstock.engine.values.protocols import Model
    from penstock.formats.wire import Json
    from penstock.workflows.hosting import HostRequest


class Called:
    """One completion, given as LiteLLM's keyword arguments.

    Args:
        given: the arguments.
        forms: the messages of the request, both ways.
        from_client: whether the messages are a client's word.

    Attributes:
        model: the name of the model.
        streams: whether the answer is streamed.

    Raises:
        UsageError: the arguments ask for what guards cannot read.
    """

    def __init__(self, given: Mapping[str, Value], forms: LiteLLMMessages, *, from_client: bool = False) -> None:
        self.given = given
        self.model = str(given.get("model") or "")
        self.streams = bool(given.get("stream"))
        self._forms = forms
        self._from_client = from_client
        if given.get("n") not in (None, 1):
            raise UsageError("several answers are asked for, and guards judge one: use n=1")
        tools: Value = plain(given.get("tools") or [])
        if not is_array(tools) or not all(map(is_object, tools)):
            raise UsageError("tools are to be a list of objects, in OpenAI's format")
        if any(tool.get("type") == "mcp" for tool in tools):
            raise UsageError(
                "LiteLLM would run tools of an MCP server within the call, where no guard reads their results; list "
                "the tools as functions, and run them yourself"
            )
        self._tools = {name: (tool, spec) for tool in tools for name, spec in _specs(tool)}
        self._others = [tool for tool in tools if not list(_specs(tool))]
        self._parameters = _texts_beside(given) if from_client else {}

    def call(self, model: Model) -> ModelCall:
        """Return the call for the stages.

        Raises:
            MessageError: a message is malformed.
        """
        given = self.given
        settings = {name: given[name] for name in PLAIN_SETTINGS if given.get(name) is not None}
        said = self._forms.read_call(given.get("messages"), from_client=self._from_client)
        if self._parameters:
            data = DataPart(PARAMETERS, readable(self._parameters))
            said.insert(0, Message("user", (data,), metadata={PARAMETERS: True}, from_client=True))
        return ModelCall(
            model,
            said,
            [spec for _, spec in self._tools.values()],
            tool_choice=self._tool_choice(),
            settings=freeze(settings),
            response_format=self._response_format(),
            live=self.streams,
        )

    def _tool_choice(self) -> Value:
        try:
            return read_tool_choice(plain(self.given.get("tool_choice")), self._specs()) or "auto"
        except MessageError:  # a provider's own; it is sent as it is
            return "auto"

    def _response_format(self) -> ResponseFormat | None:
        form = self.given.get("response_format")
        try:
            return read_response_format(form, "response_format", nested=True) if is_object(form) else None
        except MessageError:  # see above
            return None

    def _specs(self) -> list[ToolSpec]:
        return [spec for _, spec in self._tools.values()]

    def refuse_answered(self, answer: Message) -> None:
        """Refuse an answer in a tool's place; see `hosting.answers.refuse_answered`.

        Raises:
            UsageError: there is one.
        """
        refuse_answered(answer, self._tools, _CURE)

    def left(self, request: ModelRequest) -> Json:
        """Return the arguments as the stages left them; unchanged ones are the values that were given."""
        made: Json = {**self.given, "messages": self._forms.written(request.messages)}
        made = {name: value for name, value in made.items() if name not in self._parameters}
        parts = [part for message in request.messages if PARAMETERS in message.metadata for part in message.parts]
        made |= restored(self._parameters, data_left(parts, PARAMETERS))
        for name, value in thaw(dict(request.settings)).items():
            if self.given.get(name) != value:
                made[name] = value
        body = body_of(replace(request, messages=(), settings=EMPTY, provider_options=EMPTY), self.model, ANY)
        names = [tool.name for tool in request.tools]
        if names != list(self._tools):
            known = {name: tool for name, (tool, _) in self._tools.items()}
            added: Mapping[str, Json] = {tool["function"]["name"]: tool for tool in body.get("tools", ())}
            made["tools"] = [*(known.get(name) or added[name] for name in names), *self._others]
            if not made["tools"]:
                made.pop("tools")
                made.pop("tool_choice", None)
        if request.tool_choice != self._tool_choice():
            made["tool_choice"] = body.get("tool_choice", "auto")
        if request.response_format != self._response_format():
            made["response_format"] = body.get("response_format")
        return {**made, **thaw(dict(request.provider_options))}


_CURE = "a completion cannot keep the tool from running; use as_completion(…).request() and its arun_tool"

_NO_PROMPT = frozenset(
    {
        *("model", "messages", "metadata", "litellm_metadata", "user", "guardrails", "tags"),
        *("tools", "tool_choice", "functions", "function_call", "response_format"),
        *("headers", "extra_headers", "default_headers", "api_base", "base_url", "api_key", "api_version"),
        *("organization", "deployment_id", "num_retries", "cache", "ttl", "prompt_id", "prompt_variables"),
        *("proxy_server_request", "secret_fields", "litellm_logging_obj", "litellm_call_id", "litellm_trace_id"),
        *("litellm_session_id", "model_info", "litellm_params", "allowed_openai_params", "additional_drop_params"),
    }
)
"""The parameters of a request to the proxy that are no part of the prompt, or its own. It sends others to models, also
those that it does not know; ``extra_body`` may even hold other messages."""

_WORDED = frozenset(
    {
        *("audio", "modalities", "reasoning_effort", "thinking", "service_tier", "verbosity", "stream_options"),
        *("prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
    }
)
"""The parameters whose values are words of the protocol, or ids. They are read only if they hold something else."""

_WORD = re.compile(r"[A-Za-z0-9_-]{0,64}")


def _texts_beside(given: Mapping[str, Value]) -> Json:
    """Return the client's parameters beside its messages that may reach the model."""
    others = {name: plain(value) for name, value in given.items() if name not in _NO_PROMPT and _is_json(value)}
    return {name: value for name, value in others.items() if _says_something(name, readable(value))}


def _says_something(name: str, value: Value) -> bool:
    """Return whether a parameter holds text; its name is text, too, if it is more than a word."""
    return not _WORD.fullmatch(name) or (has_text(value) and not (name in _WORDED and _is_worded(value)))


def _is_worded(value: Value) -> bool:
    if is_object(value):
        return all(map(_is_worded, [*value, *value.values()]))
    return all(map(_is_worded, value)) if is_array(value) else _WORD.fullmatch(str(value)) is not None


def _is_json(value: Value) -> bool:
    if is_object(value):
        return all(map(_is_json, value.values()))
    if is_array(value):
        return all(map(_is_json, value))
    return value is None or isinstance(value, (str, int, float))


def _specs(tool: Json) -> list[tuple[str, ToolSpec]]:
    """Return a function as a tool of ours, by its name; nothing for tools that a provider runs itself."""
    function = tool.get("function")
    if not is_object(function) or not isinstance(function.get("name"), str):
        return []
    schema = function.get("parameters")
    spec = ToolSpec(function["name"], description=str(function.get("description") or ""))
    return [(spec.name, replace(spec, parameters=freeze(schema)) if is_object(schema) else spec)]


async def with_checked_results(request: HostRequest, messages: Value, known: frozenset[str]) -> Value:
    """Return messages in which the results after the last answer are as the guards left them.

    Each is judged as the result of a tool, as it would be in an agent.

    Args:
        request: the request.
        messages: the messages.
        known: the ids of calls that this request has made itself: it judges their results when it gets the messages.

    Raises:
        BlockedError: a guard stopped the request.
        MessageError: a message is malformed.
    """
    if not is_array(messages):
        return messages
    items = [plain(message) for message in messages]
    roles = [item.get("role") if is_object(item) else None for item in items]
    start = max((at + 1 for at, role in enumerate(roles) if role == "assistant"), default=len(items))
    if not any(role == "tool" for role in roles[start:]):
        return messages
    read(messages)  # raises if one is malformed, so the lines below need no checks
    calls: dict[Value, Json] = {call.get("id"): call for call in items[start - 1].get("tool_calls") or ()}
    left = list(messages)
    for at in range(start, len(items)):
        id = items[at].get("tool_call_id")
        if roles[at] == "tool" and id not in known:
            function = object_of(calls.get(id, {}).get("function"))
            content = items[at].get("content")
            checked = await request.tool_result(
                str(function.get("name") or items[at].get("name") or ""),
                content,
                str(id or ""),
                arguments=arguments_of(function.get("arguments")),
            )
            if thaw(checked) != content:
                left[at] = {**items[at], "content": content_of(thaw(checked))}
    return left


def arguments_of(text: Value) -> Value:
    """Return the arguments of a call as an object; other values stay as they are."""
    found = strict_json(text) if isinstance(text, str) else text
    return freeze(found if is_object(found) else text or {})


def content_of(value: Value) -> Value:
    """Return a result as the content of a tool's message: a text, or parts of content."""
    parts = is_array(value) and bool(value) and all(is_object(item) and "type" in item for item in value)
    return value if isinstance(value, str) or parts else json.dumps(value, ensure_ascii=False)
