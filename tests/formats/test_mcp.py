"""Whether messages and results of the Model Context Protocol are read, written and read again without a loss."""

from typing import Any

import pytest

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, TextPart, ToolPart
from penstock.formats import mcp, parse_messages

TEXT = {"type": "text", "text": "hi"}
RESULT = {"type": "tool_result", "toolUseId": "c1", "content": [TEXT]}

EXAMPLES: list[dict[str, Any]] = [
    {"role": "user", "content": {**TEXT, "annotations": {"audience": ["user"]}}},
    {"role": "user", "content": [TEXT, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
    {"role": "user", "content": {"type": "audio", "data": "AAAA", "mime_type": "audio/wav"}},
    {"role": "user", "content": {"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}}},
    {
        "role": "user",
        "content": {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": None}},
    },
    {"role": "assistant", "content": {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "b"}},
    {"role": "assistant", "content": {"type": "tool_use", "id": "c1", "name": "f", "input": {}}},
    {
        "role": "user",
        "content": [{**RESULT, "structuredContent": {"a": 1}}, {**RESULT, "content": [], "isError": True}],
    },
    {"content": [TEXT], "isError": False},
    {"content": [TEXT], "structured_content": {"a": 1}, "is_error": True},
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_message_is_written_as_it_was_read(item: dict[str, Any]):
    """One block or a list of them, and each key in the spelling that it had."""
    assert mcp.write(mcp.read([item])) == [item]


def test_blocks_become_what_they_hold():
    """The text of a resource is a text."""
    parts = [part for message in mcp.read(EXAMPLES[1:6]) for part in message.parts]
    assert [type(part) for part in parts] == [TextPart, ImagePart, AudioPart, TextPart, FilePart, FilePart]


def test_a_result_is_a_tools_message():
    """With its blocks as the result, beside what is structured."""
    (message,) = parse_messages(EXAMPLES[9])
    (part,) = message.parts
    assert isinstance(part, ToolPart)
    assert (message.role, part.state) == ("tool", "error")
    assert part.result == {"content": (TEXT,), "structuredContent": {"a": 1}}


def test_results_stand_alone():
    """As the protocol wants."""
    with pytest.raises(MessageError, match="expected results of tools or other content, not both; split the message"):
        parse_messages({"role": "user", "content": [TEXT, RESULT]})


def test_messages_of_other_formats_are_written():
    """Each part as a message; the protocol has no role for the system."""
    messages = [Message.system("a"), Message.assistant([TextPart("b"), ToolPart("c1", "f", {}, "result", {"r": 1})])]
    assert mcp.write(messages) == [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "assistant", "content": {"type": "text", "text": "b"}},
        {"role": "assistant", "content": {"type": "tool_use", "id": "c1", "name": "f", "input": {}}},
        {
            "role": "user",
            "content": {
                "type": "tool_result",
                "toolUseId": "c1",
                "content": [{"type": "text", "text": '{"r":1}'}],
                "structuredContent": {"r": 1},
            },
        },
    ]


@pytest.mark.parametrize("raw", [None, 3, True, "a", ["a"]])
def test_an_unknown_part_that_is_no_object_is_content(raw: Any):
    """Penstock's own format allows such a part; it is no result by itself, and no message."""
    messages = parse_messages([{"role": "user", "parts": [{"type": "unknown", "raw": raw}]}], "penstock")
    assert mcp.write(messages) == [{"role": "user", "content": raw}]
