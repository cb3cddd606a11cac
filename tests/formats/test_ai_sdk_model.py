"""Whether AI-SDK model messages are read, written and read again without a loss."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import MessageError
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import (
    AudioPart,
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
from penstock.formats import ai_sdk_model


def said(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An assistant's message with those parts."""
    return {"role": "assistant", "content": list(parts), **more}


CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "search"}
RESULT = {"type": "tool-result", "toolCallId": "c1", "toolName": "search"}


def answered(**more: Any) -> dict[str, Any]:
    """A tool's message with one result."""
    return {"role": "tool", "content": [{**RESULT, **more}]}


EXAMPLES: list[dict[str, Any]] = [
    {"role": "system", "content": "be terse"},
    {"role": "system", "content": "", "providerOptions": {"p": {"cache": True}}},
    {"role": "system", "content": [{"type": "text", "text": "odd"}]},
    {"role": "user", "content": "hi"},
    {"role": "user", "content": ""},
    {"role": "user", "content": []},
    {"role": "user", "content": None},
    {"role": "user", "id": None, "x": 1},
    {"role": "user", "id": "m1", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "b", "x": 1}]},
    {"role": "user", "content": [{"type": "image", "image": "https://x.test/a.png", "mediaType": "image/png"}]},
    {"role": "user", "content": [{"type": "image", "image": "AAAA", "mimeType": "image/png", "mediaType": None}]},
    {"role": "user", "content": [{"type": "image", "image": "AAAA", "filename": "a.png"}]},
    {"role": "user", "content": [{"type": "image", "image": {"0": 1}}]},
    {"role": "user", "content": [{"type": "file", "data": "AAAA", "mediaType": "application/pdf", "filename": "a"}]},
    {"role": "user", "content": [{"type": "file", "data": "https://x.test/a", "mimeType": "a/b", "filename": None}]},
    {"role": "user", "content": [{"type": "file", "data": "", "mediaType": "a/b", "mimeType": "a/c"}]},
    {"role": "user", "content": [{"type": "file", "data": [1, 2], "mediaType": "a/b"}]},
    said({"type": "text", "text": "hi", "providerOptions": {"openai": {"itemId": "i"}}}),
    said({"type": "text", "text": "hi", "providerOptions": {}}),
    said({"type": "text", "text": "hi", "providerOptions": 3}),
    said({"type": "text", "text": "hi", "providerOptions": {"ai-sdk-model": {"alone": True}}}),
    said({"type": "reasoning", "text": "hm", "signature": "s"}, {"type": "redacted-reasoning", "data": "x"}),
    said({"type": "reasoning-file", "data": "AAAA"}, {"type": "novelty"}),
    said({**CALL, "input": {"q": 1}, "providerExecuted": True, "providerOptions": {"p": {"x": 1}}}),
    said(
        {"type": "text", "text": "a"},
        {**CALL, "input": {}},
        {**CALL, "toolCallId": "c2"},
        {**CALL, "input": '{"q":'},
        {**CALL, "input": None},
    ),
    said({**CALL, "args": {"q": 1}}, {**CALL, "args": "q=1"}, {**CALL, "args": 1, "input": 2}),
    said({**CALL, "input": {}}, {**RESULT, "output": {"type": "text", "value": "4"}}, {"type": "text", "text": "four"}),
    said({"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c1"}),
    {"role": "tool", "content": [{"type": "tool-approval-response", "approvalId": "a", "approved": False}]},
    {"role": "tool", "content": []},
    {"role": "tool", "content": "odd"},
    answered(output={"type": "text", "value": "4"}),
    answered(output={"type": "text", "value": 4}),
    answered(output={"type": "json", "value": {"n": 4}}),
    answered(output={"type": "json", "value": "4"}),
    answered(output={"type": "json", "value": None}),
    answered(output={"type": "error-text", "value": "broke"}),
    answered(output={"type": "error-json", "value": {"code": 4}}),
    answered(output={"type": "error-json", "value": "broke"}),
    answered(output={"type": "error-json", "value": "4"}),
    answered(output={"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "media", "data": "AAAA"}]}),
    answered(output={"type": "content", "value": "odd"}),
    answered(output={"type": "json", "value": 4, "providerOptions": {"p": {}}}),
    answered(output={"type": "execution-denied", "reason": "no"}),
    answered(output={"type": "novelty", "value": 4}),
    answered(output="bare"),
    answered(output=None),
    answered(output=["a"]),
    answered(),
    answered(output={"type": "text", "value": "4"}, result="5"),
    answered(result="r"),
    answered(result={"n": 4}, isError=False, experimental_content=[{"type": "text", "text": "4"}]),
    answered(result=None),
    answered(result="broke", isError=True),
    answered(result={"code": 4}, isError=True),
    answered(type="tool-error", error="broke", input={}),
    answered(type="tool-error", error={"code": 4}),
    answered(toolName=None, output={"type": "text", "value": "4"}),
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "json", "value": 1}}]},
    answered(output={"type": "json", "value": 1}, providerOptions={"mastra": {"modelOutput": None}}),
    answered(output={"type": "json", "value": 1}, providerOptions={"mastra": {"modelOutput": "other", "x": 1}}),
    answered(
        output={"type": "json", "value": 1}, providerOptions={"mastra": {"modelOutput": {"type": "json", "value": 1}}}
    ),
    answered(result=True, providerOptions={"mastra": {"modelOutput": True}}),
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_message_is_written_as_it_was_read(item: dict[str, Any]):
    """Shape, nulls and unknown keys included."""
    assert ai_sdk_model.write(ai_sdk_model.read([item])) == [item]


ASKED = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
GIVEN = {"type": "tool-approval-response", "approvalId": "a1"}
SECOND = {**CALL, "toolCallId": "c2", "input": {}}
ASKED_AGAIN = {**ASKED, "approvalId": "a2", "toolCallId": "c2", "signature": "s"}


def told(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "content": list(content), **more}


CALLED = {**CALL, "input": {"q": 1}}
FOUND = {**RESULT, "output": {"type": "text", "value": "4"}}
APPROVALS: list[tuple[list[dict[str, Any]], list[Any]]] = [
    ([said(CALLED, ASKED)], ["requested"]),
    ([said({"type": "text", "text": "a"}, CALLED, ASKED, SECOND)], ["requested", None]),
    ([said(CALLED, SECOND, ASKED, ASKED_AGAIN)], ["requested", "requested"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": True})], ["approved"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": True, "reason": "I know them"})], ["approved"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": False, "reason": "too much", "x": 1}, id="m")], ["rejected"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": False}), {"role": "user", "content": "so?"}], ["rejected"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": True}, FOUND)], ["approved"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": True}), told(FOUND)], ["approved"]),
    (
        [said(CALLED, SECOND, ASKED, ASKED_AGAIN), told({**GIVEN, "approved": True}), {"role": "user", "content": "b"}],
        ["approved", "requested"],
    ),
    ([said(CALLED, ASKED), told({**GIVEN, "approved": "yes"})], ["requested"]),
    ([said(CALLED, ASKED), told({**GIVEN, "approvalId": "other", "approved": True})], ["requested"]),
    ([said(CALLED), told({**GIVEN, "approved": True})], [None]),
    ([{"role": "user", "content": [ASKED]}, said(CALLED)], [None]),
]


@pytest.mark.parametrize(("items", "approvals"), APPROVALS)
def test_approvals_are_those_of_the_calls_and_are_written_as_they_were_read(items: list[Any], approvals: list[Any]):
    """A response that answers no request approves nothing."""
    read = ai_sdk_model.read(items)
    calls = [part for message in read if message.role == "assistant" for part in message.parts if part.type == "tool"]
    assert [part.approval for part in calls] == approvals
    assert ai_sdk_model.write(read) == items
    assert ai_sdk_model.read(ai_sdk_model.write(read)) == read


def test_decisions_are_written_as_the_ai_sdk_writes_them():
    """Requests follow their calls, and responses stand with the results."""
    message = Message.assistant(
        [
            ToolPart("c1", "search", {}, "result", "4", approval="approved"),
            ToolPart("c2", "search", {}, "error", error="no", approval="rejected"),
            ToolPart("c3", "search", {}, approval="requested"),
        ]
    )
    calls = [{**CALL, "toolCallId": each, "input": {}} for each in ("c1", "c2", "c3")]
    asked = [{**ASKED, "approvalId": each, "toolCallId": each} for each in ("c1", "c2", "c3")]
    assert ai_sdk_model.write([message]) == [
        said(*(item for both in zip(calls, asked, strict=True) for item in both)),
        told(
            {**GIVEN, "approvalId": "c1", "approved": True},
            {**GIVEN, "approvalId": "c2", "approved": False, "reason": "no"},
            {**RESULT, "output": {"type": "text", "value": "4"}},
            {**RESULT, "toolCallId": "c2", "output": {"type": "error-text", "value": "no"}},
        ),
    ]


def test_a_reason_that_was_redacted_stands_nowhere():
    """It is the error of the call, and no copy is kept."""
    items = [said(CALLED, ASKED), told({**GIVEN, "approved": False, "reason": "a secret"})]
    listed = MessageList(ai_sdk_model.read(items))
    (place,) = [place for place, text in listed.texts() if text == "a secret"]
    _, response = ai_sdk_model.write(listed.edit_text({place: [Edit(2, 8, "[gone]", "redact")]}))
    assert response == told({**GIVEN, "approved": False, "reason": "a [gone]"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
options = st.fixed_dictionaries(
    {},
    optional={"providerOptions": json_values | st.just({"mastra": {"modelOutput": "x"}}), "x": json_values},
)
outputs = json_values | st.builds(
    lambda kind, value, more: {**more, "type": kind, "value": value},
    st.sampled_from(["text", "json", "error-text", "error-json", "content", "novelty"]),
    json_values,
    options,
)
calls = st.builds(
    lambda more, keys: {**more, **keys, **CALL},
    options,
    st.fixed_dictionaries({}, optional={"input": json_values, "args": json_values}),
)
results = st.builds(
    lambda more, keys: {**more, **keys, **RESULT},
    options,
    st.fixed_dictionaries(
        {}, optional={"output": outputs, "result": json_values, "error": json_values, "isError": st.booleans()}
    ),
)
parts = st.one_of(
    st.builds(lambda more, text: {**more, "type": "text", "text": text}, options, st.text(max_size=3)),
    st.builds(lambda more, text: {**more, "type": "reasoning", "text": text}, options, st.text(max_size=3)),
    st.builds(
        lambda more, keys: {**more, **keys},
        options,
        st.fixed_dictionaries(
            {"type": st.sampled_from(["image", "file"])},
            optional={
                key: st.none() | st.text(max_size=5)
                for key in ("image", "data", "mediaType", "mimeType", "filename", "url")
            },
        ),
    ),
    calls,
    results,
    st.builds(lambda more: {**more, "type": "novelty"}, options),
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool"]),
        "content": st.text(max_size=3) | st.lists(parts, max_size=3),
    },
    optional={"id": st.text(max_size=3), "providerOptions": json_values, "x": json_values},
)


@given(st.lists(messages, max_size=3))
def test_any_conversation_survives_a_round_trip(items: list[dict[str, Any]]):
    """It is written as it was read, and read as it was before."""
    read = ai_sdk_model.read(items)
    written = ai_sdk_model.write(read)
    assert written == items
    assert ai_sdk_model.read(written) == read


def test_the_parts_become_ours():
    """Each under its own name, with the providers' options in its metadata."""
    answer, result = ai_sdk_model.read(
        [
            said(
                {"type": "text", "text": "hi", "providerOptions": {"openai": {"itemId": "i"}}},
                {"type": "reasoning", "text": "hm"},
                {"type": "file", "data": "AAAA", "mediaType": "image/png"},
                {**CALL, "input": {"q": 1}},
                {"type": "novelty"},
            ),
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "json"}}]},
        ]
    )
    assert [part.type for part in answer.parts] == ["text", "reasoning", "file", "tool", "unknown"]
    assert answer.parts[0].metadata == {"openai": {"itemId": "i"}}
    (tool,) = result.parts
    assert (tool.call_id, tool.name, tool.state) == ("c1", "search", "result")


@pytest.mark.parametrize(
    ("given_as", "state", "result", "error"),
    [
        ({"output": {"type": "text", "value": "4"}}, "result", "4", None),
        ({"output": {"type": "json", "value": {"n": 4}}}, "result", {"n": 4}, None),
        ({"output": {"type": "content", "value": [{"type": "text", "text": "a"}]}}, "result", None, None),
        ({"output": {"type": "error-text", "value": "broke"}}, "error", None, "broke"),
        ({"output": {"type": "error-json", "value": {"code": 4}}}, "error", None, '{"code":4}'),
        ({"result": "4"}, "result", "4", None),
        ({"result": "broke", "isError": True}, "error", None, "broke"),
        ({"type": "tool-error", "error": "broke"}, "error", None, "broke"),
    ],
)
def test_a_result_says_what_it_is(given_as: dict[str, Any], state: str, result: Any, error: str | None):
    """Both generations of results and errors are told apart."""
    (message,) = ai_sdk_model.read([answered(**given_as)])
    (tool,) = message.parts
    wanted = tool.result if given_as.get("output", {}).get("type") == "content" else result
    assert (tool.state, tool.result, tool.error) == (state, wanted, error)


def test_an_assistants_steps_become_messages_with_their_results():
    """As UI and stored messages hold them: several steps in one message, results in the calls."""
    message = Message.assistant(
        [
            TextPart("a"),
            ToolPart("c1", "f", {"q": 1}, "result", {"n": 4}),
            ToolPart("c2", "f", {}, "error", error="broke"),
            StepStartPart(),
            ReasoningPart("hm"),
            ToolPart("c3", "f", {}, "result", "4"),
            TextPart("c"),
        ]
    )
    assert ai_sdk_model.write([message]) == [
        said(
            {"type": "text", "text": "a"},
            {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"q": 1}},
            {"type": "tool-call", "toolCallId": "c2", "toolName": "f", "input": {}},
        ),
        {
            "role": "tool",
            "content": [
                {**RESULT, "toolName": "f", "output": {"type": "json", "value": {"n": 4}}},
                {**RESULT, "toolCallId": "c2", "toolName": "f", "output": {"type": "error-text", "value": "broke"}},
            ],
        },
        said(
            {"type": "reasoning", "text": "hm"},
            {"type": "tool-call", "toolCallId": "c3", "toolName": "f", "input": {}},
        ),
        {
            "role": "tool",
            "content": [{**RESULT, "toolCallId": "c3", "toolName": "f", "output": {"type": "text", "value": "4"}}],
        },
        said({"type": "text", "text": "c"}),
    ]


def test_our_parts_have_their_usual_shape():
    """Images, sounds and files as a provider is shown them, and a system message as a str."""
    system = Message.system([TextPart("a", {"openai-chat": {"x": 1}}), TextPart("b")])
    user = Message.user(
        [
            ImagePart(data="AAAA", media_type="image/png"),
            ImagePart(url="https://x.test/a.png"),
            AudioPart(data="AAAA", transcript="hi"),
            FilePart(url="https://x.test/a.pdf", name="a.pdf"),
            FilePart(file_id="file-1", media_type="application/pdf"),
            UnknownPart({"type": "novelty"}),
        ]
    )
    assert ai_sdk_model.write([system, user, Message.assistant([SourcePart("s")])]) == [
        {"role": "system", "content": "a\nb"},
        {
            "role": "user",
            "content": [
                {"type": "image", "image": "AAAA", "mediaType": "image/png"},
                {"type": "image", "image": "https://x.test/a.png"},
                {"type": "file", "data": "AAAA", "mediaType": "audio/*"},
                {
                    "type": "file",
                    "data": "https://x.test/a.pdf",
                    "mediaType": "application/octet-stream",
                    "filename": "a.pdf",
                },
                {"type": "file", "data": "", "mediaType": "application/pdf"},
                {"type": "novelty"},
            ],
        },
    ]


def test_what_the_format_has_no_place_for_is_left_out():
    """Exactly the kinds that the format names."""
    left_out = {"source", "data", "step-start"}
    assert left_out == ai_sdk_model.LEAVES_OUT


def test_a_copy_of_a_result_never_outlives_a_redaction():
    """A vendor's copy among the options is made anew from the result as it is now."""
    output = {"type": "text", "value": "a secret"}
    listed = MessageList(
        ai_sdk_model.read([answered(output=output, providerOptions={"mastra": {"modelOutput": output}})])
    )
    (place,) = [place for place, text in listed.texts() if text == "a secret"]
    (item,) = ai_sdk_model.write(listed.edit_text({place: [Edit(2, 8, "[gone]", "redact")]}))
    (part,) = item["content"]
    assert part["output"] == {"type": "text", "value": "a [gone]"} == part["providerOptions"]["mastra"]["modelOutput"]


def test_an_error_that_an_edit_broke_is_written_as_text():
    """What is no JSON any more cannot be an ``error-json``."""
    (message,) = ai_sdk_model.read([answered(output={"type": "error-json", "value": {"code": "x"}})])
    (part,) = message.parts
    edited = message.with_parts([ToolPart(part.call_id, part.name, {}, "error", None, "{gone", part.metadata)])
    (item,) = ai_sdk_model.write([edited])
    assert item["content"][0]["output"] == {"type": "error-text", "value": "{gone"}


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "messages[0]: expected a model message, not int"),
        ({"role": "developer"}, "messages[0].role: expected one of system, user, assistant, tool, not another str"),
        ({"role": "user", "content": 3}, "messages[0].content: expected a str or a list of content parts, not int"),
        (said(3), "messages[0].content[0]: expected an object with a type, not int"),  # type: ignore[arg-type]
        (said({"type": "text"}), "messages[0].content[0].text: expected a str, but it is missing"),
        (said({"type": "tool-call"}), "messages[0].content[0].toolCallId: expected a str, but it is missing"),
        (said({**CALL, "toolName": 4}), "messages[0].content[0].toolName: expected a str, not int"),
        (
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": 1}]},
            "messages[0].content[0].toolCallId: expected a str, not int",
        ),
        (
            {"role": "user", "content": [{"type": "file", "data": "A", "mediaType": 1}]},
            "messages[0].content[0].mediaType: expected a str, not int",
        ),
    ],
)
def test_a_malformed_message_is_refused_with_its_place(item: Any, problem: str):
    """And with what was found there, never the text."""
    with pytest.raises(MessageError) as caught:
        ai_sdk_model.read([item])
    assert str(caught.value) == problem
