"""Whether requests of clients are read as what they are, and malformed ones refused with where and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock import Agent
from penstock.engine.values.errors import MessageError
from penstock.testing import ScriptedModel
from penstock.workflows.web import (
    ChatCompletionsEncoder,
    PlainTextEncoder,
    RequestError,
    ResponsesEncoder,
    chat_completions,
    plain_text,
    responses,
    ui_messages,
)

if TYPE_CHECKING:
    from types import ModuleType

    from penstock.workflows.web.sse import Encoder

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
CLOSED = {**PARAMETERS, "required": ("city",), "additionalProperties": False}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HI = [{"role": "user", "content": "Hi"}]
FORMATS = {
    "chat": (chat_completions, {"messages": HI}),
    "responses": (responses, {"input": HI}),
    "ui": (ui_messages, {"messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}),
    "plain": (plain_text, {"message": "Hi"}),
}

each_format = pytest.mark.parametrize("name", FORMATS)


@each_format
@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_question_is_a_message_of_the_client(name: str, *, as_bytes: bool) -> None:
    """From the body, or from the object in it."""
    module, body = FORMATS[name]
    given = json.dumps(body).encode() if as_bytes and name != "plain" else body
    (message,) = module.read_request(given).messages
    assert (message.role, message.text, message.from_client) == ("user", "Hi", True)


def test_a_chat_completion_is_read_whole() -> None:
    """Every field has its place, and the rest is kept."""
    asked = chat_completions.read_request(
        {
            "model": "gpt-x",
            "messages": [
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "done"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": CLOSED, "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
            "temperature": 0.5,
            "max_completion_tokens": 9,
            "max_tokens": 7,
            "stop": ["END"],
            "n": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}},
            "user": "ada",
            "logit_bias": {"5": 1},
        }
    )
    assert [message.role for message in asked.messages] == ["system", "user", "assistant", "tool"]
    assert all(message.from_client for message in asked.messages)
    assert (asked.model, asked.stream, asked.include_usage, asked.user) == ("gpt-x", True, True, "ada")
    (tool,) = asked.tools
    assert (tool.name, tool.parameters, tool.strict) == ("weather", CLOSED, True)
    assert (asked.tool_names, asked.tool_choice) == ({"weather"}, ("weather",))
    assert asked.settings == {"temperature": 0.5, "max_tokens": 9, "stop": ("END",)}
    assert (asked.response_format.schema, asked.response_format.name, asked.response_format.strict) == (
        SCHEMA,
        "a",
        True,
    )
    assert asked.rest == {"logit_bias": {"5": 1}}


def test_a_response_is_read_whole() -> None:
    """Instructions are the client's own system message; what the answer repeats is kept as it came."""
    tool = {"type": "function", "name": "weather", "description": "Looks out.", "parameters": PARAMETERS}
    asked = responses.read_request(
        {
            "model": "gpt-x",
            "instructions": "Be kind.",
            "input": "Hi",
            "tools": [tool],
            "tool_choice": "required",
            "max_output_tokens": 9,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
            "previous_response_id": "resp_0",
            "conversation": {"id": "conv_1"},
            "metadata": {"a": "b"},
            "store": False,
        }
    )
    assert [(message.role, message.text, message.from_client) for message in asked.messages] == [
        ("system", "Be kind.", True),
        ("user", "Hi", True),
    ]
    assert (asked.tools[0].name, asked.tools[0].description, asked.tool_choice) == ("weather", "Looks out.", "required")
    assert asked.settings == {"max_tokens": 9, "reasoning_effort": "low"}
    assert (asked.response_format.name, asked.response_format.schema) == ("a", SCHEMA)
    assert (asked.previous_id, asked.id, asked.stream) == ("resp_0", "conv_1", False)
    assert asked.repeated["tools"] == (tool | {},)
    assert asked.repeated["metadata"] == {"a": "b"}
    assert asked.rest == {"metadata": {"a": "b"}, "store": False}


def test_a_chat_of_the_ai_sdk_keeps_its_id_and_what_the_page_adds() -> None:
    """As `useChat` sends it."""
    _, body = FORMATS["ui"]
    asked = ui_messages.read_request({**body, "id": "chat-1", "trigger": "submit-message", "model": "fast"})
    assert (asked.id, asked.model, asked.stream) == ("chat-1", "fast", True)
    assert asked.rest == {"trigger": "submit-message"}


def test_text_is_a_question() -> None:
    """Also as bytes."""
    assert plain_text.read_request("Héllo".encode()).messages[0].text == "Héllo"


@pytest.mark.parametrize(
    ("name", "change", "place"),
    [
        ("chat", {"messages": None}, "messages"),
        ("chat", {"messages": []}, "messages"),
        ("chat", {"messages": "secret"}, "messages"),
        ("chat", {"messages": [{"role": "secret"}]}, "messages[0].role"),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ("chat", {"n": 2}, "n"),
        ("chat", {"stream": "secret"}, "stream"),
        ("chat", {"temperature": {"secret": 1}}, "temperature"),
        ("chat", {"tools": "secret"}, "tools"),
        ("chat", {"tools": [{"type": "secret"}]}, "tools[0].type"),
        ("chat", {"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        (
            "chat",
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]},
            "tools[0].function.parameters",
        ),
        ("chat", {"tool_choice": "secret"}, "tool_choice"),
        ("chat", {"tool_choice": {"type": "function", "function": {"name": "secret"}}}, "tool_choice"),
        ("chat", {"response_format": {"type": "secret"}}, "response_format.type"),
        ("chat", {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ("chat", {"stream_options": 3}, "stream_options"),
        ("responses", {"input": None}, "input"),
        ("responses", {"input": ""}, "input"),
        ("responses", {"input": [{"role": "secret", "content": "Hi"}]}, "input[0].role"),
        ("responses", {"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ("responses", {"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ("responses", {"conversation": 7}, "conversation"),
        ("ui", {"messages": [{"role": "user", "parts": [{"type": "text"}]}]}, "messages[0].parts[0].text"),
        ("ui", {"id": 7}, "id"),
        ("plain", {"message": " "}, "message"),
    ],
)
def test_a_malformed_request_is_refused_by_its_place(name: str, change: dict, place: str) -> None:
    """The error quotes nothing of it, and is a `MessageError`."""
    module, body = FORMATS[name]
    with pytest.raises(RequestError) as raised:
        module.read_request({**body, **change})
    assert raised.value.place == place
    assert isinstance(raised.value, MessageError)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("body", [b"", b"secret", b"[1]", b"null", b'{"a": NaN}', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("name", ["chat", "responses", "ui"])
def test_a_body_that_is_no_object_is_refused(name: str, body: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(RequestError, match="the body is") as raised:
        FORMATS[name][0].read_request(body)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("body", [b"", b" \n", b"\xff\xfe"])
def test_no_text_is_refused(body: bytes) -> None:
    """There is nothing to answer."""
    with pytest.raises(RequestError, match="send the question as text"):
        plain_text.read_request(body)


def test_a_client_sets_only_the_settings_that_a_service_names() -> None:
    """And its tools, which the agent then offers to the model."""
    tools = [{"type": "function", "function": {"name": "weather"}}]
    body = {"messages": HI, "temperature": 0.5, "max_tokens": 9, "tools": tools, "tool_choice": "required"}
    asked = chat_completions.read_request(body)
    assert asked.options("temperature")["settings"] == {"temperature": 0.5}
    assert asked.options()["settings"] == {"temperature": 0.5, "max_tokens": 9}
    assert chat_completions.read_request({"messages": HI}).options() == {}
    model = ScriptedModel(["Hi"])
    Agent(model).generate_sync(asked.messages, **asked.options("max_tokens"))
    (request,) = model.requests
    assert (request.settings, request.tools, request.tool_choice) == ({"max_tokens": 9}, asked.tools, "required")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"max_tokens": "secret"}, "max_tokens"),
        ({"temperature": True}, "temperature"),
        ({"stop": 7}, "stop"),
        ({"parallel_tool_calls": "secret"}, "parallel_tool_calls"),
        ({"model": "secret\ud800"}, ""),
        ({"metadata": {"secret\ud800": 1}}, ""),
        ({"temperature": 1e999}, ""),
    ],
)
def test_a_request_that_no_agent_can_take_is_refused(change: dict, place: str) -> None:
    """Before an agent gets it; an answer repeats fields, so also in those that nobody reads."""
    with pytest.raises(RequestError) as raised:
        chat_completions.read_request({"messages": HI} | change)
    assert raised.value.place == place
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("tools", "place"),
    [
        ([{"name": "f", "parameters": {"type": "string"}}], "tools[0].function.parameters"),
        ([{"name": "f", "parameters": {"type": "object", "properties": 1}}], "tools[0].function.parameters"),
        ([{"name": "f", "strict": True, "parameters": PARAMETERS}], "tools[0].function.parameters"),
        ([{"name": "secret name"}], "tools[0].function.name"),
        ([{"name": "f"}, {"name": "f"}], "tools[1].name"),
    ],
)
def test_a_tool_that_an_agent_refuses_is_refused_by_its_place(tools: list, place: str) -> None:
    """The rule is the agent's own."""
    body = {"messages": HI, "tools": [{"type": "function", "function": one} for one in tools]}
    with pytest.raises(RequestError) as raised:
        chat_completions.read_request(body)
    assert raised.value.place == place
    assert "secret" not in str(raised.value)


def test_a_tool_with_an_empty_schema_takes_no_arguments() -> None:
    """Clients write both."""
    (tool,) = responses.read_request(
        {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": {}}]}
    ).tools
    assert tool.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("encoder", "module"),
    [
        (ChatCompletionsEncoder("m"), chat_completions),
        (ResponsesEncoder("m"), responses),
        (PlainTextEncoder(), plain_text),
    ],
)
async def test_half_a_surrogate_pair_of_the_model_ends_no_answer(encoder: Encoder, module: ModuleType) -> None:
    """JSON escapes it; plain text has a question mark for it."""
    answer = Agent(ScriptedModel(["one \ud800 two"])).stream("Hi")
    sent = b"".join([piece async for piece in module.stream(answer, encoder)])
    assert b"\\ud800" in sent or b"one ? two" in sent
