"""Whether AI-SDK UI messages are read, written and read again without a loss."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.engine.values.errors import MessageError
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
from penstock.formats import ai_sdk_ui


def ui(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An assistant's message with those parts."""
    return {"id": "m1", "role": "assistant", "parts": list(parts), **more}


TOOL = {"type": "tool-search", "toolCallId": "c1"}
EXAMPLES: list[dict[str, Any]] = [
    ui({"type": "text", "text": "hi"}),
    ui({"type": "text", "text": "hi", "state": "done", "providerMetadata": {"openai": {"itemId": "i"}}}),
    ui({"type": "text", "text": "hi", "providerMetadata": {}}),
    ui({"type": "text", "text": "hi", "providerMetadata": {"ai-sdk-ui": 1}}),
    ui({"type": "text", "text": "hi", "providerMetadata": 3}),
    ui({"type": "reasoning", "text": "hm", "state": "streaming"}),
    ui({"type": "reasoning", "reasoning": "hm", "details": [{"type": "text", "text": "hm", "signature": "s"}]}),
    ui({"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"}),
    ui({"type": "file", "url": "https://x.test/a.pdf", "filename": None}),
    ui({"type": "file", "mimeType": "image/png", "data": "AAAA"}),
    ui({"type": "file", "mediaType": "audio/wav", "url": "data:audio/wav;base64,AAAA", "transcript": "hi"}),
    ui({"type": "file", "mediaType": "image/png", "url": {"odd": True}}),
    ui({"type": "source-url", "sourceId": "s1", "url": "https://x.test", "title": "X"}),
    ui(
        {"type": "source-document", "sourceId": "s1", "mediaType": "application/pdf", "title": "X", "filename": "x.pdf"}
    ),
    ui({"type": "source", "source": {"sourceType": "url", "id": "s1", "url": "https://x.test", "title": None}}),
    ui({"type": "source", "source": {"id": "s1"}}),
    ui({"type": "step-start"}, {"type": "data-weather", "id": "d1", "data": {"c": 3}}, {"type": "data-x"}),
    ui({**TOOL, "state": "input-streaming"}),
    ui({**TOOL, "state": "input-streaming", "input": '{"q":'}),
    ui({**TOOL, "state": "input-available", "input": {"q": 1}, "providerExecuted": True}),
    ui(
        {
            **TOOL,
            "state": "output-available",
            "input": {"q": 1},
            "output": {"n": 4},
            "callProviderMetadata": {"p": {"x": 1}},
        }
    ),
    ui({**TOOL, "state": "output-available", "input": {}, "output": None, "preliminary": True}),
    ui({**TOOL, "state": "output-available", "input": {}}),
    ui({**TOOL, "state": "output-error", "input": None, "rawInput": "{", "errorText": "broke"}),
    ui({**TOOL, "state": "output-denied", "input": {}, "approval": {"id": "a", "approved": False, "reason": "no"}}),
    ui({**TOOL, "state": "approval-requested", "input": {}, "approval": {"id": "a"}}),
    ui({**TOOL, "state": "approval-requested", "input": {}, "approval": {"id": "a", "approved": None}}),
    ui({**TOOL, "state": "approval-responded", "input": {}, "approval": {"id": "a", "approved": True, "reason": "r"}}),
    ui({**TOOL, "state": "approval-responded", "input": {}, "approval": {"id": "a", "approved": False, "reason": "r"}}),
    ui({**TOOL, "state": "approval-responded", "input": {}, "approval": {"id": "a", "approved": False, "more": 1}}),
    ui({**TOOL, "state": "approval-responded", "input": {}, "approval": {"approved": False, "reason": True}}),
    ui({**TOOL, "state": "approval-responded", "input": {}, "approval": {"approved": False, "reason": ""}}),
    ui({**TOOL, "state": "approval-responded", "input": {}}),
    ui({**TOOL, "state": "approval-responded", "input": {}, "approval": "yes"}),
    ui({**TOOL, "state": "input-available", "input": {}, "approval": {"id": "a", "approved": True}}),
    ui({**TOOL, "state": "output-available", "input": {}, "output": 1, "approval": {"id": "a", "approved": True}}),
    ui({**TOOL, "state": "output-error", "input": {}, "errorText": "e", "approval": {"id": "a", "approved": False}}),
    ui(
        {
            **TOOL,
            "state": "output-denied",
            "input": {},
            "errorText": "e",
            "approval": {"approved": False, "reason": "r"},
        }
    ),
    ui({**TOOL, "state": "novelty", "input": {}, "output": None, "errorText": None}),
    ui({"type": "dynamic-tool", "toolName": "search", "toolCallId": "c1", "state": "input-available", "input": {}}),
    ui({"type": "tool-invocation", "toolCallId": "c1", "state": "input-available", "input": {}}),
    ui(
        {
            "type": "tool-invocation",
            "toolInvocation": {"state": "result", "toolCallId": "c", "toolName": "f", "args": {}, "result": 4},
        }
    ),
    ui({"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": 4}),
    ui({"type": "novelty", "x": [1]}),
    ui(metadata={"k": 1, "openai-chat": {"extra": {}}}),
    ui(metadata={}),
    ui(metadata=None),
    ui(metadata="text"),
    ui(metadata={"ai-sdk-ui": {"extra": {}}}),
    ui(createdAt="2026-01-01T00:00:00.000Z", novelty=1),
    ui(createdAt="yesterday"),
    ui(createdAt=None),
    ui({"type": "text", "text": "hi"}, content="hi"),
    {"role": "user", "parts": [{"type": "text", "text": "hi"}], "id": ""},
    {"id": "m1", "role": "tool", "parts": []},
    {"id": "m1", "role": "user", "content": "hi"},
    {"id": "m1", "role": "user", "parts": None},
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_message_is_written_as_it_was_read(item: dict[str, Any]):
    """Shape, nulls and unknown keys included."""
    assert ai_sdk_ui.write(ai_sdk_ui.read([item])) == [item]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "providerMetadata": json_values,
        "callProviderMetadata": json_values,
        "state": st.none() | st.just("done"),
        "x": json_values,
    },
)
parts = st.one_of(
    st.builds(lambda more, text: {**more, "type": "text", "text": text}, metadata, st.text()),
    st.builds(lambda more, text: {**more, "type": "reasoning", "text": text}, metadata, st.text()),
    st.builds(
        lambda more, text, details: {**more, "type": "reasoning", "reasoning": text, "details": details},
        metadata,
        st.text(max_size=3),
        st.lists(st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=3)), max_size=3),
    ),
    st.fixed_dictionaries(
        {"type": st.just("file")},
        optional={
            key: st.none() | st.text(max_size=5)
            for key in ("mediaType", "mimeType", "url", "data", "filename", "fileId", "transcript")
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["source-url", "source-document"])},
        optional={key: st.none() | st.text(max_size=5) for key in ("sourceId", "url", "title", "filename")},
    ),
    st.builds(lambda more, data: {**more, "type": "data-x", "data": data}, metadata, json_values),
    st.fixed_dictionaries(
        {
            "type": st.just("tool-f"),
            "toolCallId": st.text(max_size=3),
            "state": st.sampled_from(
                ["input-streaming", "input-available", "output-available", "output-error", "novelty"]
            ),
        },
        optional={
            "input": json_values,
            "output": json_values,
            "errorText": st.none() | st.text(),
            "callProviderMetadata": json_values,
        },
    ),
    st.builds(lambda more: {**more, "type": "novelty"}, metadata),
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "parts": st.lists(parts, max_size=3)},
    optional={"id": st.text(max_size=3), "metadata": json_values, "content": st.text(max_size=3), "x": json_values},
)


@given(st.lists(messages, max_size=3))
def test_any_conversation_survives_a_round_trip(items: list[dict[str, Any]]):
    """It is written as it was read, and read as it was before."""
    read = ai_sdk_ui.read(items)
    written = ai_sdk_ui.write(read)
    assert written == items
    assert ai_sdk_ui.read(written) == read


def test_the_parts_become_ours():
    """Each under its own name, with what the format says beyond it in the metadata."""
    (message,) = ai_sdk_ui.read(
        [
            ui(
                {"type": "text", "text": "hi", "providerMetadata": {"openai": {"itemId": "i"}}},
                {"type": "reasoning", "text": "hm"},
                {"type": "source-url", "sourceId": "s1", "url": "https://x.test"},
                {**TOOL, "state": "output-available", "input": {"q": 1}, "output": 4},
                {"type": "data-x", "data": [1]},
                {"type": "step-start"},
                {"type": "novelty"},
            )
        ]
    )
    stripped = [getattr(part, "text", None) or part.type for part in message.parts]
    assert stripped == ["hi", "hm", "source", "tool", "data", "step-start", "unknown"]
    assert message.parts[0].metadata == {"openai": {"itemId": "i"}}
    tool = message.parts[3]
    assert (tool.call_id, tool.name, tool.state, tool.arguments, tool.result) == ("c1", "search", "result", {"q": 1}, 4)


def test_our_parts_have_their_usual_shape():
    """As a UI of today expects them."""
    parts = [
        ImagePart(data="AAAA", media_type="image/png"),
        ImagePart(url="https://x.test/a.png"),
        AudioPart(data="AAAA", transcript="hi"),
        FilePart(file_id="file-1", name="a.pdf"),
        SourcePart(id="s1", url="https://x.test"),
        SourcePart(id="s1", title="X"),
        ToolPart("c1", "f", {}, "error", error="broke"),
        UnknownPart({"type": "novelty"}),
    ]
    (item,) = ai_sdk_ui.write([Message.assistant(parts, created_at=datetime(2026, 1, 1, tzinfo=UTC))])
    assert item == {
        "role": "assistant",
        "parts": [
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
            {"type": "file", "mediaType": "image/*", "url": "https://x.test/a.png"},
            {"type": "file", "mediaType": "audio/*", "url": "data:audio/*;base64,AAAA", "transcript": "hi"},
            {"type": "file", "mediaType": "application/octet-stream", "filename": "a.pdf", "fileId": "file-1"},
            {"type": "source-url", "sourceId": "s1", "url": "https://x.test"},
            {"type": "source-document", "sourceId": "s1", "title": "X", "mediaType": "application/octet-stream"},
            {"type": "tool-f", "toolCallId": "c1", "state": "output-error", "input": {}, "errorText": "broke"},
            {"type": "novelty"},
        ],
    }


def test_a_result_is_put_into_the_call_that_it_answers():
    """A UI has no tool messages; one that answers no call becomes the assistant's."""
    items = ai_sdk_ui.write(
        [
            Message.assistant([ToolPart("c1", "f", {"q": 1}), ToolPart("c2", "f")]),
            Message.tool([ToolPart("c1", "f", state="result", result=4)]),
            Message.tool([ToolPart("c9", "f", state="result", result=9)]),
            Message.tool([ToolPart("c2", "f", state="error", error="broke")]),
        ]
    )
    assert [(item["role"], [part["state"] for part in item["parts"]]) for item in items] == [
        ("assistant", ["output-available", "output-error"]),
        ("assistant", ["output-available"]),
    ]
    assert items[0]["parts"][0] == {
        **TOOL,
        "type": "tool-f",
        "state": "output-available",
        "input": {"q": 1},
        "output": 4,
    }


def test_an_answer_to_an_answered_call_stays_a_message():
    """Only an open call takes a result; what else a tool message says stays with it."""
    items = ai_sdk_ui.write(
        [
            Message.assistant([ToolPart("c1", "f", state="result", result=1)]),
            Message.user("hi"),
            Message.tool([TextPart("a"), ToolPart("c1", "f", state="result", result=2)]),
            Message.tool([]),
        ]
    )
    assert [len(item["parts"]) for item in items] == [1, 1, 2, 0]


def test_notes_on_call_and_result_are_laid_together():
    """What other formats and providers said about either."""
    (item,) = ai_sdk_ui.write(
        [
            Message.assistant([ToolPart("c1", "f", metadata={"openai-chat": {"a": 1}, "x": 1})]),
            Message.tool([ToolPart("c1", "f", state="result", metadata={"openai-chat": {"result": {}}, "x": 2})]),
        ]
    )
    assert item["parts"][0]["callProviderMetadata"] == {"openai-chat": {"a": 1, "result": {}}, "x": 2}


def test_an_edited_thought_leaves_nothing_of_the_old_one():
    """Whether it was said in pieces or twice."""
    pieces = [
        {"type": "text", "text": "sec", "signature": "s"},
        {"type": "redacted", "data": "x"},
        {"type": "text", "text": "ret"},
    ]
    for said in ("secret", ""):
        (message,) = ai_sdk_ui.read([ui({"type": "reasoning", "reasoning": said, "details": pieces})])
        assert message.parts[0].text == "secret"
        edited = message.with_parts([ReasoningPart("***", message.parts[0].metadata)])
        (part,) = ai_sdk_ui.write([edited])[0]["parts"]
        assert "sec" not in str(part)
        assert ai_sdk_ui.read([ui(part)])[0].parts[0].text == "***"


def test_nonsense_in_notes_is_passed_over():
    """A client may send metadata under our name."""
    notes = {
        "ai-sdk-ui": {
            "fields": 3,
            "details": [3],
            "lengths": ["x"],
            "shape": 3,
            "state": 3,
            "extra": 3,
            "head": 3,
            "copies": 3,
        }
    }
    parts = [
        ReasoningPart("hm", notes),
        ToolPart("c1", "f", {}, metadata=notes),
        FilePart(url="u", metadata=notes),
        SourcePart(url="u", metadata=notes),
        TextPart("a", notes),
        DataPart("x", 1, notes),
        StepStartPart(notes),
    ]
    (item,) = ai_sdk_ui.write([Message.user(parts, metadata=notes)])
    assert item["role"] == "user"
    assert [part["type"] for part in item["parts"]] == [
        "reasoning",
        "tool-f",
        "file",
        "source-url",
        "text",
        "data-x",
        "step-start",
    ]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "messages[0]: expected a UI message, not int"),
        ({"role": "data"}, "messages[0].role: expected one of system, user, assistant, tool, not another str"),
        (ui(id=3), "messages[0].id: expected a str, not int"),
        ({"role": "user", "parts": "hi"}, "messages[0].parts: expected a list of parts, not str"),
        (ui({"type": "text", "text": "a"}, 3), "messages[0].parts[1]: expected an object with a type, not int"),
        (ui({}), "messages[0].parts[0].type: expected a str, but it is missing"),
        (ui({"type": "text", "text": None}), "messages[0].parts[0].text: expected a str, not NoneType"),
        (ui({"type": "reasoning"}), "messages[0].parts[0].text: expected a str, but it is missing"),
        (ui({"type": "source"}), "messages[0].parts[0].source: expected an object, not NoneType"),
        (ui(TOOL), "messages[0].parts[0].state: expected a str, but it is missing"),
        (ui({"type": "tool-invocation"}), "messages[0].parts[0].toolInvocation: expected an object, not NoneType"),
        (ui({"type": "dynamic-tool"}), "messages[0].parts[0].toolName: expected a str, but it is missing"),
        (ui({"type": "file", "url": "u", "filename": 3}), "messages[0].parts[0].filename: expected a str, not int"),
    ],
)
def test_a_malformed_message_is_refused_with_its_place(item: Any, problem: str):
    """What was expected where, and the type that was found; never the text."""
    with pytest.raises(MessageError) as caught:
        ai_sdk_ui.read([item])
    assert str(caught.value) == problem
