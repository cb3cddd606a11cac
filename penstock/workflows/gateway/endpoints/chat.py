"""OpenAI's chat completions, and those of providers that are compatible with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, cast
from uuid import uuid4

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze
from penstock.engine.values.model import ToolSpec
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.endpoints.endpoint import Endpoint, Refusal, SentEvents, index_in
from penstock.workflows.gateway.endpoints.moderation import moderation_of
from penstock.workflows.gateway.endpoints.tokens import spelled
from penstock.workflows.gateway.frames import written
from penstock.workflows.gateway.json_text import write_json
from penstock.workflows.gateway.sections import MessagesSection, RequestSection
from penstock.workflows.gateway.tables import (
    COUNTS,
    HOSTED_TOOLS,
    MESSAGE,
    REASONING,
    SEALED,
    STATE,
    TERM,
    TEXT,
    TOKENS,
    VALUE,
    ByType,
    EachItem,
    Field,
    Obj,
    Place,
    Spec,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.formats.wire import Json, Value


_STATE = Field(
    "refused",
    "keeps the answer at the provider, where no guard hides anything; leave it out, or send false",
    permit=STATE,
)
_HOSTED = Field(
    "refused",
    "is a tool that the provider runs: it reads the results past the guards; leave it out, or run a tool of your own",
    permit=HOSTED_TOOLS,
)

_OWN_TEXTS = (
    *("functions", "response_format", "prediction", "tool_choice", "function_call"),
    *("stop", "user", "metadata", "safety_identifier", "moderation"),
)
_OWN_TERMS = (
    *("model", "stream", "n", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "logit_bias"),
    *("presence_penalty", "frequency_penalty", "parallel_tool_calls", "reasoning_effort", "modalities", "logprobs"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "verbosity", "service_tier"),
)
VENDORS = (
    *(
        "models",
        "provider",
        "reasoning",
        "transforms",
        "route",
        "usage",
        "session_id",
        "trace",
    ),  # OpenRouter
    *(
        "reasoning_format",
        "include_reasoning",
        "documents",
        "disable_tool_validation",
    ),
    *("citation_options", "exclude_domains", "include_domains"),  # Groq
    *("random_seed", "safe_prompt", "prompt_mode"),  # Mistral
    *(
        "thinking",
        "do_sample",
        "tool_stream",
        "request_id",
        "user_id",
        "enable_thinking",
        "thinking_budget",
    ),  # Z.ai, Qwen
    *("disable_reasoning", "clear_thinking", "min_tokens", "min_completion_tokens"),  # Cerebras
    *("chat_template", "chat_template_kwargs", "top_k", "min_p", "repetition_penalty", "length_penalty", "ignore_eos"),
    *("stop_token_ids", "skip_special_tokens", "spaces_between_special_tokens", "structured_outputs", "guided_json"),
    *("guided_regex", "guided_choice", "guided_grammar", "add_generation_prompt", "continue_final_message"),  # vLLM
    *("keep_alive", "options", "format", "think", "raw", "template"),  # Ollama
    *(
        "deferred",
        "extra_body",
        "extra_headers",
        "mm_processor_kwargs",
    ),  # xAI, others
    *("safety_settings", "google", "cached_content", "stream_reasoning", "response_modalities", "top_a", "typical_p"),
)
"""Fields that compatible providers add; guards read the texts in them."""

_SEARCHES = ("web_search_options", "web_search", "plugins", "search_settings", "search_parameters", "compound_custom")
"""Fields that let the provider search, or run other tools."""

REQUEST = Obj(
    {
        **dict.fromkeys(_OWN_TERMS, TERM),
        **dict.fromkeys((*_OWN_TEXTS, *VENDORS), VALUE),
        "messages": MESSAGE,
        "tools": EachItem(ByType({"function": VALUE, "custom": VALUE, "*": _HOSTED}, usual=VALUE)),
        **dict.fromkeys(_SEARCHES, _HOSTED),
        "audio": Obj({"voice": VALUE, "format": TERM}),
        "stream_options": Obj({}, TERM),
        "top_logprobs": Field(
            "refused", "asks for other words than those of the answer, which no guard reads; leave it out"
        ),
        "store": _STATE,
        "background": _STATE,
    }
)

_CALL = Obj(
    {
        "index": TERM,
        "id": Field("call_id"),
        "type": TERM,
        "function": Obj({"name": Field("call_name"), "arguments": Field("arguments")}),
        "custom": Obj({"name": Field("call_name"), "input": Field("arguments")}),
        "extra_content": Obj({}, Obj({}, SEALED)),  # Google's signatures of thoughts
        "thought_signature": SEALED,
    }
)
_MESSAGE: Mapping[str, Spec] = {
    "role": TERM,
    "content": TEXT,
    "refusal": TEXT,
    "reasoning_content": REASONING,
    "reasoning": REASONING,
    "reasoning_details": VALUE,
    "tool_calls": EachItem(_CALL),
    "function_call": Obj({"name": Field("call_name"), "arguments": Field("arguments")}),
    "annotations": VALUE,
    "audio": Obj({"id": TERM, "data": SEALED, "expires_at": TERM, "transcript": TEXT}),
    "images": VALUE,
    "name": VALUE,
    "extra_content": Obj({}, Obj({}, SEALED)),
    "thought_signature": SEALED,
    **dict.fromkeys(("citations", "context", "executed_tools", "tool_call_id", "tool_plan", "metadata"), VALUE),
}
_CHOICE: Mapping[str, Spec] = {
    "index": TERM,
    "finish_reason": TERM,
    "native_finish_reason": TERM,
    "stop_reason": VALUE,
    "logprobs": TOKENS,
    "content_filter_results": Obj({}, Obj({}, COUNTS)),
    "token_ids": TOKENS,
    "matched_stop": VALUE,
    "error": VALUE,
}
FRAME: Mapping[str, Spec] = {
    "id": TERM,
    "object": TERM,
    "created": TERM,
    "model": TERM,
    "system_fingerprint": TERM,
    "service_tier": TERM,
    "provider": VALUE,
    "usage": Obj({}, COUNTS),
    "x_groq": VALUE,
    "time_info": Obj({}, COUNTS),
    "prompt_filter_results": VALUE,
    "moderation": VALUE,
    "obfuscation": SEALED,
    "error": VALUE,
    **dict.fromkeys(("request_id", "citations", "search_results", "metadata", "warnings"), VALUE),
    **dict.fromkeys(("usage_breakdown", "time_info", "timings", "stats", "nvext", "meta"), VALUE),
    "prompt_logprobs": Field("refused", "spells the prompt again"),
    "prompt_token_ids": Field("refused", "spells the prompt again"),
}

ANSWER = Obj({**FRAME, "choices": EachItem(Obj({**_CHOICE, "message": Obj(_MESSAGE)}))})
CHUNK = Obj({**FRAME, "choices": EachItem(Obj({**_CHOICE, "delta": Obj(_MESSAGE)}))})

_SECTIONS = (MessagesSection(("messages",), "openai-chat"),)
_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}


class ChatCompletions(Endpoint):
    """OpenAI's chat completions."""

    limits: ClassVar = ("max_completion_tokens", "max_tokens")
    name: ClassVar = "openai-chat"
    paths: ClassVar = ("/v1/chat/completions", "/chat/completions")
    request: ClassVar = REQUEST
    answer: ClassVar = ANSWER
    events: ClassVar = {"": CHUNK}

    def sections(self, body: Json) -> Sequence[RequestSection]:
        """Return the messages."""
        del body
        return _SECTIONS

    def tools(self, body: Json) -> Mapping[int, ToolSpec]:
        """Return the functions that the client offers."""
        return chat_tools(body.get("tools"))

    def event_type(self, event: str, data: Json) -> str | None:
        """Return the one type of all events."""
        del event, data
        return ""

    def block(self, place: Place, data: Json) -> str:
        """Return the choice's index and the field; for a call, its index, too."""
        path = place.path
        choice: Json = data["choices"][path[1]]
        index = index_in(choice, "index", cast("int", path[1]))
        if "logprobs" in path[2:3]:
            return str(index)
        if "tool_calls" in path:
            calls: list[Json] = choice[cast("str", path[2])]["tool_calls"]
            at = cast("int", path[4])
            return f"{index}.call.{index_in(calls[at], 'index', at)}"
        if "function_call" in path:
            return f"{index}.call"
        return f"{index}.{'.'.join(map(str, path[3:]))}"

    def ended(self, data: Json) -> tuple[str, ...]:
        """Return the choices that have ended."""
        ended = [one for one in enumerate(choices_of(data)) if one[1].get("finish_reason")]
        return tuple([str(index_in(choice, "index", at)) for at, choice in ended])

    def usage(self, data: Json) -> tuple[int, int] | None:
        """Return the tokens that a usage reports."""
        return tokens_of(data.get("usage"), "prompt_tokens", "completion_tokens")

    def finish_reason(self, data: Json) -> str | None:
        """Return why the first choice ended."""
        choices = choices_of(data)
        reason = choices[0].get("finish_reason") if choices else None
        return _REASONS.get(reason, "other") if isinstance(reason, str) else None

    def tokens(self, value: Value) -> str | None:
        """Return the text that the tokens spell."""
        if not value:
            return ""
        if not is_object(value) or not {"content", "refusal"} >= set(value):
            return None
        texts = [spelled(value.get(name) or []) for name in ("content", "refusal")]
        return None if None in texts else "".join(text for text in texts if text)

    # Verdicts

    def refusal(self, refusal: Refusal, model: str) -> Json:
        """Return a completion whose message is a refusal."""
        message = {"role": "assistant", "content": None, "refusal": refusal.text}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "content_filter"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return {**head_as("chat.completion", model), "choices": [choice], "usage": usage, **_details(refusal)}

    def refusal_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        """Return a chunk with the refusal, the end of the choice, and the end of the stream."""
        head = head_of(sent)
        index = next((choice.get("index", 0) for choice in choices_of(sent.last)), 0)
        role = {} if sent.events else {"role": "assistant", "content": None}
        said = {"index": index, "delta": {**role, "refusal": refusal.text}, "finish_reason": None}
        end: Json = {"index": index, "delta": {}, "finish_reason": "content_filter"}
        events = {**head, "choices": [said]}, {**head, "choices": [end], **_details(refusal)}
        return (*(written("", write_json(event)) for event in events), DONE)

    def error_events(self, code: str, message: str, sent: SentEvents) -> Sequence[bytes]:
        """Return an event with the error, and the end of the stream."""
        del sent
        return written("", write_json(self.error(502, code, message))), DONE


def _details(refusal: Refusal) -> Json:
    return {"moderation": moderation_of(refusal)} if refusal.details else {}


DONE = b"data: [DONE]\n\n"


def choices_of(data: Json) -> list[Json]:
    """Return the choices of a completion or a chunk; none if they are malformed."""
    found = data.get("choices")
    return [choice for choice in found if is_object(choice)] if is_array(found) else []


def tokens_of(usage: Value, prompt: str, answer: str) -> tuple[int, int] | None:
    """Return two counts of a usage; None if it has none."""
    if not is_object(usage):
        return None
    counts = [usage.get(name) for name in (prompt, answer)]
    return tuple(count if isinstance(count, int) else 0 for count in counts) if any(counts) else None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def chat_tools(tools: Value) -> dict[int, ToolSpec]:
    """Return the functions among the tools of a request, by their index.

    Raises:
        MessageError: one is malformed.
    """
    if tools is None:
        return {}
    if not is_array(tools):
        raise MessageError("tools", f"is {type(tools).__name__}; send a list")
    made: dict[int, ToolSpec] = {}
    for index, tool in enumerate(tools):
        function = tool.get("function") if is_object(tool) else None
        if is_object(function):
            made[index] = tool_spec(function, f"tools[{index}].function", "parameters")
    return made


def tool_spec(function: Json, place: str, schema: str) -> ToolSpec:
    """Return a function that a client offers.

    Raises:
        MessageError: it has no name, or its schema is no object.
    """
    name, parameters = function.get("name"), function.get(schema)
    if not isinstance(name, str) or not name:
        raise MessageError(f"{place}.name", "is missing; name the function")
    if parameters is not None and not is_object(parameters):
        raise MessageError(f"{place}.{schema}", f"is {type(parameters).__name__}; send a JSON Schema")
    description = function.get("description")
    fits = is_object(parameters) and parameters.get("type") == "object"
    kept = {} if not fits else {"parameters": freeze(parameters)}
    return ToolSpec(name, description=description if isinstance(description, str) else "", **kept)


def head_as(kind: str, model: str) -> Json:
    """Return the fields that a completion of the gateway's own begins with; ``kind`` is its ``object``."""
    prefix = "chatcmpl" if kind.startswith("chat.") else "cmpl"
    return {"id": f"{prefix}-{uuid4().hex[:24]}", "object": kind, "created": int(time.time()), "model": model}


def head_of(sent: SentEvents, kind: str = "chat.completion.chunk") -> Json:
    """Return the fields of a chunk that repeat in each of a stream."""
    first: Json = {key: sent.first[key] for key in ("id", "object", "created", "model") if key in sent.first}
    return first if "id" in first else head_as(kind, sent.model)
