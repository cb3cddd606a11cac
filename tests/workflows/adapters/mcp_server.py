"""A real MCP server for the tests of the proxy, made with the official package: over stdio, or over HTTP at a port.

``python mcp_server.py [stdio | http]``. What it says holds the address of Ada, so that tests see what was hidden.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

MAIL = "ada@example.com"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

server = MCPServer("people", instructions=f"Ask {MAIL} for help.", log_level="ERROR")
calls: list[str] = []


class Person(BaseModel):
    """A person."""

    name: str
    mail: str


class Wanted(BaseModel):
    """What is asked of the user."""

    mail: str


@server.tool(description=f"Looks somebody up. Written by {MAIL}.", structured_output=False)
def lookup(query: str) -> str:
    """Look somebody up."""
    calls.append(query)
    return f"{query}: {MAIL}"


@server.tool()
def person(name: str) -> Person:
    """Return an object, with its text."""
    return Person(name=name, mail=MAIL)


@server.tool()
def people(count: int) -> list[str]:
    """Return a list: a text each, and an object around them."""
    return [f"{number} {MAIL}" for number in range(count)]


@server.tool(structured_output=False)
def asked() -> str:
    """Return what this process was asked so far."""
    return "|".join(calls)


@server.tool(structured_output=False)
def fails(why: str) -> str:
    """Fail."""
    raise ValueError(f"{MAIL} said {why}")


@server.tool()
def mixed() -> CallToolResult:
    """Return blocks of all kinds but pictures."""
    contents = TextResourceContents(uri="file:///people.txt", mime_type="text/plain", text=f"one {MAIL}")
    return CallToolResult(
        content=[
            TextContent(type="text", text=f"two {MAIL}"),
            EmbeddedResource(type="resource", resource=contents),
        ]
    )


@server.tool()
def picture() -> CallToolResult:
    """Return a picture."""
    return CallToolResult(content=[ImageContent(type="image", data=PIXEL, mime_type="image/png")])


@server.tool(structured_output=False)
async def slow(ctx: Context[Any, Any], mark: str = "") -> str:
    """Say how far it is. Write into a file that it has begun, and wait until it is deleted; write if cancelled."""
    for step in range(10):
        await ctx.report_progress(step, 10, f"step {step} for {MAIL}")
    if mark:
        file = anyio.Path(mark)
        await file.write_text("begun")
        try:
            while await file.exists():  # noqa: ASYNC110 - another process deletes it
                await anyio.sleep(0.02)
        except anyio.get_cancelled_exc_class():
            Path(mark).write_text("cancelled")  # noqa: ASYNC240 - a small file
            raise
    return f"done for {MAIL}"


@server.tool(structured_output=False)
async def logs(ctx: Context[Any, Any]) -> str:
    """Log something."""
    await ctx.info(f"log for {MAIL}")
    return "logged"


@server.tool(structured_output=False)
async def samples(ctx: Context[Any, Any]) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=f"Who is {MAIL}?"))
    made = await ctx.session.create_message([message], max_tokens=10, system_prompt=f"You are {MAIL}.")
    return f"the model said {made.content.text}"  # type: ignore[union-attr]


@server.tool(structured_output=False)
async def elicits(ctx: Context[Any, Any]) -> str:
    """Ask the user."""
    made = await ctx.elicit(f"Are you {MAIL}?", Wanted)
    return f"{made.action} {getattr(made, 'data', None)}"


def wanted(name: str) -> Elicit[Wanted]:
    """Ask the user, in whatever way the protocol has for it."""
    return Elicit(f"Is {name} not {MAIL}?", Wanted)


@server.tool(structured_output=False)
def resolves(name: str, asked: Annotated[Wanted, Resolve(wanted)]) -> str:
    """Ask the user before it runs."""
    return f"{name} is {asked.mail}"


@server.tool(structured_output=False)
async def changes(ctx: Context[Any, Any]) -> str:
    """Say that the tools have changed."""
    await ctx.notify_tools_changed()
    return "changed"


@server.tool(structured_output=False)
def large(size: int) -> str:
    """Return a large text."""
    return "word " * (size // 5) + MAIL


@server.tool(structured_output=False)
def crash() -> str:
    """End the process."""
    os._exit(3)


@server.tool(structured_output=False)
def environment(name: str) -> str:
    """Return a variable."""
    return os.environ.get(name, "none")


@server.resource("people://ada")
def ada() -> str:
    """Return a text about Ada."""
    return f"Ada is {MAIL}"


@server.resource("people://{name}/about")
def about(name: str) -> str:
    """Return a text about somebody."""
    return f"{name} is {MAIL}"


@server.prompt()
def ask(question: str) -> str:
    """Ask a question."""
    return f"{MAIL} asks: {question}"


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if where == "stdio":
        if len(sys.argv) > 2:
            time.sleep(float(sys.argv[2]))
        server.run("stdio")
    else:
        import uvicorn

        with socket.create_server(("127.0.0.1", 0)) as listener:
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)  # noqa: T201 - for the test
            uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([listener])
