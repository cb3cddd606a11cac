"""Whether messages of Anthropic's are read, written and read again without a loss."""

from typing import Any

import pytest

from penstock.engine.values.messages import (
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolPart,
)
from penstock.formats import anthropic, dump_messages, parse_messages

TEXT = {"type": "text", "text": "hi"}
USE = {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "4"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]}

EXAMPLES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "user", "content": ""},
    {"role": "user", "content": []},
    {"role": "system", "content": [{**TEXT, "cache_control": {"type": "ephemeral"}}]},
    {"role": "user", "content": [TEXT]},
    {"role": "user", "content": [RESULT, {**RESULT, "tool_use_id": "t2", "is_error": True, "content": [TEXT]}]},
    {"role": "user", "content": [TEXT, RESULT, TEXT, {**RESULT, "tool_use_id": "t2", "is_error": False}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            {**TEXT, "citations": [{"type": "char_location", "cited_text": "hi"}]},
            SEARCH,
            FOUND,
            {"type": "mcp_tool_use", "id": "m1", "name": "f", "server_name": "s", "input": {}},
            {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [TEXT]},
            USE,
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}},
            {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}, "title": "A"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "context": "c"},
            {"type": "document", "source": {"type": "content", "content": [TEXT]}},
            {"type": "document", "source": {"type": "content", "content": [TEXT, TEXT]}},
            {"type": "search_result", "source": "https://x.test", "title": "A", "content": [TEXT]},
            {"type": "container_upload", "file_id": "file_1"},
            {"type": "novelty", "x": 1},
        ],
    },
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_message_is_written_as_it_was_read(item: dict[str, Any]):
    """Each block in its place, results and what stands beside them in one message again."""
    assert anthropic.write(anthropic.read([item])) == [item]


def test_results_become_a_tool_message_and_are_named():
    """What stands beside them stays the user's."""
    messages = anthropic.read(
        [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT, {"type": "text", "text": "go"}]}]
    )
    assert [message.role for message in messages] == ["assistant", "tool", "user"]
    (result,) = messages[1].parts
    assert isinstance(result, ToolPart)
    assert (result.name, result.result) == ("search", "4")


def test_a_tool_that_the_provider_ran_is_one_call_elsewhere():
    """There it has one call and one result; here both stand apart, in the assistant's message."""
    messages = parse_messages([{"role": "assistant", "content": [SEARCH, FOUND, TEXT]}])
    assert [part.type for part in messages[0].parts] == ["tool", "tool", "text"]
    (call, result, text) = dump_messages(messages, "openai-chat")
    assert [made["function"]["name"] for made in call["tool_calls"]] == ["web_search"]
    assert (result["role"], result["tool_call_id"], text["content"]) == ("tool", "s1", "hi")


def test_a_requests_body_is_read_as_its_messages():
    """The system blocks first."""
    body = {"system": [TEXT], "messages": [{"role": "user", "content": "go"}]}
    assert [(message.role, message.text) for message in parse_messages(body)] == [("system", "hi"), ("user", "go")]


def test_texts_of_documents_can_be_edited():
    """They are text parts, so that a redaction reaches the wire."""
    item = {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "joe@example.com"}}]}
    (message,) = parse_messages(item)
    (part,) = message.parts
    assert isinstance(part, TextPart)
    (written,) = anthropic.write([message.with_parts([TextPart("[EMAIL]", part.metadata)])])
    assert written["content"][0]["source"]["data"] == "[EMAIL]"


def test_messages_of_other_formats_are_written():
    """Results of one step in one message of the user's, whatever they were before."""
    messages = [
        Message.assistant([TextPart("a"), ToolPart("c1", "f", {"q": 1}, "result", {"n": 4}), StepStartPart()]),
        Message.assistant([ToolPart("c2", "f"), ToolPart("c3", "f", "raw")]),
        Message.tool([ToolPart("c2", "f", state="error", error="broke")]),
        Message.tool([ToolPart("c3", "f", state="result", result="ok")]),
        Message.user([FilePart(data="AA", media_type="image/png"), ImagePart(url="data:image/gif;base64,AA")]),
    ]
    assert anthropic.write(messages) == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"q": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"n":4}'}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
                {"type": "tool_use", "id": "c3", "name": "f", "input": {"input": "raw"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c2", "content": "broke", "is_error": True},
                {"type": "tool_result", "tool_use_id": "c3", "content": "ok"},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA"}},
            ],
        },
    ]


def test_a_signature_from_the_ai_sdk_goes_back_with_its_thinking():
    """Both keep it under the same name."""
    item = {
        "id": "m",
        "role": "assistant",
        "parts": [{"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "EqQB"}}}],
    }
    messages = parse_messages(item)
    assert isinstance(messages[0].parts[0], ReasoningPart)
    assert anthropic.write(messages)[0]["content"] == [{"type": "thinking", "thinking": "hm", "signature": "EqQB"}]
