"""MCP: a small agent that calls the tools of a real server with the official client, through the proxy.

A proxy sees the tools of an agent, and nothing else of it. So the agent keeps texts and results; the arguments of its
calls are its model's own. Nothing is streamed here, so that the ways of a case are two transports: ``whole`` goes over
streamable HTTP on both sides of the proxy, and ``streamed`` over stdio, to a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from mcp import Client, stdio_server
from mcp.client._memory import InMemoryTransport
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

from penstock.workflows.adapters.mcp import GuardProxy, as_proxy
from tests.hosts import cases, hard_cases  # noqa: F401 - adds its cases
from tests.hosts.contract import Job, Seen
from tests.listening import listening

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
async def _through(job: Job, server: MCPServer, seen: Seen) -> AsyncGenerator[Any]:
    """Give the transport of a proxy before a server."""

    def note(tripwire: object, method: str) -> None:
        seen.tripwire = seen.tripwire or tripwire

    options: Any = {"on_tripwire": note, **job.options}
    if job.streamed:
        async with _process(server) as command, _over_stdio(as_proxy(*job.guards, server=command, **options)) as client:
            yield client
    else:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(listening(server.streamable_http_app()))
            front = await stack.enter_async_context(listening(as_proxy(*job.guards, server=url, **options)))
            yield await stack.enter_async_context(streamable_http_client(front))


@asynccontextmanager
async def _over_stdio(proxy: GuardProxy) -> AsyncGenerator[Any]:
    """Serve one client over pipes, as a process does over stdin and stdout; give the client's streams."""
    (to_proxy, from_client), (to_client, from_proxy) = os.pipe(), os.pipe()
    writes = os.fdopen(from_client, "w", encoding="utf-8")
    with os.fdopen(to_proxy, "rb", buffering=0) as stdin, os.fdopen(to_client, encoding="utf-8") as reads:

        async def serve() -> None:
            with os.fdopen(from_proxy, "w", encoding="utf-8") as stdout:
                await proxy.serve_stdio(stdin, stdout)

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            async with stdio_server(anyio.wrap_file(reads), anyio.wrap_file(writes)) as streams:
                yield streams
                writes.close()


_PROCESS = """
import socket, sys, threading

link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))

def back():
    while got := link.recv(65536):
        sys.stdout.buffer.write(got)
        sys.stdout.buffer.flush()

threading.Thread(target=back, daemon=True).start()
while got := sys.stdin.buffer.read1(65536):
    link.sendall(got)
"""
"""The process of a server: it passes on what comes and goes, since the tools of a case live in the test."""


@asynccontextmanager
async def _process(server: MCPServer) -> AsyncGenerator[list[str]]:
    """Serve a server to a process that speaks for it; give the command that starts the process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def serve() -> None:
            link, _ = await anyio.to_thread.run_sync(listener.accept, abandon_on_cancel=True)
            with link, link.makefile("r", encoding="utf-8") as reads, link.makefile("w", encoding="utf-8") as writes:
                async with (
                    stdio_server(anyio.wrap_file(reads), anyio.wrap_file(writes)) as outside,
                    InMemoryTransport(server) as inside,
                    anyio.create_task_group() as pumps,
                ):
                    pumps.start_soon(_pump, outside[0], inside[1])
                    pumps.start_soon(_pump, inside[0], outside[1])

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            yield [sys.executable, "-c", _PROCESS, str(listener.getsockname()[1])]


async def _pump(source: Any, sink: Any) -> None:
    async with source, sink:
        async for item in source:
            await sink.send(item)


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
