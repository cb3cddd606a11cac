"""Whether messages of any format are recognised, and go from each format to each other."""

import subprocess
import sys
from typing import Any

import pytest

from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import (
    PART_TYPES,
    DataPart,
    FilePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
)
from penstock.formats import FORMATS, Format, dump_messages, json_schema, parse_messages, wire_format

TOOL = {"state": "result", "toolCallId": "c1", "toolName": "f", "args": {}, "result": 4}
KNOWN: list[tuple[str, dict[str, Any]]] = [
    ("openai-chat", {"role": "user", "content": "hi"}),
    ("openai-chat", {"role": "user", "content": [{"type": "text", "text": "hi"}]}),
    ("openai-chat", {"role": "assistant", "content": None, "tool_calls": []}),
    ("openai-chat", {"role": "tool", "content": "4", "tool_call_id": "c1"}),
    ("openai-responses", {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
    ("openai-responses", {"type": "message", "role": "user", "content": "hi"}),
    ("openai-responses", {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}),
    ("openai-responses", {"type": "novelty", "x": 1}),
    ("ai-sdk-ui", {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}),
    (
        "ai-sdk-ui",
        {"id": "m1", "role": "user", "parts": [{"type": "source", "source": {"id": "s"}}, 3], "createdAt": 1},
    ),
    ("ai-sdk-model", {"role": "user", "content": [{"type": "image", "image": "AAAA"}]}),
    ("ai-sdk-model", {"role": "user", "content": [{"type": "file", "data": "AAAA", "mediaType": "image/png"}]}),
    ("ai-sdk-model", {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "f"}]}),
    ("ai-sdk-model", {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "f"}]}),
    ("ai-sdk-model", {"role": "system", "content": "be terse", "providerOptions": {"p": {"cache": True}}}),
    ("stored", {"id": "m1", "role": "user", "content": {"format": 2, "parts": []}}),
    ("stored", {"id": "m1", "role": "user", "content": "hi", "createdAt": "2026-01-01T00:00:00Z"}),
    ("stored", {"id": "m1", "role": "user", "content": None, "threadId": "t"}),
    ("penstock", {"role": "user", "parts": [{"type": "text", "text": "hi"}], "thread_id": "t"}),
    ("penstock", {"role": "user", "parts": [{"type": "tool", "call_id": "c1", "name": "f"}]}),
    ("penstock", {"role": "user", "parts": [{"type": "image", "url": "https://x.test"}]}),
    ("penstock", {"role": "user", "parts": [{"type": "text", "text": "hi", "metadata": {}}]}),
    ("penstock", {"role": "tool", "parts": []}),
    ("penstock", {"role": "user", "parts": [], "metadata": {"ai-sdk-ui": {"x": 1}}}),
]


@pytest.mark.parametrize(("name", "item"), KNOWN)
def test_a_message_is_recognised(name: str, item: dict[str, Any]):
    """It is read as if the format had been told."""
    if 3 in item.get("parts", ()):
        with pytest.raises(MessageError, match=r"messages\[0\].parts\[1\]: expected an object with a type, not int"):
            parse_messages(item)
    else:
        read = wire_format(name).read([item])
        assert parse_messages(item, trusted=True) == parse_messages([item], name, trusted=True) == read


def test_a_str_is_one_user_message():
    """And messages pass as they are."""
    message = Message.assistant("a")
    assert parse_messages("hi") == (Message.user("hi"),)
    assert parse_messages(message) == parse_messages([message]) == (message,)
    listed = MessageList([message])
    assert parse_messages(listed) == tuple(listed)


def test_plain_messages_follow_those_that_are_unmistakable():
    """A role and a str are chat and responses alike."""
    plain = {"role": "user", "content": "hi"}
    item = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    messages = parse_messages([plain, item])
    assert dump_messages(messages, "openai-responses") == [plain, item]
    assert (
        parse_messages([plain, item, {"role": "tool", "content": "4"}], trusted=True)[0]
        == wire_format("openai-chat").read([plain])[0]
    )


def test_texts_follow_model_messages_that_are_unmistakable():
    """A role and content of texts are chat and model alike; without a hint they are chat."""
    plain, texts = {"role": "user", "content": "hi"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    call = {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]}
    result = {"role": "tool", "content": "4", "tool_call_id": "c"}
    assert parse_messages([plain, texts, call], trusted=True) == wire_format("ai-sdk-model").read([plain, texts, call])
    assert parse_messages([plain, texts], trusted=True) == wire_format("openai-chat").read([plain, texts])
    assert parse_messages([plain, texts, call, result], trusted=True)[:2] == wire_format("openai-chat").read(
        [plain, texts]
    )


ONE_OF_EACH: dict[Format, Any] = {
    "penstock": {"role": "system", "parts": [{"type": "text", "text": "a"}], "from_client": False},
    "openai-chat": {"role": "developer", "content": "a"},
    "openai-responses": {"type": "message", "role": "system", "content": "a"},
    "anthropic": {"role": "system", "content": "a"},
    "google": {"role": "system", "parts": [{"text": "a"}]},
    "langchain": {"type": "system", "content": "a"},
    "pydantic-ai": {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "a"}]},
    "mcp": {"role": "user", "content": {"type": "text", "text": "a"}},
    "ai-sdk-ui": {"id": "m", "role": "system", "parts": [{"type": "text", "text": "a"}]},
    "ai-sdk-model": {"role": "system", "content": "a", "providerOptions": {"a": {}}},
    "stored": {"id": "m", "role": "system", "content": {"format": 2, "parts": [{"type": "text", "text": "a"}]}},
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_parsed_is_a_clients_unless_it_is_trusted(name: Format):
    """In every format, whatever the role is and whatever the object says of itself."""
    item = ONE_OF_EACH[name]
    (sent,) = parse_messages(item, name)
    assert sent.from_client
    assert sent.role == ("user" if name == "mcp" else "system")  # which has no system messages
    (trusted,) = parse_messages(item, name, trusted=True)
    assert not trusted.from_client
    assert trusted.as_from_client() == sent


def test_a_message_made_in_code_stays_the_applications():
    """Also where it is given beside parsed ones."""
    own, sent = parse_messages([Message.system("a"), {"role": "system", "content": "b"}])
    assert (own.from_client, sent.from_client) == (False, True)


def test_a_stored_message_is_remembered_as_a_clients():
    """Penstock's own form keeps the mark, so that what was parsed as trusted tells the two apart."""
    messages = parse_messages([Message.system("a"), {"role": "system", "content": "b", "name": "c"}])
    assert parse_messages(dump_messages(messages), trusted=True) == messages


NAMELESS = ("openai-responses", "anthropic", "google", "pydantic-ai", "mcp")


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in NAMELESS])
def test_a_message_keeps_the_name_of_its_speaker(name: Format):
    """In every format that has a place for it, and through edits of its parts."""
    message = Message.user("a", name="bob")
    (item,) = dump_messages(message.with_parts([TextPart("b")]), name)
    assert item["name"] == "bob"
    (read,) = parse_messages(item, name)
    assert (read.name, read.text) == ("bob", "b")
    with pytest.raises(MessageError, match=r"name: expected a"):
        parse_messages({**item, "name": 3}, name)


def test_formats_may_be_mixed():
    """A result is named after a call of another format, and a mistake has its place in the whole."""
    mixed = [
        Message.assistant([ToolPart("c1", "f")]),
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
        {"id": "m", "role": "user", "parts": [{"type": "text", "text": "a"}]},
    ]
    messages = parse_messages(mixed)
    assert messages[1].parts[0].name == "f"
    with pytest.raises(MessageError, match=r"^messages\[3\].content\[1\]: expected an object with a type, not int$"):
        parse_messages([*mixed, {"role": "user", "content": [{"type": "text", "text": "a"}, 3]}])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (3, "messages: expected a str, a message or several, not int"),
        (["hi"], "messages[0]: expected a message (a Message or a dict), not str"),
        (
            [Message.user("a"), {"content": "a"}],
            "messages[1]: expected a message with a role, or an item with a type; neither is there",
        ),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(value: Any, problem: str):
    """Before any format is asked."""
    with pytest.raises(MessageError) as caught:
        parse_messages(value)
    assert str(caught.value) == problem


def test_an_unknown_format_is_refused():
    """With those that there are."""
    with pytest.raises(UsageError, match="format must be one of penstock, openai-chat"):
        parse_messages("hi", "xml")
    with pytest.raises(UsageError, match="not 'xml'"):
        dump_messages("hi", "xml")


CONVERSATION = (
    Message.system("be terse"),
    Message.user([TextPart("hi"), FilePart(data="AAAA", media_type="application/pdf", name="a.pdf")]),
    Message.assistant(
        [
            ReasoningPart("hm"),
            TextPart("let me see"),
            ToolPart("c1", "f", {"q": 1}, "result", "4"),
            StepStartPart(),
            TextPart("it is 4"),
            SourcePart("s1", "https://x.test"),
            DataPart("progress", 1),
        ]
    ),
)


def text_of(messages: tuple[Message, ...]) -> str:
    """All that is said, whatever messages it stands in."""
    return "\n".join(message.text for message in messages if message.text)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_holds_a_conversation(name: str):
    """What is said comes back, except for the kinds that the format says it leaves out."""
    read = parse_messages(dump_messages(CONVERSATION, name), name)
    said = [(part.type, getattr(part, "text", "")) for message in read for part in message.parts]
    left_out = wire_format(name).LEAVES_OUT
    expected = [
        (part.type, getattr(part, "text", ""))
        for message in CONVERSATION
        for part in message.parts
        if part.type not in left_out
    ]
    if name not in ("penstock", "ai-sdk-ui", "stored"):
        place = next(index for index, (kind, _) in enumerate(expected) if kind == "tool")
        expected.insert(place + 1, ("tool", ""))  # the result, which is a message of its own
    assert said == expected


@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("second", FORMATS)
def test_what_one_format_wrote_survives_another(first: str, second: str):
    """Texts stay in their order, on the way from each format to each other."""
    read = parse_messages(dump_messages(CONVERSATION, first), first)
    again = parse_messages(dump_messages(read, second), second)
    assert text_of(again) == text_of(read) == text_of(CONVERSATION)


def test_the_schema_is_that_of_our_own_form():
    """One definition a part."""
    assert len(json_schema()["$defs"]) == len(PART_TYPES)


def test_pydantic_is_imported_only_where_it_is_needed():
    """Reading and writing the formats of others does without."""
    code = (
        "import sys; from penstock.formats import dump_messages, parse_messages;"
        "from penstock.formats import FORMATS;"
        "[dump_messages(parse_messages('hi'), name) for name in FORMATS];"
        "print('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
