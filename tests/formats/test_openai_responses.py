"""Whether OpenAI responses items are read, written and read again without a loss."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats import openai_chat, openai_responses

CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "search",
    "arguments": '{"q":1}',
    "status": "completed",
}

EXAMPLES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"type": "message", "role": "user", "content": "hi"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be terse"}]},
    {"type": "message", "role": "user", "content": ""},
    {"type": "message", "role": "user", "content": []},
    {"type": "message", "role": "user"},
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [
            {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "no"},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "see"},
            {"type": "text", "text": "see"},
            {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
            {"type": "input_image", "image_url": None, "file_id": "file-1", "detail": "low"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
            {"type": "input_file", "file_url": "https://x.test/a.pdf"},
            {"type": "input_file", "file_id": "file-2", "filename": None},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            {"type": "input_video", "url": "https://x.test/a.mp4"},
        ],
    },
    CALL,
    {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": 1}'},
    {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{broken"},
    {"type": "function_call", "call_id": "c1", "name": "search"},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "search", "input": "raw text"},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {"type": "function_call_output", "call_id": "c1", "output": "", "id": "fco_1", "status": None},
    {"type": "function_call_output", "call_id": "c1", "output": None},
    {"type": "function_call_output", "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "4"}]},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "4"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "content": None,
        "status": None,
    },
    {"type": "reasoning", "summary": [{"type": "novelty"}], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "reasoning"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
    {"type": "compaction", "encrypted_content": "gAAA"},
    {"type": "image_generation_call", "id": "ig_1", "result": "AAAA", "status": "completed"},
    {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]},
]

BUILT_IN: list[tuple[dict[str, Any], str, Any, Any]] = [
    ({"type": "web_search_call", "id": "1", "status": "in_progress", "action": {"query": "q"}}, "call", None, None),
    ({"type": "web_search_call", "id": "1", "status": "completed", "action": {"query": "q"}}, "result", None, None),
    (
        {"type": "file_search_call", "id": "1", "queries": ["q"], "results": [{"text": "a"}]},
        "result",
        [{"text": "a"}],
        None,
    ),
    ({"type": "file_search_call", "id": "1", "queries": ["q"], "results": None}, "result", None, None),
    (
        {"type": "code_interpreter_call", "id": "1", "code": None, "container_id": "c", "outputs": []},
        "result",
        [],
        None,
    ),
    (
        {"type": "mcp_call", "id": "1", "name": "f", "server_label": "s", "arguments": "{}", "output": "a"},
        "result",
        "a",
        None,
    ),
    (
        {"type": "mcp_call", "id": "1", "name": "f", "arguments": '{"a": 1}', "output": None, "error": "e"},
        "error",
        None,
        "e",
    ),
    ({"type": "mcp_call", "id": "1", "name": "f", "arguments": "{}", "error": {"message": "e"}}, "error", None, None),
    (
        {"type": "mcp_list_tools", "id": "1", "server_label": "s", "tools": [{"name": "n"}]},
        "result",
        [{"name": "n"}],
        None,
    ),
    (
        {"type": "mcp_approval_request", "id": "1", "server_label": "s", "name": "n", "arguments": "{}"},
        "call",
        None,
        None,
    ),
    (
        {"type": "mcp_approval_response", "approval_request_id": "1", "approve": True, "reason": "r"},
        "result",
        "r",
        None,
    ),
    ({"type": "computer_call", "id": "1", "call_id": "c", "action": {"type": "wait"}}, "call", None, None),
    ({"type": "local_shell_call", "id": "1", "call_id": "c", "action": {"command": ["ls"]}}, "call", None, None),
    ({"type": "local_shell_call_output", "id": "1", "output": "a"}, "result", "a", None),
    ({"type": "shell_call_output", "call_id": "1", "output": [{"stdout": "a"}]}, "result", [{"stdout": "a"}], None),
    ({"type": "apply_patch_call", "call_id": "c", "operation": {"diff": "d"}}, "call", None, None),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": None}, "result", None, None),
    ({"type": "tool_search_call", "arguments": {"q": 1}, "execution": "server"}, "call", None, None),
    ({"type": "program_output", "id": "1", "call_id": "c", "result": "a"}, "result", "a", None),
]


@pytest.mark.parametrize(("item", "state", "result", "error"), BUILT_IN)
def test_a_tool_that_the_provider_has_built_in_is_a_tools_part(
    item: dict[str, Any], state: str, result: Any, error: Any
):
    """With what it gave as the result, which guards read and edit; it is written as the same item."""
    (message,) = messages = openai_responses.read([item])
    (part,) = message.parts
    assert isinstance(part, ToolPart)
    assert (part.state, thaw(part.result), part.error) == (state, result, error)
    assert message.role == ("tool" if item["type"].endswith(("_output", "_response")) else "assistant")
    assert openai_responses.write(messages) == [item]


def test_a_result_of_a_built_in_tool_can_be_edited():
    """And goes elsewhere as any result."""
    item = BUILT_IN[5][0]
    (message,) = openai_responses.read([item])
    (part,) = message.parts
    assert isinstance(part, ToolPart)
    edited = message.with_parts([replace(part, result="[SECRET]")])
    assert openai_responses.write([edited]) == [{**item, "output": "[SECRET]"}]
    (call, result) = openai_chat.write([edited])
    assert (call["tool_calls"][0]["function"]["name"], result["content"]) == ("f", "[SECRET]")


def test_what_both_of_openais_formats_know_goes_from_one_to_the_other():
    """The role ``developer``, and in what detail an image is seen."""
    chat = [
        {"role": "developer", "content": "be terse"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}}],
        },
    ]
    items = openai_responses.write(openai_chat.read(chat))
    assert [item["role"] for item in items] == ["developer", "user"]
    assert items[1]["content"] == [{"type": "input_image", "image_url": "https://x.test/a.png", "detail": "low"}]
    assert openai_chat.write(openai_responses.read(items)) == chat


@pytest.mark.parametrize("item", EXAMPLES)
def test_an_item_is_written_as_it_was_read(item: dict[str, Any]):
    """Shape, nulls, unknown keys and argument strings included."""
    assert openai_responses.write(openai_responses.read([item])) == [item]


texts = st.builds(
    lambda kind, text: {"type": kind, "text": text}, st.sampled_from(["input_text", "output_text"]), st.text()
)
images = st.builds(lambda url: {"type": "input_image", "image_url": url, "detail": "auto"}, st.none() | st.text())
files = st.fixed_dictionaries(
    {"type": st.just("input_file")},
    optional={"file_data": st.text(), "file_url": st.none() | st.text(), "file_id": st.text(), "filename": st.text()},
)
ids = {"id": st.text(max_size=3), "status": st.none() | st.just("completed")}
items = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant"])},
        optional={
            "type": st.just("message"),
            "content": st.none() | st.text() | st.lists(texts | images | files, max_size=3),
            **ids,
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call"), "call_id": st.text(max_size=3), "name": st.text(max_size=3)},
        optional={"arguments": st.text(max_size=5) | st.sampled_from(['{"a":1}', '{"a": [1, 2]}']), **ids},
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call_output"), "call_id": st.text(max_size=3)},
        optional={"output": st.none() | st.text() | st.lists(texts, max_size=2), **ids},
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning")},
        optional={
            "summary": st.none()
            | st.lists(st.builds(lambda text: {"type": "summary_text", "text": text}, st.text()), max_size=2),
            **ids,
        },
    ),
)


@given(st.lists(items, max_size=4))
def test_any_list_of_items_survives_a_round_trip(given: list[dict[str, Any]]):
    """It is written as it was read, and read as it was before."""
    messages = openai_responses.read(given)
    written = openai_responses.write(messages)
    assert written == given
    assert openai_responses.read(written) == messages


def test_each_item_becomes_one_message():
    """Calls and reasoning are the assistant's, outputs the tool's; the ids given stay."""
    output = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
    messages = openai_responses.read([reasoning, CALL, output])
    assert [(message.role, message.id) for message in messages] == [
        ("assistant", "rs_1"),
        ("assistant", "fc_1"),
        ("tool", ""),
    ]
    assert messages[2].parts[0].name == "search"
    assert messages[1].parts[0].arguments == {"q": 1}


def test_an_id_that_the_provider_did_not_give_is_not_sent():
    """It would refuse it."""
    assert openai_responses.write([Message.user("hi", id="m1")]) == [
        {"type": "message", "role": "user", "content": "hi"}
    ]


def test_an_assistants_message_becomes_as_many_items_as_it_takes():
    """In order, each step's outputs after its calls."""
    message = Message.assistant(
        [
            ReasoningPart("hm"),
            TextPart("a"),
            ToolPart("c1", "f", {"q": 1}, "result", {"n": 4}),
            ToolPart("c2", "f", {}, "error", error="broke"),
            StepStartPart(),
            TextPart("b"),
            TextPart("c"),
        ]
    )
    assert openai_responses.write([message]) == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"q":1}'},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"n":4}'},
        {"type": "function_call_output", "call_id": "c2", "output": "broke"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "b"}, {"type": "output_text", "text": "c"}],
        },
    ]


def test_what_the_format_has_no_place_for_is_left_out():
    """Exactly the kinds that the format names; a message of nothing else is not sent empty."""
    parts = [SourcePart(url="https://x.test"), DataPart("progress", 1), StepStartPart()]
    assert {part.type for part in parts} == openai_responses.LEAVES_OUT
    assert openai_responses.write([Message.assistant(parts)]) == []


def test_media_of_other_formats_are_shown_as_what_they_are():
    """A file that holds an image or a sound goes out as one, and an unknown part as it is."""
    parts = [
        FilePart(data="AAAA", media_type="image/png"),
        ImagePart(data="AAAA", media_type="image/gif"),
        AudioPart(data="AAAA", media_type="audio/wav"),
        FilePart(url="https://x.test/a.pdf", name="a.pdf"),
        UnknownPart({"type": "novelty"}),
    ]
    (item,) = openai_responses.write([Message.user(parts)])
    assert item["content"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "image_url": "data:image/gif;base64,AAAA"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "input_file", "file_url": "https://x.test/a.pdf", "filename": "a.pdf"},
        {"type": "novelty"},
    ]


def test_reasoning_without_its_thoughts_is_still_an_item():
    """The provider wants it back with what is encrypted in it."""
    thoughts = [{"type": "summary_text", "text": "hm"}]
    (message,) = openai_responses.read([{"type": "reasoning", "summary": thoughts, "encrypted_content": "x"}])
    assert openai_responses.write([message.with_parts([])]) == [
        {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    ]


def test_a_tool_message_of_our_own_is_written():
    """Each result becomes an output; what else it says is said by the assistant."""
    messages = [Message.tool([TextPart("a"), ToolPart("c1", "f", state="result", result="4")])]
    assert [item["type"] for item in openai_responses.write(messages)] == ["message", "function_call_output"]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "messages[0]: expected a responses item, not int"),
        ({}, "messages[0]: expected a type or a role; neither is there"),
        ({"type": 3}, "messages[0].type: expected a str, not int"),
        ({"role": "tool"}, "messages[0].role: expected one of system, developer, user, assistant, not another str"),
        ({"role": "user", "content": 1}, "messages[0].content: expected a str or a list of content parts, not int"),
        ({"role": "user", "content": [3]}, "messages[0].content[0]: expected an object with a type, not int"),
        ({"type": "function_call", "name": "f"}, "messages[0].call_id: expected a str, but it is missing"),
        (
            {"type": "function_call_output", "call_id": "c", "output": 3},
            "messages[0].output: expected a str or a list of content parts, not int",
        ),
        ({"type": "reasoning", "summary": 3}, "messages[0].summary: expected a list, not int"),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text"}]},
            "messages[0].summary[0].text: expected a str, but it is missing",
        ),
    ],
)
def test_a_malformed_item_is_refused_with_its_place(item: Any, problem: str):
    """What was expected where, and the type that was found; never the text."""
    with pytest.raises(MessageError) as caught:
        openai_responses.read([item])
    assert str(caught.value) == problem
