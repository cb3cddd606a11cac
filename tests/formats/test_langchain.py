"""Whether LangChain's messages are read, written and read again without a loss."""

from typing import Any

import pytest

from penstock.engine.values.messages import ImagePart, Message, ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.formats import langchain, parse_messages

CALL = {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}, "index": 1}
COPY = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}

EXAMPLES: list[dict[str, Any]] = [
    {"role": "human", "content": "hi"},
    {"type": "human", "data": {"content": "hi", "type": "human"}},
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "ChatMessage"],
        "kwargs": {"content": "hi", "role": "user"},
    },
    {
        "type": "ai",
        "content": [{"type": "text", "text": "a"}, USE, "b"],
        "tool_calls": [CALL],
        "additional_kwargs": {"tool_calls": [COPY]},
    },
    {"type": "ai", "content": [USE], "tool_calls": [{**CALL, "args": {"a": 2}}]},
    {
        "type": "ai",
        "content": [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
            {"type": "server_tool_call", "id": "s", "name": "search", "args": {}},
            {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": [1]},
        ],
    },
    {
        "type": "human",
        "content": [
            {"type": "image", "base64": "AA", "mime_type": "image/png"},
            {"type": "image", "source_type": "base64", "data": "AA", "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
            {"type": "video", "url": "https://x.test/a.mp4"},
            {"type": "file", "file_id": "f"},
            {"type": "text-plain", "text": "hi", "title": "a.txt"},
            {"type": "non_standard", "value": {"a": 1}},
        ],
    },
    {"type": "tool", "content": [{"type": "text", "text": "no"}], "tool_call_id": "c1", "status": "error"},
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_message_is_written_as_it_was_read(item: dict[str, Any]):
    """In the form in which it came."""
    assert langchain.write(langchain.read([item])) == [item]


def test_a_call_that_stands_in_three_places_is_one_call():
    """An edit of it reaches all of them."""
    (message,) = parse_messages(EXAMPLES[3])
    calls = [part for part in message.parts if isinstance(part, ToolPart)]
    assert [(call.call_id, call.arguments) for call in calls] == [("c1", {"a": 1})]
    edited = ToolPart("c1", "f", {"a": "[SECRET]"}, metadata=calls[0].metadata)
    (item,) = langchain.write([message.with_parts([edited if part is calls[0] else part for part in message.parts])])
    assert item["tool_calls"][0]["args"] == item["content"][1]["input"] == {"a": "[SECRET]"}
    assert item["additional_kwargs"]["tool_calls"][0]["function"]["arguments"] == '{"a": "[SECRET]"}'


def test_a_block_that_says_something_else_than_its_call_is_kept_apart():
    """Guards read both."""
    (message,) = parse_messages(EXAMPLES[4])
    assert [type(part) for part in message.parts] == [UnknownPart, ToolPart]


def test_blocks_become_what_they_hold():
    """Whoever's they are."""
    (answer, question) = parse_messages([EXAMPLES[5], EXAMPLES[6]])
    assert [type(part) for part in answer.parts] == [ReasoningPart, ReasoningPart, ToolPart, ToolPart]
    assert [type(part) for part in question.parts[:3]] == [ImagePart] * 3


def test_messages_of_other_formats_are_written():
    """As messages dump themselves; results behind the step of their calls."""
    messages = [
        Message.user("hi", name="joe"),
        Message.assistant(
            [TextPart("a"), ToolPart("c1", "f", {"a": 1}, "error", error="no"), ToolPart("c2", "g", "{")]
        ),
    ]
    assert langchain.write(messages) == [
        {"type": "human", "content": "hi", "name": "joe"},
        {
            "type": "ai",
            "content": "a",
            "tool_calls": [CALL],
            "invalid_tool_calls": [{"type": "invalid_tool_call", "id": "c2", "name": "g", "args": "{"}],
        },
        {"type": "tool", "content": "no", "tool_call_id": "c1", "name": "f", "status": "error"},
    ]


def test_a_class_that_is_no_message_is_not_written():
    """What says that another class is to be made comes from outside."""
    frame = {"lc": {"lc": 1, "type": "constructor", "id": ["subprocess", "Popen"]}}
    assert langchain.write([Message.user("hi", metadata={"langchain": frame})]) == [{"type": "human", "content": "hi"}]
