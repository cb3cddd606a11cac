"""Attacks on the proxy for MCP servers: numbers, odd names, secrets in pieces, requests that cannot be checked."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio

from penstock import ToolCallContext, processor
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
        await anyio.sleep(0.1)
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
