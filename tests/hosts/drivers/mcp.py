"""MCP: a small agent that calls the tools of a real server with the official client, through the proxy.

A proxy sees the tools of an agent, and nothing else of it. So the agent keeps texts and results; the arguments of its
calls are its model's own.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server import MCPServer

from penstock.workflows.adapters.mcp import as_proxy
from tests.hosts import cases, hard_cases  # noqa: F401 - adds its cases
from tests.hosts.contract import Job, Seen

NAME = "MCP"
PACKAGE = "mcp"

_OFFERED = {
    "answer in the tool's place",
    "failing tool",
    "parallel tool calls",
    "several steps with tools",
    "tool call and result",
    "tool calls as objects",
}
_GOES_ON = "a blocked call is an error that the agent reads"
LACKS = dict.fromkeys(sorted(set(cases.CASES) - _OFFERED), "a proxy sees tools only") | dict.fromkeys(
    ["blocked tool call", "blocked tool result", "one of two results blocked"], _GOES_ON
)


@asynccontextmanager
async def _through(job: Job, server: MCPServer, seen: Seen) -> Any:
    """Give the transport of a proxy, in memory."""

    def note(tripwire: object, method: str) -> None:
        seen.tripwire = seen.tripwire or tripwire

    options: Any = {"on_tripwire": note, **job.options}
    proxy = as_proxy(*job.guards, server=lambda: InMemoryTransport(server), **options)
    to_proxy, read = anyio.create_memory_object_stream[Any](0)
    write, from_proxy = anyio.create_memory_object_stream[Any](0)
    async with to_proxy, read, write, from_proxy, anyio.create_task_group() as group:
        group.start_soon(proxy.serve, (read, write))
        yield from_proxy, to_proxy
        group.cancel_scope.cancel()


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()
    server = MCPServer("tools", log_level="CRITICAL")
    for tool in job.tools:
        server.add_tool(tool, structured_output=False)
    history = [job.text]
    async with AsyncExitStack() as stack:
        transport: Any = _through(job, server, seen) if job.guards else server
        client = await stack.enter_async_context(Client(transport))
        for says in job.script:
            seen.asked.append(list(history))
            history += [says.whole] if says.whole else []
            results = await asyncio.gather(*[client.call_tool(call.name, dict(call.arguments)) for call in says.calls])
            for result in results:
                texts = [block.text for block in result.content if block.type == "text"]
                history += texts
                seen.events += texts
            if not says.calls:
                seen.output = says.whole
                break
    seen.history = history
    return seen
