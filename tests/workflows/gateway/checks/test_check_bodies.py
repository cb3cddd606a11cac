"""Bodies of requests and answers of models' APIs, whole: clean ones are given back, no field of them is unread."""

import json

import pytest

from penstock import PIIDetector
from penstock.engine.values.errors import MessageError
from penstock.formats.wire import Json
from penstock.workflows.gateway.checks.answer_bodies import check_answer_body
from penstock.workflows.gateway.checks.request_bodies import BodyChecked, check_request_body
from tests.workflows.gateway.checks.served import places, planted, policy

MAIL = "ann@example.com"
GUARDS = policy(PIIDetector(redaction_method="placeholder", unscanned="allow"))
REQUESTS: dict[str, Json] = {
    "anthropic": {
        "model": "claude",
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": "b"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
        ],
        "max_tokens": 3,
        "tools": [
            {
                "name": "f",
                "description": "d",
                "input_schema": {"type": "object", "properties": {"p": {"type": "string", "description": "x"}}},
            }
        ],
        "stop_sequences": ["q"],
        "metadata": {"user_id": "u"},
        "tool_choice": {"type": "tool", "name": "f"},
        "mcp_servers": [{"url": "https://m.example/", "name": "n", "authorization_token": "tok"}],
    },
    "responses": {
        "model": "gpt",
        "instructions": "i",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
            {"type": "file_search", "vector_store_ids": ["vs"]},
        ],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "description": "x"}}},
        "prompt": {"id": "p", "variables": {"v": "w"}},
        "metadata": {"k": "v"},
        "previous_response_id": "r1",
        "user": "u",
        "include": ["x"],
        "prompt_cache_key": "ck",
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "s"}]},
        "tools": [{"functionDeclarations": [{"name": "f", "description": "d"}]}],
        "generationConfig": {"responseSchema": {"type": "OBJECT", "description": "x"}, "stopSequences": ["q"]},
    },
    "completions": {
        "model": "m",
        "prompt": ["a", "b"],
        "suffix": "s",
        "user": "u",
        "stop": "x",
        "logit_bias": {"1": 2},
    },
    "chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "functions": [{"name": "f", "description": "d", "parameters": {}}],
        "function_call": {"name": "f"},
        "prediction": {"type": "content", "content": "p"},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"description": "x"}}},
        "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "c"}}},
        "extra_body": {"messages": [{"role": "user", "content": "sneaky"}]},
    },
    "list-chat": {
        "model": "m",
        "input": "x",
        "messages": [{"role": "user", "content": "hi"}],
        "system": "s",
        "prompt": "p",
        "instructions": "i",
    },
}
ANSWERS: dict[str, Json] = {
    "chat": {
        "id": "c",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hi",
                    "reasoning": "r",
                    "annotations": [
                        {"type": "url_citation", "url_citation": {"url": "https://a.example/", "title": "t"}}
                    ],
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":"b"}'}}
                    ],
                },
                "finish_reason": "stop",
                "content_filter_results": {"hate": {"x": "y"}},
            }
        ],
        "citations": ["https://c.example/"],
        "prompt_filter_results": [{"z": "w"}],
        "provider": "pp",
    },
    "anthropic": {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": "b"}}],
        "stop_reason": "end_turn",
        "stop_sequence": "q",
        "usage": {"input_tokens": 1},
        "container": {"id": "x"},
    },
    "responses": {
        "id": "resp",
        "object": "response",
        "model": "gpt",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "s"}]},
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "hi", "annotations": []}],
            },
            {
                "type": "function_call",
                "id": "fc",
                "call_id": "c",
                "name": "f",
                "arguments": '{"a":"b"}',
                "status": "completed",
            },
        ],
        "instructions": "i",
        "error": {"code": "x", "message": "m"},
        "incomplete_details": {"reason": "max_output_tokens"},
        "text": {"format": {"type": "text"}},
        "tools": [{"type": "function", "name": "f", "description": "d"}],
        "output_text": "hi",
    },
    "gemini": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "hi"}]},
                "finishReason": "STOP",
                "citationMetadata": {"citations": [{"uri": "https://x.example/"}]},
            }
        ],
        "usageMetadata": {"promptTokenCount": 1},
        "modelVersion": "g",
    },
    "error": {"error": {"message": "m", "type": "t", "param": "p", "code": "c"}},
    "moderation": {"id": "m", "results": [{"flagged": False, "categories": {"hate": False}}]},
}

BODIES = [("request", name) for name in REQUESTS] + [("answer", name) for name in ANSWERS]


def body_of(kind: str, name: str) -> Json:
    """Return a body."""
    return (REQUESTS if kind == "request" else ANSWERS)[name]


async def checked(kind: str, body: Json) -> BodyChecked:
    """Check a body."""
    return await (check_request_body if kind == "request" else check_answer_body)(GUARDS, body)


@pytest.mark.parametrize(("kind", "name"), BODIES)
async def test_a_clean_body_is_given_back(kind: str, name: str) -> None:
    """The very same object."""
    body = body_of(kind, name)
    assert (await checked(kind, body)).body is body


@pytest.mark.parametrize(("kind", "name"), BODIES)
async def test_a_secret_in_any_field_of_a_body_is_edited_blocked_or_refused(kind: str, name: str) -> None:
    """Definitions of tools, schemas, metadata, other messages in a field that nobody knows: each text in turn."""
    body = body_of(kind, name)
    for path in places(body):
        try:
            left = json.dumps((await checked(kind, planted(body, path, f"to {MAIL} now"))).body)
        except MessageError as error:
            left = f"refused: {error}"
        assert MAIL not in left, path
        assert "[EMAIL]" in left or left == "null" or left.startswith("refused"), path
