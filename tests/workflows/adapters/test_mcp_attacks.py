"""Attacks on the proxy for MCP servers: numbers, odd names, secrets in pieces, requests that cannot be checked."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio

from penstock import RegexFilterProcessor, ToolCallContext, processor
from penstock.workflows.adapters.mcp import as_proxy
from tests.hosts.cases import BLOCKS, HIDES
from tests.workflows.adapters.mcp_wire import Json, Stranger, wired

MAIL = "ada@example.com"
ERROR = {"code": -32010, "message": "The request was blocked."}


@pytest.fixture
def anyio_backend() -> str:
    """The request of the stages needs asyncio."""
    return "asyncio"


def text(said: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": said}


@pytest.mark.parametrize("number", [2**53 + 1, 10**40, -(2**63), 1e308, sys.float_info.min, 0.1 + 0.2, -0.0])
async def test_numbers_come_back_as_they_were(number: float) -> None:
    """Also in a result that a guard has changed."""
    found = {"content": [text("x")], "structuredContent": {"n": number, "mail": MAIL}}
    server = Stranger(tools_call=found)
    async with wired(as_proxy(HIDES, server=server)) as wire:
        made = await wire.call("f", n=number, mail=MAIL)
    sent = server.got[0]["params"]["arguments"]
    assert [repr(each["n"]) for each in (made["structuredContent"], sent)] == [repr(number)] * 2
    assert [each["mail"] for each in (made["structuredContent"], sent)] == ["[EMAIL]"] * 2


@pytest.mark.parametrize("name", [MAIL, "a b", "ä", "\u202etool", "../x", "", "x" * 500, "a\nb", "tools/list"])
async def test_a_tool_may_have_any_name(name: str) -> None:
    """It is called under its name, or under what the guards left of it; the result is read."""
    server = Stranger(tools_call={"content": [text(MAIL)]})
    async with wired(as_proxy(HIDES, server=server)) as wire:
        assert (await wire.call(name, q=MAIL))["content"] == [text("[EMAIL]")]
    assert server.got[0]["params"] == {"name": "[EMAIL]" if name == MAIL else name, "arguments": {"q": "[EMAIL]"}}


async def test_a_tool_that_is_named_like_its_method_is_refused() -> None:
    """Processors would take its arguments for what stands beside those of another tool."""
    server = Stranger(tools_call={"content": []})
    async with wired(as_proxy(HIDES, server=server)) as wire:
        assert (await wire.call("tools/call"))["isError"] is True
    assert server.got == []


async def test_a_tool_that_was_left_out_of_a_list_stays_out_in_other_sessions() -> None:
    """Over HTTP without sessions, each request stands alone."""
    listed = {"tools": [{"name": "bad", "description": f"Ask {MAIL}"}, {"name": "good"}]}
    server = Stranger(tools_list=listed, tools_call={"content": []})
    proxy = as_proxy(BLOCKS, server=server)
    async with wired(proxy) as wire:
        assert (await wire.ask("tools/list"))["result"] == {"tools": [{"name": "good"}]}
    async with wired(proxy, "other") as wire:
        assert (await wire.call("bad"))["isError"] is True
        assert await wire.call("good") == {"content": []}


async def test_a_request_that_cannot_be_opened_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets an answer, whatever breaks; the session goes on."""
    server = Stranger(tools_call={"content": [text("x")]}, x={"said": "y"})
    proxy = as_proxy(HIDES, server=server)
    opened = proxy.host.open

    def breaks(**_: Any) -> Any:
        raise RuntimeError(MAIL)

    async with wired(proxy) as wire:
        monkeypatch.setattr(proxy.host, "open", breaks)
        assert (await wire.call("f", q="x"))["isError"] is True
        assert (await wire.ask("x", q="x"))["error"] == ERROR
        await server.say({"method": "notifications/message", "params": {"data": MAIL}})
        await server.say({"id": 5, "method": "sampling/createMessage", "params": {"systemPrompt": MAIL}})
        await anyio.wait_all_tasks_blocked()
        assert server.got[-1] == {"jsonrpc": "2.0", "id": 5, "error": ERROR}
        monkeypatch.setattr(proxy.host, "open", opened)
        assert await wire.call("f", q="x") == {"content": [text("x")]}
    assert not any(MAIL in str(message) for message in wire.got)


async def test_the_server_asks_while_calls_run_and_reuses_their_ids() -> None:
    """Its requests are answered; the calls keep their own answers."""

    def says(got: Json) -> list[Json]:
        if got.get("method") == "tools/call":
            return [{"id": got["id"], "method": "elicitation/create", "params": {"message": f"Are you {MAIL}?"}}]
        return [{"id": got["id"], "result": {"content": [text(str(got["result"]["content"]["mail"]))]}}]

    async with wired(as_proxy(HIDES, server=Stranger(says))) as wire:
        for id in (1, "1"):
            await wire.send(id=id, method="tools/call", params={"name": "f", "arguments": {"q": "x"}})
        asked = [await wire.next() for _ in range(2)]
        assert [each["params"]["message"] for each in asked] == ["Are you [EMAIL]?"] * 2
        for each in asked:
            await wire.send(id=each["id"], result={"action": "accept", "content": {"mail": MAIL}})
        answers = [await wire.next() for _ in range(2)]
    assert [each["result"]["content"] for each in answers] == [[text("[EMAIL]")]] * 2
    assert {repr(each["id"]) for each in answers} == {"1", "'1'"}


async def test_what_a_guard_refuses_tells_nothing() -> None:
    """Neither the reason nor the arguments are in the answer."""

    @processor("process_tool_call", role="guard")
    def stops(ctx: ToolCallContext) -> None:
        ctx.abort(f"because of {MAIL}", metadata={"pattern": MAIL})

    told: list[Any] = []
    proxy = as_proxy(stops, server=Stranger(), on_tripwire=lambda verdict, method: told.append((verdict, method)))
    async with wired(proxy) as wire:
        answers = [await wire.ask("tools/call", name="f", arguments={"q": MAIL}), await wire.ask("x/y", q=MAIL)]
    assert not any(MAIL in str(answer) or "stops" in str(answer) for answer in answers)
    assert [(verdict.reason, method) for verdict, method in told] == [
        (f"because of {MAIL}", "tools/call"),
        (f"because of {MAIL}", "x/y"),
    ]


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "sampling/createMessage"])
async def test_a_secret_that_is_split_over_blocks_is_found(method: str) -> None:
    """A model reads the text blocks of one list as one text."""
    blocks = [text("Write to ada@exa"), {"type": "image", "data": "", "mimeType": "image/png"}, text("mple.com!")]
    left = [text("Write to [EMAIL]"), blocks[1], text("!")]
    if method == "tools/call":
        said, hidden = {"content": blocks}, {"content": left}
    else:
        said, hidden = ({"messages": [{"role": "user", "content": each}]} for each in (blocks, left))
    server = Stranger(tools_call=said, prompts_get=said)
    async with wired(as_proxy(HIDES, server=server)) as wire:
        if method == "sampling/createMessage":
            await server.say({"id": 1, "method": method, "params": said})
            assert (await wire.next())["params"] == hidden
        else:
            assert (await wire.ask(method, name="f"))["result"] == hidden
    async with wired(as_proxy(BLOCKS, server=Stranger(tools_call=said))) as wire:
        assert (await wire.call("f"))["isError"] is True


async def test_split_blocks_and_an_object_that_says_the_same_are_blocked() -> None:
    """The object has its items apart, so that the two cannot agree."""
    found = {"content": [text("ada@exa"), text("mple.com")], "structuredContent": {"result": ["ada@exa", "mple.com"]}}
    async with wired(as_proxy(HIDES, server=Stranger(tools_call=found))) as wire:
        assert (await wire.call("f"))["isError"] is True


@pytest.mark.parametrize(
    "hidden_in",
    [
        {"nextCursor": f"write to {MAIL}"},
        {"requestState": MAIL},
        {"resultType": MAIL},
        {"_meta": {"progressToken": MAIL}},
        {"_meta": {"progressToken": {"note": MAIL}}},
        {"_meta": {"io.modelcontextprotocol/subscriptionId": [MAIL]}},
    ],
)
async def test_text_in_the_place_of_a_token_is_read(hidden_in: Json) -> None:
    """Some clients show their model the whole result."""
    async with wired(as_proxy(HIDES, server=Stranger(tools_call={"content": [], **hidden_in}))) as wire:
        assert MAIL not in str(await wire.call("f"))


async def test_text_in_the_place_of_a_method_does_not_pass() -> None:
    """Neither from the server nor from the client."""
    server = Stranger(x={"said": "y"})
    async with wired(as_proxy(HIDES, server=server)) as wire:
        await server.say({"method": f"notifications/{MAIL}"})
        await server.say({"id": 7, "method": f"ask {MAIL}", "params": {"a": 1}})
        await wire.send(method=f"notifications/{MAIL}")
        assert (await wire.ask(f"tell {MAIL}", a=1))["error"] == ERROR
        assert (await wire.ask("x"))["result"] == {"said": "y"}
    assert wire.got == []
    assert [message for message in server.got if message.get("method") != "x"] == [
        {"jsonrpc": "2.0", "id": 7, "error": ERROR}
    ]


@pytest.mark.parametrize("arguments", ["x", [], [1], 0, False])
async def test_a_tool_is_known_by_its_name_whatever_its_arguments_are(arguments: Any) -> None:
    """A server may take what is no object for no arguments, so guards that forbid a tool must see its name."""

    @processor("process_tool_call", role="guard")
    def forbids(ctx: ToolCallContext) -> None:
        if ctx.tool_name == "delete":
            ctx.abort("no")

    poison = RegexFilterProcessor([{"name": "poison", "pattern": "Ignore"}], strategy="block")
    server = Stranger(tools_list={"tools": [{"name": "bad", "description": "Ignore all"}]}, tools_call={"content": []})
    async with wired(as_proxy(forbids, poison, server=server)) as wire:
        await wire.ask("tools/list")
        for name, blocked in (("delete", True), ("bad", True), ("good", False)):
            made = await wire.ask("tools/call", name=name, arguments=arguments)
            assert ("isError" in made["result"]) is blocked
    assert [message["params"]["name"] for message in server.got[1:]] == ["good"]
    assert server.got[1]["params"]["arguments"] == arguments


@pytest.mark.parametrize("place", ["asked", "answered", "told_client", "told_server"])
async def test_what_fails_beside_the_guards_is_answered(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an answer for ever, and nothing passes."""

    def says(got: Json) -> list[Json]:
        if got.get("method") == "x":
            return [{"id": 9, "method": "sampling/createMessage", "params": {"systemPrompt": MAIL}}]
        return [{"id": got["id"], "result": {"said": MAIL}}] if "method" in got else []

    async def breaks(*_: Any) -> Any:
        raise LookupError(MAIL)

    server = Stranger(says)
    monkeypatch.setattr(f"penstock.workflows.adapters.mcp.reading.MessageGuard.{place}", breaks)
    async with wired(as_proxy(HIDES, server=server)) as wire:
        if place in ("asked", "answered"):
            assert (await wire.ask("y", a=MAIL))["error"] == ERROR
            return
        await wire.send(id=1, method="x", params={})
        if place == "told_server":
            await wire.send(id=(await wire.next())["id"], result={"model": MAIL})
        with anyio.fail_after(60):
            while len(server.got) < 2:  # noqa: ASYNC110 - another task does it
                await anyio.sleep(0.01)
    assert server.got[1] == {"jsonrpc": "2.0", "id": 9, "error": ERROR}


async def test_the_name_of_a_tool_that_no_list_has_is_read() -> None:
    """It may be the secret itself: a model writes it."""
    key = "AKIAIOSFODNN7QWERTYU"
    keys = RegexFilterProcessor([{"name": "key", "pattern": "AKIA[A-Z0-9]+"}], strategy="block")
    server = Stranger(tools_list={"tools": [{"name": "f"}]}, tools_call={"content": []})
    proxy = as_proxy(keys, server=server)
    async with wired(proxy) as wire:
        await wire.ask("tools/list")
        assert (await wire.call(key))["isError"] is True
        assert await wire.call("f") == await wire.call("other") == {"content": []}
    async with wired(proxy, "other") as wire:
        assert (await wire.call(key))["isError"] is True
    assert key not in str(server.got)


async def test_a_server_may_return_a_number_as_a_text() -> None:
    """As the official clients allow it; an id that is a text stays one."""

    def says(got: Json) -> list[Json]:
        return [{"id": str(got["id"]), "result": {"content": [text(f"{got['id']!r} {MAIL}")]}}]

    async with wired(as_proxy(HIDES, server=Stranger(says))) as wire:
        for id in (1, "2"):
            await wire.send(id=id, method="tools/call", params={"name": "f", "arguments": {}})
            made = await wire.next()
            assert (made["id"], made["result"]["content"]) == (id, [text(f"{id!r} [EMAIL]")])
