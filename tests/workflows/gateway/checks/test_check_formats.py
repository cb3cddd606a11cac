"""Conversations and answers in the formats of providers: clean ones stay as they are, no field of them is unread."""

import json
from typing import Any

import pytest

from penstock import PIIDetector
from penstock.engine.values.errors import MessageError
from penstock.formats.wire import Json
from penstock.workflows.gateway.checks import own
from tests.workflows.gateway.checks.served import places, planted, policy

MAIL = "ann@example.com"
GUARDS = policy(PIIDetector(redaction_method="placeholder", unscanned="allow"))
SAMPLES: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "text",
                    "text": "hi",
                    "cache_control": {"type": "ephemeral"},
                    "citations": [{"type": "char_location", "cited_text": "ct", "document_title": "dt"}],
                },
                {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "doc"},
                    "title": "t",
                    "context": "c",
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "r"}],
                    "is_error": False,
                },
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
            ],
        }
    ],
    "anthropic-answer": [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "th", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {
                    "type": "text",
                    "text": "hi",
                    "citations": [{"type": "web", "cited_text": "ct", "url": "https://a.example/", "title": "t"}],
                },
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": ["b", {"c": "d"}]}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s1",
                    "content": [
                        {
                            "type": "web_search_result",
                            "url": "https://u.example/",
                            "title": "tt",
                            "encrypted_content": "ZW5j",
                            "page_age": "1",
                        }
                    ],
                },
                {"type": "mcp_tool_use", "id": "m", "name": "n", "server_name": "sn", "input": {"q": "z"}},
            ],
            "id": "msg_1",
            "model": "claude",
            "stop_reason": "end_turn",
            "stop_sequence": "x",
        }
    ],
    "openai-responses": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "hi"},
                {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "auto"},
                {"type": "input_file", "filename": "f.txt", "file_data": "data:text/plain;base64,aGk="},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "ZW5j",
        },
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":"b"}'},
        {"type": "function_call_output", "call_id": "c", "output": "o"},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "mcp_call", "id": "m", "server_label": "l", "name": "n", "arguments": "{}", "output": "o"},
        {
            "type": "code_interpreter_call",
            "id": "ci",
            "code": "print()",
            "container_id": "cc",
            "outputs": [{"type": "logs", "logs": "l"}],
        },
    ],
    "openai-responses-answer": [
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "hi",
                    "annotations": [{"type": "url_citation", "url": "https://a.example/", "title": "t"}],
                    "logprobs": [{"token": "hi", "top_logprobs": []}],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        }
    ],
    "openai-chat-answer": [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "hi"}, {"type": "odd", "x": "y"}],
            "refusal": "no",
            "reasoning_content": "r",
            "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example/", "title": "t"}}],
            "audio": {"id": "a1", "data": "AAAA", "transcript": "tr"},
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":"b"}'}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "raw"}},
            ],
            "name": "n",
            "provider_specific_fields": {"k": "v"},
        }
    ],
    "google": [
        {
            "role": "user",
            "parts": [
                {"text": "hi"},
                {"inlineData": {"mimeType": "text/plain", "data": "aGk="}},
                {"functionResponse": {"name": "f", "response": {"r": "x"}}},
            ],
        }
    ],
    "google-answer": [
        {
            "role": "model",
            "parts": [
                {"text": "hi", "thought": True},
                {"functionCall": {"name": "f", "args": {"a": "b"}}},
                {"executableCode": {"language": "PYTHON", "code": "x"}},
                {"text": "t", "thoughtSignature": "c2ln"},
            ],
        }
    ],
    "ai-sdk-ui": [
        {
            "id": "m1",
            "role": "user",
            "parts": [
                {"type": "text", "text": "hi"},
                {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk=", "filename": "f"},
                {"type": "data-x", "data": {"a": "b"}},
            ],
            "metadata": {"k": "v"},
        }
    ],
    "ai-sdk-ui-answer": [
        {
            "id": "m1",
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "text": "r"},
                {"type": "text", "text": "hi"},
                {
                    "type": "tool-f",
                    "toolCallId": "c",
                    "state": "output-available",
                    "input": {"a": "b"},
                    "output": {"o": "p"},
                },
                {"type": "source-url", "sourceId": "s", "url": "https://a.example/", "title": "t"},
                {"type": "data-x", "data": {"a": "b"}},
            ],
            "metadata": {"k": "v"},
        }
    ],
}


async def asked(name: str, rows: list[dict[str, Any]]) -> Json:
    """Return the answer about a conversation, or about an answer."""
    channel = "answer" if name.endswith("-answer") else "input"
    body = {"messages": rows, "format": name.removesuffix("-answer"), "channel": channel}
    return (await own.check(GUARDS, body)).body


@pytest.mark.parametrize("name", SAMPLES)
async def test_clean_messages_stay_as_they_are(name: str) -> None:
    """Results that a provider's own tools gave, signatures and unknown parts, too."""
    said = await asked(name, SAMPLES[name])
    assert said["verdict"] == "passed"
    assert said["messages"] == SAMPLES[name]


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_secret_in_any_field_is_edited_blocked_or_refused(name: str) -> None:
    """Each text in turn. It never comes back, and nothing about it in an error."""
    for path in places(SAMPLES[name]):
        try:
            said = await asked(name, planted(SAMPLES[name], path, f"to {MAIL} now"))
        except MessageError as error:
            said = {"verdict": "refused", "problem": str(error)}
        assert said["verdict"] in ("edited", "blocked", "refused"), path
        assert MAIL not in json.dumps(said), path


@pytest.mark.parametrize("channel", ["input", "answer"])
async def test_two_calls_with_one_id_are_two_calls(channel: str) -> None:
    """Each with its own name, arguments and edits."""
    functions = [{"name": "f", "arguments": '{"a":"x"}'}, {"name": "g", "arguments": f'{{"a":"{MAIL}"}}'}]
    calls = [{"id": "1", "type": "function", "function": function} for function in functions]
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}], "channel": channel}
    left = (await own.check(GUARDS, body)).body["messages"][0]["tool_calls"]
    assert [call["id"] for call in left] == ["1", "1"]
    assert left[0] == calls[0]
    assert left[1]["function"] == {"name": "g", "arguments": '{"a":"[EMAIL]"}'}
