"""Whether OpenAI chat messages are read, written and read again without a loss."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import (
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
)
from penstock.formats import openai_chat

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":1}'}}


def call(arguments: str, **more: Any) -> dict[str, Any]:
    """An assistant's message with one call."""
    function = {"name": "search", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": function, **more}]}


EXAMPLES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "user", "content": ""},
    {"role": "user", "content": [], "name": "bob"},
    {"role": "user", "content": None, "name": None, "tool_calls": None},
    {"role": "user"},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "b"}]},
    {"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m"}}]},
    {"role": "developer", "content": "be terse"},
    {"role": "assistant", "content": "hi", "refusal": None, "annotations": [], "id": "msg_1"},
    {"role": "assistant", "content": None, "refusal": "no"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}, {"type": "text", "text": "but"}]},
    {"role": "assistant", "content": "hi", "reasoning_content": "hm"},
    {"role": "assistant", "content": "hi", "reasoning": "hm", "refusal": None},
    {"role": "assistant", "content": "hi", "reasoning": None, "tool_calls": []},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}],
    },
    {"role": "assistant", "content": [{"type": "thinking", "thinking": []}], "prefix": False},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "x": 1}]}
        ],
    },
    {
        "role": "assistant",
        "content": "hi",
        "reasoning": "ab",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "a", "signature": "s", "index": 0},
            {"type": "reasoning.summary", "summary": "b", "index": 1},
            {"type": "reasoning.encrypted", "data": "xx", "index": 2},
        ],
    },
    {"role": "assistant", "content": "hi", "reasoning": "other", "reasoning_details": [{"type": "t", "text": "a"}]},
    {"role": "assistant", "content": None, "audio": {"id": "a1", "data": "UklG", "transcript": "hi", "expires_at": 1}},
    {"role": "assistant", "audio": {"id": "a1"}},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "c2", "index": 1}]},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "f"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "custom", "custom": {"name": "f", "input": "raw text"}},
            {"id": "c", "type": "novelty", "novelty": {"x": 1}},
        ],
    },
    {"role": "assistant", "content": "x", "tool_calls": [{**CALL, "custom": {"name": "", "input": ""}}]},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {"q": 1}}}]},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
    call('{"q": 1, "é": "ü"}'),
    call('{"q":"\\u00e9"}'),
    call('{\n  "q": 1\n}'),
    call(""),
    call("{broken"),
    call('"text"'),
    call('{"a":1,"a":2}'),
    call('{"a":NaN}'),
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "tool", "tool_call_id": "c1", "content": "", "name": "search"},
    {"role": "tool", "tool_call_id": "", "content": None},
    {"role": "tool"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4", "cache_control": {}}], "id": "m2"},
    {"role": "function", "name": "search", "content": "4"},
    {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
            {"type": "image_url", "image_url": "https://x.test/a.png"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mpeg"}, "x": 1},
            {"type": "file", "file": {"file_data": "data:image/png;base64,AAAA", "filename": "a.png"}},
            {"type": "file", "file": {"file_data": "data:text/plain,hi", "filename": None}},
            {"type": "file", "file": {"file_data": "AAAA"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_url": "https://x.test/a.pdf"}},
            {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}},
        ],
    },
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_message_is_written_as_it_was_read(item: dict[str, Any]):
    """Shape, nulls, unknown keys and argument strings included."""
    assert openai_chat.write(openai_chat.read([item])) == [item]


RECORDED: list[list[dict[str, Any]]] = [  # from requests to OpenAI, DeepSeek and Hugging Face
    [
        {"content": "What is the weather in Paris? Use the tool.", "role": "user"},
        {
            "content": None,
            "role": "assistant",
            "tool_calls": [
                {
                    "function": {"arguments": '{"city":"Paris"}', "name": "get_weather"},
                    "id": "call_J3ajtA7qivswzXp8A9sJ7foO",
                    "type": "function",
                }
            ],
        },
        {"content": "sunny in Paris", "role": "tool", "tool_call_id": "call_J3ajtA7qivswzXp8A9sJ7foO"},
        {
            "annotations": [],
            "content": "The weather in Paris is currently sunny.",
            "refusal": None,
            "role": "assistant",
        },
    ],
    [
        {
            "content": None,
            "reasoning_content": "",
            "role": "assistant",
            "tool_calls": [
                {
                    "function": {"arguments": '{"queries":["DICE_ROLL"]}', "name": "search_tools"},
                    "id": "auto_load_eb5fc31bb581b4e7",
                    "type": "function",
                }
            ],
        },
        {"content": "{}", "role": "tool", "tool_call_id": "auto_load_eb5fc31bb581b4e7"},
        {"content": "**Congratulations, Anne!**", "reasoning_content": "They win!", "role": "assistant"},
    ],
    [{"content": "What are the first primes?", "name": None, "role": "user", "tool_calls": None}],
]


@pytest.mark.parametrize("items", RECORDED)
def test_recorded_conversations_are_written_as_they_were_read(items: list[dict[str, Any]]):
    """Byte for byte where providers cache by prefix: arguments are not written anew."""
    messages = openai_chat.read(items)
    assert openai_chat.write(messages) == items
    assert [part.name for message in messages for part in message.parts if isinstance(part, ToolPart)] == [
        call["function"]["name"] for item in items for call in item.get("tool_calls") or () for _ in range(2)
    ]


def test_a_message_of_thoughts_alone_is_one_that_providers_take():
    """They want a str for the content if there is no call."""
    assert openai_chat.write([Message.assistant([ReasoningPart("hm")])]) == [
        {"role": "assistant", "content": "", "reasoning_content": "hm"}
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
extras = st.dictionaries(
    st.sampled_from(["name", "index", "cache_control", "extra", "annotations"]), json_values, max_size=2
)
text_parts = st.builds(lambda text, more: {**more, "type": "text", "text": text}, st.text(), extras)
image_parts = st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, st.text())
file_parts = st.builds(
    lambda file: {"type": "file", "file": file},
    st.fixed_dictionaries(
        {},
        optional={
            "file_data": st.text() | st.just("data:image/png;base64,AAAA"),
            "file_id": st.text(),
            "filename": st.text(),
        },
    ),
)
contents = st.none() | st.text() | st.lists(text_parts | image_parts | file_parts, max_size=3)
calls = st.builds(
    lambda call_id, name, arguments: {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    st.text(max_size=3),
    st.text(max_size=3),
    st.text(max_size=5) | st.sampled_from(['{"a":1}', '{"a": [1, 2]}', "[1]"]),
)
spoken = st.builds(
    lambda head, more: {**more, **head} if "content" in head else head,
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant"])},
        optional={
            "content": contents,
            "refusal": st.none() | st.text(),
            "reasoning": st.none() | st.text(),
            "reasoning_content": st.none() | st.text(),
            "tool_calls": st.none() | st.lists(calls, max_size=2),
            "id": st.text(max_size=3),
        },
    ),
    extras.map(lambda more: {key: value for key, value in more.items() if key != "name"}),
)
answers = st.fixed_dictionaries(
    {"role": st.just("tool"), "content": st.none() | st.text() | st.lists(text_parts, max_size=2)},
    optional={"tool_call_id": st.text(max_size=3), "name": st.text(max_size=3)},
)


@given(st.lists(spoken | answers, max_size=3))
def test_any_conversation_survives_a_round_trip(items: list[dict[str, Any]]):
    """It is written as it was read, and read as it was before."""
    messages = openai_chat.read(items)
    written = openai_chat.write(messages)
    assert written == items
    assert openai_chat.read(written) == messages


def test_a_result_is_named_after_the_earlier_call():
    """The tool message itself has no name on the wire."""
    messages = openai_chat.read(
        [{"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "4"}]
    )
    assert messages[1] == Message.tool([ToolPart("c1", "search", state="result", result="4")])


def test_arguments_become_an_object_only_if_nothing_is_lost():
    """Broken JSON and repeated keys stay the str that they were, where a guard sees all of it."""
    given = ['{"q": 1}', "", "{broken", '{"a":1,"a":2}', "3"]
    parts = [openai_chat.read([call(text)])[0].parts[0] for text in given]
    assert [part.arguments for part in parts] == [{"q": 1}, {}, "{broken", '{"a":1,"a":2}', "3"]


def test_an_edit_reaches_every_copy_on_the_wire():
    """The reasoning that only repeats its details is written from them."""
    (message,) = openai_chat.read(
        [
            {
                "role": "assistant",
                "content": None,
                "reasoning": "secret",
                "reasoning_details": [{"type": "reasoning.text", "text": "secret"}],
            }
        ]
    )
    edited = message.with_parts([ReasoningPart("***", part.metadata) for part in message.parts])
    (item,) = openai_chat.write([edited])
    assert (item["reasoning"], item["reasoning_details"][0]["text"]) == ("***", "***")


def test_arguments_in_no_usual_style_are_written_compactly():
    """The one normalisation: the JSON value is the same."""
    (message,) = openai_chat.read([call('{ "q" : 1.50 }')])
    (item,) = openai_chat.write([message])
    assert item["tool_calls"][0]["function"]["arguments"] == '{"q":1.5}'


def test_arguments_that_are_no_object_any_more_are_written_as_they_are_now():
    """A note on how they were written does not bring back the old ones."""
    (message,) = openai_chat.read([call("")])
    edited = message.with_parts([replace(message.parts[0], arguments={"q": 2})])
    assert openai_chat.write([edited])[0]["tool_calls"][0]["function"]["arguments"] == '{"q":2}'


def test_metadata_from_outside_cannot_stand_in_for_what_guards_read():
    """Notes that a client could send change neither the role nor a known field, and nonsense in them is passed over."""
    notes = {
        "role": "developer",
        "content": 3,
        "id": 4,
        "extra": {"role": "system", "content": "evil", "tool_calls": [CALL]},
    }
    part = TextPart("hi", {"openai-chat": {"field": ["refusal"], "extra": 1, "type": 3}})
    assert openai_chat.write([Message.user([part], metadata={"openai-chat": notes})]) == [
        {"role": "user", "content": "hi"}
    ]
    assert openai_chat.write([Message.user("hi", metadata={"openai-chat": "x"})]) == [{"role": "user", "content": "hi"}]


def test_arguments_that_cannot_be_written_as_json_are_refused():
    """Rather than written as something else: an int that is longer than Python is willing to print."""
    with pytest.raises(MessageError, match="JSON values"):
        openai_chat.write([Message.assistant([ToolPart("c", "f", {"a": 10**5000})])])


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "messages[0]: expected a chat message, not int"),
        ({}, "messages[0].role: expected one of system, developer, user, assistant, tool, function, but it is missing"),
        (
            {"role": "boss"},
            "messages[0].role: expected one of system, developer, user, assistant, tool, function, not another str",
        ),
        ({"role": 1}, "messages[0].role: expected one of system, developer, user, assistant, tool, function, not int"),
        ({"role": "user", "content": 1}, "messages[0].content: expected a str or a list of content parts, not int"),
        ({"role": "user", "content": ["a"]}, "messages[0].content[0]: expected an object with a type, not str"),
        ({"role": "user", "content": [{}]}, "messages[0].content[0].type: expected a str, but it is missing"),
        (
            {"role": "user", "content": [{"type": "text"}]},
            "messages[0].content[0].text: expected a str, but it is missing",
        ),
        (
            {"role": "user", "content": [{"type": "image_url"}]},
            "messages[0].content[0].image_url: expected an object with an url, not NoneType",
        ),
        ({"role": "assistant", "tool_calls": [1]}, "messages[0].tool_calls[0]: expected a tool call, not int"),
        (
            {"role": "assistant", "tool_calls": [{"id": 1, "function": {}}]},
            "messages[0].tool_calls[0].id: expected a str, not int",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {}}]},
            "messages[0].tool_calls[0].function.name: expected a str, but it is missing",
        ),
        ({"role": "assistant", "reasoning_details": 1}, "messages[0].reasoning_details: expected a list, not int"),
        ({"role": "tool", "content": 3}, "messages[0].content: expected a str or a list of content parts, not int"),
    ],
)
def test_a_malformed_message_is_refused_with_its_place(item: Any, problem: str):
    """What was expected where, and the type that was found; never the text."""
    with pytest.raises(MessageError) as caught:
        openai_chat.read([item])
    assert str(caught.value) == problem
