"""An ASGI application served by a real server, for tests that talk HTTP to it."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn


@asynccontextmanager
async def listening(app: Any) -> AsyncGenerator[str]:
    """Serve an application at a free port; give the URL of its path ``/mcp``."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await anyio.sleep(0.001)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            server.should_exit = True
