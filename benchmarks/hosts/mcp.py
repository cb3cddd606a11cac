"""MCP: a tool call of the official client, to the bare server and through the proxy, all in memory.

A tool call is not streamed. Between processes the ratio is lower, since the bare call costs more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server import MCPServer

from penstock import PIIDetector, Processor, ToolCallContext, ToolResultContext
from penstock.workflows.adapters.mcp import GuardProxy, as_proxy


class LooksAtTools(Processor):
    """Does nothing."""

    edits = "nothing"

    async def process_tool_call(self, _ctx: ToolCallContext) -> None:
        """Find nothing."""

    async def process_tool_result(self, _ctx: ToolResultContext) -> None:
        """Find nothing."""


@asynccontextmanager
async def _before(proxy: GuardProxy) -> AsyncGenerator[tuple[Any, Any]]:
    """Give the transport of a proxy, in memory."""
    to_proxy, read = anyio.create_memory_object_stream[Any](0)
    write, from_proxy = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(proxy.serve, (read, write))
        yield from_proxy, to_proxy
        group.cancel_scope.cancel()


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return, by label, a call of a tool of the bare server, and the same one through a proxy with a guard."""
    loop = asyncio.Runner()
    server = MCPServer("tools", log_level="ERROR")

    @server.tool(structured_output=False)
    def look_up(who: str) -> str:
        """Look somebody up."""
        return f"{who} lives in Lyon. " * 20

    async def connect(proxy: GuardProxy | None) -> Client:
        target: Any = server if proxy is None else _before(proxy)
        return await AsyncExitStack().enter_async_context(Client(target))

    def calling(proxy: GuardProxy | None) -> Callable[[], object]:
        client = loop.run(connect(proxy))
        return lambda: loop.run(client.call_tool("look_up", {"who": "Ada"}))

    guards = {"no-op": LooksAtTools(), "PIIDetector": PIIDetector()}
    return {
        f"tool call, {label}": (calling(None), calling(as_proxy(guard, server=lambda: InMemoryTransport(server))))
        for label, guard in guards.items()
    }
