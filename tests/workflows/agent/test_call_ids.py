"""Calls with one id: none is taken for another, by the agent, its tools, its guards, its client or its history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock import Agent, Chunk, InputStepContext, Message, OutputStepContext, Tool, ToolPart, Workflow, processor
from penstock.engine import Answer, LLMRequestContext, ModelRequest, UsageError
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ran: list[tuple[str, str]] = []


def read_file(path: str) -> str:
    """Read a file."""
    ran.append(("read_file", path))
    return f"{path} was read"


def delete_file(path: str) -> str:
    """Delete a file."""
    ran.append(("delete_file", path))
    return f"{path} is gone"


TOOLS = [read_file, delete_file]


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    """Forget what earlier tests have run."""
    ran.clear()


def call(name: str, path: str, id: str = "call") -> dict[str, Any]:
    """Return a call of a script."""
    return {"id": id, "name": name, "args": {"path": path}}


BOTH = {"tool_calls": [call("read_file", "/important"), call("delete_file", "/scratch")]}
AS_CALLED = [("read_file", "/important"), ("delete_file", "/scratch")]


def parts_of(messages: tuple[Message, ...]) -> list[ToolPart]:
    """Return the calls in messages."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolPart)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_two_calls_with_one_id_are_run_as_they_were_made(streamed: bool) -> None:
    """Chunks, parts and results agree about which is which."""
    model = ScriptedModel([{**BOTH, "stream_tool_input": streamed}, "done"])
    async with Agent(model, tools=TOOLS).stream("hi") as stream:
        chunks = [chunk async for chunk in stream]
    assert sorted(ran) == sorted(AS_CALLED)
    called = {chunk.id: chunk.payload["name"] for chunk in chunks if chunk.type == "tool-call"}
    results = {chunk.id: chunk.payload["result"] for chunk in chunks if chunk.type == "tool-result"}
    assert called == {"call": "read_file", "call-2": "delete_file"}
    assert results == {"call": "/important was read", "call-2": "/scratch is gone"}
    parts = parts_of(await stream.messages)
    assert [(part.call_id, part.name, part.arguments["path"], part.result) for part in parts] == [
        ("call", "read_file", "/important", "/important was read"),
        ("call-2", "delete_file", "/scratch", "/scratch is gone"),
    ]
    if streamed:
        written = {chunk.id for chunk in chunks if chunk.type == "tool-input-start"}
        assert written == {"call", "call-2"}


async def test_the_ids_of_a_conversation_differ_from_step_to_step_and_from_request_to_request() -> None:
    """A server that counts from 0 in each answer, or takes the name of the function."""
    turn = {"tool_calls": [call("read_file", "/a")]}
    agent = Agent(ScriptedModel([turn, turn, "done", turn, "done"]), tools=TOOLS)
    first = await agent.generate("hi")
    second = await agent.generate([*first.messages, Message.user("again")])
    assert [part.call_id for part in parts_of(second.messages)] == ["call", "call-2", "call-3"]


async def test_the_caller_answers_calls_that_had_one_id() -> None:
    """Each by an id of its own."""
    agent = Agent(ScriptedModel([BOTH, "done"]), tools=[external("read_file"), external("delete_file")])
    first = await agent.generate("hi")
    assert {part.call_id: part.name for part in first.pending} == {"call": "read_file", "call-2": "delete_file"}
    messages = first.answered({"call": "read", "call-2": "gone"})
    assert [part.result for part in parts_of(messages)] == ["read", "gone"]


def external(name: str) -> Any:
    """Return a tool that the caller runs."""
    return Tool.external(name, {"type": "object", "properties": {"path": {"type": "string"}}})


async def test_the_answer_of_a_processor_gets_ids_of_its_own_too() -> None:
    """A cache that answers twice in one conversation, for example."""

    @processor
    def cached(ctx: LLMRequestContext) -> Answer | None:
        if ctx.step_number:
            return None
        calls = [ToolPart("call", name, {"path": path}) for name, path in AS_CALLED]
        return Answer(Message("assistant", tuple(calls)))

    agent = Agent(ScriptedModel(["done"]), tools=TOOLS, input_processors=[cached])
    result = await agent.generate("hi")
    assert sorted(ran) == sorted(AS_CALLED)
    assert [part.call_id for part in parts_of(result.messages)] == ["call", "call-2"]


async def test_what_hooks_see_of_the_stream_has_the_ids_of_the_message() -> None:
    """The chunks that the stages after the stream are given."""
    seen: list[str] = []

    @processor(edits="nothing")
    def look(ctx: OutputStepContext) -> None:
        seen.extend(part.call_id for part in ctx.tool_calls or ())

    await Agent(ScriptedModel([BOTH, "done"]), tools=TOOLS, processors=[look]).generate("hi")
    assert seen == ["call", "call-2"]


async def test_a_processor_that_gives_two_calls_one_id_ends_the_request() -> None:
    """No tool runs."""

    @processor
    def same(ctx: OutputStepContext) -> Any:
        made = [m.with_parts([ToolPart("x", p.name, p.arguments) for p in m.parts]) for m in ctx.messages[-1:]]
        return [*ctx.messages[:-1], *made]

    with pytest.raises(UsageError, match="one id"):
        await Agent(ScriptedModel([BOTH, "done"]), tools=TOOLS, processors=[same]).generate("hi")
    assert ran == []


class Provider:
    """A model that runs a tool itself, and calls one of ours under the same id."""

    name = "provider"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer with both calls and the provider's result, then with a text."""
        if len(request.messages) == 1:
            for name, path in AS_CALLED:
                payload = {"call_id": "c", "name": name, "arguments": {"path": path}}
                yield Chunk("tool-call", id="c", payload=payload)
            yield Chunk("tool-result", id="c", payload={"call_id": "c", "name": "read_file", "result": "by provider"})
            yield Chunk("finish", payload={"reason": "tool-calls"})
        else:
            yield Chunk("text-delta", "done", "t")
            yield Chunk("finish", payload={"reason": "stop"})


async def test_a_result_of_the_provider_answers_its_own_call_only() -> None:
    """The other one is run."""
    result = await Agent(Provider(), tools=TOOLS).generate("hi")
    assert ran == AS_CALLED[1:]
    assert [(p.call_id, p.result) for p in parts_of(result.messages)] == [
        ("c", "by provider"),
        ("c-2", "/scratch is gone"),
    ]


async def test_a_run_by_itself_keeps_calls_apart() -> None:
    """Without an agent: the chunks that leave, and the message."""

    @processor(edits="nothing")
    def look(ctx: InputStepContext) -> None: ...

    async with Workflow("w").then(look).start() as run:
        sent = [
            Chunk("tool-call", id="c", payload={"call_id": "c", "name": name, "arguments": {"path": path}})
            for name, path in AS_CALLED
        ]
        async with run.process_output_stream(sent) as stream:
            left = [chunk.id async for chunk in stream]
    assert left == ["c", "c-2"]
    assert [(p.call_id, p.name, p.arguments["path"]) for p in parts_of((stream.message,))] == [
        ("c", "read_file", "/important"),
        ("c-2", "delete_file", "/scratch"),
    ]
