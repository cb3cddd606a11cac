"""What the suite of all frameworks does not ask of Haystack's agents and chat generators."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent, State
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.generators.chat.fallback import FallbackChatGenerator
from haystack.components.generators.chat.llm import LLM
from haystack.core.errors import DeserializationError, PipelineRuntimeError, SerializationError
from haystack.dataclasses import ChatMessage, FileContent, ImageContent, StreamingChunk, TextContent, ToolCall
from haystack.dataclasses.chat_message import ReasoningContent
from haystack.hooks import hook
from haystack.hooks.human_in_the_loop import AlwaysAskPolicy, BlockingConfirmationStrategy, ConfirmationHook
from haystack.hooks.human_in_the_loop.dataclasses import ConfirmationUIResult
from haystack.tools import ComponentTool, Tool, Toolset, tool
from haystack.utils.auth import Secret

from penstock import (
    BlockedError,
    InputContext,
    OutputResultContext,
    OutputStepContext,
    PIIDetector,
    Processor,
    ToolCallContext,
    ToolResultContext,
    Workflow,
    processor,
)
from penstock.engine import Answer, Overrides, UsageError
from penstock.processors.tools import ToolPolicy
from penstock.workflows.adapters.haystack import as_agent, as_chat_generator, as_router, tripwire_of
from tests.hosts import cases, hard_cases  # noqa: F401 - adds its cases
from tests.hosts.contract import Job, Seen, strings
from tests.hosts.drivers import haystack as driver

HIDES = PIIDetector(redaction_method="placeholder")
BLOCKS = PIIDetector(strategy="block")
GUARD = Workflow("stored").then(HIDES)
MAIL = "ada@example.com"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def anyio_backend() -> str:
    """As in the suite."""
    return "asyncio"


def user(text: str) -> list[ChatMessage]:
    """Return what a user says."""
    return [ChatMessage.from_user(text)]


def said(messages: Sequence[ChatMessage]) -> str:
    """Return every string in messages."""
    return "\n".join(strings([message.to_dict() for message in messages]))


def calls(*named: tuple[str, dict[str, Any]], ids: bool = True) -> ChatMessage:
    """Return an answer that calls tools."""
    made = [ToolCall(name, given, f"c{number}" if ids else None) for number, (name, given) in enumerate(named)]
    return ChatMessage.from_assistant(tool_calls=made)


@tool
def lookup(query: str) -> str:
    """Look something up."""
    return f"{query} is bob@example.com"


# Without await


@component
class ScriptedWithoutAwait:
    """The suite's model as an ordinary function, in a worker thread of the adapter."""

    def __init__(self, job: Job, seen: Seen, loop: asyncio.AbstractEventLoop) -> None:
        self._model = driver.Scripted(job, seen)
        self._loop = loop

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        """Run it in the loop of the test, where its gate is."""

        async def show(chunk: StreamingChunk) -> None:
            await asyncio.to_thread(streaming_callback, chunk)

        shown = None if streaming_callback is None else show
        return asyncio.run_coroutine_threadsafe(self._model.run_async(messages, shown), self._loop).result()


class WithoutAwait:
    """The driver of the suite, with `Agent.run` in a thread."""

    NAME, PACKAGE, LACKS = driver.NAME, driver.PACKAGE, driver.LACKS

    async def run(self, job: Job) -> Seen:
        """Run one request."""
        seen, loop = Seen(), asyncio.get_running_loop()
        tools = [tool(function) for function in job.tools]
        agent = Agent(chat_generator=ScriptedWithoutAwait(job, seen, loop), tools=tools)
        if job.guards:
            agent = as_agent(agent, *job.guards, **job.options)
        threads: set[int] = set()

        def show(chunk: StreamingChunk) -> None:
            threads.add(threading.get_ident())
            if chunk.content:
                seen.shown.append(chunk.content)
            seen.events += strings({**chunk.to_dict(), "content": ""})

        def work() -> dict[str, Any]:
            threads.add(threading.get_ident())
            return agent.run(messages=messages, streaming_callback=show if job.streamed else None)

        messages: list[ChatMessage] = [*(job.earlier or ()), ChatMessage.from_user(job.text)]
        try:
            result = await asyncio.to_thread(work)
        except Exception as error:  # noqa: BLE001 - what the user gets
            seen.error, seen.tripwire, seen.memory = error, tripwire_of(error), messages
            return seen
        if job.guards:
            assert len(threads) == 1  # the callback runs in the caller's thread
        text = result["last_message"].text
        seen.output = text if job.output_type is None else job.output_type(**json.loads(text))
        seen.memory = result["messages"]
        seen.history = strings([message.to_dict() for message in seen.memory])
        return seen


@pytest.mark.anyio
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", sorted(set(cases.CASES) - {"cancelled"}))
async def test_the_suite_holds_without_await(name: str, streamed: bool) -> None:
    """A thread cannot be cancelled; all other cases hold."""
    await cases.CASES[name](WithoutAwait(), streamed)


def test_one_agent_serves_many_threads() -> None:
    """Each run has its own request."""
    agent = as_agent(Agent(chat_generator=MockChatGenerator(), tools=[lookup]), HIDES)

    def ask(number: int) -> str:
        return agent.run(user(f"{number} {MAIL}"))["last_message"].text

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(64))) == [f"{number} [EMAIL]" for number in range(64)]


@pytest.mark.anyio
async def test_without_await_in_a_running_loop() -> None:
    """As in a notebook."""
    agent = as_agent(Agent(chat_generator=MockChatGenerator("To ada@example.com.")), HIDES)
    assert agent.run(user("Hi"))["last_message"].text == "To [EMAIL]."
    assert (await agent.run_async(user("Hi")))["last_message"].text == "To [EMAIL]."


# Other hooks


def decides(*actions: str, **kwargs: Any) -> ConfirmationHook:
    """Return a hook for which somebody decides on calls."""

    class Decides:
        def __init__(self) -> None:
            self.actions = iter(actions)

        def get_user_confirmation(self, tool_name: str, tool_description: str, tool_params: Any) -> Any:
            return ConfirmationUIResult(action=next(self.actions), **kwargs)

    ui: Any = Decides()
    strategy = BlockingConfirmationStrategy(confirmation_policy=AlwaysAskPolicy(), confirmation_ui=ui)
    return ConfirmationHook({"*": strategy})


def test_a_call_that_a_person_rejects_does_not_run() -> None:
    """The history holds the rejection, and the calls that are left run."""
    asked: list[str] = []

    @tool
    def find(query: str) -> str:
        """Find."""
        asked.append(query)
        return f"{query}: {MAIL}"

    script = [calls(("find", {"query": "one"}), ("find", {"query": "two"})), ChatMessage.from_assistant("done")]
    agent = Agent(
        chat_generator=MockChatGenerator(script), tools=[find], hooks={"before_tool": [decides("reject", "confirm")]}
    )
    result = as_agent(agent, HIDES).run(user("Go"))
    assert asked == ["two"]
    assert result["last_message"].text == "done"
    assert "two: [EMAIL]" in said(result["messages"])
    assert MAIL not in said(result["messages"])


def test_arguments_that_a_person_changes_are_checked() -> None:
    """What stands there now was not in the answer."""
    asked: list[str] = []

    @tool
    def find(query: str) -> str:
        """Find."""
        asked.append(query)
        return "found"

    script = [calls(("find", {"query": "one"})), ChatMessage.from_assistant("done")]
    changes = decides("modify", new_tool_params={"query": f"two {MAIL}"})
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[find], hooks={"before_tool": [changes]})
    result = as_agent(agent, HIDES).run(user("Go"))
    assert asked == ["two [EMAIL]"]
    assert MAIL not in said(result["messages"])


def test_what_a_hook_adds_is_read() -> None:
    """Wherever it adds it."""
    asked: list[str] = []

    def model(messages: list[ChatMessage]) -> ChatMessage:
        asked.append(said(messages))
        return calls(("lookup", {"query": "x"})) if len(asked) == 1 else ChatMessage.from_assistant("done")

    @hook
    def add(state: State) -> None:
        state.set("messages", [ChatMessage.from_user(f"remember {MAIL}")])

    @hook
    def add_instruction(state: State) -> None:
        state.set("messages", [ChatMessage.from_system(f"document of {MAIL}")])

    for point in ("before_run", "before_llm", "after_tool"):
        for added in (add, add_instruction):
            asked.clear()
            agent = Agent(chat_generator=MockChatGenerator(response_fn=model), tools=[lookup], hooks={point: [added]})
            result = as_agent(agent, HIDES).run(user("Go"))
            assert result["last_message"].text == "done"
            assert "[EMAIL]" in asked[-1], point
            assert "@" not in "".join(asked) + said(result["messages"]), point


def test_a_hook_that_shortens_results_is_heeded() -> None:
    """The model reads what the hook has left, and the guards read it, too."""
    asked: list[str] = []

    def model(messages: list[ChatMessage]) -> ChatMessage:
        asked.append(said(messages))
        script = [calls(("lookup", {"query": "x"})), calls(("lookup", {"query": "y"}))]
        return script[len(asked) - 1] if len(asked) < 3 else ChatMessage.from_assistant("done")

    @hook
    def shorten(state: State) -> None:
        made = [
            ChatMessage.from_tool(f"in file 7 of {MAIL}", origin=one.tool_call_result.origin)
            if one.tool_call_result
            else one
            for one in state.data["messages"]
        ]
        state.set("messages", made, handler_override=lambda _, new: new)

    for point in ("after_tool", "before_llm"):
        asked.clear()
        agent = Agent(chat_generator=MockChatGenerator(response_fn=model), tools=[lookup], hooks={point: [shorten]})
        result = as_agent(agent, HIDES).run(user("Go"))
        assert "in file 7 of [EMAIL]" in asked[1], point
        assert asked[2].count("in file 7 of [EMAIL]") == 2, point
        assert "is [EMAIL]" not in "".join(asked), point
        assert "@" not in "".join(asked) + said(result["messages"]), point


def test_a_run_that_a_hook_prolongs_goes_on() -> None:
    """Each of its answers is judged."""
    turns: list[str] = []

    @processor("process_output_result", role="observer")
    def note(ctx: OutputResultContext) -> None:
        turns.append(ctx.text)

    @hook
    def again(state: State) -> None:
        if len(turns) < 2:
            state.set("messages", [ChatMessage.from_user("And?")])
            state.data["continue_run"] = True

    model = MockChatGenerator([f"first {MAIL}", f"second {MAIL}"])
    agent = as_agent(Agent(chat_generator=model, hooks={"on_exit": [again]}), HIDES, note)
    result = agent.run(user("Go"))
    assert result["last_message"].text == "second [EMAIL]"
    assert "@" not in said(result["messages"])
    assert len(turns) == 2


def test_hooks_of_a_run_see_what_the_guards_left() -> None:
    """So that what they store is clean."""
    seen: list[str] = []

    @hook
    def store(state: State) -> None:
        seen.append(said(state.data["messages"]))

    script = [calls(("lookup", {"query": MAIL})), ChatMessage.from_assistant(f"To {MAIL}")]
    points: Any = ("before_run", "before_tool", "after_tool", "on_exit", "after_run")
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[lookup], hooks={point: [store] for point in points})
    as_agent(agent, HIDES).run(user(f"I am {MAIL}"))
    assert len(seen) == 5
    assert "@" not in "".join(seen)


# Tools and state


def documents(query: str) -> dict[str, Any]:
    """Return documents."""
    found = [Document(content=f"Ask {MAIL}", meta={"page": 3}), Document(content="nothing")]
    return {"documents": found, "note": f"of {MAIL}"}


def retriever(**options: Any) -> Tool:
    """Return a tool that stores documents in the state."""
    return Tool(
        "find",
        "Find documents.",
        {"type": "object", "properties": {"query": {"type": "string"}}},
        documents,
        outputs_to_state={"documents": {"source": "documents"}, "note": {"source": "note"}},
        **options,
    )


STATE: dict[str, Any] = {"documents": {"type": list[Document]}, "note": {"type": str}}


def test_what_a_tool_stores_in_the_state_is_checked() -> None:
    """Documents stay documents; what nobody has changed is the same object."""
    kept = Document(content="before")
    script = [calls(("find", {"query": "x"})), ChatMessage.from_assistant("done")]
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[retriever()], state_schema=STATE)
    bare = agent.run(user("Go"), documents=[kept])
    assert MAIL in bare["documents"][1].content
    result = as_agent(agent, HIDES).run(user("Go"), documents=[kept])
    assert [document.content for document in result["documents"]] == ["before", "Ask [EMAIL]", "nothing"]
    assert result["documents"][0] is kept
    assert result["documents"][1].meta == {"page": 3}
    assert result["note"] == "of [EMAIL]"


def test_a_verdict_on_what_a_tool_stores_ends_the_run() -> None:
    """Also if the model does not read it."""
    script = [calls(("find", {"query": "x"})), ChatMessage.from_assistant("done")]
    quiet = retriever(outputs_to_string={"handler": lambda _: "two documents"})
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[quiet], state_schema=STATE)
    with pytest.raises(BlockedError) as raised:
        as_agent(agent, BLOCKS).run(user("Go"))
    assert raised.value.tripwire.stage == "process_tool_result"


def test_results_are_streamed_as_the_guards_left_them() -> None:
    """Haystack streams them before its hooks run."""
    script = [calls(("lookup", {"query": "x"})), ChatMessage.from_assistant("done")]
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[lookup])
    bare: list[Any] = []
    agent.run(user("Go"), streaming_callback=bare.append)
    assert "bob@" in str(bare)

    seen: list[StreamingChunk] = []
    read: list[object] = []

    @processor("process_tool_result", role="observer")
    def note(ctx: ToolResultContext) -> None:
        read.append(ctx.result)

    guarded = as_agent(agent, HIDES, note)
    guarded.run(user("Go"), streaming_callback=seen.append)
    assert "bob@" not in str(seen)
    [result] = [chunk.tool_call_result for chunk in seen if chunk.tool_call_result]
    assert result.result == "x is [EMAIL]"
    assert read == ["x is [EMAIL]"]
    assert [chunk.finish_reason for chunk in seen if chunk.finish_reason] == [
        chunk.finish_reason for chunk in bare if chunk.finish_reason
    ]


def test_an_exit_condition_ends_the_run() -> None:
    """The answer behind it is judged."""
    judged: list[str] = []

    @processor("process_output_result", role="observer")
    def note(ctx: OutputResultContext) -> None:
        judged.append(ctx.text)

    model = MockChatGenerator(calls(("lookup", {"query": MAIL})))
    agent = Agent(chat_generator=model, tools=[lookup], exit_conditions=["lookup"])
    result = as_agent(agent, HIDES, note).run(user("Go"))
    assert result["last_message"].tool_call_result.result == "[EMAIL] is [EMAIL]"
    assert len(judged) == 1


def test_a_tool_that_is_answered_is_no_exit() -> None:
    """The model reads the answer; other calls run; the history has all of them in order."""

    @processor("process_tool_call")
    def deny(ctx: ToolCallContext) -> Answer | None:
        return Answer({"allowed": False}) if dict(ctx.arguments)["query"] == "two" else None

    script = [calls(("lookup", {"query": "two"}), ("lookup", {"query": "one"})), ChatMessage.from_assistant("done")]
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[lookup])
    result = as_agent(agent, deny).run(user("Go"))
    kinds = [message.role.value for message in result["messages"]]
    assert kinds == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call.arguments["query"] for call in result["messages"][1].tool_calls] == ["two", "one"]
    results = {one.tool_call_result.origin.id: one.tool_call_result.result for one in result["messages"][2:4]}
    assert results == {"c0": '{"allowed": false}', "c1": "one is bob@example.com"}
    assert result["tool_call_counts"] == {"lookup": 1}

    model = MockChatGenerator([calls(("lookup", {"query": "two"})), ChatMessage.from_assistant("done")])
    ends = as_agent(Agent(chat_generator=model, tools=[lookup], exit_conditions=["lookup", "text"]), deny)
    assert ends.run(user("Go"))["last_message"].text == "done"


def test_calls_without_ids() -> None:
    """Some providers give none; each call gets its own result."""
    script = [calls(("lookup", {"query": "a"}), ("lookup", {"query": "b"}), ids=False), *["done"] * 2]
    agent = as_agent(Agent(chat_generator=MockChatGenerator(script), tools=[lookup]), HIDES)
    result = agent.run(user("Go"))
    results = [one.tool_call_result.result for one in result["messages"] if one.tool_call_result]
    assert results == ["a is [EMAIL]", "b is [EMAIL]"]

    old = calls(("lookup", {"query": "a"}), ("lookup", {"query": "b"}), ids=False)
    history = [
        *user("Go"),
        old,
        *(ChatMessage.from_tool(f"{call.arguments['query']} {MAIL}", origin=call) for call in old.tool_calls),
        *user("And?"),
    ]
    result = agent.run(history)
    results = [one.tool_call_result.result for one in result["messages"] if one.tool_call_result]
    assert results == ["a [EMAIL]", "b [EMAIL]"]
    assert result["messages"][1] is old


def test_results_with_images_keep_them() -> None:
    """Texts beside them are guarded."""

    def photo() -> list[Any]:
        return [TextContent(f"of {MAIL}"), ImageContent(PNG, "image/png")]

    shows = Tool("photo", "Show.", {"type": "object", "properties": {}}, photo, outputs_to_string={"raw_result": True})
    asked: list[list[ChatMessage]] = []

    def model(messages: list[ChatMessage]) -> ChatMessage:
        asked.append(messages)
        return calls(("photo", {})) if len(asked) == 1 else ChatMessage.from_assistant("done")

    agent = Agent(chat_generator=MockChatGenerator(response_fn=model), tools=[shows])
    with pytest.raises(BlockedError, match="cannot read"):
        as_agent(agent, HIDES).run(user("Go"))
    asked.clear()
    result = as_agent(agent, PIIDetector(redaction_method="placeholder", unscanned="allow")).run(user("Go"))
    for messages in (result["messages"], asked[1]):
        [found] = [one.tool_call_result.result for one in messages if one.tool_call_result]
        assert [type(item).__name__ for item in found] == ["TextContent", "ImageContent"]
        assert found[0].text == "of [EMAIL]"
        assert found[1].base64_image == PNG


def test_a_guarded_agent_as_a_tool() -> None:
    """Its requests are its own; what it streams was read by its own guards."""
    seen: list[StreamingChunk] = []
    inner = as_agent(Agent(chat_generator=MockChatGenerator(f"inner {MAIL}")), HIDES)
    ask = ComponentTool(inner, name="ask", outputs_to_string={"source": "last_message", "handler": lambda m: m.text})
    script = [
        calls(("ask", {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]})),
        ChatMessage.from_assistant(f"outer {MAIL}"),
    ]
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[ask], tool_streaming_callback_passthrough=True)
    result = as_agent(agent, HIDES).run(user("Go"), streaming_callback=seen.append)
    assert result["last_message"].text == "outer [EMAIL]"
    assert "inner [EMAIL]" in said(result["messages"])
    assert "".join(chunk.content for chunk in seen) == "inner [EMAIL]outer [EMAIL]"
    assert "@" not in str(seen)


def test_what_an_unguarded_tool_streams_is_not_shown() -> None:
    """No guard has read it. Its result is shown."""
    seen: list[StreamingChunk] = []
    inner = Agent(chat_generator=MockChatGenerator(f"inner {MAIL}"))
    ask = ComponentTool(inner, name="ask", outputs_to_string={"source": "last_message", "handler": lambda m: m.text})
    script = [
        calls(("ask", {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]})),
        ChatMessage.from_assistant("outer"),
    ]
    agent = Agent(chat_generator=MockChatGenerator(script), tools=[ask], tool_streaming_callback_passthrough=True)
    as_agent(agent, HIDES).run(user("Go"), streaming_callback=seen.append)
    assert "".join(chunk.content for chunk in seen) == "outer"
    assert "inner [EMAIL]" in str(seen)
    assert "@" not in str(seen)


def test_tools_of_a_run_and_toolsets() -> None:
    """They are the run's own, as without guards; a step can be given fewer."""

    @processor("process_input_step")
    def fewer(ctx: Any) -> Overrides:
        return Overrides(active_tools=["lookup"])

    model = Answers(*[ChatMessage.from_assistant("done")] * 3)
    agent = Agent(chat_generator=model, tools=Toolset([lookup, retriever()]))
    as_agent(agent, HIDES).run(user("Go"))
    as_agent(agent, HIDES).run(user("Go"), tools=["find"])
    as_agent(agent, fewer).run(user("Go"))
    offered = [[one.name for one in call["tools"]] for call in model.called]
    assert offered == [["lookup", "find"], ["find"], ["lookup"]]


def test_a_call_of_a_tool_that_does_not_exist() -> None:
    """Haystack fails, or tells the model; a tool that a step was not offered does not run."""
    script = [calls(("nothing", {})), ChatMessage.from_assistant("done")]
    strict = Agent(chat_generator=MockChatGenerator(script), tools=[lookup], raise_on_tool_invocation_failure=True)
    with pytest.raises(Exception, match="'nothing' not found"):
        as_agent(strict, HIDES).run(user("Go"))
    tells = Agent(chat_generator=MockChatGenerator(script), tools=[lookup], raise_on_tool_invocation_failure=False)
    assert "'nothing' not found" in said(as_agent(tells, HIDES).run(user("Go"))["messages"])

    @processor("process_input_step")
    def none(ctx: Any) -> Overrides:
        return Overrides(active_tools=[])

    asked: list[str] = []

    @tool
    def find(query: str) -> str:
        """Find."""
        asked.append(query)
        return "found"

    script = [calls(("find", {"query": "x"})), ChatMessage.from_assistant("done")]
    result = as_agent(Agent(chat_generator=MockChatGenerator(script), tools=[find]), none).run(user("Go"))
    assert asked == []
    assert result["last_message"].text == "done"


# Messages


@component
class Answers:
    """A chat generator that notes what it is called with and gives fixed replies."""

    def __init__(self, *replies: ChatMessage, streams: Sequence[StreamingChunk] = ()) -> None:
        self.replies = list(replies)
        self.streams = streams
        self.called: list[dict[str, Any]] = []

    @component.output_types(replies=list[ChatMessage], extra=str)
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any = None,
        safety: str = "high",
    ) -> dict[str, Any]:
        """Return the next reply."""
        given = {"messages": messages, "generation_kwargs": generation_kwargs, "tools": tools, "safety": safety}
        self.called.append(given)
        for chunk in self.streams if streaming_callback else ():
            streaming_callback(chunk)
        return {"replies": [self.replies.pop(0)], "extra": "more"}


def test_what_nobody_changes_is_the_same_object() -> None:
    """Messages to the model, and the reply, with all that Haystack and providers put there."""
    thought = ReasoningContent("I think", {"signature": "sealed"})
    meta = {"model": "m", "logprobs": {"content": [1]}, "finish_reason": "stop", "object": object()}
    reply = ChatMessage.from_assistant("Hello", reasoning=thought, meta=meta, name="bot")
    model = Answers(reply)
    photo = ImageContent(PNG, "image/png", detail="low")
    file = FileContent("JVBERi0xLjQK", "application/pdf", "a.pdf", {"a": 1})
    asked = [
        ChatMessage.from_system("Be kind.", meta={"x": object()}),
        ChatMessage.from_user(content_parts=["Look", photo, file], meta={"y": 1}, name="Ada"),
        ChatMessage.from_assistant("Yes", tool_calls=[ToolCall("f", {}, "c9", {"signature": "s"})]),
        ChatMessage.from_tool("done", origin=ToolCall("f", {}, "c9"), meta={"z": 1}),
        ChatMessage.from_user("And?"),
    ]
    guard = as_chat_generator(model, PIIDetector(unscanned="allow"))
    result = guard.run(asked)
    assert all(one is other for one, other in zip(model.called[0]["messages"], asked, strict=True))
    assert result["replies"] == [reply]
    assert result["replies"][0] is reply
    assert result["extra"] == "more"


def test_what_is_changed_keeps_the_rest() -> None:
    """Only what repeats the text is dropped: logprobs, and signatures of changed reasoning."""
    meta = {"model": "m", "logprobs": {"content": [MAIL]}, "finish_reason": "length", "usage": {"prompt_tokens": 1}}
    reply = ChatMessage.from_assistant(
        f"To {MAIL}",
        reasoning=ReasoningContent(f"of {MAIL}", {"encrypted": MAIL}),
        tool_calls=[ToolCall("f", {"a": 1}, "c1", {"signature": "s1"}), ToolCall("f", {"a": MAIL}, "c2", {"s": MAIL})],
        meta=meta,
        name="bot",
    )
    model = Answers(reply)
    photo = ImageContent(PNG, "image/png", detail="low", meta={"m": 1})
    asked = ChatMessage.from_user(content_parts=[f"I am {MAIL}", photo, "look"], meta={"y": 1}, name="Ada")
    guard = as_chat_generator(model, PIIDetector(redaction_method="placeholder", unscanned="allow"))
    result = guard.run([asked])
    [got] = model.called[0]["messages"]
    assert got.texts == ["I am [EMAIL]", "look"]
    assert got.image is photo
    assert (got.meta, got.name) == ({"y": 1}, "Ada")
    assert asked.text == f"I am {MAIL}"  # the user's own object
    [left] = result["replies"]
    assert left.text == "To [EMAIL]"
    assert (left.reasoning.reasoning_text, left.reasoning.extra) == ("of [EMAIL]", {})
    assert [(call.id, call.arguments, call.extra) for call in left.tool_calls] == [
        ("c1", {"a": 1}, {"signature": "s1"}),
        ("c2", {"a": "[EMAIL]"}, None),
    ]
    assert left.meta == {"model": "m", "finish_reason": "length", "usage": {"prompt_tokens": 1}}
    assert left.name == "bot"
    assert result.get("extra") is None  # nobody knows what it repeats


def test_reasoning_goes_back_with_its_signature() -> None:
    """While nobody has changed it."""
    thought = ReasoningContent("I look it up", {"signature": "sealed"})
    first = ChatMessage.from_assistant(tool_calls=[ToolCall("lookup", {"query": "x"}, "c1")], reasoning=thought)
    model = Answers(first, ChatMessage.from_assistant("done"))
    result = as_agent(Agent(chat_generator=model, tools=[lookup]), HIDES).run(user("Go"))
    assert model.called[1]["messages"][1] is first
    assert result["messages"][1] is first


def test_a_refusal_is_read() -> None:
    """Haystack keeps it in the metadata, and sends it back to the model."""
    model = Answers(ChatMessage.from_assistant(meta={"refusal": f"Not {MAIL}"}), ChatMessage.from_assistant("ok"))
    guard = as_chat_generator(model, HIDES)
    [reply] = guard.run(user("Go"))["replies"]
    assert MAIL not in said([reply])
    guard.run([*user("Go"), ChatMessage.from_assistant(meta={"refusal": f"Not {MAIL}"}), *user("And?")])
    assert "Not [EMAIL]" in said(model.called[1]["messages"])
    assert MAIL not in said(model.called[1]["messages"])


def test_images_of_a_model() -> None:
    """An answer can be an image alone, or be empty, or not be there."""
    photo = ImageContent(PNG, "image/png")
    reply = ChatMessage.from_assistant("A photo")
    reply = ChatMessage(reply.role, [photo])
    guard = as_chat_generator(Answers(reply, ChatMessage.from_assistant()), PIIDetector(unscanned="allow"))
    assert guard.run(user("Go"))["replies"][0].images == [photo]
    assert guard.run(user("Go"))["replies"] == [ChatMessage.from_assistant()]
    assert as_chat_generator(MockChatGenerator(), HIDES).run([ChatMessage.from_assistant()]) == {"replies": []}


def test_several_replies_are_refused() -> None:
    """Guards judge one."""

    @component
    class Two:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            return {"replies": [ChatMessage.from_assistant("a"), ChatMessage.from_assistant("b")]}

    with pytest.raises(UsageError, match="n=1"):
        as_chat_generator(Two(), HIDES).run(user("Go"))


def test_tokens_of_rejected_answers_count() -> None:
    """In the form of the provider."""

    @processor("process_output_step", role="guard")
    def calm(ctx: OutputStepContext) -> None:
        if ctx.text.isupper():
            ctx.abort("calm down", retry=True)

    def spent(text: str, tokens: int) -> ChatMessage:
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "details": {"cached": 2, "tier": "a"}}
        return ChatMessage.from_assistant(text, meta={"usage": usage})

    agent = as_agent(Agent(chat_generator=Answers(spent("LOUD", 10), spent("calm", 20))), calm)
    result = agent.run(user("Go"))
    assert result["last_message"].meta["usage"] == {
        "prompt_tokens": 30,
        "completion_tokens": 2,
        "details": {"cached": 4, "tier": "a"},
    }
    assert result["token_usage"]["prompt_tokens"] == 30


def test_settings_reach_the_generator() -> None:
    """Those of the call, those of a step, and parameters that only this generator has."""

    @processor("process_input_step")
    def cool(ctx: Any) -> Overrides:
        return Overrides(model_settings={**ctx.model_settings, "temperature": 0.1})

    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    model = Answers(*[ChatMessage.from_assistant("ok")] * 3)
    as_chat_generator(model, HIDES).run(user("Go"), generation_kwargs={"temperature": 1, "response_format": form})
    as_chat_generator(model, cool).run(
        user("Go"), generation_kwargs={"temperature": 1, "response_format": form}, safety="low"
    )
    as_chat_generator(model, cool).run(user("Go"))
    assert [one["generation_kwargs"] for one in model.called] == [
        {"temperature": 1, "response_format": form},
        {"temperature": 0.1, "response_format": form},
        {"temperature": 0.1},
    ]
    assert [one["safety"] for one in model.called] == ["high", "low", "high"]


# Streams


def test_the_generators_own_callback_gets_what_the_guards_release() -> None:
    """Also that of one of several generators."""
    for wrap in (lambda one: one, lambda one: FallbackChatGenerator([one])):
        seen: list[str] = []
        model = MockChatGenerator(f"To {MAIL} now", streaming_callback=lambda chunk: seen.append(chunk.content))  # noqa: B023
        agent = as_agent(Agent(chat_generator=wrap(model)), HIDES)
        assert agent.run(user("Go"))["last_message"].text == "To [EMAIL] now"
        assert "".join(seen) == "To [EMAIL] now"
        seen.clear()
        as_chat_generator(wrap(model), HIDES).run(user("Go"))
        assert "".join(seen) == "To [EMAIL] now"


def test_a_callback_that_cannot_be_replaced_is_refused() -> None:
    """It would show what no guard has read."""

    @component
    class Shows:
        streaming_callback = print

        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            raise NotImplementedError

    with pytest.raises(UsageError, match="callback of its own"):
        as_chat_generator(Shows(), HIDES)


def test_chunks_have_the_form_of_haystack() -> None:
    """Blocks with an index and a start, calls in one piece, and a finish; metadata that could say more are left out."""
    reply = ChatMessage.from_assistant(
        f"To {MAIL}",
        reasoning="Hm",
        tool_calls=[ToolCall("f", {"a": MAIL}, "c1")],
        meta={"finish_reason": "tool_calls"},
    )
    pieces = [
        StreamingChunk("", index=0, reasoning=ReasoningContent("Hm"), start=True),
        *(StreamingChunk(piece, {"raw": piece}, index=1) for piece in ("To ada@", "example", ".com")),
    ]
    seen: list[StreamingChunk] = []
    as_chat_generator(Answers(reply, streams=pieces), HIDES).run(user("Go"), streaming_callback=seen.append)
    told = [
        (
            chunk.index,
            chunk.start,
            chunk.content or (chunk.reasoning and chunk.reasoning.reasoning_text),
            [(call.tool_name, call.arguments, call.id) for call in chunk.tool_calls or ()],
            chunk.finish_reason,
        )
        for chunk in seen
    ]
    assert told == [
        (0, True, "Hm", [], None),
        (1, True, "To ", [], None),
        (1, False, "[EMAIL]", [], None),
        (2, True, None, [("f", '{"a": "[EMAIL]"}', "c1")], None),
        (None, False, None, [], "tool_calls"),
    ]
    assert "ada@" not in str(seen)


def test_a_generator_that_does_not_stream_is_shown_in_one_piece() -> None:
    """Some ignore the callback."""
    seen: list[str] = []
    guard = as_chat_generator(Answers(ChatMessage.from_assistant(f"To {MAIL}")), HIDES)
    guard.run(user("Go"), streaming_callback=lambda chunk: seen.append(chunk.content))
    assert "".join(seen) == "To [EMAIL]"


def test_an_error_of_the_callback_ends_the_call() -> None:
    """The request counts as not completed."""
    ended: list[bool] = []

    class Ends(Processor):
        role = "observer"

        def process_input(self, ctx: InputContext) -> None:
            ctx.on_end(lambda end: ended.append(end.completed))

    def fail(chunk: StreamingChunk) -> None:
        raise OSError("the client is gone")

    model = MockChatGenerator("one two three")
    with pytest.raises(OSError, match="gone"):
        as_chat_generator(model, Ends()).run(user("Go"), streaming_callback=fail)
    with pytest.raises(OSError, match="gone"):
        as_agent(Agent(chat_generator=model), Ends()).run(user("Go"), streaming_callback=fail)
    assert ended == [False, False]


@pytest.mark.anyio
async def test_callbacks_with_and_without_await() -> None:
    """Both work in `run_async`; without an event loop, an async one is refused as Haystack does."""
    seen: list[str] = []

    async def show(chunk: StreamingChunk) -> None:
        seen.append(chunk.content)

    agent = as_agent(Agent(chat_generator=MockChatGenerator(f"To {MAIL} now")), HIDES)
    await agent.run_async(user("Go"), show)
    await agent.run_async(user("Go"), lambda chunk: seen.append(chunk.content))
    assert "".join(seen) == "To [EMAIL] now" * 2
    with pytest.raises(ValueError, match="coroutine"):
        agent.run(user("Go"), show)


@pytest.mark.anyio
async def test_a_generator_without_run_async() -> None:
    """Runs in a thread; what it streams there is shown in the event loop."""
    threads: set[int] = set()

    async def show(chunk: StreamingChunk) -> None:
        threads.add(threading.get_ident())
        seen.append(chunk.content)

    seen: list[str] = []
    pieces = [StreamingChunk(piece) for piece in ("To ada@", "example", ".com")]
    model = Answers(*[ChatMessage.from_assistant(f"To {MAIL}")] * 2, streams=pieces)
    agent = as_agent(Agent(chat_generator=model), HIDES)
    result = await agent.run_async(user("Go"), show)
    assert result["last_message"].text == "".join(seen) == "To [EMAIL]"
    assert threads == {threading.get_ident()}
    assert (await agent.run_async(user("Go")))["last_message"].text == "To [EMAIL]"


@pytest.mark.anyio
async def test_a_verdict_ends_a_thread_that_streams() -> None:
    """At its next piece."""
    ended = threading.Event()

    @component
    class Goes:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage], streaming_callback: Any = None) -> dict[str, Any]:
            try:
                for number in range(100_000):
                    streaming_callback(StreamingChunk(f"{number} {MAIL} "))
            finally:
                ended.set()
            raise NotImplementedError

    with pytest.raises(BlockedError):
        await as_chat_generator(Goes(), BLOCKS).run_async(user("Go"), lambda _: None)
    assert await asyncio.to_thread(ended.wait, 60)


@pytest.mark.anyio
async def test_a_cancelled_run_ends_its_model() -> None:
    """And its request."""
    waiting, ended = asyncio.Event(), []

    @component
    class Waits:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage], streaming_callback: Any = None) -> dict[str, Any]:
            raise NotImplementedError

        @component.output_types(replies=list[ChatMessage])
        async def run_async(self, messages: list[ChatMessage], streaming_callback: Any = None) -> dict[str, Any]:
            await streaming_callback(StreamingChunk("one"))
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)
            raise NotImplementedError

    guard = as_chat_generator(Waits(), HIDES)
    task = asyncio.create_task(guard.run_async(user("Go"), print))
    await waiting.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert ended == [True]


# Pipelines


def rag() -> tuple[Pipeline, Answers]:
    """Return a pipeline with documents in its instructions."""
    model = Answers(*[ChatMessage.from_assistant(f"Ask {MAIL}")] * 9)
    pipeline = Pipeline()
    template = [
        ChatMessage.from_system("Answer from:{% for one in documents %} {{ one.content }}{% endfor %}"),
        ChatMessage.from_user("{{ question }}"),
    ]
    pipeline.add_component("prompt", ChatPromptBuilder(template, required_variables="*"))
    pipeline.add_component("model", as_chat_generator(model, HIDES))
    pipeline.connect("prompt.prompt", "model.messages")
    return pipeline, model


def test_documents_in_a_prompt_are_read_as_input() -> None:
    """Also in instructions, which are rendered from templates."""
    pipeline, model = rag()
    found = [Document(content=f"Ada is {MAIL}."), Document(content="Nothing here.")]
    result = pipeline.run({"prompt": {"documents": found, "question": f"Who is {MAIL}?"}})
    assert result["model"]["replies"][0].text == "Ask [EMAIL]"
    assert said(model.called[0]["messages"]).count("[EMAIL]") == 2
    assert "@" not in said(model.called[0]["messages"])


@pytest.mark.anyio
async def test_a_verdict_in_a_pipeline() -> None:
    """Haystack wraps it in its own error."""
    pipeline = Pipeline()
    pipeline.add_component("agent", as_agent(Agent(chat_generator=MockChatGenerator("Hi")), BLOCKS))
    with pytest.raises(PipelineRuntimeError) as raised:
        pipeline.run({"agent": {"messages": user(MAIL)}})
    verdict = tripwire_of(raised.value)
    assert verdict is not None
    assert verdict.stage == "process_input"
    with pytest.raises(PipelineRuntimeError) as raised:
        await pipeline.run_async({"agent": {"messages": user(MAIL)}})
    assert tripwire_of(raised.value) is not None
    assert tripwire_of(ValueError("no")) is None


def test_sockets_are_those_of_the_component() -> None:
    """So that pipelines connect as before."""

    def names(sockets: Any) -> dict[str, Any]:
        return {name: socket.type for name, socket in sockets._sockets_dict.items()}

    model = Answers()
    guarded = as_chat_generator(model, HIDES)
    assert set(names(guarded.__haystack_input__)) == set(names(model.__haystack_input__))
    assert names(guarded.__haystack_output__) == names(model.__haystack_output__)
    agent = Agent(chat_generator=model, state_schema=STATE, user_prompt="Say {{ what }}", required_variables=["what"])
    ours = as_agent(agent, HIDES)
    assert names(ours.__haystack_input__) == names(agent.__haystack_input__)
    assert names(ours.__haystack_output__) == names(agent.__haystack_output__)


def test_the_agents_own_instructions_are_trusted() -> None:
    """Those without variables; documents that are rendered into them are not."""
    model = Answers(*[ChatMessage.from_assistant("ok")] * 2)
    own = Agent(chat_generator=model, system_prompt="You are ops@example.com.")
    as_agent(own, BLOCKS).run(user("Go"))
    rendered = Agent(chat_generator=model, system_prompt="From {{ documents }}.", required_variables="*")
    result = as_agent(rendered, HIDES).run(user("Go"), documents=MAIL)
    assert [said(one["messages"]).count("@") for one in model.called] == [1, 0]
    assert MAIL not in said(result["messages"])


def test_a_router_lets_a_pipeline_go_another_way() -> None:
    """Messages and text in, the same or a verdict out."""

    @component
    class Refuses:
        @component.output_types(answer=str)
        def run(self, tripwire: Any) -> dict[str, Any]:
            return {"answer": f"Sorry ({tripwire.processor_id})."}

    pipeline = Pipeline()
    phones = PIIDetector(detection_types=["phone"], redaction_method="placeholder", id="phones")
    pipeline.add_component("guard", as_router(phones, PIIDetector(detection_types=["email"], strategy="block")))
    pipeline.add_component("model", MockChatGenerator("Hello"))
    pipeline.add_component("refuse", Refuses())
    pipeline.connect("guard.messages", "model.messages")
    pipeline.connect("guard.tripwire", "refuse.tripwire")
    assert pipeline.run({"guard": {"messages": user(MAIL)}}) == {"refuse": {"answer": "Sorry (pii-detector)."}}
    result = pipeline.run(
        {"guard": {"messages": user("+1 415 555 0132"), "text": "call +1 415 555 0132"}}, include_outputs_from={"guard"}
    )
    assert result["model"]["replies"][0].text == "Hello"
    assert result["guard"]["messages"] == user("[PHONE]")
    assert result["guard"]["text"] == "call [PHONE]"


def test_a_router_refuses_what_would_never_run() -> None:
    """And is stored like the others."""

    @processor("process_output_step", role="guard")
    def judge(ctx: OutputStepContext) -> None:
        """Judge it."""

    with pytest.raises(UsageError, match="process_output_step of judge"):
        as_router(judge)
    pipeline = Pipeline()
    pipeline.add_component("guard", as_router(GUARD))
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["penstock.*", __name__])
    assert loaded.run({"guard": {"text": MAIL}}) == {"guard": {"text": "[EMAIL]"}}


# Storing


def test_a_pipeline_is_stored_and_loaded() -> None:
    """Processors by the names of the variables that hold them, options as they are."""
    pipeline = Pipeline()
    secret = MockChatGenerator(f"To {MAIL}")
    pipeline.add_component("model", as_chat_generator(secret, GUARD, max_processor_retries=3, name="mine"))
    agent = Agent(chat_generator=MockChatGenerator(f"To {MAIL}"), tools=[lookup])
    pipeline.add_component("agent", as_agent(agent, input_processors=[GUARD], output_processors=[HIDES]))
    text = pipeline.dumps()
    assert f"{__name__}.GUARD" in text
    with pytest.raises(DeserializationError):
        Pipeline.loads(text)
    loaded = Pipeline.loads(text, allowed_modules=["penstock.*", __name__])
    result = loaded.run({"model": {"messages": user("Go")}, "agent": {"messages": user(f"I am {MAIL}")}})
    assert result["model"]["replies"][0].text == "To [EMAIL]"
    assert said(result["agent"]["messages"]).count("[EMAIL]") == 2
    assert loaded.dumps() == text


def test_what_cannot_be_stored_says_so() -> None:
    """A processor that no variable holds; an observer."""
    with pytest.raises(SerializationError, match="no variable of an imported module"):
        as_chat_generator(MockChatGenerator("x"), PIIDetector()).to_dict()

    class Records:
        def on_record(self, record: object) -> None:
            """Nothing."""

    with pytest.raises(SerializationError, match="observers"):
        as_chat_generator(MockChatGenerator("x"), GUARD, observers=[Records()]).to_dict()
    stored = as_chat_generator(MockChatGenerator("x"), GUARD).to_dict()
    stored["init_parameters"]["processors"] = ["haystack.dataclasses.ChatMessage"]
    with pytest.raises(DeserializationError, match="not a processor"):
        type(as_chat_generator(MockChatGenerator("x"), GUARD)).from_dict(stored)


def test_secrets_of_a_generator_are_not_stored() -> None:
    """It stores itself."""
    from haystack.components.generators.chat import OpenAIChatGenerator

    model = OpenAIChatGenerator(api_key=Secret.from_env_var("PENSTOCK_TEST_KEY", strict=False))
    stored = as_chat_generator(model, GUARD).to_dict()
    assert stored["init_parameters"]["generator"]["init_parameters"]["api_key"]["type"] == "env_var"


# What is refused, and what is passed on


def test_what_is_no_agent_is_refused() -> None:
    """`LLM` is an agent that is made otherwise; its generator can be guarded."""
    llm = LLM(chat_generator=MockChatGenerator("x"), user_prompt="Say {{ what }}")
    with pytest.raises(UsageError, match="as_chat_generator"):
        as_agent(llm, HIDES)
    guarded = LLM(
        chat_generator=as_chat_generator(MockChatGenerator(f"To {MAIL}"), HIDES), user_prompt="Say {{ what }}"
    )
    assert guarded.run(what="it")["last_message"].text == "To [EMAIL]"


def test_stages_that_a_generator_lacks() -> None:
    """A processor of results alone would never run; an answer in a tool's place would not keep it from running."""

    @processor("process_tool_result", role="guard")
    def judge(ctx: ToolResultContext) -> None:
        """Judge it."""

    @processor("process_tool_call")
    def deny(ctx: ToolCallContext) -> Answer:
        return Answer("no")

    with pytest.raises(UsageError, match="process_tool_result of judge"):
        as_chat_generator(MockChatGenerator("x"), HIDES, judge)
    as_chat_generator(MockChatGenerator("x"), judge, strict=False)
    with pytest.raises(UsageError, match="as_agent"):
        as_chat_generator(MockChatGenerator(calls(("f", {}))), deny).run(user("Go"))


def test_results_in_a_pipeline_with_tools_are_read_as_input() -> None:
    """A generator of a loop by hand gets them in its messages."""
    asked = calls(("f", {}))
    model = Answers(ChatMessage.from_assistant("ok"))
    history = [*user("Go"), asked, ChatMessage.from_tool(f"It is {MAIL}", origin=asked.tool_calls[0])]
    as_chat_generator(model, HIDES).run(history)
    assert "It is [EMAIL]" in said(model.called[0]["messages"])
    assert history[2].tool_call_result.result == f"It is {MAIL}"


def test_warming_up_and_closing_reach_the_generator() -> None:
    """Which may open connections there."""
    done: list[str] = []

    @component
    class Opens:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            raise NotImplementedError

        def warm_up(self) -> None:
            done.append("warm")

        async def close_async(self) -> None:
            done.append("closed")

    guard = as_chat_generator(Opens(), HIDES)
    guard.warm_up()
    asyncio.run(guard.warm_up_async())
    guard.close()
    asyncio.run(guard.close_async())
    assert done == ["warm", "warm", "closed"]


def test_a_clone_is_guarded() -> None:
    """And the given agent stays as it is."""
    agent = Agent(chat_generator=MockChatGenerator(f"To {MAIL}"))
    guarded = as_agent(agent, HIDES)
    assert guarded.clone(max_agent_steps=3).run(user("Go"))["last_message"].text == "To [EMAIL]"
    assert agent.run(user("Go"))["last_message"].text == f"To {MAIL}"
    assert agent.hooks == {}


def test_what_stands_beside_an_answer_is_read() -> None:
    """Citations, and what providers note at reasoning and calls: guards read them, and the rest stays."""
    reply = ChatMessage.from_assistant(
        "Hello",
        reasoning=ReasoningContent("I think", {"id": "r1", "signature": "sealed", "note": f"of {MAIL}"}),
        tool_calls=[ToolCall("f", {}, "c1", {"call_id": "x", "note": f"for {MAIL}"})],
        meta={"model": "m", "citations": [{"text": f"Ask {MAIL}", "page": 3}], "count": 7},
    )
    for streamed in (False, True):
        streams = (StreamingChunk("Hello", index=0, start=True),)
        guard = as_chat_generator(Answers(reply, streams=streams if streamed else ()), HIDES)
        shown: list[StreamingChunk] = []
        [left] = guard.run(user("Go"), streaming_callback=shown.append if streamed else None)["replies"]
        assert MAIL not in str(shown)
        assert MAIL not in str(left.to_dict())
        assert left.text == "Hello"
        assert left.meta == {"model": "m", "citations": [{"text": "Ask [EMAIL]", "page": 3}], "count": 7}
        assert left.reasoning is not None
        assert left.reasoning.extra == {"id": "r1", "signature": "sealed", "note": "of [EMAIL]"}
        assert left.tool_calls == [ToolCall("f", {}, "c1", {"call_id": "x", "note": "for [EMAIL]"})]


def test_what_stands_beside_an_earlier_answer_is_read() -> None:
    """A client may send one with notes that providers take as text."""
    thought = ReasoningContent("I think", {"id": "r1", "summary": [{"text": f"of {MAIL}"}]})
    earlier = ChatMessage.from_assistant("Hello", reasoning=thought, meta={"note": f"for {MAIL}", "count": 7})
    model = Answers(ChatMessage.from_assistant("done"))
    as_chat_generator(model, HIDES).run([*user("Hi"), earlier, *user("Go")])
    [_, sent, _] = model.called[0]["messages"]
    assert sent.meta == {"note": "for [EMAIL]", "count": 7}
    assert sent.reasoning.extra == {"id": "r1", "summary": [{"text": "of [EMAIL]"}]}


def test_other_outputs_of_a_generator_are_read() -> None:
    """Those that the guards changed come as they left them; objects stay, as long as nobody changes them."""

    @component
    class Cites:
        @component.output_types(replies=list[ChatMessage], found=list[Document], raw=bytes, count=int)
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            replies = [ChatMessage.from_assistant("Hello")] if messages[-1].text == "Go" else []
            return {"replies": replies, "found": [clean, dirty], "raw": MAIL.encode(), "count": 7}

    clean, dirty = Document(id="1", content="nothing"), Document(id="2", content=f"Ask {MAIL}", meta={"page": 3})
    guard = as_chat_generator(Cites(), HIDES)
    left = guard.run(user("Go"))
    assert left["found"][0] is clean
    assert (left["found"][1].content, left["found"][1].meta) == ("Ask [EMAIL]", {"page": 3})
    assert (left["raw"], left["count"]) == (b"[EMAIL]", 7)
    assert guard.run(user("Nothing")) == {"replies": [], "count": 7}


def test_a_call_that_a_guard_asks_about_does_not_run() -> None:
    """Haystack's agents cannot wait for a person: the model is told so; a generator alone is refused."""
    ran: list[int] = []
    refund = Tool("refund", "Refund.", {"type": "object", "properties": {}}, lambda: ran.append(1))
    model = MockChatGenerator([calls(("refund", {})), "Done."])
    agent = as_agent(Agent(chat_generator=model, tools=[refund]), ToolPolicy(ask=["refund"]))
    said = agent.run(messages=user("Go"))["messages"]
    assert said[2].tool_call_result.result == "The call was not run: a person must approve it."
    assert (said[-1].text, ran) == ("Done.", [])
    alone = as_chat_generator(MockChatGenerator(calls(("refund", {}))), ToolPolicy(ask=["refund"]))
    with pytest.raises(UsageError, match="asks a person"):
        alone.run(user("Go"))
