"""For each protocol a request, a whole answer and a stream in which all usual fields stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.gateway.endpoints.completions import Completions
from penstock.workflows.gateway.endpoints.embeddings import Embeddings
from penstock.workflows.gateway.endpoints.messages import CountTokens, Messages
from penstock.workflows.gateway.endpoints.responses import Responses
from tests.workflows.gateway import samples_messages
from tests.workflows.gateway.responses_stream import message, response, stream_of

if TYPE_CHECKING:
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint


@dataclass(frozen=True)
class Sample:
    """A protocol's texts: ``events`` are pairs of a type and data."""

    endpoint: Endpoint
    request: dict[str, Any]
    answer: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]


def _chat() -> Sample:
    function = {
        "name": "find",
        "description": "Finds things.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string", "description": "the words"}}},
    }
    call = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"q": "shoes"}'}}
    tokens = {"content": [{"token": "Good", "logprob": -0.1, "bytes": None, "top_logprobs": []}], "refusal": None}
    request = {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief.", "name": "boss"},
            {"role": "user", "content": [{"type": "text", "text": "Good day"}, {"type": "text", "text": "again"}]},
            {"role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning_content": "Shoes, then."},
            {"role": "tool", "tool_call_id": "call_1", "content": "Two pairs"},
            {"role": "user", "content": "Thanks"},
        ],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "find"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        "stop": ["END"],
        "user": "u-1",
        "metadata": {"team": "shoes"},
        "temperature": 0.5,
        "stream_options": {"include_usage": True},
        "prediction": {"type": "content", "content": "So it is"},
    }
    message = {
        "role": "assistant",
        "content": "Good",
        "refusal": None,
        "reasoning_content": "A greeting.",
        "tool_calls": [call],
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"url": "https://example.com", "title": "A page", "start_index": 0, "end_index": 4},
            }
        ],
    }
    frame = {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "gpt-4o",
        "system_fingerprint": "fp_1",
        "service_tier": "default",
    }
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    answer = {
        **frame,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "logprobs": tokens, "finish_reason": "tool_calls"}],
        "usage": usage,
    }

    def chunk(delta: dict[str, Any], end: str | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
        choice = {"index": 0, "delta": delta, "finish_reason": end, **more}
        return "", {
            **frame,
            "object": "chat.completion.chunk",
            "choices": [choice],
            "usage": None,
            "obfuscation": "a1B2",
        }

    events = [
        chunk({"role": "assistant", "reasoning_content": "A greet"}),
        chunk({"reasoning_content": "ing."}),
        chunk({"content": "Good"}, logprobs=tokens),
        chunk({"content": " day"}),
        chunk({"content": " to you", "annotations": message["annotations"]}),
        chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "find", "arguments": ""}}
                ]
            }
        ),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"q": '}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"shoes"}'}}]}),
        chunk({}, "tool_calls"),
        ("", {**frame, "object": "chat.completion.chunk", "choices": [], "usage": usage}),
    ]
    return Sample(ChatCompletions(), request, answer, events)


def _responses() -> Sample:
    function = {
        "type": "function",
        "name": "find",
        "description": "Finds things.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string", "description": "the words"}}},
        "strict": True,
    }
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "find", "arguments": '{"q": "shoes"}'}
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Shoes, then."}]}
    request = {
        "model": "gpt-5",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Good day"}]},
            {**thought, "encrypted_content": "gAAAAB=="},
            call,
            {"type": "function_call_output", "call_id": "call_1", "output": "Two pairs"},
            {"type": "message", "role": "user", "content": "Thanks"},
        ],
        "instructions": "Be brief.",
        "tools": [function, {"type": "shell", "environment": {"type": "local"}}],
        "tool_choice": {"type": "function", "name": "find"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "metadata": {"team": "shoes"},
        "user": "u-1",
        "store": False,
        "temperature": 0.5,
        "stream_options": {"include_obfuscation": True},
    }
    said = message("Good day to you")
    citation = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 4,
        "title": "A page",
        "url": "https://a.example/b",
    }
    said["content"][0]["annotations"].append(citation)
    said["content"].append({"type": "refusal", "refusal": "I will not"})
    output = [
        {**thought, "encrypted_content": "gAAAAB=="},
        said,
        {**call, "status": "completed"},
        {
            "id": "sc_1",
            "type": "shell_call",
            "call_id": "call_2",
            "action": {"commands": ["ls"]},
            "status": "completed",
        },
    ]
    own = {key: request[key] for key in ("instructions", "metadata", "tools", "user")}
    answer = response(output, **own)
    short = {**answer, "output": output[:-1]}
    created, _, *events = stream_of(short)
    created[1]["response"] = {key: answer[key] for key in ("id", "object", "model", "instructions")}
    return Sample(Responses(), request, answer, [created, *events])


def _counted() -> Sample:
    counted = ("model", "system", "messages", "tools", "tool_choice", "thinking", "output_config", "context_management")
    request = {key: value for key, value in samples_messages.request().items() if key in counted}
    return Sample(CountTokens(), request, {"input_tokens": 12, "context_management": {"original_input_tokens": 14}}, [])


def _completions() -> Sample:
    request = {
        "model": "gpt-3.5-turbo-instruct",
        "prompt": ["Good day", "Good evening"],
        "suffix": "So long",
        "stop": ["END"],
        "user": "u-1",
        "echo": True,
        "logprobs": 1,
        "best_of": 2,
        "logit_bias": {"50256": -100},
        "stream_options": {"include_usage": True},
    }
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "system_fingerprint": "fp_1"}
    tokens = {"tokens": ["Good"], "token_logprobs": [-0.1], "top_logprobs": [{"Good": -0.1}], "text_offset": [0]}

    def choice(text: str, end: str | None = None, logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": end}

    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choices = [choice("Good", None, tokens), choice(" day"), choice(" to you"), choice("", "stop")]
    events = [("", {**head, "choices": [one]}) for one in choices] + [("", {**head, "choices": [], "usage": usage})]
    other = {"index": 1, "text": "So it is", "logprobs": None, "finish_reason": "length", "stop_reason": "END"}
    answer = {**head, "choices": [choice("Good", "stop", tokens), other], "usage": usage}
    return Sample(Completions(), request, answer, events)


def _embeddings() -> Sample:
    request = {"model": "text-embedding-3-small", "input": ["Good day", "Good evening"], "user": "u-1"}
    data = [
        {"object": "embedding", "index": 0, "embedding": [0.1, -0.2, 3]},
        {"object": "embedding", "index": 1, "embedding": "zczMPQ=="},
    ]
    answer = {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    return Sample(Embeddings(), {**request, "dimensions": 3, "encoding_format": "float"}, answer, [])


SAMPLES = {
    "chat": _chat(),
    "completions": _completions(),
    "embeddings": _embeddings(),
    "messages": Sample(Messages(), samples_messages.request(), samples_messages.answer(), samples_messages.events()),
    "messages count": _counted(),
    "responses": _responses(),
}
