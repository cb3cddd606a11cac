"""Whether pydantic-ai's history is read, written and read again without a loss."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.values.messages import ImagePart, Message, TextPart, ToolPart, UnknownPart
from penstock.formats import parse_messages, pydantic_ai

EXAMPLES: list[list[dict[str, Any]]] = [
    [{"kind": "request", "parts": []}],
    [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": ""}]}],
    [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": ["a", {"kind": "cache-point"}]}]}],
    [{"kind": "request", "parts": [{"part_kind": "retry-feedback", "content": "again", "retry": {"cause": "x"}}]}],
    [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "a"}]}] * 2,
    [
        {
            "kind": "response",
            "parts": [
                {"part_kind": "builtin-tool-call", "tool_name": "search", "args": {"q": 1}, "tool_call_id": "1"},
                {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "2", "args": None},
                {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "3"},
                {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "4", "args": '{"a": 1}'},
            ],
        }
    ],
]


@pytest.mark.parametrize("items", EXAMPLES)
def test_a_history_is_written_as_it_was_read(items: list[dict[str, Any]]):
    """What was one request is one again, and what was two stays two."""
    assert pydantic_ai.write(pydantic_ai.read(items)) == items


def test_each_part_of_a_request_has_its_role():
    """The instructions come first."""
    parts = [
        {"part_kind": "system-prompt", "content": "a"},
        {"part_kind": "user-prompt", "content": ["b", {"kind": "image-url", "url": "https://x.test/a.png"}]},
        {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": "c", "content": {"r": 1}},
        {"part_kind": "retry-prompt", "tool_name": "g", "tool_call_id": "d", "content": "no"},
    ]
    messages = parse_messages({"kind": "request", "parts": parts, "instructions": "i"})
    assert [(message.role, message.text) for message in messages] == [
        ("system", "i"),
        ("system", "a"),
        ("user", "b"),
        ("tool", ""),
        ("tool", ""),
    ]
    assert isinstance(messages[2].parts[1], ImagePart)
    assert [
        (part.state, part.error) for part in (*messages[3].parts, *messages[4].parts) if isinstance(part, ToolPart)
    ] == [
        ("result", None),
        ("error", "no"),
    ]


def test_a_tool_that_the_provider_ran_stays_as_it_is():
    """`PydanticAIModel` sends it back in this form; guards read all of it."""
    (message,) = parse_messages(EXAMPLES[5])
    assert isinstance(message.parts[0], UnknownPart)


def test_what_is_written_is_valid():
    """For pydantic-ai itself: what it dumped, and messages of other formats."""
    adapter = pytest.importorskip("pydantic_ai").ModelMessagesTypeAdapter
    dumped = json.loads((Path(__file__).parent / "dumps.json").read_text())["pydantic-ai"]
    conversation = [
        Message.system("be terse"),
        Message.user([TextPart("hi"), ImagePart(data="AAAA")]),
        Message.assistant([TextPart("a"), ToolPart("c1", "f", {"q": 1}, "error", error="no")]),
        Message.user("go"),
    ]
    for items in (dumped, pydantic_ai.write(conversation)):
        again = json.loads(adapter.dump_json(adapter.validate_python(items)))
        assert [len(item["parts"]) for item in again] == [len(item["parts"]) for item in items]
