"""The gateway's server and client are asyncio's: uvicorn and aiohttp."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio."""
    return "asyncio"


@asynccontextmanager
async def raw_server(serve: Served) -> AsyncIterator[str]:
    """A TCP server that does whatever it wants; yields its URL."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Return the head and the body of a request with a length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lengths = [line.partition(":")[2] for line in head.split("\r\n") if line.lower().startswith("content-length")]
    return head, await reader.readexactly(int(lengths[0]) if lengths else 0)


@pytest.fixture(name="raw_server")
def _raw_server():
    return raw_server


@pytest.fixture(name="read_request")
def _read_request():
    return read_request


@asynccontextmanager
async def serving(gateway):
    """Serve a gateway as `penstock serve` does, in this process; yields its URL and its server."""
    import socket

    from penstock.workflows.gateway.serving.server import server_of

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)  # a client that does not read is soon noticed
    server = server_of(gateway)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.005)
        if task.done():
            task.result()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
    finally:
        server.should_exit = server.force_exit = True
        await task
        listener.close()


@pytest.fixture(name="serving")
def _serving():
    return serving


@asynccontextmanager
async def plainly_served(app):
    """Serve any ASGI application with uvicorn as it comes; yields its URL."""
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.005)
        if task.done():
            task.result()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@pytest.fixture(name="plainly_served")
def _plainly_served():
    return plainly_served
