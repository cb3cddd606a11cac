"""Whether each handler serves or refuses any body: what `read_request` accepts, an agent takes."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Agent, PIIDetector
from penstock.testing import ScriptedModel
from penstock.workflows.web import (
    AGUIEncoder,
    ChatCompletionsEncoder,
    PlainTextEncoder,
    RequestError,
    ResponsesEncoder,
    StreamedResponse,
    UIMessagesEncoder,
    WholeResponse,
    ag_ui,
    chat_completions,
    plain_text,
    responses,
    ui_messages,
)
from penstock.workflows.web.sent import FAILED_TEXT
from tests.laws import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = {"type": "object", "properties": {"q": {"type": "string", "enum": ["a"]}}, "required": ["q"]}
FUNCTION = {"name": "f", "parameters": SCHEMA, "strict": False, "description": "Looks."}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q": "a"}'}}
DATA = "data:image/png;base64,aGk="
BODIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "chat": (
        chat_completions,
        ChatCompletionsEncoder.answering,
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be kind.", "name": "a"},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": DATA}}],
                },
                {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None},
                {"role": "tool", "tool_call_id": "c1", "content": "done"},
            ],
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}},
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.5,
            "max_tokens": 9,
            "stop": ["END"],
            "user": "ada",
        },
    ),
    "responses": (
        responses,
        ResponsesEncoder.answering,
        {
            "model": "m",
            "instructions": "Be kind.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "Well."}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"q": "a"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
            ],
            "tools": [{"type": "function", **FUNCTION}],
            "tool_choice": "required",
            "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
            "reasoning": {"effort": "low"},
            "stream": False,
            "temperature": 0.5,
            "max_output_tokens": 9,
            "metadata": {"a": "b"},
            "conversation": {"id": "c"},
        },
    ),
    "ui": (
        ui_messages,
        UIMessagesEncoder.answering,
        {
            "id": "chat",
            "messages": [
                {
                    "id": "1",
                    "role": "user",
                    "metadata": {"createdAt": 1},
                    "parts": [{"type": "text", "text": "Hi"}, {"type": "file", "mediaType": "image/png", "url": DATA}],
                },
                {
                    "id": "2",
                    "role": "assistant",
                    "parts": [
                        {"type": "step-start"},
                        {"type": "reasoning", "text": "Well."},
                        {
                            "type": "tool-f",
                            "toolCallId": "c1",
                            "state": "output-available",
                            "input": {"q": "a"},
                            "output": {"a": 1},
                        },
                        {"type": "source-url", "sourceId": "s", "url": "https://example.com", "title": "T"},
                        {"type": "data-x", "id": "d", "data": {"a": [1]}},
                    ],
                },
            ],
        },
    ),
    "ag_ui": (
        ag_ui,
        AGUIEncoder.answering,
        {
            "threadId": "t",
            "runId": "r",
            "protocolVersion": "1.0",
            "state": {"a": 1},
            "messages": [
                {"id": "1", "role": "developer", "content": "Be kind."},
                {
                    "id": "2",
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hi"},
                        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
                        {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf"}},
                    ],
                },
                {"id": "3", "role": "reasoning", "content": "Well."},
                {"id": "4", "role": "assistant", "content": "One moment.", "toolCalls": [CALL, {**CALL, "id": "c2"}]},
                {"id": "5", "role": "tool", "toolCallId": "c1", "content": "done"},
                {"id": "6", "role": "activity", "activityType": "PLAN", "content": {"a": 1}},
            ],
            "tools": [{"name": "g", "description": "Looks.", "parameters": SCHEMA}],
            "context": [{"description": "d", "value": "v"}],
            "resume": [{"interruptId": "c2", "status": "resolved", "payload": {"approved": False, "reason": "no"}}],
        },
    ),
    "plain": (plain_text, lambda _: PlainTextEncoder(), {"message": "Hi"}),
}

each_format = pytest.mark.parametrize("name", BODIES)

SCALARS = [None, True, 0, -1, 10**400, 1e308, "", " ", "x", "\ud800", "\x00", "{", '{"a": "\\ud800"}', "f" * 65]
OBJECTS = [{"": None}, {"type": "function"}, {"type": "text"}, {"role": "user"}]
SCHEMAS = [{"type": "object", "properties": {"a": 1}}, {"type": "object", "required": [{}], "properties": {}}]
ODD = st.sampled_from([*SCALARS, *OBJECTS, *SCHEMAS, [], [[]], {}, [{}], "tool", "system", "data:,", "data:x;base64,%"])


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each value below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at a path."""
    for step in path:
        value = value[step]
    return value


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    """Return the body of a format with a few values of it removed, replaced, or copied to elsewhere; one is nested."""
    body = copy.deepcopy(BODIES[name][2])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([*places(body)]))
        above, last = at(body, path[:-1]), path[-1]
        how = draw(st.sampled_from(["replace", "replace", "remove", "copy", "double", "key"]))
        if how == "remove" and len(body) > 1:
            del above[last]
        elif how == "copy":
            above[last] = copy.deepcopy(at(body, draw(st.sampled_from([*places(body)]))))
        elif how == "double" and isinstance(above, list):
            above.append(copy.deepcopy(above[last]))
        else:
            new = (
                draw(st.sampled_from(["type", "\ud800", "", "content", "parts", "id", "$ref"]))
                if how == "key"
                else last
            )
            above[new if isinstance(above, dict) else last] = copy.deepcopy(draw(ODD))
    path = draw(st.sampled_from([*places(body)]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 60, 190, 250]))):
        at(body, path[:-1])[path[-1]] = [at(body, path)]
    return json.dumps(body).encode()


async def serve(response: StreamedResponse | WholeResponse[Any]) -> tuple[int, bytes]:
    """Return the status and the body of a response."""
    status, sent = 0, []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(event: dict[str, Any]) -> None:
        nonlocal status
        status = event.get("status", status)
        sent.append(event.get("body", b""))

    await response({}, receive, send)
    return status, b"".join(sent)


def served(name: str, body: bytes) -> tuple[int, bytes, bytes]:
    """Return the status of the answer to a body, the whole answer, and the streamed one."""
    module, answering, _ = BODIES[name]
    agent = Agent(ScriptedModel(["hello"], repeat_last=True), processors=[PIIDetector(unscanned="allow")])
    try:
        asked = module.read_request(body)
    except RequestError as error:
        str(error).encode()
        return 400, b"", b""

    async def both() -> tuple[int, bytes, bytes]:
        whole = agent.generate(asked.messages, **asked.options())
        status, answer = await serve(WholeResponse(whole, module.answer, answering(asked)))
        chunks = agent.stream(asked.messages, **asked.options())
        _, streamed = await serve(StreamedResponse(module.stream(chunks, answering(asked)), module.HEADERS))
        return status, answer, streamed

    return asyncio.run(both())


@each_format
def test_any_change_of_a_body_is_served_or_refused(name: str) -> None:
    """Never an exception, which a framework answers with the status 500, nor a streamed error."""

    @settings(max_examples=examples(200), deadline=None)
    @given(changed(name))
    def check(body: bytes) -> None:
        status, whole, streamed = served(name, body)
        assert status == 400 or (status == 200 and whole and streamed)
        assert status == 400 or FAILED_TEXT.encode() not in whole + streamed

    check()


@pytest.mark.parametrize("role", ["system", "tool"])
def test_a_conversation_without_a_message_to_answer_is_the_fault_of_the_client(role: str) -> None:
    """Instructions alone, or a result without its call: a later message may come with the agent's memory."""
    message = {"role": role, "content": "42", **({"tool_call_id": "c1"} if role == "tool" else {})}
    status, whole, _ = served("chat", json.dumps({"messages": [message]}).encode())
    assert status == 400
    assert "holds no message to answer" in json.loads(whole)["error"]["message"]
