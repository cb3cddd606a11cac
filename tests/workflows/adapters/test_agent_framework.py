"""What the suite of all frameworks does not ask of the middleware for agent-framework."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    FunctionMiddleware,
    InMemoryHistoryProvider,
    Message,
    MiddlewareFailure,
    MiddlewareTermination,
    SessionContext,
    tool,
)
from agent_framework.exceptions import AgentContentFilterException

from penstock import (
    BlockedError,
    InputContext,
    OutputResultContext,
    PIIDetector,
    Processor,
    ToolResultContext,
    processor,
)
from penstock.engine import UsageError
from penstock.processors.guards import Restore
from penstock.workflows.adapters.agent_framework import GuardBlockedError, as_middleware
from tests.workflows.adapters.agent_framework_client import (
    BLOCKS,
    HIDES,
    MAIL,
    Client,
    both_ways,
    everything,
    lookup,
    run,
    text,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """agent-framework runs on asyncio."""
    return "asyncio"


@both_ways
async def test_a_verdict_is_the_frameworks_error(streamed: bool) -> None:
    """It can be caught as ours and as theirs, and pickled."""
    agent = Agent(Client(), middleware=as_middleware(BLOCKS))
    with pytest.raises(AgentContentFilterException) as caught:
        await run(agent, MAIL, streamed=streamed)
    assert isinstance(caught.value, GuardBlockedError)
    assert isinstance(caught.value, BlockedError)
    assert isinstance(caught.value, MiddlewareFailure)
    assert pickle.loads(pickle.dumps(caught.value)).tripwire == caught.value.tripwire  # noqa: S301 - our own


class Searches(ContextProvider):
    """Notes what the user asked, as a search in a knowledge base would send it."""

    def __init__(self) -> None:
        super().__init__("search")
        self.asked: list[str] = []

    async def before_run(self, *, agent: Any, session: Any, context: SessionContext, state: Any) -> None:
        """Note it."""
        self.asked += [message.text for message in context.input_messages]


@both_ways
@pytest.mark.parametrize("guarded", [False, True])
async def test_context_providers_get_what_the_guards_left(streamed: bool, guarded: bool) -> None:
    """They run before the model call, and send the input to other services."""
    searches = Searches()
    middleware = as_middleware(HIDES) if guarded else None
    agent = Agent(Client([text("fine")]), context_providers=[searches], middleware=middleware)
    mine = Message("user", [f"I am {MAIL}"])
    await run(agent, mine, streamed=streamed)
    assert searches.asked == ["I am [EMAIL]" if guarded else f"I am {MAIL}"]
    assert mine.text == f"I am {MAIL}"  # the caller's own message stays


@both_ways
async def test_contents_that_nobody_knows_go_both_ways(streamed: bool) -> None:
    """Pictures, hosted tools, signatures and properties are kept."""
    hosted = Content.from_code_interpreter_tool_call(call_id="k", inputs=[text("1+1")])
    picture = Content.from_uri("https://example.com/a.png", media_type="image/png")
    thought = Content.from_text_reasoning(text="hm", protected_data="signature")
    client = Client([thought, hosted, text("fine")])
    agent = Agent(client, middleware=as_middleware(Ends()))
    sent = Message("user", [picture, "What is it?"], author_name="ada", additional_properties={"mine": 1})
    _, response = await run(agent, sent, streamed=streamed)
    assert client.asked[0][0].to_dict() == sent.to_dict()
    contents = response.messages[0].contents
    assert [one.type for one in contents] == ["text_reasoning", "code_interpreter_tool_call", "text"]
    assert (contents[0].text, contents[0].protected_data) == ("hm", "signature")
    assert contents[1].to_dict() == hosted.to_dict()
    assert response.text == "fine"


@both_ways
async def test_contents_that_nobody_knows_are_guarded(streamed: bool) -> None:
    """Guards read and edit them as data."""
    hosted = Content.from_code_interpreter_tool_call(call_id="k", inputs=[text(f"print('{MAIL}')")])
    agent = Agent(Client([hosted, text("fine")]), middleware=as_middleware(HIDES))
    updates, response = await run(agent, "Hi", streamed=streamed)
    said = everything(response.messages) + json.dumps([update.to_dict() for update in updates])
    assert MAIL not in said
    assert "print('[EMAIL]')" in said
    assert response.text == "fine"


@both_ways
async def test_a_changed_reasoning_loses_its_signature(streamed: bool) -> None:
    """The provider would refuse it."""
    thought = Content.from_text_reasoning(text=f"it is {MAIL}", protected_data="signature")
    agent = Agent(Client([thought, text("fine")]), middleware=as_middleware(HIDES))
    _, response = await run(agent, "Hi", streamed=streamed)
    assert "it is [EMAIL]" in everything(response.messages)
    assert "signature" not in everything(response.messages)


@both_ways
async def test_numbers_ids_and_options_go_through(streamed: bool) -> None:
    """Usage, the ids, and the settings of the call."""
    about = {"response_id": "r1", "model": "m1", "finish_reason": "stop"}
    usage = {"input_token_count": 3, "output_token_count": 2, "total_token_count": 5, "openai.special": 7}
    client = Client([text("fine")], usage_details=usage, **about)
    agent = Agent(client, instructions="Be kind.", middleware=as_middleware(HIDES))
    options: Any = {"temperature": 0.5, "special": [1]}
    _, response = await run(agent, "Hi", streamed=streamed, options=options)
    assert response.usage_details == usage
    assert response.response_id == "r1"
    assert response.finish_reason == "stop"
    assert client.options[0]["temperature"] == 0.5
    assert client.options[0]["special"] == [1]
    assert client.options[0]["instructions"] == "Be kind."


@both_ways
async def test_a_chat_client_alone(streamed: bool) -> None:
    """Without an agent, each model call is a request of its own."""
    client: Any = Client([text("to ada@ex"), text("ample.com")])
    messages = [Message("user", [f"I am {MAIL}"])]
    made = client.get_response(messages, stream=streamed, middleware=as_middleware(HIDES)[1:])
    response = await (made.get_final_response() if streamed else made)
    assert response.text == "to [EMAIL]"
    assert client.asked[0][0].text == "I am [EMAIL]"


@both_ways
async def test_a_chat_client_alone_with_tools(streamed: bool) -> None:
    """The chat and the function middleware work without the agent's."""
    client: Any = Client([Content.from_function_call("c1", "lookup", arguments={"query": MAIL})], [text("done")])
    asked: list[str] = []
    made = client.get_response(
        [Message("user", ["Go"])],
        stream=streamed,
        middleware=as_middleware(HIDES)[1:],
        options={"tools": [lookup(asked)]},
    )
    response = await (made.get_final_response() if streamed else made)
    assert asked == ["[EMAIL]"]
    assert response.text == "done"
    assert "@" not in everything(response.messages) + everything(client.asked[1])


@both_ways
async def test_the_error_of_a_tool_is_guarded(streamed: bool) -> None:
    """The model and the history get what the guards left of it."""

    def fails() -> str:
        raise ValueError(f"no {MAIL}")

    client = Client([Content.from_function_call("c1", "lookup", arguments='{"query": "x"}')], [text("done")])
    client.function_invocation_configuration["include_detailed_errors"] = True
    agent = Agent(client, tools=[lookup([], fails)], middleware=as_middleware(HIDES))
    _, response = await run(agent, "Go", streamed=streamed)
    assert response.text == "done"
    assert "no [EMAIL]" in everything(client.asked[1])
    assert MAIL not in everything(client.asked[1]) + everything(response.messages)
    results = [one for message in response.messages for one in message.contents if one.type == "function_result"]
    assert MAIL not in str([one.exception for one in results])


@both_ways
async def test_a_service_that_keeps_the_conversation(streamed: bool) -> None:
    """It gets the results alone, as the guards left them."""
    call = Content.from_function_call("c1", "lookup", arguments='{"query": "x"}')
    client = Client([call], [text(f"to {MAIL}")], conversation_id="thread")
    agent = Agent(client, tools=[lookup([])], middleware=as_middleware(HIDES))
    session = AgentSession()
    _, response = await run(agent, "Go", streamed=streamed, session=session)
    assert response.text == "Go to [EMAIL]".removeprefix("Go ")
    assert session.service_session_id == "thread"
    assert [message.role for message in client.asked[1]] == ["tool"]
    assert "it is [EMAIL]" in everything(client.asked[1])


@both_ways
async def test_an_approved_call_is_guarded_when_it_runs(streamed: bool) -> None:
    """It runs in another run than the one that asked for it."""
    asked: list[str] = []

    @tool(name="lookup", approval_mode="always_require")
    def function(query: str) -> str:
        """Look something up."""
        asked.append(query)
        return "it is bob@example.com"

    client = Client([Content.from_function_call("c1", "lookup", arguments={"query": MAIL})], [text("done")])
    agent = Agent(client, tools=[function], middleware=as_middleware(HIDES))
    session = AgentSession()
    _, first = await run(agent, "Go", streamed=streamed, session=session)
    [request] = first.user_input_requests
    assert MAIL not in everything(first.messages)
    reply = Message("user", [request.to_function_approval_response(approved=True)])
    _, second = await run(agent, reply, streamed=streamed, session=session)
    assert asked == ["[EMAIL]"]
    assert second.text == "done"
    assert "@" not in everything(client.asked[1]) + everything(second.messages)


@both_ways
async def test_an_agent_as_a_tool_of_another(streamed: bool) -> None:
    """Each has its own request, also through one shared list of middleware."""
    middleware = as_middleware(HIDES)
    inner = Agent(Client([text(f"ask {MAIL}")]), name="inner", description="knows", middleware=middleware)
    call = Content.from_function_call("c1", "inner", arguments={"task": f"for {MAIL}"})
    client = Client([call], [text("done")])
    agent = Agent(client, tools=[inner.as_tool(approval_mode="never_require")], middleware=middleware)
    _, response = await run(agent, "Go", streamed=streamed)
    assert response.text == "done"
    assert "ask [EMAIL]" in everything(client.asked[1])
    assert MAIL not in everything(response.messages) + everything(client.asked[1])


@both_ways
async def test_many_runs_of_one_agent_at_once(streamed: bool) -> None:
    """They share the agent, its client and its middleware, and nothing else."""

    class Echo(Client):
        def _inner_get_response(self, *, messages: Sequence[Message], **kwargs: Any) -> Any:
            self.answers = iter([[text(f"to {messages[-1].text}")]])
            return super()._inner_get_response(messages=messages, **kwargs)

    agent = Agent(Echo(), middleware=as_middleware(BLOCKS))
    said = [MAIL if number % 3 == 0 else f"user {number}" for number in range(20)]
    got = await asyncio.gather(*(run(agent, one, streamed=streamed) for one in said), return_exceptions=True)
    for one, outcome in zip(said, got, strict=True):
        if one == MAIL:
            assert isinstance(outcome, GuardBlockedError)
        else:
            assert not isinstance(outcome, BaseException), outcome
            assert outcome[1].text == f"to {one}"


class Ends(Processor):
    """Notes how runs ended."""

    role = "observer"

    def __init__(self) -> None:
        self.completed: list[bool] = []

    def process_input(self, ctx: InputContext) -> None:
        """Wait for the end."""
        if "waits" not in ctx.state:
            ctx.state["waits"] = True
            ctx.on_end(lambda end: self.completed.append(end.completed))


@both_ways
async def test_a_run_is_closed_at_its_end(streamed: bool) -> None:
    """In a stream that is when it has been read."""
    ends = Ends()
    agent = Agent(Client([text("fine")]), middleware=as_middleware(ends))
    await run(agent, "Hi", streamed=streamed)
    assert ends.completed == [True]


async def test_an_error_in_mid_stream() -> None:
    """It reaches the user as it is; what stood behind it is not shown."""
    ends, failure = Ends(), RuntimeError("the line is down")
    agent = Agent(
        Client([text("one "), text("ada@ex"), text("ample.com"), failure]), middleware=as_middleware(HIDES, ends)
    )
    shown: list[str] = []

    async def read() -> None:
        async for update in agent.run("Hi", stream=True):
            shown.append(update.text)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(RuntimeError, match="line is down"):
        await read()
    assert MAIL not in "".join(shown)
    assert ends.completed == [False]


@both_ways
async def test_an_empty_answer(streamed: bool) -> None:
    """It stays empty."""
    agent = Agent(Client([]), middleware=as_middleware(HIDES))
    _, response = await run(agent, "Hi", streamed=streamed)
    assert response.text == ""


@both_ways
async def test_middleware_behind_ours_is_read(streamed: bool) -> None:
    """What it adds to the answer, and its hooks on the stream, stand before the guards."""

    class Adds(ChatMiddleware):
        async def process(self, context: ChatContext, call_next: Any) -> None:
            def changed(update: ChatResponseUpdate) -> ChatResponseUpdate:
                return ChatResponseUpdate(contents=[text(f"{update.text} {MAIL}")] if update.text else [])

            context.stream_transform_hooks.append(changed)
            await call_next()
            if isinstance(context.result, ChatResponse):
                context.result.messages[0].contents.append(text(MAIL))

    agent = Agent(Client([text("fine")]), middleware=[*as_middleware(HIDES), Adds()])
    updates, response = await run(agent, "Hi", streamed=streamed)
    assert "[EMAIL]" in response.text
    assert "ada" not in response.text + "".join(update.text for update in updates)


async def test_an_agent_that_stores_each_answer_at_once_is_refused() -> None:
    """It stores them behind all middleware, so what it stores would be unread."""
    history = InMemoryHistoryProvider()
    agent = Agent(
        Client([text("x")]),
        context_providers=[history],
        require_per_service_call_history_persistence=True,
        middleware=as_middleware(HIDES),
    )
    with pytest.raises(UsageError, match="require_per_service_call_history_persistence"):
        await agent.run("Hi", session=AgentSession())


@both_ways
async def test_a_result_of_several_contents(streamed: bool) -> None:
    """Its texts are guarded, and the rest is kept."""
    picture = Content.from_uri("https://example.com/a.png", media_type="image/png")
    client = Client([Content.from_function_call("c1", "lookup", arguments={"query": "x"})], [text("done")])
    says: Callable[[], Any] = lambda: [text(f"it is {MAIL}"), picture]  # noqa: E731
    agent = Agent(client, tools=[lookup([], says)], middleware=as_middleware(PIIDetector(unscanned="allow")))
    _, response = await run(agent, "Go", streamed=streamed)
    assert response.text == "done"
    sent = everything(client.asked[1])
    assert MAIL not in sent + everything(response.messages)
    assert "a.png" in sent


async def test_a_workflow_with_agents() -> None:
    """A verdict in one of its agents ends the workflow; a clean one goes on with clean text."""
    from agent_framework import WorkflowBuilder

    first = Agent(Client([text(f"ask {MAIL}")]), name="first", middleware=as_middleware(HIDES))
    client = Client([text("done")])
    second = Agent(client, name="second")
    workflow = WorkflowBuilder(start_executor=first).add_edge(first, second).build()
    await workflow.run(f"I am {MAIL}")
    assert "ask [EMAIL]" in everything(client.asked[0])
    blocked = Agent(Client([]), name="first", middleware=as_middleware(BLOCKS))
    with pytest.raises(GuardBlockedError):
        await WorkflowBuilder(start_executor=blocked).add_edge(blocked, second).build().run(MAIL)


@both_ways
async def test_a_blocked_tool_result_leaves_no_history(streamed: bool) -> None:
    """Nothing of the run is stored."""

    @processor("process_tool_result", role="guard")
    def no_mail(ctx: ToolResultContext) -> None:
        ctx.abort("no")

    client = Client([Content.from_function_call("c1", "lookup", arguments={"query": "x"})])
    history = InMemoryHistoryProvider("memory")
    agent = Agent(client, tools=[lookup([])], context_providers=[history], middleware=as_middleware(no_mail))
    session = AgentSession()
    with pytest.raises(GuardBlockedError):
        await run(agent, "Go", streamed=streamed, session=session)
    assert not session.state.get("memory", {}).get("messages")


@both_ways
async def test_a_result_with_which_middleware_ends_the_loop(streamed: bool) -> None:
    """It is guarded, though no code behind the middleware runs."""

    class Ends(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
            await call_next()
            raise MiddlewareTermination

    client = Client([Content.from_function_call("c1", "lookup", arguments={"query": "x"})])
    agent = Agent(client, tools=[lookup([])], middleware=[*as_middleware(HIDES), Ends()])
    _, response = await run(agent, "Go", streamed=streamed)
    assert "it is [EMAIL]" in everything(response.messages)
    assert "@example" not in everything(response.messages)


@both_ways
async def test_a_text_with_a_call_that_is_held_for_the_result(streamed: bool) -> None:
    """The model gets it back with the call; a stream shows it when it was judged. The tool runs once."""

    class Late(Processor):
        role, edits = "guard", "spans"

        def process_output_result(self, ctx: OutputResultContext) -> None:
            """Judge at the end."""

    call = Content.from_function_call("c1", "lookup", arguments={"query": "x"})
    client = Client([text("I look "), call], [text("done")])
    asked: list[str] = []
    agent = Agent(client, tools=[lookup(asked, lambda: "found")], middleware=as_middleware(Late()))
    updates, response = await run(agent, "Go", streamed=streamed)
    assert [message.role for message in client.asked[1]] == ["user", "assistant", "tool"]
    assert client.asked[1][1].text == "I look "
    assert "found" in everything(client.asked[1][2:])
    if streamed:
        assert "".join(update.text for update in updates) == response.text == "I look done"
    assert asked == ["x"]


@both_ways
async def test_a_token_in_a_session_keeps_its_meaning(streamed: bool) -> None:
    """Values of a later run get other numbers, though its input is checked before the session brings the history."""
    client = Client([text("Hello.")], [text("Hello [EMAIL_1].")])
    guards = as_middleware(PIIDetector(redaction_method="token", phase="input"), Restore())
    agent, session = Agent(client, middleware=guards), AgentSession()
    for name in ("ann", "bob"):
        await run(agent, f"I am {name}@example.com", streamed=streamed, session=session)
    told = [message.text for message in session.state["in_memory"]["messages"]]
    assert told == ["I am [EMAIL_1]", "Hello.", "I am [EMAIL_2]", "Hello [EMAIL_1]."]
