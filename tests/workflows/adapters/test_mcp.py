"""The proxy for MCP servers: real servers and the official client, over stdio and streamable HTTP."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import CreateMessageResult, ElicitResult, TextContent

from penstock import PIIDetector, Processor, ToolCallContext, ToolResultContext, processor
from penstock.workflows.adapters.mcp import GuardProxy, as_proxy
from tests.hosts.cases import BLOCKS, HIDES
from tests.listening import listening
from tests.workflows.adapters.mcp_wire import through

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

HERE = Path(__file__).parent
SERVER = [sys.executable, str(HERE / "mcp_server.py")]
MAIL = "ada@example.com"
MODES = ["legacy", "auto"]
BLOCKED = "The request was blocked."


@pytest.fixture
def anyio_backend() -> str:
    """Uvicorn and processes of the tests run on asyncio."""
    return "asyncio"


async def says(mark: Path, said: str) -> None:
    """Wait until a server has written that into a file."""
    with anyio.fail_after(60):
        while not mark.exists() or mark.read_text() != said:  # noqa: ASYNC110, ASYNC240 - another process does it
            await anyio.sleep(0.02)


@pytest.fixture(scope="module")
def http_server() -> Iterator[str]:
    """The server, over HTTP."""
    with subprocess.Popen([*SERVER, "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@asynccontextmanager
async def connected(proxy: GuardProxy, front: str, **options: Any) -> AsyncGenerator[Client]:
    """Give the official client of a proxy: over the streams of a transport, or over HTTP."""
    if front == "http":
        async with listening(proxy) as url, Client(url, **options) as client:
            yield client
    else:
        async with Client(through(proxy), **options) as client:
            yield client


def text_of(result: Any) -> str:
    """Return the texts of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def behind(back: str, http_server: str) -> Any:
    """Return the server of a proxy."""
    return http_server if back == "http" else SERVER


class Kept:
    """Collects what callbacks of a client get."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.progress: list[str | None] = []
        self.asked: list[str] = []

    async def log(self, params: Any) -> None:
        """Note it."""
        self.logs.append(params.data)

    async def note(self, done: float, total: float | None, message: str | None) -> None:
        """Note it."""
        self.progress.append(message)

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        """Answer as a model would."""
        self.asked += [params.system_prompt, *(message.content.text for message in params.messages)]
        content = TextContent(type="text", text=f"She is {MAIL}")
        return CreateMessageResult(role="assistant", content=content, model="offline")

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        """Answer as a user would."""
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"mail": MAIL})


# Everything that a server says, over each transport

TRANSPORTS = [
    ("stdio", "stdio"),
    pytest.param("http", "stdio", marks=pytest.mark.rest),
    CROSSED := pytest.param("stdio", "http", marks=pytest.mark.rest),
    ("http", "http"),
]


@pytest.mark.rest
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("front", "back"), TRANSPORTS)
async def test_nothing_passes_unread(  # noqa: PLR0915 - all that a server says
    front: str, back: str, mode: str, http_server: str
) -> None:
    """Descriptions, calls, results, objects, errors, resources, prompts, progress and logs."""
    kept = Kept()
    proxy = as_proxy(HIDES, server=behind(back, http_server))
    options: dict[str, Any] = {"mode": mode, "logging_callback": kept.log}
    async with connected(proxy, front, **options) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert client.instructions == "Ask [EMAIL] for help."
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["lookup"].description == "Looks somebody up. Written by [EMAIL]."
        assert tools["person"].output_schema is not None
        told = await client.call_tool("lookup", {"query": "who is bob@example.com?"})
        assert text_of(told) == "who is [EMAIL]?: [EMAIL]"
        assert "who is [EMAIL]?" in text_of(await client.call_tool("asked", {}))
        made = await client.call_tool("person", {"name": "Ada"})
        assert made.structured_content == {"name": "Ada", "mail": "[EMAIL]"}
        assert '"mail": "[EMAIL]"' in text_of(made)
        many = await client.call_tool("people", {"count": 2})
        assert many.structured_content == {"result": ["0 [EMAIL]", "1 [EMAIL]"]}
        assert text_of(many) == "0 [EMAIL]\n1 [EMAIL]"
        mixed = await client.call_tool("mixed", {})
        assert text_of(mixed) == "two [EMAIL]"
        assert mixed.content[1].resource.text == "one [EMAIL]"  # type: ignore[union-attr]
        failed = await client.call_tool("fails", {"why": "no"})
        assert failed.is_error
        assert MAIL not in str(failed)
        assert (await client.read_resource("people://ada")).contents[0].text == "Ada is [EMAIL]"  # type: ignore[union-attr]
        prompt = await client.get_prompt("ask", {"question": "Is it bob@example.com?"})
        assert prompt.messages[0].content.text == "[EMAIL] asks: Is it [EMAIL]?"  # type: ignore[union-attr]
        done = await client.call_tool("slow", {}, progress_callback=kept.note)
        assert text_of(done) == "done for [EMAIL]"
        assert kept.progress == [f"step {step} for [EMAIL]" for step in range(10)]
        assert text_of(await client.call_tool("logs", {})) == "logged"
        if mode == "legacy":  # later ones ask for logs by request
            with anyio.fail_after(60):
                while not kept.logs:  # noqa: ASYNC110 - another task or process does it
                    await anyio.sleep(0.01)
            assert kept.logs == ["log for [EMAIL]"]


@pytest.mark.rest
@pytest.mark.parametrize(("front", "back"), [each for each in TRANSPORTS if each != CROSSED])
async def test_requests_of_the_server_and_their_answers_are_guarded(front: str, back: str, http_server: str) -> None:
    """Sampling and elicitation: neither the client's model nor the server gets what is hidden."""
    kept = Kept()
    proxy = as_proxy(HIDES, server=behind(back, http_server))
    options: dict[str, Any] = {"sampling_callback": kept.sample, "elicitation_callback": kept.elicit, "mode": "legacy"}
    async with connected(proxy, front, **options) as client:
        assert text_of(await client.call_tool("samples", {})) == "the model said She is [EMAIL]"
        assert kept.asked == ["You are [EMAIL].", "Who is [EMAIL]?"]
        assert "mail='[EMAIL]'" in text_of(await client.call_tool("elicits", {}))
        assert kept.asked[2] == "Are you [EMAIL]?"


@pytest.mark.rest
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("front", "back"), TRANSPORTS)
async def test_what_a_tool_asks_before_it_runs_is_guarded(front: str, back: str, mode: str, http_server: str) -> None:
    """As a request of the server, or, from 2026-07-28 on, as a result that asks for a second call."""
    kept = Kept()
    proxy = as_proxy(HIDES, server=behind(back, http_server))
    async with connected(proxy, front, mode=mode, elicitation_callback=kept.elicit) as client:
        assert text_of(await client.call_tool("resolves", {"name": "bob@example.com"})) == "[EMAIL] is [EMAIL]"
    assert kept.asked == ["Is [EMAIL] not [EMAIL]?"]


@pytest.mark.parametrize(("front", "back"), TRANSPORTS)
async def test_subscriptions_are_passed_on(front: str, back: str, http_server: str) -> None:
    """A stream of changes, beside calls."""
    proxy = as_proxy(HIDES, server=behind(back, http_server))
    async with connected(proxy, front, mode="auto") as client, client.listen(tools_list_changed=True) as changes:
        await client.call_tool("changes", {})
        with anyio.fail_after(60):
            async for event in changes:
                assert type(event).__name__ == "ToolsListChanged"
                break
        assert text_of(await client.call_tool("lookup", {"query": "x"})) == "x: [EMAIL]"


@pytest.mark.rest
async def test_blocked_requests_of_the_server_do_not_reach_the_client() -> None:
    """The server gets an error."""
    kept = Kept()
    proxy = as_proxy(BLOCKS, server=SERVER, descriptions="trusted")
    options: dict[str, Any] = {"sampling_callback": kept.sample, "mode": "legacy"}
    async with connected(proxy, "stdio", **options) as client:
        with pytest.raises(MCPError, match=BLOCKED):  # the server passes on the error that it got
            await client.call_tool("samples", {})
        assert kept.asked == []


# Verdicts


@pytest.mark.parametrize("front", [pytest.param("stdio", marks=pytest.mark.rest), "http"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_blocked_call_is_an_error_of_the_tool_and_the_session_goes_on(
    front: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The text helps nobody to get past the guard; the tool has not run, or its result is gone."""
    seen: list[tuple[str, str]] = []
    proxy = as_proxy(
        BLOCKS,
        server=SERVER,
        descriptions="trusted",
        on_tripwire=lambda tripwire, method: seen.append((tripwire.processor_id, method)),
    )
    async with connected(proxy, front, mode=mode) as client:
        for name, arguments in (("environment", {"name": MAIL}), ("lookup", {"query": "x"})):
            told = await client.call_tool(name, arguments)
            assert told.is_error
            assert text_of(told) == BLOCKED
            assert told.structured_content is None
        with pytest.raises(MCPError) as caught:
            await client.read_resource("people://ada")
        assert (caught.value.error.code, caught.value.error.message) == (-32010, BLOCKED)
        assert text_of(await client.call_tool("environment", {"name": "NO_SUCH"})) == "none"
        assert MAIL not in text_of(await client.call_tool("environment", {"name": "x"}))
    assert seen == [("pii-detector", "tools/call")] * 2 + [("pii-detector", "resources/read")]
    assert "tools/call was blocked, by pii-detector" in caplog.text
    assert MAIL not in caplog.text


@pytest.mark.rest
async def test_the_arguments_of_a_blocked_call_do_not_reach_the_server() -> None:
    """Not even when its result would have passed."""

    @processor("process_tool_call", role="guard")
    def no_mail(ctx: ToolCallContext) -> None:
        if "@" in str(ctx.arguments):
            ctx.abort("no mail")

    async with connected(as_proxy(no_mail, server=SERVER), "stdio") as client:
        assert (await client.call_tool("lookup", {"query": MAIL})).is_error
        assert text_of(await client.call_tool("asked", {})) == ""
        assert MAIL in text_of(await client.call_tool("lookup", {"query": "x"}))


@pytest.mark.rest
async def test_a_verdict_ends_the_session_where_that_is_asked() -> None:
    """What comes after it does not pass."""
    proxy = as_proxy(BLOCKS, server=SERVER, descriptions="trusted", on_block="session")
    async with connected(proxy, "stdio") as client:
        assert text_of(await client.call_tool("environment", {"name": "x"})) == "none"
        assert (await client.call_tool("lookup", {"query": "x"})).is_error
        assert (await client.call_tool("environment", {"name": "x"})).is_error
        with pytest.raises(MCPError):
            await client.list_tools(cache_mode="bypass")


@pytest.mark.rest
async def test_a_guard_that_breaks_blocks(caplog: pytest.LogCaptureFixture) -> None:
    """And the log does not quote the text."""

    @processor("process_tool_result", role="guard")
    def broken(ctx: ToolResultContext) -> None:
        raise ValueError(f"cannot read {ctx.result}")

    proxy = as_proxy(broken, server=SERVER, descriptions="trusted")
    with caplog.at_level(logging.INFO, "penstock"):
        async with connected(proxy, "stdio") as client:
            told = await client.call_tool("lookup", {"query": "x"})
    assert told.is_error
    assert text_of(told) == BLOCKED
    assert "since its check failed" in caplog.text


@pytest.mark.rest
async def test_pictures_pass_if_the_guard_lets_them() -> None:
    """Guards of texts cannot read them, so that is the guard's option, as everywhere."""
    for guard, passes in ((HIDES, False), (PIIDetector(unscanned="allow"), True)):
        async with connected(as_proxy(guard, server=SERVER), "stdio") as client:
            told = await client.call_tool("picture", {})
            assert told.is_error is not passes
            assert (told.content[0].type == "image") is passes


# State, and sessions beside each other


class Counts(Processor):
    """Counts the calls of tools, in its state."""

    role = "observer"

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        """Count it."""
        count = ctx.state["count"] = ctx.state.get("count", 0) + 1
        self.seen.append((ctx.request_context["mcp_session"], count))


@pytest.mark.rest
@pytest.mark.parametrize(("scope", "counted"), [("session", [1, 2, 3]), ("call", [1, 1, 1])])
async def test_what_shares_the_state_of_processors(scope: Any, counted: list[int]) -> None:
    """A session, or nothing."""
    counts = Counts()
    proxy = as_proxy(counts, server=SERVER, scope=scope)
    async with connected(proxy, "stdio") as client:
        for _ in range(3):
            await client.call_tool("asked", {})
    assert [count for _, count in counts.seen] == counted


@pytest.mark.rest
async def test_two_clients_at_once_are_apart() -> None:
    """Each has its own server, its own state and its own ids."""
    counts = Counts()
    proxy = as_proxy(counts, HIDES, server=SERVER)
    results: dict[str, str] = {}

    async def one(url: str, name: str) -> None:
        async with Client(url, mode="legacy") as client:
            for number in range(3):
                await client.call_tool("lookup", {"query": f"{name}{number}"})
            results[name] = text_of(await client.call_tool("asked", {}))

    async with listening(proxy) as url, anyio.create_task_group() as group:
        for name in ("a", "b"):
            group.start_soon(one, url, name)
    assert results == {name: "|".join(f"{name}{number}" for number in range(3)) for name in ("a", "b")}
    sessions = {session for session, _ in counts.seen}
    assert len(sessions) == 2
    assert all([count for who, count in counts.seen if who == session] == [1, 2, 3, 4] for session in sessions)


@pytest.mark.rest
async def test_requests_without_a_session_run_side_by_side(tmp_path: Path) -> None:
    """A slow one holds nobody up; each has a connection to the server while it runs."""
    mark = tmp_path / "mark"
    async with listening(as_proxy(HIDES, server=SERVER)) as url, Client(url) as slow, Client(url) as fast:
        done: list[str] = []

        async def waits() -> None:
            done.append(text_of(await slow.call_tool("slow", {"mark": str(mark)})))

        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            await says(mark, "begun")
            for _ in range(3):
                assert text_of(await fast.call_tool("lookup", {"query": "x"})) == "x: [EMAIL]"
            assert done == []
            mark.unlink()
    assert done == ["done for [EMAIL]"]


@pytest.mark.rest
async def test_calls_of_one_client_run_side_by_side() -> None:
    """And each gets its own result."""
    async with connected(as_proxy(HIDES, server=SERVER), "stdio") as client:
        made: dict[int, str] = {}

        async def one(number: int) -> None:
            made[number] = text_of(await client.call_tool("lookup", {"query": f"{number}"}))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)
    assert made == {number: f"{number}: [EMAIL]" for number in range(20)}


# Cancelling, and ends


@pytest.mark.parametrize(
    ("front", "back", "mode"),
    [
        pytest.param("stdio", "stdio", "legacy", marks=pytest.mark.rest),
        ("stdio", "stdio", "auto"),
        pytest.param("http", "stdio", "legacy", marks=pytest.mark.rest),
        pytest.param("http", "stdio", "auto", marks=pytest.mark.rest),
        ("http", "http", "legacy"),
        pytest.param("http", "http", "auto", marks=pytest.mark.rest),
    ],
)
async def test_a_cancelled_call_is_cancelled_at_the_server(
    front: str, back: str, mode: str, http_server: str, tmp_path: Path
) -> None:
    """And the session goes on."""
    mark = tmp_path / "mark"
    proxy = as_proxy(HIDES, server=behind(back, http_server))
    async with connected(proxy, front, mode=mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "slow", {"mark": str(mark)})
            await says(mark, "begun")
            group.cancel_scope.cancel()
        await says(mark, "cancelled")
        assert text_of(await client.call_tool("lookup", {"query": "x"})) == "x: [EMAIL]"


@pytest.mark.rest
async def test_a_call_that_is_cancelled_while_it_is_checked_never_reaches_the_server() -> None:
    """Its request of the stages ends as not completed."""
    begun, ended = anyio.Event(), []

    @processor("process_tool_call", role="guard")
    async def waits(ctx: ToolCallContext) -> None:
        if "x" in str(ctx.arguments):
            ctx.on_end(lambda end: ended.append(end.completed))
            begun.set()
            await anyio.sleep_forever()

    async with connected(as_proxy(waits, server=SERVER), "stdio") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "lookup", {"query": "x"})
            await begun.wait()
            group.cancel_scope.cancel()
        assert text_of(await client.call_tool("asked", {})) == ""
    assert ended == [False]


@pytest.mark.parametrize("front", [pytest.param("stdio", marks=pytest.mark.rest), "http"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.rest
async def test_a_server_that_crashes_fails_the_call(front: str, mode: str) -> None:
    """At once, with an error; over HTTP, the client can begin anew."""
    proxy = as_proxy(HIDES, server=SERVER)
    with anyio.fail_after(60):
        async with connected(proxy, front, mode=mode) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("crash", {})
            assert caught.value.error.message == "The server has closed the connection."
            if front == "http" and mode == "auto":
                assert text_of(await client.call_tool("lookup", {"query": "x"})) == "x: [EMAIL]"


@pytest.mark.rest
async def test_a_session_whose_server_has_crashed_is_gone() -> None:
    """Another one gets a new server."""
    async with listening(as_proxy(HIDES, server=SERVER)) as url:
        async with Client(url, mode="legacy") as client:
            with pytest.raises(MCPError):
                await client.call_tool("crash", {})
            await anyio.sleep(0.5)
            with pytest.raises(MCPError):
                await client.call_tool("lookup", {"query": "x"})
        async with Client(url, mode="legacy") as client:
            assert text_of(await client.call_tool("lookup", {"query": "x"})) == "x: [EMAIL]"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("server", [["no-such-command-anywhere"], "http://127.0.0.1:9/mcp"])
async def test_a_server_that_cannot_be_reached_is_an_error(mode: str, server: Any) -> None:
    """The client does not wait; the proxy goes on."""
    async with listening(as_proxy(HIDES, server=server)) as url:
        for _ in range(2):
            with anyio.fail_after(60), pytest.raises((MCPError, BaseExceptionGroup)):
                async with Client(url, mode=mode):
                    pass


@pytest.mark.parametrize("front", [pytest.param("stdio", marks=pytest.mark.rest), "http"])
@pytest.mark.rest
async def test_large_results(front: str) -> None:
    """Two megabytes, redacted at the end."""
    async with connected(as_proxy(HIDES, server=SERVER), front, mode="legacy") as client:
        told = text_of(await client.call_tool("large", {"size": 700_000}))
    assert len(told) == 700_000 + len("[EMAIL]")
    assert told.endswith("word [EMAIL]")


@pytest.mark.rest
async def test_an_environment_is_given_to_the_server() -> None:
    """As the official package does it."""
    for server in (as_proxy(HIDES, server=SERVER, env={"A_NAME": "a value"}),):
        async with connected(server, "stdio") as client:
            assert text_of(await client.call_tool("environment", {"name": "A_NAME"})) == "a value"
    parameters = StdioServerParameters(command=SERVER[0], args=SERVER[1:], env={"A_NAME": "another"})
    async with connected(as_proxy(HIDES, server=parameters), "stdio") as client:
        assert text_of(await client.call_tool("environment", {"name": "A_NAME"})) == "another"


# HTTP

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
TOKEN = "a" * 20
ACCEPT = {"accept": "application/json, text/event-stream"}


async def test_who_may_not_use_it_gets_nothing() -> None:
    """And no server is started for it."""
    proxy = as_proxy(HIDES, server=["no-such-command-anywhere"], token=TOKEN, max_bytes=10_000, max_sessions=1)
    bearer = {**ACCEPT, "authorization": f"Bearer {TOKEN}"}
    modern = {**bearer, "mcp-protocol-version": "2026-07-28"}
    async with listening(proxy) as url, httpx2.AsyncClient() as http:

        async def status(body: Any, headers: dict[str, str], method: str = "POST", where: str = url) -> int:
            return (await http.request(method, where, json=body, headers=headers)).status_code

        assert await status(INITIALIZE, ACCEPT) == 401
        assert await status(INITIALIZE, {**ACCEPT, "authorization": "Bearer other"}) == 401
        assert await status(INITIALIZE, bearer, where=f"{url}/other") == 404
        assert await status(INITIALIZE, {**bearer, "host": "evil.example"}) == 421
        assert await status(INITIALIZE, {**bearer, "origin": "https://evil.example"}) == 403
        assert await status({**INITIALIZE, "method": "tools/list"}, bearer) == 400
        assert await status(INITIALIZE, {**bearer, "mcp-session-id": "unknown"}) == 404
        assert await status("x" * 20_000, bearer) == 413
        assert await status(None, bearer, "GET") == 400
        assert await status(None, modern, "GET") == 405
        assert await status(INITIALIZE, modern) == 400
        assert await status([INITIALIZE], modern) == 400
        assert await status({"jsonrpc": "2.0", "method": "notifications/x"}, modern) == 202
        assert await status(INITIALIZE, {**modern, "accept": "text/html"}) == 406
        assert (await http.post(url, content=b"{", headers={**modern, "content-type": "application/json"})).json()[
            "error"
        ]["code"] == -32700


@pytest.mark.rest
async def test_what_cannot_be_written_does_not_end_the_process_of_all() -> None:
    """Half a surrogate pair: JSON can name it, and UTF-8 has no bytes for it."""
    async with listening(as_proxy(HIDES, server=SERVER)) as url, Client(url) as other:
        await other.call_tool("lookup", {"query": "first"})
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "lookup", "arguments": {"query": "\ud800"}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "lookup"}
        async with httpx2.AsyncClient() as http:
            made = await http.post(url, content=body, headers={**headers, "content-type": "application/json"})
        assert made.json()["error"]["code"] == -32700
        assert text_of(await other.call_tool("asked", {})) == "first"  # it is the same process


@pytest.mark.rest
async def test_sessions_are_limited_and_end() -> None:
    """An idle one ends by itself, and a client can end its own."""
    proxy = as_proxy(HIDES, server=SERVER, max_sessions=1, idle_seconds=1)
    async with listening(proxy) as url, httpx2.AsyncClient(headers=ACCEPT, timeout=30) as http:
        first = await http.post(url, json=INITIALIZE)
        assert first.status_code == 200
        assert "Ask [EMAIL] for help." in first.text
        session = {"mcp-session-id": first.headers["mcp-session-id"]}
        assert (await http.post(url, json=INITIALIZE)).status_code == 503
        assert (await http.delete(url, headers=session)).status_code == 200
        assert (await http.delete(url, headers=session)).status_code == 404
        second = await http.post(url, json=INITIALIZE)
        assert second.status_code == 200
        session = {"mcp-session-id": second.headers["mcp-session-id"]}
        with anyio.fail_after(60):
            while (await http.post(url, json=INITIALIZE)).status_code == 503:  # noqa: ASYNC110 - another task or process does it
                await anyio.sleep(0.2)
        assert (await http.delete(url, headers=session)).status_code == 404


@pytest.mark.rest
async def test_a_session_is_of_who_opened_it() -> None:
    """Where a middleware says who that is."""
    proxy = as_proxy(HIDES, server=SERVER)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["user"] = dict(scope["headers"]).get(b"x-user")
        await proxy(scope, receive, send)

    async with listening(app) as url, httpx2.AsyncClient(headers=ACCEPT, timeout=30) as http:
        first = await http.post(url, json=INITIALIZE, headers={"x-user": "a"})
        session = {"mcp-session-id": first.headers["mcp-session-id"]}
        assert (await http.delete(url, headers={**session, "x-user": "b"})).status_code == 404
        assert (await http.delete(url, headers={**session, "x-user": "a"})).status_code == 200


@pytest.mark.rest
async def test_it_is_mounted_in_another_application() -> None:
    """Whose lifespan runs it; without that, nothing is served."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from penstock.engine.values.errors import UsageError

    proxy = as_proxy(HIDES, server=SERVER)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with proxy.running():
            with pytest.raises(UsageError, match="running already"):
                async with proxy.running():
                    pass
            yield

    app = Starlette(routes=[Mount("/people", app=proxy)], lifespan=lifespan)
    async with listening(app) as url, Client(url.replace("/mcp", "/people/mcp")) as client:
        assert text_of(await client.call_tool("lookup", {"query": "x"})) == "x: [EMAIL]"
    with pytest.raises(UsageError, match="running"):
        await proxy({"type": "http", "headers": [], "path": "/mcp"}, anyio.sleep_forever, anyio.sleep_forever)  # type: ignore[arg-type]
