"""Ways around the guards of agent-framework: what stands beside a text, copies, other people's calls, other agents."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionTool,
    InMemoryHistoryProvider,
    MCPStdioTool,
    Message,
    ResponseStream,
    SessionContext,
)
from agent_framework.exceptions import UserInputRequiredException

from penstock import InputContext, OutputResultContext, Processor, processor
from penstock.engine import UsageError
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


def guarded(client: Any, **options: Any) -> Agent[Any]:
    """Return an agent that hides addresses, with a memory."""
    return Agent(
        client, context_providers=[InMemoryHistoryProvider("memory")], middleware=as_middleware(HIDES), **options
    )


async def seen(agent: Agent[Any], said: Any, *, streamed: bool) -> tuple[str, Any]:
    """Run an agent; return all that its user and its session see, and the response."""
    session = AgentSession()
    updates, response = await run(agent, said, streamed=streamed, session=session)
    shown = json.dumps([update.to_dict() for update in updates], default=str)
    return shown + json.dumps(response.to_dict(), default=str) + everything(
        session.state["memory"]["messages"]
    ), response


def notes_of(response: Any, kind: str) -> Sequence[Any]:
    """Return the annotations of the contents of a kind."""
    found = [one.annotations for message in response.messages for one in message.contents if one.type == kind]
    return [note for notes in found for note in notes or ()]


@both_ways
async def test_citations_are_read_and_stay(streamed: bool) -> None:
    """Guards edit what a client reports beside a text; the places in the text stay, too."""
    region = {"type": "text_span", "start_index": 0, "end_index": 5}
    notes: Any = [
        {"type": "citation", "title": f"by {MAIL}", "url": "https://x.example", "annotated_regions": [region]}
    ]
    said = Content.from_text("Hello", annotations=notes, additional_properties={"x": MAIL, "kept": "y"})
    everywhere, response = await seen(guarded(Client([said])), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    assert response.text == "Hello"
    assert notes_of(response, "text") == [{**notes[0], "title": "by [EMAIL]"}]
    assert response.messages[0].contents[0].additional_properties == {"x": "[EMAIL]", "kept": "y"}
    assert notes[0]["title"] == f"by {MAIL}"  # the client's own content stays


@both_ways
async def test_a_changed_text_keeps_nothing_that_points_into_it(streamed: bool) -> None:
    """Such as places, and the pieces in which a provider repeats it."""
    region = {"type": "text_span", "start_index": 0, "end_index": 5}
    notes: Any = [{"type": "citation", "title": "a", "annotated_regions": [region]}]
    pieces = {"logprobs": [{"token": "ada@"}, {"token": "example.com"}]}
    said = Content.from_text(f"It is {MAIL}", annotations=notes, additional_properties=pieces)
    client = Client([said], additional_properties=pieces)
    everywhere, response = await seen(guarded(client), "Hi", streamed=streamed)
    assert response.text == "It is [EMAIL]"
    assert notes_of(response, "text") == [{"type": "citation", "title": "a"}]
    assert "ada@" not in everywhere


@both_ways
async def test_what_stands_beside_a_call_is_read_and_goes_back(streamed: bool) -> None:
    """Clients keep there what their provider needs with the call."""
    beside = {"who": MAIL, "signature": "abc"}
    call = Content.from_function_call("c1", "lookup", arguments='{"query": "x"}', additional_properties=beside)
    client = Client([call], [text("done")])
    asked: list[str] = []
    everywhere, _ = await seen(guarded(client, tools=[lookup(asked, lambda: "it")]), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    assert asked == ["x"]
    [sent] = [one for one in client.asked[1][1].contents if one.type == "function_call"]
    assert sent.additional_properties == {"who": "[EMAIL]", "signature": "abc"}


@both_ways
async def test_what_stands_beside_a_response_is_read(streamed: bool) -> None:
    """Its properties reach the user as guards left them."""
    about = {"additional_properties": {"summary": f"asked by {MAIL}", "kept": "y"}}
    everywhere, response = await seen(guarded(Client([text("Hello")], **about)), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    assert response.additional_properties == {"summary": "asked by [EMAIL]", "kept": "y"}


@both_ways
@pytest.mark.parametrize("said", [None, "hm"])
async def test_reasoning_in_what_a_provider_needs_back_is_read(streamed: bool, said: str | None) -> None:
    """Some clients put the whole reasoning there, as JSON; a real signature stays."""
    details = json.dumps([{"type": "reasoning.text", "text": f"it is {MAIL}"}])
    thought = Content.from_text_reasoning(text=said, protected_data=details)
    everywhere, response = await seen(guarded(Client([thought, text("Hi")])), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    assert response.text == "Hi"
    sealed = Content.from_text_reasoning(id="r1", text=said, protected_data="c2lnbmF0dXJl")
    _, response = await seen(guarded(Client([sealed, text("Hi")])), "Hi", streamed=streamed)
    first = response.messages[0].contents[0]
    assert (first.id, first.text or None, first.protected_data) == ("r1", said, "c2lnbmF0dXJl")


@both_ways
async def test_properties_of_encrypted_reasoning_are_read(streamed: bool) -> None:
    """Only the encrypted text itself is none of ours."""
    thought = Content.from_text_reasoning(protected_data="abc", additional_properties={"reasoning_text": MAIL})
    everywhere, response = await seen(guarded(Client([thought, text("Hi")])), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    assert [one.type for one in response.messages[0].contents] == ["text_reasoning", "text"]


@both_ways
async def test_a_request_of_a_hosted_tool_reaches_the_user(streamed: bool) -> None:
    """As the guards left it, so that hosted tools can be approved; its ids stay."""
    call = Content.from_function_call("c1", "send", arguments={"to": MAIL})
    asks = Content.from_function_approval_request("a1", call)
    everywhere, response = await seen(guarded(Client([asks])), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    [request] = response.user_input_requests
    assert (request.id, request.function_call.call_id) == ("a1", "c1")
    assert request.function_call.parse_arguments() == {"to": "[EMAIL]"}


@both_ways
async def test_a_call_that_guards_changed_keeps_its_id(streamed: bool) -> None:
    """And what else the client needs to recognise it."""
    call = Content.from_function_call("c1", "lookup", arguments={"query": MAIL}, raw_representation=MAIL)
    call.id = "item-1"
    client = Client([call], [text("done")])
    asked: list[str] = []
    await run(guarded(client, tools=[lookup(asked, lambda: "it")]), "Hi", streamed=streamed)
    assert asked == ["[EMAIL]"]
    [sent] = [one for one in client.asked[1][1].contents if one.type == "function_call"]
    assert (sent.id, sent.raw_representation) == ("item-1", None)


@both_ways
async def test_what_stands_beside_a_message_of_the_user_is_read(streamed: bool) -> None:
    """It goes to the session and the client."""
    said = Content.from_text("Hello", additional_properties={"from": MAIL})
    mine = Message("user", [said], additional_properties={"also": MAIL, "kept": "y"})
    client = Client([text("Hi")])
    everywhere, _ = await seen(guarded(client), mine, streamed=streamed)
    assert MAIL not in everywhere + everything(client.asked[0])
    assert client.asked[0][0].additional_properties.get("kept") == "y"
    assert client.asked[0][0].contents[0].additional_properties == {"from": "[EMAIL]"}
    assert mine.additional_properties["also"] == MAIL


@both_ways
async def test_what_stands_beside_the_result_of_a_tool_is_read(streamed: bool) -> None:
    """A text of a tool has properties and a raw form of its own."""

    def says() -> Any:
        return [Content.from_text("it", additional_properties={"by": MAIL}, raw_representation=MAIL)]

    call = Content.from_function_call("c1", "lookup", arguments='{"query": "x"}')
    client = Client([call], [text("done")])
    everywhere, response = await seen(guarded(client, tools=[lookup([], says)]), "Hi", streamed=streamed)
    assert MAIL not in everywhere + everything(client.asked[1])
    items = next(
        one for message in response.messages for one in message.contents if one.type == "function_result"
    ).items
    assert [(one.text, one.additional_properties, one.raw_representation) for one in items] == [
        ("it", {"by": "[EMAIL]"}, None)
    ]


@both_ways
async def test_a_text_with_a_result_in_one_message_is_sent_once(streamed: bool) -> None:
    """As the guards left it; and nothing unread stands beside results of earlier runs."""
    call = Content.from_function_call("c1", "lookup", arguments={"query": "x"})
    result = Content.from_function_result("c1", result="it", additional_properties={"by": MAIL})
    other = Content.from_function_result("c1", result="it")
    for contents in ([result, text(f"I am {MAIL}")], [other]):
        client = Client([text("Hi")])
        session = AgentSession()
        said = Message("tool", contents, additional_properties={"also": MAIL})
        earlier = [Message("user", ["Go"]), Message("assistant", [call]), said]
        session.state["memory"] = {"messages": earlier}
        await run(guarded(client), "And?", streamed=streamed, session=session)
        assert MAIL not in everything(client.asked[0])
        sent = [one.type for message in client.asked[0] for one in message.contents]
        assert sent == ["text", "function_call", *[one.type for one in contents], "text"]


SERVER = f'''
from mcp import types
try:
    from mcp.server import MCPServer
except ImportError:  # before mcp 2
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("people")

@server.tool()
def lookup(query: str) -> types.CallToolResult:
    """Look something up."""
    said = types.TextContent(type="text", text="ask {MAIL}" if query == "mail" else "nothing")
    return types.CallToolResult(content=[said], _meta={{"note": "{MAIL}"}})

server.run("stdio")
'''


@pytest.mark.rest
@both_ways
@pytest.mark.parametrize("query", ["mail", "other"])
async def test_the_whole_answer_of_an_mcp_server_does_not_pass_beside_its_text(
    streamed: bool, query: str, tmp_path: Path
) -> None:
    """The framework stores a copy of it with the result, behind all middleware."""
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)
    call = Content.from_function_call("c1", "lookup", arguments={"query": query})
    client = Client([call], [text("done")])
    async with MCPStdioTool("people", sys.executable, args=[str(tmp_path / "server.py")]) as server:
        for one in server.functions:
            one.approval_mode = "never_require"
        everywhere, response = await seen(guarded(client, tools=[server]), "Hi", streamed=streamed)
    assert response.text == "done"
    assert MAIL not in everywhere + everything(client.asked[1])
    assert "[EMAIL]" in everywhere
    assert ("note" in everywhere) == (query == "other")  # nothing stays beside a changed result


@both_ways
async def test_what_an_agent_as_a_tool_asks_the_user_is_read(streamed: bool) -> None:
    """It goes to the user without a result."""

    def asks(query: str) -> str:
        """Ask the user."""
        request = Content.from_oauth_consent_request("https://x.example", additional_properties={"for": MAIL})
        raise UserInputRequiredException([request])

    call = Content.from_function_call("c1", "asks", arguments={"query": "x"})
    tools = [FunctionTool(name="asks", func=asks, approval_mode="never_require")]
    everywhere, response = await seen(guarded(Client([call], [text("done")]), tools=tools), "Hi", streamed=streamed)
    assert MAIL not in everywhere
    assert [one.consent_link for one in response.user_input_requests] == ["https://x.example"]


class Retrieves(ContextProvider):
    """Puts a document into the instructions."""

    async def before_run(self, *, agent: Any, session: Any, context: SessionContext, state: Any) -> None:
        """Put it there."""
        context.extend_instructions(self.source_id, f"Document by {MAIL}")


@both_ways
async def test_documents_in_instructions_are_read(streamed: bool) -> None:
    """Context providers put them there; what the application says itself stays."""
    client = Client([text("Hi")], [text("Hi")])
    own = f"Ask {MAIL}."
    agent = Agent(client, own, context_providers=[Retrieves("docs")], middleware=as_middleware(HIDES))
    await run(agent, "Hi", streamed=streamed)
    assert client.options[0]["instructions"] == f"{own}\nDocument by [EMAIL]"
    await run(agent, "Hi", streamed=streamed, options={"instructions": f"Or {MAIL}."})
    assert client.options[1]["instructions"] == f"{own}\nDocument by [EMAIL]\nOr {MAIL}."


@both_ways
async def test_own_instructions_are_not_input(streamed: bool) -> None:
    """They are not judged, and input is judged once."""
    judged: list[str] = []

    @processor("process_input", role="observer")
    def note(ctx: InputContext) -> None:
        judged.append(ctx.text)

    client = Client([text("Hi")])
    await run(Agent(client, f"Ask {MAIL}.", middleware=as_middleware(note)), "Hi", streamed=streamed)
    assert judged == ["Hi"]
    assert client.options[0]["instructions"] == f"Ask {MAIL}."


@both_ways
async def test_calls_of_a_chat_client_alone_do_not_get_what_others_said(streamed: bool) -> None:
    """Two users' calls may have the same id: some models count them."""
    call = Content.from_function_call("call-0", "lookup", arguments={"query": "mine"})
    other = Content.from_function_call("call-0", "lookup", arguments={"query": "other"})
    client: Any = Client([text("the first user's secret"), call], [text("fine")])
    middleware = as_middleware(HIDES)[1:]

    async def ask(messages: Sequence[Message]) -> None:
        made = client.get_response(messages, stream=streamed, middleware=middleware)
        await (made.get_final_response() if streamed else made)

    await ask([Message("user", ["Hi"])])
    results = [Content.from_function_result("call-0", result="it")]
    await ask([Message("user", ["Hi"]), Message("assistant", [other]), Message("tool", results)])
    assert "secret" not in everything(client.asked[1])
    assert client.asked[1][1].contents[0].parse_arguments() == {"query": "other"}


class Streams(Client):
    """Notes whether its stream was closed."""

    closed = False

    async def _stream(self, contents: Sequence[Content | Exception]) -> AsyncIterator[ChatResponseUpdate]:
        try:
            async for update in super()._stream(contents):
                yield update
            await asyncio.Event().wait()  # an endless answer
        finally:
            self.closed = True


async def test_a_blocked_stream_is_closed() -> None:
    """So that the model does not go on behind a verdict."""
    client = Streams([text(f"it is {MAIL} "), text("and more. ")] * 3)
    with pytest.raises(GuardBlockedError):
        await run(Agent(client, middleware=as_middleware(BLOCKS)), "Hi", streamed=True)
    assert client.closed


class Bare(BaseChatClient[Any]):
    """A client that takes no middleware."""

    def _inner_get_response(self, *, stream: bool, **kwargs: Any) -> Any:
        return ResponseStream[Any, Any](_none()) if stream else _said()


async def _said() -> ChatResponse[Any]:
    return ChatResponse(messages=[Message("assistant", [MAIL])])


async def _none() -> AsyncIterator[ChatResponseUpdate]:
    for _ in ():
        yield ChatResponseUpdate()


@both_ways
async def test_an_agent_whose_answers_nothing_would_read_is_refused(streamed: bool) -> None:
    """Because its client takes no middleware, or the list was cut."""
    with pytest.raises(UsageError, match=r"ChatMiddlewareLayer.*Bare"):
        await run(Agent(Bare(), middleware=as_middleware(HIDES)), "Hi", streamed=streamed)
    with pytest.raises(UsageError, match="whole list"):
        await run(Agent(Client([text(MAIL)]), middleware=as_middleware(HIDES)[:1]), "Hi", streamed=streamed)


@both_ways
async def test_a_token_of_a_long_run_goes_through(streamed: bool) -> None:
    """With it, the application asks for the answer later."""
    token: Any = {"response_id": "r1"}
    client = Client([text("")], continuation_token=token)
    _, response = await run(Agent(client, middleware=as_middleware(HIDES)), "Hi", streamed=streamed)
    assert response.continuation_token == token


class Adds(ChatMiddleware):
    """Stands behind the guards and adds to the answer."""

    async def process(self, context: ChatContext, call_next: Any) -> None:
        """Add to it."""
        await call_next()
        if isinstance(context.result, ChatResponse):
            context.result.messages[0].additional_properties["by"] = MAIL
            context.result.messages[0].raw_representation = MAIL
            context.result.raw_representation = MAIL


async def test_raw_forms_and_properties_of_messages_are_no_way_around() -> None:
    """Raw forms do not leave; properties of messages are read."""
    agent = Agent(Client([text("Hi")]), middleware=[*as_middleware(HIDES), Adds()])
    _, response = await run(agent, "Hi", streamed=False)
    assert response.messages[0].additional_properties == {"by": "[EMAIL]"}
    assert response.messages[0].raw_representation is None
    assert response.raw_representation.raw_representation is None


class Remembers(Processor):
    """Notes what is beside a text, as a guard reads it."""

    role = "observer"

    def __init__(self) -> None:
        self.read: list[str] = []

    def process_output_result(self, ctx: OutputResultContext) -> None:
        """Note it."""
        self.read += [part.name for part in ctx.messages[-1].parts if part.type == "data"]


@both_ways
async def test_a_plain_answer_has_nothing_beside_it(streamed: bool) -> None:
    """So nothing is added to what guards read."""
    remembers = Remembers()
    await run(Agent(Client([text("Hi")]), middleware=as_middleware(remembers)), "Hi", streamed=streamed)
    assert remembers.read == []
