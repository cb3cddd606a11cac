"""Whether the reference's stored messages are read, written and read again without a loss."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import FilePart, ImagePart, Message, ReasoningPart, SourcePart, TextPart, ToolPart
from penstock.formats import openai_chat, stored

TIME = "2026-01-01T00:00:00.000Z"


def row(*parts: dict[str, Any], **content: Any) -> dict[str, Any]:
    """An assistant's row with those parts."""
    return {
        "id": "m1",
        "role": "assistant",
        "createdAt": TIME,
        "content": {"format": 2, "parts": list(parts), **content},
    }


def text(said: str) -> dict[str, Any]:
    """A text part."""
    return {"type": "text", "text": said}


def tool(state: str, **more: Any) -> dict[str, Any]:
    """A tool part."""
    return {
        "type": "tool-invocation",
        "toolInvocation": {"state": state, "toolCallId": "c1", "toolName": "search", **more},
    }


REAL: list[dict[str, Any]] = [
    {"id": "u1", "role": "user", "createdAt": TIME, "content": {"format": 2, "parts": [], "content": "from content"}},
    {"id": "x", "role": "user", "createdAt": TIME, "content": None},
    {"id": "x", "role": "user", "createdAt": TIME, "content": {"format": 2, "content": " a  b "}},
    {
        "id": "m1",
        "role": "user",
        "createdAt": TIME,
        "content": {
            "format": 2,
            "parts": [text(" ﬁrst  part "), {"type": "file", "data": "ﬁ", "mimeType": "text/plain"}, text("Ｂ")],
            "content": " Ｆｕｌｌ ",
        },
    },
    {
        "id": "h2",
        "role": "assistant",
        "createdAt": TIME,
        "threadId": "thread-1",
        "resourceId": "res-1",
        "content": {"format": 2, "parts": [{**text("two"), "providerMetadata": {"openai": {"itemId": "msg_1"}}}]},
    },
    {
        "id": "r1",
        "role": "assistant",
        "content": {"format": 2, "parts": [text("hi"), tool("partial-call", args={"q": 1})]},
    },
    {
        "id": "a9",
        "role": "assistant",
        "createdAt": TIME,
        "content": {
            "format": 2,
            "metadata": {"provider": "kimi.messages"},
            "parts": [
                {
                    "type": "reasoning",
                    "reasoning": "",
                    "details": [],
                    "providerMetadata": {"anthropic": {"signature": "sigK"}},
                }
            ],
        },
    },
    {
        "id": "m",
        "role": "assistant",
        "createdAt": TIME,
        "content": {
            "format": 2,
            "parts": [
                {"type": "reasoning", "reasoning": "think", "details": [{"type": "text", "text": "think"}]},
                text("ok"),
            ],
        },
    },
    {
        "id": "m",
        "role": "assistant",
        "createdAt": TIME,
        "content": {"format": 2, "parts": [tool("call", args="city=Paris")]},
    },
]
EXAMPLES: list[dict[str, Any]] = [
    *REAL,
    row(tool("call", args={}, result="x")),
    row(tool("call", args={}, result=None)),
    row(tool("result", args={})),
    row(tool("result", args={}, result=None, step=1)),
    row(tool("result", result=[{"a": 1}])),
    row(tool("output-error", args={}, errorText="broke")),
    row({**tool("novelty", args={}), "providerMetadata": {"p": {}}, "providerExecuted": True}),
    row({"type": "step-start"}, {"type": "data-x", "data": {}}, {"type": "error", "error": {"message": "m"}}),
    row({"type": "image", "image": "AAAA", "mimeType": "image/png"}, {"type": "image", "image": "https://x.test/a"}),
    row({"type": "image", "image": [1, 2]}),
    row({"type": "file", "mimeType": "application/pdf", "data": "data:application/pdf;base64,AAAA"}),
    row({"type": "file", "mediaType": "image/png", "url": "https://x.test/a.png", "filename": "a.png"}),
    row({"type": "source", "source": {"sourceType": "url", "id": "s1", "url": "https://x.test", "title": "X"}}),
    row(text("a"), text("b"), content="a\nb"),
    row(text("a"), text("b"), content="b"),
    row(text("a"), text("b"), content="a"),
    row(text("a"), content=""),
    row(text("a"), content=["odd"]),
    row({"type": "reasoning", "text": "hm"}, reasoning="hm"),
    row(text("a"), reasoning="hm"),
    row(
        tool("result", args={"q": 1}, result=4),
        toolInvocations=[tool("result", args={"q": 1}, result=4)["toolInvocation"]],
    ),
    row(toolInvocations=[tool("call", args={"q": 1})["toolInvocation"]]),
    row(experimental_attachments=[{"url": "u"}], providerMetadata={"p": {"x": 1}}),
    row(metadata={"k": 1}),
    row(metadata={}),
    row(metadata={"stored": 1}),
    {"id": "m1", "role": "user", "content": "plain", "createdAt": TIME, "type": "text"},
    {"id": "m1", "role": "user", "content": "", "createdAt": "soon"},
    {"id": "m1", "role": "tool", "content": [text("a"), {"type": "tool-result", "toolCallId": "c"}], "createdAt": TIME},
    {"id": "m1", "role": "user", "createdAt": None, "threadId": None, "resourceId": ""},
    {"id": "m1", "role": "signal", "content": {"parts": [text("a")]}, "type": "reminder"},
    {"id": "m1", "role": "user", "content": {"format": 3, "parts": None}},
    {"role": "system", "content": {"format": 2, "parts": [text("a")]}},
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_row_is_written_as_it_was_read(item: dict[str, Any]):
    """Malformed ones too."""
    assert stored.write(stored.read([item])) == [item]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
invocations = st.fixed_dictionaries(
    {
        "toolCallId": st.sampled_from(["c1", "c2"]),
        "toolName": st.just("f"),
        "state": st.sampled_from(["partial-call", "call", "result", "output-error", "novelty"]),
    },
    optional={
        "args": json_values,
        "result": json_values,
        "errorText": st.none() | st.text(max_size=3),
        "step": st.integers(),
    },
)
parts = st.one_of(
    st.builds(text, st.text(max_size=3)),
    st.builds(
        lambda said, details: {"type": "reasoning", "reasoning": said, "details": details},
        st.text(max_size=3),
        st.lists(st.builds(text, st.text(max_size=3)) | st.just({"type": "redacted", "data": "x"}), max_size=3),
    ),
    st.builds(lambda invocation: {"type": "tool-invocation", "toolInvocation": invocation}, invocations),
    st.builds(lambda data: {"type": "file", "data": data, "mimeType": "a/b"}, st.text(max_size=8)),
    st.builds(lambda image: {"type": "image", "image": image}, st.text(max_size=8)),
    st.builds(
        lambda source: {"type": "source", "source": source},
        st.fixed_dictionaries(
            {}, optional={key: st.none() | st.text(max_size=3) for key in ("sourceType", "id", "url", "title", "x")}
        ),
    ),
)
bodies = st.fixed_dictionaries(
    {"format": st.just(2)},
    optional={
        "parts": st.none() | st.lists(parts, max_size=3),
        "content": st.text(max_size=3),
        "reasoning": st.text(max_size=3),
        "metadata": json_values,
        "providerMetadata": json_values,
    },
)
rows = st.fixed_dictionaries(
    {"id": st.text(max_size=3), "role": st.sampled_from(["system", "user", "assistant", "tool", "signal"])},
    optional={
        "content": st.none() | st.text(max_size=3) | st.lists(parts, max_size=2) | bodies,
        "createdAt": st.none()
        | st.datetimes(timezones=st.just(UTC)).map(
            lambda time: time.replace(microsecond=0).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        ),
        "threadId": st.none() | st.text(max_size=3),
        "type": json_values,
    },
)


@given(st.lists(rows, max_size=3))
def test_any_rows_survive_a_round_trip(items: list[dict[str, Any]]):
    """They are written as they were read, and read as they were before."""
    read = stored.read(items)
    written = stored.write(read)
    assert written == items
    assert stored.read(written) == read


def test_a_row_becomes_a_message_with_all_that_it_says():
    """Id, time with zone, thread, resource, metadata."""
    (message,) = stored.read([{**row(text("a"), metadata={"k": 1}), "threadId": "t", "resourceId": "r"}])
    assert message == Message("assistant", (TextPart("a"),), "m1", datetime(2026, 1, 1, tzinfo=UTC), "t", "r", {"k": 1})


def test_a_signal_is_never_read_as_the_systems():
    """It may have come from outside; it is written back as what it was."""
    (message,) = stored.read([{"id": "m1", "role": "signal", "content": "x"}])
    assert message.role == "user"


@pytest.mark.parametrize("parts", [[], [text("harmless")]])
def test_the_flattened_copy_does_not_hide_text_from_guards(parts: list[dict[str, Any]]):
    """If it says anything that the parts do not, it is a text part; an edit reaches it, dropping it empties it."""
    (message,) = stored.read([row(*parts, content="secret")])
    assert message.parts[-1].text == "secret"
    edited = message.with_parts([*message.parts[:-1], TextPart("***", message.parts[-1].metadata)])
    assert stored.write([edited])[0]["content"] == {"format": 2, "parts": parts, "content": "***"}
    dropped = message.with_parts(message.parts[:-1])
    assert stored.write([dropped])[0]["content"]["content"] == message.with_parts(message.parts[:-1]).text


@pytest.mark.parametrize(("copy", "anew"), [("a\nb", "*\nb"), ("ab", "*b"), ("a b", "* b"), ("b", "b"), ("a", "*")])
def test_the_flattened_copy_is_made_anew_from_edited_parts(copy: str, anew: str):
    """In the way in which it was made."""
    (message,) = stored.read([row(text("a"), text("b"), content=copy)])
    assert message.text == "a\nb"
    edited = message.with_parts([TextPart("*"), message.parts[1]])
    assert stored.write([edited])[0]["content"]["content"] == anew


def test_copied_tool_calls_do_not_hide_text_from_guards():
    """A copy of a part is made anew from it; a call that stands only there is a part."""
    result = tool("result", args={}, result="secret")
    (message,) = stored.read(
        [row(result, toolInvocations=[result["toolInvocation"], {**result["toolInvocation"], "toolCallId": "c2"}])]
    )
    assert [part.call_id for part in message.parts] == ["c1", "c2"]
    edited = message.with_parts(
        [ToolPart(part.call_id, part.name, {}, "result", "***", metadata=part.metadata) for part in message.parts]
    )
    assert "secret" not in str(stored.write([edited]))
    assert [call["toolCallId"] for call in stored.write([edited])[0]["content"]["toolInvocations"]] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2026-01-01T02:00:00+02:00", "2026-01-01T02:00:00.000+02:00"),
        ("2026-01-01T00:00:00", TIME),
        ("2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456Z"),
        (1767225600000, TIME),
        (datetime(2026, 1, 1, tzinfo=UTC), TIME),
        (10**30, 10**30),
        (True, True),
    ],
)
def test_times_are_read_with_their_zone_and_written_in_iso(given: Any, written: Any):
    """Without a zone it is UTC; what is no time is written back as it was."""
    (item,) = stored.write(stored.read([{"id": "m1", "role": "user", "content": "a", "createdAt": given}]))
    assert item["createdAt"] == written


def test_our_parts_have_their_usual_shape():
    """As the reference stores them."""
    parts = [
        ReasoningPart("hm"),
        ImagePart(data="AAAA"),
        FilePart(data="AAAA", name="a"),
        SourcePart("s1"),
        ToolPart("c1", "f", {}, "result", 4),
    ]
    (item,) = stored.write([Message.assistant(parts, created_at=datetime(2026, 1, 1, tzinfo=UTC), metadata={"k": 1})])
    assert item == {
        "role": "assistant",
        "createdAt": TIME,
        "content": {
            "format": 2,
            "metadata": {"k": 1},
            "parts": [
                {"type": "reasoning", "reasoning": "hm", "details": [{"type": "text", "text": "hm"}]},
                {"type": "image", "image": "AAAA"},
                {"type": "file", "mimeType": "application/octet-stream", "data": "AAAA", "filename": "a"},
                {"type": "source", "source": {"sourceType": "url", "id": "s1"}},
                {
                    "type": "tool-invocation",
                    "toolInvocation": {"state": "result", "toolCallId": "c1", "toolName": "f", "args": {}, "result": 4},
                },
            ],
        },
    }


def test_parts_that_nobody_knows_keep_what_was_noted_about_them():
    """A chat's encrypted reasoning stands in a field of its own, and has to go back there."""
    chat = [{"role": "assistant", "content": "a", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}]
    assert openai_chat.write(stored.read(stored.write(openai_chat.read(chat)))) == chat


def test_a_chat_survives_being_stored():
    """Calls and results are brought together, parted again, and what only chat says is not lost on the way."""
    chat = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
            "name": "bob",
        },
        {
            "role": "assistant",
            "reasoning_details": [{"type": "t", "text": "hm", "signature": "s"}],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}, "index": 0}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}], "cache_control": {}},
        {"role": "assistant", "content": "4", "refusal": None},
    ]
    rows = stored.write(openai_chat.read(chat))
    assert [item["role"] for item in rows] == ["user", "assistant", "assistant"]
    assert openai_chat.write(stored.read(rows)) == chat


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "messages[0]: expected a stored message, not int"),
        ({"role": "boss"}, "messages[0].role: expected one of system, user, assistant, tool, signal, not another str"),
        (
            {"role": "user", "content": 3},
            "messages[0].content: expected an object with parts, a str or a list of parts, not int",
        ),
        ({"role": "user", "content": {"parts": 3}}, "messages[0].content.parts: expected a list of parts, not int"),
        (row(text("a"), {"type": "text"}), "messages[0].content.parts[1].text: expected a str, but it is missing"),
        (
            row({"type": "tool-invocation", "toolInvocation": {"state": 3}}),
            "messages[0].content.parts[0].toolInvocation.toolName: expected a str, but it is missing",
        ),
        (row(toolInvocations=[3]), "messages[0].content.toolInvocations[0]: expected an object, not int"),
        ({"role": "user", "content": "", "threadId": 3}, "messages[0].threadId: expected a str, not int"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place(item: Any, problem: str):
    """What was expected where, and the type that was found; never the text."""
    with pytest.raises(MessageError) as caught:
        stored.read([item])
    assert str(caught.value) == problem
