"""Prompts whose calls are closed: no provider refuses them, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Agent, InMemoryStorage, Memory, Message, OpenAICompatibleModel, OptionError, Tool
from penstock.engine import ReasoningPart, TextPart, ToolPart
from penstock.formats import dump_messages
from penstock.models.open_calls import UNANSWERED, CallCloser, OpenCalls, with_calls_closed
from penstock.testing import FakeProvider, ScriptedModel
from tests.laws import examples

if TYPE_CHECKING:
    from penstock.engine.values.messages import ToolState

WAYS: tuple[OpenCalls, ...] = ("close", "drop")
CALL = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 5}'}}
OTHER = {**CALL, "id": "c2"}
ASKED, AGAIN = {"role": "user", "content": "Pay 5."}, {"role": "user", "content": "What time is it?"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "paid"}


def called(*calls: object) -> dict[str, object]:
    """Return an answer with these calls."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def part(state: str, approval: dict[str, object] | None = None) -> list[dict[str, object]]:
    """Return a conversation of the AI SDK with a call in this state."""
    tool = {"type": "tool-pay", "toolCallId": "c1", "state": state, "input": {"amount": 5}}
    answer = [{"type": "text", "text": "One moment."}, {**tool, "approval": approval} if approval else tool]
    return [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Pay 5."}]},
        {"id": "2", "role": "assistant", "parts": answer},
        {"id": "3", "role": "user", "parts": [{"type": "text", "text": "What time is it?"}]},
    ]


SHAPES: dict[str, Any] = {
    "a call without a result": [ASKED, called(CALL), AGAIN],
    "one of several calls": [ASKED, called(CALL, OTHER), RESULT, AGAIN],
    "a result behind other messages": [ASKED, called(CALL), AGAIN, RESULT],
    "a result behind another answer": [ASKED, called(CALL), called(OTHER), RESULT],
    "a result without a call": [RESULT, AGAIN],
    "a second result": [ASKED, called(CALL), RESULT, RESULT, AGAIN],
    "a result before its call": [RESULT, ASKED, called(CALL), AGAIN],
    "an id that comes again": [ASKED, called(CALL), AGAIN, called(CALL), RESULT],
    "a call in front of instructions": [ASKED, called(CALL), {"role": "system", "content": "Be brief."}, RESULT],
    "a call at the end": [ASKED, called(CALL)],
    "an id twice in one answer": [ASKED, called(CALL, CALL), RESULT, AGAIN],
    "an id twice in one answer, with results": [ASKED, called(CALL, CALL), RESULT, RESULT, AGAIN],
    "an id twice in one answer, at the end": [ASKED, called(CALL, CALL)],
    "no id": [ASKED, called({**CALL, "id": ""}), AGAIN],
    "no ids": [
        ASKED,
        called({**CALL, "id": ""}, {**CALL, "id": ""}),
        {**RESULT, "tool_call_id": "", "name": "pay"},
        AGAIN,
    ],
    "incomplete arguments": part("input-streaming"),
    "a call of a user interface": part("input-available"),
    "an approval that was asked for": part("approval-requested", {"id": "a1"}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.anyio
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_provider_accepts_a_history_with_open_calls(shape: str, way: OpenCalls) -> None:
    """Whatever a client sends, the request is answered."""
    with FakeProvider(["It is noon."]) as server:
        async with OpenAICompatibleModel("any", base_url=server.url, api_key="sk-any") as model:
            result = await Agent(model, open_calls=way).generate(SHAPES[shape])
    assert result.text == "It is noon."


@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
async def test_a_thread_goes_on_after_a_call_that_nobody_answered(way: OpenCalls) -> None:
    """The thread keeps the call, and each later request closes it again."""
    script: list[Any] = [{"tool_calls": [{"id": "c1", "name": "pay", "args": {}}]}, "It is noon.", "You are welcome."]
    with FakeProvider(script) as server:
        async with OpenAICompatibleModel("any", base_url=server.url, api_key="sk-any") as model:
            tool = Tool(lambda: "paid", name="pay", approval=True)
            agent = Agent(model, tools=[tool], memory=Memory(InMemoryStorage()), open_calls=way)
            said = [
                (await agent.generate(text, thread_id="t", resource_id="r")).status
                for text in ("Pay.", "What time is it?", "Thanks.")
            ]
    assert said == ["suspended", "success", "success"]


@pytest.mark.anyio
async def test_the_model_is_told_that_a_call_has_no_result() -> None:
    """The conversation itself keeps the open call, so that it can be answered later."""
    model = ScriptedModel(["Noon."])
    result = await Agent(model).generate(SHAPES["a call without a result"])
    [sent] = [one for message in model.requests[0].messages for one in message.parts if isinstance(one, ToolPart)]
    assert (sent.state, sent.error) == ("error", UNANSWERED)
    [kept] = [one for message in result.messages for one in message.parts if isinstance(one, ToolPart)]
    assert kept.state == "call"


def test_an_unknown_way_is_refused() -> None:
    """The error names the ways that there are."""
    with pytest.raises(OptionError, match="'close', 'drop'"):
        Agent(ScriptedModel([]), open_calls="keep")  # type: ignore[arg-type]


def tool(id: str, state: ToolState) -> ToolPart:
    """Return a call or a result."""
    return ToolPart(id, f"f-{id}", state=state)


ids = st.sampled_from(["a", "b", "c"])
tools = st.builds(tool, ids, st.sampled_from(["partial", "call", "result", "error"]))
answers = st.lists(st.one_of(tools, st.just(TextPart("x")), st.just(ReasoningPart("r"))), max_size=4)
results = st.builds(tool, ids, st.just("result")).map(lambda part: Message.tool([part]))
conversations = st.lists(
    st.one_of(st.just(Message.user("hi")), st.builds(Message.assistant, answers.filter(bool)), results), max_size=8
)


def once_each(messages: list[Message]) -> bool:
    """Return whether no answer calls two tools under one id, which the loop refuses already."""
    return all(
        len({part.call_id for part in one.parts if isinstance(part, ToolPart)})
        == sum(isinstance(part, ToolPart) for part in one.parts)
        for one in messages
    )


def test_a_call_is_closed_beside_the_result_of_another() -> None:
    """Text behind the calls does not part the result from its call, as providers demand."""
    asked = Message("assistant", (tool("a", "call"), tool("b", "call"), TextPart("x")))
    closed = with_calls_closed([asked, Message("tool", (tool("a", "result"),))], "close")
    roles = [(item["role"], item.get("tool_call_id")) for item in dump_messages(closed, "openai-chat")]
    assert roles == [("assistant", None), ("tool", "b"), ("tool", "a")]


def test_a_result_within_a_message_does_not_part_another_from_its_call() -> None:
    """Text behind both calls would stand between the second call and its result."""
    asked = Message("assistant", (tool("a", "result"), tool("c", "call"), TextPart("x")))
    closed = with_calls_closed([asked, Message("tool", (tool("c", "result"),))], "close")
    roles = [(item["role"], item.get("tool_call_id")) for item in dump_messages(closed, "openai-chat")]
    assert roles == [("assistant", None), ("tool", "a"), ("tool", "c")]


@settings(max_examples=examples(300), deadline=None)
@given(conversations.filter(once_each), st.sampled_from(WAYS), st.booleans())
def test_each_call_has_its_result_right_behind_it(given: list[Message], way: OpenCalls, separate: bool) -> None:
    """To close calls a second time changes nothing, and what users and assistants said stays."""
    closed = with_calls_closed(given, way, separate=separate)
    assert with_calls_closed(closed, way, separate=separate) is closed
    texts = [part for one in given for part in one.parts if isinstance(part, TextPart)]
    assert [part for one in closed for part in one.parts if isinstance(part, TextPart)] == texts
    if not separate:
        waiting = set[str]()
        for item in dump_messages(closed, "openai-chat"):
            if item["role"] == "tool":
                assert item["tool_call_id"] in waiting
                waiting.discard(item["tool_call_id"])
                continue
            assert not waiting
            waiting = {call["id"] for call in item.get("tool_calls", ())}
        assert not waiting


@settings(max_examples=examples(300), deadline=None)
@given(conversations.filter(once_each), conversations.filter(once_each), st.sampled_from(WAYS), st.booleans())
def test_a_prompt_that_grows_is_closed_as_a_new_one_is(
    given: list[Message], other: list[Message], way: OpenCalls, separate: bool
) -> None:
    """Of a longer prompt only the new messages are read: the same leaves, also when it becomes another prompt."""
    closer = CallCloser()
    for prompt in [*(given[:end] for end in range(len(given) + 1)), [*given[: len(given) // 2], *other]]:
        assert [*closer.closed(prompt, way, separate=separate)] == [*with_calls_closed(prompt, way, separate=separate)]


def test_the_id_of_a_repeated_call_is_that_of_no_other() -> None:
    """A provider would refuse two calls with one id."""
    calls = [ToolPart(call_id=id, name="look_up", arguments={}, state="call") for id in ("c1", "c1", "c1-2", "c1")]
    closed = with_calls_closed([Message.user("Look."), Message("assistant", calls)])
    assert [part.call_id for part in closed[1].parts if isinstance(part, ToolPart)] == ["c1", "c1-3", "c1-2", "c1-4"]
