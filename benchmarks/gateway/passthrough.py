"""The least that a gateway can do: uvicorn, a raw ASGI application, and aiohttp towards the provider.

Run with the port and the provider: ``python passthrough.py PORT http://127.0.0.1:9000``.
"""

import sys

import aiohttp
import uvicorn

SESSION: list[aiohttp.ClientSession] = []


async def app(scope, receive, send) -> None:  # noqa: ANN001 - those of ASGI
    """Hand a request on, and its answer back, piece by piece."""
    if scope["type"] == "lifespan":
        await receive()
        SESSION.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1000)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    headers = {"content-type": "application/json"}
    async with SESSION[0].post(sys.argv[2] + scope["path"], data=body, headers=headers) as reply:
        kind = reply.headers["content-type"].encode()
        await send({"type": "http.response.start", "status": reply.status, "headers": [(b"content-type", kind)]})
        async for piece in reply.content.iter_any():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False, ws="none")
