"""What is special about LangChain: hooks without await, resumed runs, blocks of providers, and other middleware."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, NotRequired

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ToolRetryMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ConfigDict

from penstock import (
    BlockedError,
    InputStepContext,
    OutputStepContext,
    PIIDetector,
    Processor,
    ToolCallContext,
    ToolResultContext,
    processor,
)
from penstock.engine import Overrides, UsageError
from penstock.processors.guards import Restore
from penstock.processors.tools import HumanReview, ToolPolicy
from penstock.workflows.adapters.langchain import as_agent, as_chat_model, as_middleware

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol", "ignore:astream_events version='v1'"),
]

MAIL = "ada@example.com"
HIDES = PIIDetector(redaction_method="placeholder")


@pytest.fixture
def anyio_backend() -> str:
    """LangGraph runs on asyncio."""
    return "asyncio"


class Says(BaseChatModel):
    """A model that says messages, one after the other; a list is said in pieces."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    script: Any
    asked: list[Any]
    options: list[Any]

    def __init__(self, *script: Any) -> None:
        super().__init__(script=iter(script), asked=[], options=[])  # type: ignore[call-arg]

    @property
    def _llm_type(self) -> str:
        return "says"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Keep what was bound."""
        return self.bind(
            tools=[each["function"]["name"] if isinstance(each, dict) else each.name for each in tools], **kwargs
        )

    def _next(self, messages: list[BaseMessage], options: dict[str, Any]) -> Any:
        self.asked.append(messages)
        self.options.append(options)
        return next(self.script)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        said = self._next(messages, kwargs)
        message = AIMessage("".join(piece.text for piece in said)) if isinstance(said, list) else said
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = self._next(messages, kwargs)
        for piece in said if isinstance(said, list) else [said]:
            names = ("content", "additional_kwargs", "usage_metadata", "response_metadata")
            fields = {name: getattr(piece, name) for name in names}
            calls: Any = [
                tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
                for number, call in enumerate(piece.tool_calls)
            ]
            yield ChatGenerationChunk(message=AIMessageChunk(**fields, tool_call_chunks=calls))


def called(name: str, **arguments: Any) -> AIMessage:
    """Return an answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "c1"}])


def pieces(*texts: Any) -> list[AIMessage]:
    """Return an answer in pieces."""
    return [AIMessage(text) for text in texts]


def test_without_await_everything_is_guarded() -> None:
    """Input, model, tools, stream and state, from several threads at once."""
    asked: list[str] = []

    @tool
    def lookup(query: str) -> str:
        """Look something up."""
        asked.append(query)
        return "it is bob@example.com"

    results: list[Any] = []

    def run() -> None:
        model = Says(called("lookup", query=MAIL), AIMessage(f"Write to {MAIL}."))
        results.append(agent(model).invoke({"messages": [("user", f"I am {MAIL}")]}))
        assert MAIL not in repr(model.asked)

    def agent(model: Any) -> Any:
        return create_agent(model, [lookup], middleware=[as_middleware(HIDES)])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == ["[EMAIL]"] * 4
    assert len(results) == 4
    for state in results:
        assert [one.text for one in state["messages"]] == ["I am [EMAIL]", "", "it is [EMAIL]", "Write to [EMAIL]."]

    model = Says(pieces("Write to ada@ex", "ample", ".com, please."))
    streamed = agent(model).stream({"messages": [("user", "Whom?")]}, stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in streamed) == "Write to [EMAIL], please."


async def test_events_and_updates_show_what_the_guards_left() -> None:
    """Whatever LangChain streams."""
    for mode in ("values", "updates", "messages", "debug"):
        model = Says(pieces("Write to ada@ex", "ample", ".com, please."))
        agent: Any = create_agent(model, middleware=[as_middleware(HIDES)])
        seen = [repr(each) async for each in agent.astream({"messages": [("user", "Whom?")]}, stream_mode=mode)]
        assert "[EMAIL]" in "".join(seen)
        assert "ada@" not in "".join(seen)
    model = Says(pieces("Write to ada@ex", "ample", ".com, please."))
    agent = create_agent(model, middleware=[as_middleware(HIDES)])
    events = [repr(event) async for event in agent.astream_events({"messages": [("user", "Whom?")]}, version="v2")]
    assert "[EMAIL]" in "".join(events)
    assert "ada@" not in "".join(events)


async def test_an_unchanged_answer_is_the_models_own() -> None:
    """With its signature, its tokens and what the provider says about it."""
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s1"},
        {"type": "text", "text": "Hello"},
    ]
    said = AIMessage(
        blocks,
        id="m1",
        response_metadata={"model_name": "big", "logprobs": [1], "token_usage": {"prompt_tokens": 3}},
        additional_kwargs={"refusal": None},
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    )
    agent: Any = create_agent(Says(said), middleware=[as_middleware(HIDES)])
    answer = (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1]
    assert answer.content == blocks
    assert answer.id == "m1"
    assert answer.additional_kwargs == {"refusal": None}
    assert answer.response_metadata == said.response_metadata
    assert answer.usage_metadata["total_tokens"] == 5


async def test_a_changed_answer_repeats_nothing() -> None:
    """Neither by its signature nor by logprobs; the tokens stay."""
    blocks: list[Any] = [
        {"type": "thinking", "thinking": f"It is {MAIL}", "signature": "s1"},
        {"type": "text", "text": f"Write to {MAIL}"},
    ]
    said = AIMessage(blocks, response_metadata={"model_name": "big", "logprobs": [MAIL]}, additional_kwargs={"x": MAIL})
    model = Says(said, AIMessage("Yes"))
    agent: Any = create_agent(model, middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    state = await agent.ainvoke({"messages": [("user", "Hi")]}, config)
    assert "ada@" not in repr(state)
    assert state["messages"][-1].text == "Write to [EMAIL]"
    assert state["messages"][-1].response_metadata == {"model_name": "big"}
    await agent.ainvoke({"messages": [("user", "And?")]}, config)
    assert "thinking" not in repr(model.asked[1])  # no provider takes it back without its signature


async def test_streamed_blocks_keep_their_shape() -> None:
    """Thoughts and their signature, as the provider needs them back."""
    model = Says(
        [
            AIMessage([{"type": "thinking", "thinking": "Hm", "index": 0}]),
            AIMessage([{"type": "thinking", "thinking": ".", "index": 0}]),
            AIMessage([{"type": "thinking", "signature": "s1", "index": 0}]),
            AIMessage([{"type": "text", "text": "Hel", "index": 1}]),
            AIMessage([{"type": "text", "text": "lo", "index": 1}]),
        ]
    )
    agent: Any = create_agent(model, middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    shown = [one async for one, _ in agent.astream({"messages": [("user", "Hi")]}, config, stream_mode="messages")]
    assert "".join(one.text for one in shown) == "Hello"
    assert agent.get_state(config).values["messages"][-1].content == [
        {"type": "thinking", "thinking": "Hm.", "signature": "s1", "index": 0},
        {"type": "text", "text": "Hello", "index": 1},
    ]


async def test_a_run_that_is_resumed_is_guarded() -> None:
    """It opens a request of its own; the checkpoint holds none."""

    @tool
    def ask(question: str) -> str:
        """Ask the user."""
        return str(interrupt(question))

    saver = InMemorySaver()
    model = Says(called("ask", question=f"Is it {MAIL}?"), AIMessage(f"So it is {MAIL}"))
    agent: Any = create_agent(model, [ask], middleware=[as_middleware(HIDES)], checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "1"}}
    first = await agent.ainvoke({"messages": [("user", "Hi")]}, config)
    assert first["__interrupt__"][0].value == "Is it [EMAIL]?"
    state = await agent.ainvoke(Command(resume=f"yes, {MAIL}"), config)
    assert [one.text for one in state["messages"]] == ["Hi", "", "yes, [EMAIL]", "So it is [EMAIL]"]
    checkpoint = saver.get(config)
    assert checkpoint is not None
    assert not any(name.startswith("penstock") for name in checkpoint["channel_values"])


async def test_results_in_commands_are_read() -> None:
    """A tool may return an update of the state in place of a message."""

    @tool
    def lookup(query: str) -> Command[Any]:
        """Look something up."""
        return Command(update={"messages": [ToolMessage(f"it is {MAIL}", tool_call_id="c1", artifact={"raw": MAIL})]})

    agent: Any = create_agent(
        Says(called("lookup", query="x"), AIMessage("done")), [lookup], middleware=[as_middleware(HIDES)]
    )
    state = await agent.ainvoke({"messages": [("user", "Hi")]})
    assert state["messages"][2].text == "it is [EMAIL]"
    assert "ada@" not in repr(state)


async def test_a_model_that_another_middleware_puts_in_is_refused() -> None:
    """Its answer was read by nobody."""

    class Replaces(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            return await handler(request.override(model=GenericFakeChatModel(messages=iter([MAIL]))))

    agent: Any = create_agent(Says(), middleware=[as_middleware(HIDES), Replaces()])
    with pytest.raises(UsageError, match="replaced the model"):
        await agent.ainvoke({"messages": [("user", "Hi")]})
    agent = create_agent(Says(), middleware=[Replaces(), as_middleware(HIDES)])
    assert (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1].text == "[EMAIL]"


async def test_a_processor_chooses_tools_and_settings() -> None:
    """They reach the model by LangChain's names."""

    @processor("process_input_step")
    def choose(ctx: InputStepContext) -> Overrides:
        return Overrides(active_tools=["one"], tool_choice="required", model_settings={"temperature": 0.1})

    @tool
    def one() -> str:
        """One."""
        return "1"

    @tool
    def two() -> str:
        """Two."""
        return "2"

    model = Says(AIMessage("done"))
    agent: Any = create_agent(model, [one, two], middleware=[as_middleware(choose)])
    await agent.ainvoke({"messages": [("user", "Hi")]})
    assert model.options == [{"tools": ["one"], "tool_choice": "any", "temperature": 0.1}]


async def test_a_failed_run_is_repeated_by_other_middleware() -> None:
    """The request was closed with the failure; the next attempt has one of its own."""
    calls: list[int] = []

    class Repeats(AgentMiddleware):
        async def awrap_model_call(self, request: ModelRequest, handler: Any) -> Any:
            try:
                return await handler(request)
            except ValueError:
                return await handler(request)

    class Fails(Says):
        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("down")
            return super()._generate(messages, **kwargs)

    model = Fails(AIMessage(f"It is {MAIL}"))  # type: ignore[call-arg, arg-type]
    agent: Any = create_agent(model, middleware=[Repeats(), as_middleware(HIDES)])
    assert (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1].text == "It is [EMAIL]"


async def test_a_model_in_a_graph_made_by_hand() -> None:
    """Each call is a request; with and without await, in pieces and whole, with tools and an object."""
    guarded = as_chat_model(Says(pieces("Write to ada@ex", "ample.com.")), HIDES)
    assert "".join([piece.text async for piece in guarded.astream(f"I am {MAIL}")]) == "Write to [EMAIL]."
    guarded = as_chat_model(Says(pieces("Write to ada@ex", "ample.com.")), HIDES)
    assert "".join(piece.text for piece in guarded.stream("Hi")) == "Write to [EMAIL]."
    inner = Says(AIMessage(f"It is {MAIL}"))
    assert as_chat_model(inner, HIDES).invoke([HumanMessage(f"I am {MAIL}")]).text == "It is [EMAIL]"
    assert inner.asked[0][0].text == "I am [EMAIL]"
    with pytest.raises(BlockedError):
        await as_chat_model(Says(AIMessage("x")), PIIDetector(strategy="block")).ainvoke(MAIL)


async def test_the_input_of_others_is_kept() -> None:
    """Messages with fields that nobody knows reach the model as they are."""
    inner = Says(AIMessage("fine"))
    asked = HumanMessage(
        [{"type": "image", "url": "https://x.test/a.png"}, {"type": "odd", "n": 1}], name="Ada", id="h1"
    )
    guard = PIIDetector(redaction_method="placeholder", unscanned="allow")
    await as_chat_model(inner, guard).ainvoke([asked])
    assert inner.asked[0][0] is asked


async def test_a_model_by_itself_says_which_stage_it_lacks(caplog: pytest.LogCaptureFixture) -> None:
    """Results of tools are read as input."""
    inner = Says(AIMessage("fine"))
    guarded = as_chat_model(inner, HIDES)
    assert "process_tool_result" in caplog.text
    await guarded.ainvoke(["Hi", called("lookup", query="x"), ToolMessage(f"it is {MAIL}", tool_call_id="c1")])
    assert MAIL not in repr(inner.asked)


def test_a_processor_that_never_runs_beside_a_model_is_refused() -> None:
    """It is named, with what to use instead."""

    @processor("process_tool_result", role="guard")
    def judge(ctx: Any) -> None:
        ctx.abort("no")

    with pytest.raises(UsageError, match=r"process_tool_result of judge.*as_middleware"):
        as_chat_model(Says(), HIDES, judge)
    as_chat_model(Says(), HIDES, judge, strict=False)


async def answered(model: Says, *guards: Any) -> tuple[list[Any], Any]:
    """Return what a run has streamed, and the last message of its state."""
    agent: Any = create_agent(model, middleware=[as_middleware(*guards)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    streamed = [one async for one, _ in agent.astream({"messages": [("user", "Hi")]}, config, stream_mode="messages")]
    return streamed, agent.get_state(config).values["messages"][-1]


@pytest.mark.parametrize("args", ["{x", "", None, '{"a": 1', "[1]"])
async def test_an_invalid_call_ends_a_run_as_it_does_without_guards(args: str | None) -> None:
    """LangChain would complete the arguments of a piece of a call, and run it."""
    broken = {"name": "f", "args": args, "id": "1", "error": None, "type": "invalid_tool_call"}
    said = AIMessage("I cannot.", invalid_tool_calls=[broken])
    model = Says(said, AIMessage("asked again"))
    agent: Any = create_agent(model, middleware=[as_middleware(HIDES)])
    left = (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1]
    assert (left.text, left.tool_calls, [one["id"] for one in left.invalid_tool_calls]) == ("I cannot.", [], ["1"])


HIDDEN: dict[str, Any] = {
    "beside a text": {"content": [{"type": "text", "text": "Hello", "citations": [{"cited_text": MAIL}], "index": 0}]},
    "in a block": {
        "content": [{"type": "text", "text": "Hello", "index": 0}, {"type": "odd", "said": MAIL, "index": 1}]
    },
    "in a call that is no call": {
        "content": [
            {"type": "text", "text": "Hello", "index": 0},
            {"type": "tool_use", "id": "x", "name": "f", "input": {"a": MAIL}, "index": 1},
        ]
    },
    "in a field": {"content": "Hello", "additional_kwargs": {"function_call": {"name": "f", "arguments": MAIL}}},
    "in the provider's copy of calls": {"content": "Hello", "additional_kwargs": {"tool_calls": [{"function": MAIL}]}},
    "in a key": {"content": [{"type": "text", "text": "Hello", "scores": {MAIL: 1}, "index": 0}]},
    "in a name": {"content": [{"type": "text", "text": "Hello", MAIL: 1, "index": 0}]},
    "in a key of a field": {"content": "Hello", "additional_kwargs": {"scores": {MAIL: 1}, MAIL: 2}},
    "in a key of a report": {"content": "Hello", "response_metadata": {"scores": {MAIL: 1}}},
    "in what a provider adds to a block": {
        "content": [{"type": "text", "text": "Hello", "extras": {"signature": "s", "said": MAIL}, "index": 0}]
    },
    "in a report": {"content": "Hello", "response_metadata": {"model_name": "big", "grounding": {"query": MAIL}}},
}


@pytest.mark.parametrize("where", HIDDEN)
@pytest.mark.parametrize("streams", [False, True])
async def test_no_text_of_an_answer_passes_unread(where: str, streams: bool) -> None:
    """What stands beside a text that nobody has changed is read too, or goes."""
    said = AIMessage(**HIDDEN[where])
    if streams:
        shown, kept = await answered(Says([said]), HIDES)
    else:
        agent: Any = create_agent(Says(said), middleware=[as_middleware(HIDES)])
        shown, kept = [], (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1]
    assert kept.text == "Hello"
    assert "ada@" not in repr(shown) + repr(kept)


CITED: list[Any] = [
    {
        "type": "text",
        "text": "See [1].",
        "index": 0,
        "id": "msg_1",
        "citations": [{"type": "url", "title": f"Ask {MAIL}", "url": "https://x.test/a", "start": 4}],
    },
    {"type": "server_tool_call", "id": "s1", "name": "search", "args": {"query": f"who is {MAIL}"}, "index": 1},
]
CLEAN: list[Any] = [
    {**CITED[0], "citations": [{"type": "url", "title": "The manual", "url": "https://x.test/a", "start": 4}]},
    {**CITED[1], "args": {"query": "manual"}},
]


@pytest.mark.parametrize("streams", [False, True])
async def test_what_stands_beside_a_text_is_redacted_and_the_rest_stays(streams: bool) -> None:
    """Citations, blocks of the provider's own tools, fields, and reports."""
    told = {"model_name": "big", "grounding": {"query": f"who is {MAIL}", "pages": 2}}
    fields = {"notes": {"said": MAIL, "kind": "odd"}}
    said = AIMessage(CITED, response_metadata=told, additional_kwargs=fields)
    if streams:
        shown, kept = await answered(Says([said]), HIDES)
    else:
        agent: Any = create_agent(Says(said), middleware=[as_middleware(HIDES)])
        shown, kept = [], (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1]
    assert "ada@" not in repr(shown) + repr(kept)
    assert kept.content == [
        {**CITED[0], "citations": [{"type": "url", "title": "Ask [EMAIL]", "url": "https://x.test/a", "start": 4}]},
        {**CITED[1], "args": {"query": "who is [EMAIL]"}},
    ]
    assert kept.response_metadata == {"model_name": "big", "grounding": {"query": "who is [EMAIL]", "pages": 2}}
    assert kept.additional_kwargs == {"notes": {"said": "[EMAIL]", "kind": "odd"}}


@pytest.mark.parametrize("streams", [False, True])
async def test_unchanged_citations_arrive_unchanged(streams: bool) -> None:
    """Whole and streamed, in the state and where the model reads them again."""
    model = Says([AIMessage(CLEAN)] if streams else AIMessage(CLEAN), AIMessage("Yes"))
    agent: Any = create_agent(model, middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    asked = {"messages": [("user", "Hi")]}
    if streams:
        _ = [one async for one in agent.astream(asked, config, stream_mode="messages")]
    else:
        await agent.ainvoke(asked, config)
    assert agent.get_state(config).values["messages"][-1].content == CLEAN
    await agent.ainvoke({"messages": [("user", "And?")]}, config)
    assert model.asked[1][1].content == CLEAN


@pytest.mark.parametrize("streams", [False, True])
async def test_blocks_between_texts_keep_their_place(streams: bool) -> None:
    """In the state, and in what the model reads again between tool calls; a changed call keeps its block."""
    blocks: list[Any] = [
        {"type": "text", "text": "First.", "index": 0},
        {"type": "server_tool_call", "id": "s1", "name": "search", "args": {"query": "x"}, "index": 1},
        {"type": "tool_use", "id": "c1", "name": "mail_of", "input": {"who": MAIL}, "index": 2},
        {"type": "text", "text": "Then.", "citations": [{"title": "The manual"}], "index": 3},
    ]
    said = AIMessage(blocks, tool_calls=[{"name": "mail_of", "args": {"who": MAIL}, "id": "c1"}])
    model = Says([said] if streams else said, AIMessage("done"))
    agent: Any = create_agent(model, [mail_of], middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    asked = {"messages": [("user", "Hi")]}
    if streams:
        _ = [one async for one in agent.astream(asked, CONFIG, stream_mode="messages")]
    else:
        await agent.ainvoke(asked, CONFIG)
    left = [*blocks[:2], {**blocks[2], "input": {"who": "[EMAIL]"}}, blocks[3]]
    assert agent.get_state(CONFIG).values["messages"][1].content == left
    assert model.asked[1][1].content == left


async def test_a_citation_stays_beside_a_text_that_was_redacted() -> None:
    """Its sign goes: the provider knows another text by it."""
    blocks: list[Any] = [{**CLEAN[0], "text": f"Ask {MAIL} [1]."}, CLEAN[1]]
    kept = (await as_chat_model(Says(AIMessage(blocks)), HIDES).ainvoke("Hi")).content
    assert kept == [{**{k: v for k, v in CLEAN[0].items() if k != "id"}, "text": "Ask [EMAIL] [1]."}, CLEAN[1]]


async def test_a_processor_edits_what_stands_beside_an_answer() -> None:
    """It is a data part; what it takes out goes."""

    @processor("process_output_step")
    def uncite(ctx: OutputStepContext) -> Any:
        last = ctx.message_list.response[-1]
        seen.extend(part for part in last.parts if part.type == "data")
        return ctx.message_list.replace(last.with_parts([part for part in last.parts if part.type != "data"]))

    seen: list[Any] = []
    kept = (await as_chat_model(Says(AIMessage(CLEAN)), uncite).ainvoke("Hi")).content
    assert [part.name for part in seen] == ["langchain-extras"]
    assert seen[0].data["content"]["0"] == {"citations": tuple(CLEAN[0]["citations"])}
    assert kept == [{name: item for name, item in CLEAN[0].items() if name != "citations"}]


async def test_earlier_answers_of_others_are_read_whole() -> None:
    """Also what stands beside their texts, which providers get back."""
    model = Says(AIMessage("Yes"))
    agent: Any = create_agent(model, middleware=[as_middleware(HIDES)])
    earlier = [("user", "Hi"), AIMessage(CITED, additional_kwargs={"x": MAIL}), ("user", "And?")]
    state = await agent.ainvoke({"messages": earlier})
    assert "ada@" not in repr(state)
    assert "ada@" not in repr(model.asked)
    assert model.asked[0][1].content[0]["citations"][0]["title"] == "Ask [EMAIL]"


@pytest.mark.parametrize("streams", [False, True])
async def test_signed_thoughts_reach_the_model_again_between_tool_calls(streams: bool) -> None:
    """Providers refuse a call of a tool without the thoughts that led to it."""

    @tool
    def lookup(query: str) -> str:
        """Look something up."""
        return f"it is {MAIL}"

    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s1", "index": 0}
    use = {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"query": "x"}, "index": 1}
    calls: Any = [{"name": "lookup", "args": {"query": "x"}, "id": "c1"}]
    model = Says(AIMessage([thought, use], tool_calls=calls), AIMessage("done"))
    agent: Any = create_agent(model, [lookup], middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    asked = {"messages": [("user", "Hi")]}
    if streams:
        _ = [one async for one in agent.astream(asked, config, stream_mode="messages")]
    else:
        await agent.ainvoke(asked, config)
    assert model.asked[1][1].content == [thought, use]
    assert model.asked[1][2].text == "it is [EMAIL]"
    assert agent.get_state(config).values["messages"][1].content == [thought, use]


async def test_what_no_guard_of_texts_reads_stays_with_its_text() -> None:
    """Where no guard reads texts, nothing is dropped."""

    @processor("process_output_step")
    def look(ctx: OutputStepContext) -> None:
        assert ctx.text == "Hello"

    said = AIMessage(**HIDDEN["beside a text"])
    assert (await as_chat_model(Says(said), look).ainvoke("Hi")).content == said.content
    said = AIMessage("Hello", additional_kwargs={"audio": {"transcript": "Hello"}})
    answer = await as_chat_model(Says(said), look).ainvoke("Hi")
    assert (answer.content, answer.additional_kwargs) == ("Hello", said.additional_kwargs)


async def test_reasoning_in_a_list_of_summaries_is_guarded_and_kept() -> None:
    """As the Responses API gives it; the item goes with its id and its sealed content, if nobody has changed it."""
    start = {"type": "reasoning", "id": "rs_1", "encrypted_content": "xyz", "index": 0}

    def script(*texts: str) -> list[AIMessage]:
        summaries = [{"type": "summary_text", "text": text, "index": 0} for text in texts]
        blocks = [AIMessage([{"type": "reasoning", "summary": [one], "index": 0}]) for one in summaries]
        return [AIMessage([start]), *blocks, AIMessage([{"type": "text", "text": "Hello", "index": 1}])]

    _, kept = await answered(Says(script("I think", " so.")), HIDES)
    assert kept.content == [
        {**start, "summary": [{"type": "summary_text", "text": "I think so.", "index": 0}]},
        {"type": "text", "text": "Hello", "index": 1},
    ]
    streamed, kept = await answered(Says(script("It is ada@ex", "ample.com.")), HIDES)
    assert "ada@" not in repr(streamed) + repr(kept)
    assert "[EMAIL]" in repr(kept.content)
    assert "xyz" not in repr(kept)


async def test_what_the_provider_alone_can_read_stays() -> None:
    """It is sent back as it came."""
    blocks: list[Any] = [
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "text", "text": "Hello"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    ]
    calls: Any = [{"name": "f", "args": {"a": 1}, "id": "c1"}]
    answer = await as_chat_model(Says(AIMessage(blocks, tool_calls=calls)), HIDES).ainvoke("Hi")
    assert answer.content == blocks


@pytest.mark.parametrize("waits", [True, False])
async def test_a_thread_goes_on_after_a_blocked_result(waits: bool) -> None:
    """The call has a result, without which no provider takes the conversation."""

    @processor("process_tool_result", role="guard")
    def no_mail(ctx: ToolResultContext) -> None:
        if "@" in str(ctx.result):
            ctx.abort("no mail")

    @tool
    def lookup(query: str) -> str:
        """Look something up."""
        return f"it is {MAIL}"

    model = Says(called("lookup", query="x"), AIMessage("Yes"))
    agent: Any = create_agent(model, [lookup], middleware=[as_middleware(no_mail)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    asked: Any = {"messages": [("user", "Hi")]}
    with pytest.raises(BlockedError):
        _ = await agent.ainvoke(asked, config) if waits else agent.invoke(asked, config)
    asked = {"messages": [("user", "And now?")]}
    state: Any = await agent.ainvoke(asked, config) if waits else agent.invoke(asked, config)
    assert [one.text for one in state["messages"]] == ["Hi", "", "The request was stopped.", "And now?", "Yes"]


async def test_a_tool_that_fails_is_repeated_within_the_request() -> None:
    """Other middleware repeats it; the guards' state goes on."""
    states: list[int] = []

    @processor("process_tool_call")
    def count(ctx: ToolCallContext) -> None:
        states.append(1)

    tries: list[int] = []

    @tool
    def lookup(query: str) -> str:
        """Look something up."""
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("down")
        return f"it is {MAIL}"

    model = Says(called("lookup", query="x"), AIMessage("done"))
    middleware = [ToolRetryMiddleware(max_retries=1, initial_delay=0), as_middleware(count, HIDES)]
    agent: Any = create_agent(model, [lookup], middleware=middleware)
    state = await agent.ainvoke({"messages": [("user", "Hi")]})
    assert [one.text for one in state["messages"]] == ["Hi", "", "it is [EMAIL]", "done"]
    assert states == [1]  # the call was judged with its answer, and is known


async def test_tools_beside_one_that_waits_for_the_user_go_on() -> None:
    """The interrupt ends the run, not the request of the others."""
    done: list[str] = []

    @tool
    def ask(question: str) -> str:
        """Ask the user."""
        return str(interrupt(question))

    @tool
    async def lookup(query: str) -> str:
        """Look something up."""
        await asyncio.sleep(0.05)
        done.append(query)
        return f"it is {MAIL}"

    calls: Any = [
        {"name": "ask", "args": {"question": "Sure?"}, "id": "c1"},
        {"name": "lookup", "args": {"query": "x"}, "id": "c2"},
    ]
    model = Says(AIMessage("", tool_calls=calls), AIMessage("done"))
    agent: Any = create_agent(model, [ask, lookup], middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke({"messages": [("user", "Hi")]}, config)
    state = await agent.ainvoke(Command(resume="yes"), config)
    assert [one.text for one in state["messages"]] == ["Hi", "", "yes", "it is [EMAIL]", "done"]
    assert set(done) == {"x"}


# What tools return


class Spy(BaseCallbackHandler):
    """A handler, as tracers are: notes all that it is called with."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        """Return a function that notes its arguments, for each event."""
        if name.startswith("on_"):
            return lambda *given, **named: self.seen.append(f"{name} {given!r} {named!r}")
        return super().__getattribute__(name)


class Remembers(InMemorySaver):
    """A checkpointer that keeps all that it was ever given, as a data base with a journal does."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def put(self, *given: Any) -> Any:
        """Note a checkpoint."""
        self.given.append(repr(given))
        return super().put(*given)

    def put_writes(self, *given: Any) -> None:
        """Note what a node has written."""
        self.given.append(repr(given))
        super().put_writes(*given)


@tool
def mail_of(who: str) -> str:
    """Return somebody's address."""
    return f"it is {MAIL}"


@tool
async def mail_of_later(who: str) -> str:
    """Return somebody's address."""
    return f"it is {MAIL}"


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def config_of(spy: Spy) -> Any:
    """Return a configuration with a handler."""
    return {**CONFIG, "callbacks": [spy]}


@pytest.mark.parametrize("given", [mail_of, mail_of_later])
@pytest.mark.parametrize("way", ["ainvoke", "invoke", "v1", "v2", "v3", "sync v3", "modes"])
async def test_callbacks_and_events_of_tools_show_what_the_guards_left(given: Any, way: str) -> None:
    """The result of a tool, too: handlers and streams hear of it before the hook behind the tool."""
    if given is mail_of_later and way in ("invoke", "sync v3"):
        pytest.skip("the tool has no sync function")
    model = Says(called(given.name, who="Ada"), pieces("Write to ada@ex", "ample.com."))
    agent: Any = create_agent(model, [given], middleware=[as_middleware(HIDES)], checkpointer=InMemorySaver())
    spy, asked = Spy(), {"messages": [("user", "Hi")]}
    if way == "ainvoke":
        shown: Any = await agent.ainvoke(asked, config_of(spy))
    elif way == "invoke":
        shown = agent.invoke(asked, config_of(spy))
    elif way == "modes":
        modes = ["messages", "updates", "values", "debug", "tasks", "checkpoints"]
        shown = [one async for one in agent.astream(asked, config_of(spy), stream_mode=modes, subgraphs=True)]
    elif way == "sync v3":
        shown = list(agent.stream_events(asked, config_of(spy), version="v3"))
    else:
        events = agent.astream_events(asked, config_of(spy), version=way)
        shown = [one async for one in (await events if way == "v3" else events)]
    assert "it is [EMAIL]" in repr(shown)
    assert any(one.startswith("on_tool_end") for one in spy.seen)
    assert "ada@" not in repr(shown) + repr(spy.seen)


async def test_a_blocked_result_reaches_no_handler() -> None:
    """Handlers hear that the request was stopped."""
    model = Says(called("mail_of", who="Ada"), AIMessage("never"))
    guard = PIIDetector(strategy="block")
    agent: Any = create_agent(model, [mail_of], middleware=[as_middleware(guard)], checkpointer=InMemorySaver())
    spy = Spy()
    with pytest.raises(BlockedError):
        await agent.ainvoke({"messages": [("user", "Hi")]}, config_of(spy))
    assert "ada@" not in repr(spy.seen)
    assert agent.get_state(CONFIG).values["messages"][-1].text == "The request was stopped."


def returning(result: Any, **options: Any) -> Any:
    """Return a tool that returns a value, or raises it."""

    def lookup(query: str) -> Any:
        """Look something up."""
        if isinstance(result, Exception):
            raise result
        return result

    return tool(**options)(lookup) if options else tool(lookup)


async def after_tool(result: Any, schema: Any = None, **options: Any) -> Any:
    """Return the state, and what was shown and stored, of a run with a tool that returns a value."""
    model = Says(called("lookup", query="x"), AIMessage("done"))
    made = returning(result, **options)
    made.handle_tool_error = True
    saver, spy = Remembers(), Spy()
    agent: Any = create_agent(model, [made], middleware=[as_middleware(HIDES)], checkpointer=saver, state_schema=schema)
    shown = [
        one async for one in agent.astream({"messages": [("user", "Hi")]}, config_of(spy), stream_mode=["updates"])
    ]
    seen = repr(shown) + repr(saver.given) + repr(spy.seen) + repr(model.asked)
    return agent.get_state(CONFIG).values, seen


class Notes(AgentState[Any]):
    """A state with a field of its own."""

    notes: NotRequired[Any]


RESULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a text": (f"it is {MAIL}", {}),
    "an object": ({"mail": MAIL, "n": 1}, {}),
    "blocks": ([{"type": "text", "text": f"it is {MAIL}"}], {}),
    "an artifact": (("three rows", {"rows": [MAIL, 3]}), {"response_format": "content_and_artifact"}),
    "both": ((f"it is {MAIL}", [MAIL]), {"response_format": "content_and_artifact"}),
    "a message": (ToolMessage("done", tool_call_id="c1", artifact=[MAIL]), {}),
    "a command": (
        Command(
            update={"messages": [ToolMessage("ok", tool_call_id="c1"), HumanMessage(f"I am {MAIL}")], "notes": MAIL}
        ),
        {},
    ),
    "several": ([ToolMessage(MAIL, tool_call_id="c1"), Command(update={"notes": MAIL})], {}),
    "an error": (ToolException(f"no {MAIL} here"), {}),
}


@pytest.mark.parametrize("what", RESULTS)
async def test_all_that_a_tool_returns_is_read(what: str) -> None:
    """Artifacts, and what it writes into the state; before handlers, streams and checkpoints see it."""
    result, options = RESULTS[what]
    state, seen = await after_tool(result, schema=Notes, **options)
    assert "ada@" not in repr(state) + seen
    assert state["messages"][-1].text == "done"


async def test_an_artifact_is_redacted_and_the_rest_stays() -> None:
    """An unchanged one is the tool's own object, whatever it is."""
    state, _ = await after_tool(*RESULTS["an artifact"][:1], response_format="content_and_artifact")
    assert state["messages"][2].artifact == {"rows": ["[EMAIL]", 3]}
    rows = {"rows": (1, 2), "name": "x"}
    state, _ = await after_tool(("one", rows), response_format="content_and_artifact")
    assert state["messages"][2].artifact["name"] == "x"


async def test_each_result_is_judged_once() -> None:
    """Though it is read inside of the tool, and its message behind it."""
    seen: list[Any] = []

    @processor("process_tool_result")
    def look(ctx: ToolResultContext) -> None:
        seen.append(ctx.result)

    agent: Any = create_agent(
        Says(called("mail_of", who="Ada"), AIMessage("done")), [mail_of], middleware=[as_middleware(look, HIDES)]
    )
    await agent.ainvoke({"messages": [("user", "Hi")]})
    assert seen == [f"it is {MAIL}"]


async def test_a_tool_keeps_what_it_notes_about_itself() -> None:
    """It runs as itself; only its results pass by the guards."""

    class Counts(BaseTool):
        name: str = "counts"
        description: str = "Count."
        calls: int = 0

        def _run(self, who: str, run_manager: Any = None) -> str:
            self.calls += 1
            assert run_manager is not None
            return str(self.calls)

    counts = Counts()
    agent: Any = create_agent(
        Says(called("counts", who="x"), AIMessage("done")), [counts], middleware=[as_middleware(HIDES)]
    )
    state = await agent.ainvoke({"messages": [("user", "Hi")]})
    assert (counts.calls, state["messages"][2].text) == (1, "1")


# Input, before LangGraph stores it


async def run_of(agent: Any, asked: Any, way: str, spy: Spy) -> Any:
    """Run an agent in one of LangGraph's ways."""
    config = config_of(spy)
    if way == "ainvoke":
        return await agent.ainvoke(asked, config)
    if way == "invoke":
        return agent.invoke(asked, config)
    if way == "stream":
        return list(agent.stream(asked, config, stream_mode=["values", "debug"]))
    if way == "abatch":
        return await agent.abatch([asked], [config])
    if way == "v3":
        return [one async for one in await agent.astream_events(asked, config, version="v3")]
    return [one async for one in agent.with_config(tags=["x"]).astream(asked, config, stream_mode=["values", "debug"])]


WAYS = ["ainvoke", "invoke", "stream", "astream", "abatch", "v3"]


@pytest.mark.parametrize("way", WAYS)
async def test_no_checkpoint_and_no_tracer_sees_the_input_as_it_was_sent(way: str) -> None:
    """The first checkpoint is written before any node runs."""
    saver, spy, guard = Remembers(), Spy(), as_middleware(HIDES)
    bare: Any = create_agent(Says(AIMessage("Hello"), AIMessage("Yes")), middleware=[guard], checkpointer=saver)
    agent = as_agent(bare, guard)
    shown = await run_of(agent, {"messages": [("user", f"I am {MAIL}")]}, way, spy)
    await run_of(agent, {"messages": [("user", f"I am still {MAIL}")]}, way, spy)
    assert "ada@" not in repr(shown) + repr(spy.seen) + repr(saver.given)
    texts = [one.text for one in agent.get_state(CONFIG).values["messages"]]
    assert texts == ["I am [EMAIL]", "Hello", "I am still [EMAIL]", "Yes"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_blocked_input_is_not_stored(way: str) -> None:
    """The verdict is raised before the graph begins, and the thread can go on."""
    saver, spy, guard = Remembers(), Spy(), as_middleware(PIIDetector(strategy="block"))
    agent = as_agent(create_agent(Says(AIMessage("Hello")), middleware=[guard], checkpointer=saver), guard)
    with pytest.raises(BlockedError):
        await run_of(agent, {"messages": [("user", f"I am {MAIL}")]}, way, spy)
    assert saver.given == []
    assert "ada@" not in repr(spy.seen)
    await run_of(agent, {"messages": [("user", "Hi")]}, way, spy)
    assert [one.text for one in agent.get_state(CONFIG).values["messages"]] == ["Hi", "Hello"]


@pytest.mark.parametrize("way", WAYS)
async def test_what_resumes_a_run_is_checked_before_it_is_stored(way: str) -> None:
    """It belongs to one request with all that follows, which ends with the run."""
    ended: list[str] = []

    class Watches(Processor):
        id = "watches"

        def process_tool_result(self, ctx: ToolResultContext) -> None:
            ctx.state["results"] = ctx.state.get("results", 0) + 1

        def process_output_step(self, ctx: OutputStepContext) -> None:
            ctx.on_end(lambda end: ended.append(f"{ctx.state.get('results')}"))

    @tool
    def ask(question: str) -> str:
        """Ask the user."""
        return str(interrupt(question))

    saver, spy, guard = Remembers(), Spy(), as_middleware(HIDES, Watches())
    model = Says(called("ask", question="Who?"), AIMessage("Welcome"))
    agent = as_agent(create_agent(model, [ask], middleware=[guard], checkpointer=saver), guard)
    await run_of(agent, {"messages": [("user", "Hi")]}, way, spy)
    await run_of(agent, Command(resume={"name": "Ada", "mail": MAIL}), way, spy)
    assert "ada@" not in repr(spy.seen) + repr(saver.given)
    assert agent.get_state(CONFIG).values["messages"][2].text == "{'name': 'Ada', 'mail': '[EMAIL]'}"
    assert ended == ["None", "1"]


async def test_callbacks_of_a_run_that_a_tool_ends_with_an_error_are_called() -> None:
    """As with every run of an agent made by `as_agent`; the state holds what was clean."""
    ended: list[bool] = []

    @processor("process_input")
    def watch(ctx: Any) -> None:
        ctx.on_end(lambda end: ended.append(True))

    guard = as_middleware(watch)
    made = create_agent(Says(called("lookup", query="x")), [returning(ValueError("down"))], middleware=[guard])
    with pytest.raises(ValueError, match="down"):
        await as_agent(made, guard).ainvoke({"messages": [("user", "Hi")]})
    assert ended == [True]


async def test_an_agent_in_a_tool_of_an_agent_has_a_request_of_its_own() -> None:
    """Even with the same guard: what one has read is no matter of the other."""
    runs: list[str] = []

    @processor("process_output_result")
    def note(ctx: Any) -> None:
        runs.append(ctx.run_id)

    guard = as_middleware(HIDES, note)
    inner: Any = create_agent(Says(AIMessage(f"Ask {MAIL}")), middleware=[guard])

    @tool
    async def expert(question: str) -> str:
        """Ask an expert."""
        state = await inner.ainvoke({"messages": [("user", question)]})
        return str(state["messages"][-1].text)

    model = Says(called("expert", question="Who?"), AIMessage("done"))
    agent = as_agent(create_agent(model, [expert], middleware=[guard]), guard)
    state = await agent.ainvoke({"messages": [("user", "Hi")]})
    assert [one.text for one in state["messages"]] == ["Hi", "", "Ask [EMAIL]", "done"]
    assert len(set(runs)) == 2


def test_an_agent_without_the_guard_is_refused() -> None:
    """Its model would be read by nobody."""
    agent: Any = create_agent(Says(), middleware=[as_middleware(HIDES)])
    with pytest.raises(UsageError, match="without the middleware of as_agent"):
        as_agent(agent)
    with pytest.raises(UsageError, match="without the middleware 'other'"):
        as_agent(agent, as_middleware(HIDES, name="other"))


async def test_a_request_in_the_state_can_be_copied_and_stored() -> None:
    """LangChain's log of events copies states; a checkpointer may store them with pickle."""
    agent: Any = create_agent(Says(AIMessage("Hi")), middleware=[as_middleware(HIDES), Pickles()])
    await agent.ainvoke({"messages": [("user", "Hi")]})


class Pickles(AgentMiddleware):
    """Stores the state as some checkpointers do."""

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        """Copy the state."""
        copied = pickle.loads(pickle.dumps(state))  # noqa: S301 - our own
        assert type(copied["penstock_request_guard"]) is str
        assert deepcopy(state)["penstock_request_guard"] is state["penstock_request_guard"]


# Beside other middleware, and in other graphs


@pytest.mark.parametrize("wraps", [False, True])
async def test_two_guards_of_one_agent_have_a_request_each(wraps: bool) -> None:
    """What each keeps in its state is there in all of its stages, also after an interrupt."""
    runs: dict[str, set[str]] = {"one": set(), "two": set()}

    class Notes(Processor):
        def __init__(self, id: str) -> None:
            self.id = id

        def process_input(self, ctx: Any) -> None:
            runs[self.id].add(ctx.run_id)

        def process_tool_result(self, ctx: ToolResultContext) -> None:
            runs[self.id].add(ctx.run_id)

        def process_output_result(self, ctx: Any) -> None:
            runs[self.id].add(ctx.run_id)

    @tool
    def ask(question: str) -> str:
        """Ask the user."""
        return str(interrupt(question))

    guards = [as_middleware(Notes("one"), name="a"), as_middleware(Notes("two"), HIDES, name="b")]
    model = Says(called("mail_of", who="Ada"), called("ask", question="Who?"), AIMessage(f"It is {MAIL}"))
    agent: Any = create_agent(model, [ask, mail_of], middleware=guards, checkpointer=InMemorySaver())
    if wraps:
        agent = as_agent(as_agent(agent, guards[0]), *guards)
    await agent.ainvoke({"messages": [("user", f"I am {MAIL}")]}, CONFIG)
    assert [len(ids) for ids in runs.values()] == [1, 1]
    assert not runs["one"] & runs["two"]
    state = await agent.ainvoke(Command(resume=f"yes, {MAIL}"), CONFIG)
    assert "ada@" not in repr(state)
    assert state["messages"][-1].text == "It is [EMAIL]"


async def test_arguments_that_other_middleware_has_changed_are_read() -> None:
    """The guards had accepted others."""

    class Changes(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request.override(tool_call={**request.tool_call, "args": {"who": MAIL}}))

    asked: list[str] = []

    @tool
    def send(who: str) -> str:
        """Send a message."""
        asked.append(who)
        return "sent"

    model = Says(called("send", who="Ada"), AIMessage("done"))
    agent: Any = create_agent(model, [send], middleware=[Changes(), as_middleware(HIDES)])
    await agent.ainvoke({"messages": [("user", "Hi")]})
    assert asked == ["[EMAIL]"]


async def test_a_result_that_is_the_answer_is_redacted() -> None:
    """A tool with return_direct ends the run; its call is the last answer of the model."""
    agent: Any = create_agent(
        Says(called("lookup", query="x")),
        [returning(f"it is {MAIL}", return_direct=True)],
        middleware=[as_middleware(HIDES)],
    )
    state = await agent.ainvoke({"messages": [("user", "Hi")]})
    assert state["messages"][-1].text == "it is [EMAIL]"


@pytest.mark.parametrize("kind", ["approve", "edit", "reject"])
async def test_decisions_of_a_human_are_read(kind: str) -> None:
    """HumanInTheLoopMiddleware puts their texts into calls and results."""
    decisions: dict[str, Any] = {
        "approve": {"type": "approve"},
        "edit": {"type": "edit", "edited_action": {"name": "send", "args": {"who": MAIL}}},
        "reject": {"type": "reject", "message": f"not to {MAIL}"},
    }
    asked: list[str] = []

    @tool
    def send(who: str) -> str:
        """Send a message."""
        asked.append(who)
        return "sent"

    saver, guard = Remembers(), as_middleware(HIDES)
    reviews = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    model = Says(called("send", who=MAIL), AIMessage("done"))
    agent = as_agent(create_agent(model, [send], middleware=[reviews, guard], checkpointer=saver), guard)
    first = await agent.ainvoke({"messages": [("user", "Hi")]}, CONFIG)
    assert "[EMAIL]" in repr(first["__interrupt__"])
    state = await agent.ainvoke(Command(resume={"decisions": [decisions[kind]]}), CONFIG)
    assert "ada@" not in repr(state) + repr(saver.given) + repr(model.asked) + repr(asked)
    assert state["messages"][-1].text == "done"


@pytest.mark.parametrize("wraps", [False, True])
async def test_an_agent_in_a_graph_streams_and_stores_what_the_guards_left(wraps: bool) -> None:
    """As a node of it; the input of the graph itself is the graph's own matter."""
    guard = as_middleware(HIDES)
    agent: Any = create_agent(Says(pieces("It is ada@ex", "ample.com.")), middleware=[guard])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", as_agent(agent, guard) if wraps else agent)
    graph.add_edge(START, "agent")
    saver = Remembers()
    modes = ["messages", "updates", "values", "debug"]
    streamed = graph.compile(checkpointer=saver).astream(
        {"messages": [("user", "Hi")]}, CONFIG, stream_mode=modes, subgraphs=True
    )
    shown = [one async for one in streamed]
    assert "[EMAIL]" in repr(shown)
    assert "ada@" not in repr(shown) + repr(saver.given)


@pytest.mark.parametrize("streams", [False, True])
async def test_an_object_of_the_provider_is_made_of_what_the_guards_left(streams: bool) -> None:
    """With ProviderStrategy, the answer is the object as JSON."""

    class Person(BaseModel):
        mail: str

    agent: Any = create_agent(
        Says(AIMessage(json.dumps({"mail": MAIL}))),
        middleware=[as_middleware(HIDES)],
        response_format=ProviderStrategy(Person),
    )
    asked = {"messages": [("user", "Hi")]}
    modes = ["messages", "updates", "values"]
    shown = [one async for one in agent.astream(asked, stream_mode=modes)] if streams else [await agent.ainvoke(asked)]
    assert "ada@" not in repr(shown)
    last: Any = [one for mode, one in shown if mode == "values"][-1] if streams else shown[-1]
    assert last["structured_response"] == Person(mail="[EMAIL]")


@pytest.mark.parametrize(
    "policy", [ToolPolicy(ask=["refund"]), ToolPolicy(deny=["refund"], strategy="refuse"), HumanReview(["tool_call"])]
)
def test_a_model_alone_lets_no_call_leave_that_may_not_run(policy: Processor) -> None:
    """The graph would run the tool."""
    for tools in ([], [{"type": "function", "function": {"name": "refund", "parameters": {}}}]):
        model: Any = as_chat_model(Says(called("refund", order="7")), policy)
        with pytest.raises(UsageError, match="as_middleware"):
            model.bind_tools(tools).invoke("Go")


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_token_in_a_thread_keeps_its_meaning(awaits: bool) -> None:
    """Values of a later run get other numbers, though its input is checked before LangGraph brings the thread."""
    guard = as_middleware(PIIDetector(redaction_method="token", phase="input"), Restore())
    model = Says(AIMessage("Hello."), AIMessage("Hello [EMAIL_1]."))
    agent = as_agent(create_agent(model, middleware=[guard], checkpointer=InMemorySaver()), guard)
    thread: Any = {"configurable": {"thread_id": "1"}}
    state: Any = {}
    for name in ("ann", "bob"):
        asked: Any = {"messages": [("user", f"I am {name}@example.com")]}
        state = await agent.ainvoke(asked, thread) if awaits else agent.invoke(asked, thread)
    told = [message.text for message in state["messages"]]
    assert told == ["I am [EMAIL_1]", "Hello.", "I am [EMAIL_2]", "Hello [EMAIL_1]."]


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("config", [None, {"tags": ["x"]}])
async def test_the_thread_may_be_configured_beforehand(awaits: bool, config: Any) -> None:
    """As with_config does, and as applications do which pass on tags or limits only."""
    guard = as_middleware(PIIDetector(redaction_method="token", phase="input"))
    made = create_agent(Says(AIMessage("One."), AIMessage("Two.")), middleware=[guard], checkpointer=InMemorySaver())
    agent = as_agent(made, guard).with_config(configurable={"thread_id": "1"})
    state: Any = {}
    for name in ("ann", "bob"):
        asked: Any = {"messages": [("user", f"I am {name}@example.com")]}
        state = await agent.ainvoke(asked, config) if awaits else agent.invoke(asked, config)
    assert [message.text for message in state["messages"]] == ["I am [EMAIL_1]", "One.", "I am [EMAIL_2]", "Two."]


@pytest.mark.parametrize("keeps", [False, True])
async def test_an_agent_with_a_checkpointer_runs_in_a_node(keeps: bool) -> None:
    """LangGraph then takes the checkpointer of the outer graph, or none if that has none."""
    guard = as_middleware(HIDES)
    agent = as_agent(create_agent(Says(AIMessage("One.")), middleware=[guard], checkpointer=InMemorySaver()), guard)

    def asks(state: MessagesState, config: RunnableConfig) -> Any:
        return {"messages": agent.invoke(state, config)["messages"][-1:]}

    graph = StateGraph(MessagesState).add_node("asks", asks).add_edge(START, "asks")
    outer: Any = graph.compile(checkpointer=InMemorySaver() if keeps else None)
    state = await outer.ainvoke({"messages": [("user", "Hi")]}, {"configurable": {"thread_id": "1"}})
    assert state["messages"][-1].text == "One."
