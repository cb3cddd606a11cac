"""What is special about LangChain: hooks without await, resumed runs, blocks of providers, and other middleware."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ToolRetryMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import ConfigDict

from penstock import (
    BlockedError,
    InputStepContext,
    OutputStepContext,
    PIIDetector,
    ToolCallContext,
    ToolResultContext,
    processor,
)
from penstock.engine import Overrides, UsageError
from penstock.workflows.adapters.langchain import as_chat_model, as_middleware

pytestmark = pytest.mark.anyio

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
            yield ChatGenerationChunk(message=AIMessageChunk(**fields))


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
        response_metadata={"model_name": "big", "logprobs": [1]},
        additional_kwargs={"refusal": None},
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    )
    agent: Any = create_agent(Says(said), middleware=[as_middleware(HIDES)])
    answer = (await agent.ainvoke({"messages": [("user", "Hi")]}))["messages"][-1]
    assert answer.content == blocks
    assert answer.id == "m1"
    assert answer.additional_kwargs == {"refusal": None}
    assert answer.response_metadata == {"model_name": "big", "logprobs": [1]}
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
    assert "penstock_request" not in checkpoint["channel_values"]


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

    agent: Any = create_agent(Fails(AIMessage(f"It is {MAIL}")), middleware=[Repeats(), as_middleware(HIDES)])
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
    _ = [one async for one in agent.astream(asked, config)] if streams else await agent.ainvoke(asked, config)
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
    for text in ("Hi", "And now?"):
        asked = {"messages": [("user", text)]}
        if text == "Hi":
            with pytest.raises(BlockedError):
                _ = await agent.ainvoke(asked, config) if waits else agent.invoke(asked, config)
        else:
            state = await agent.ainvoke(asked, config) if waits else agent.invoke(asked, config)
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
