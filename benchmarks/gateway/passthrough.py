"""The least that a gateway can do: uvicorn, a raw ASGI application, and aiohttp towards the provider.

Run with the port and the provider: ``python passthrough.py PORT http://127.0.0.1:9000``. With a policy behind them it
also runs its guards on the same texts, in the stages that the gateway runs: nothing is read, patched or held back. So
the difference is the cost of the guards in a server, where other work has pushed them out of the caches of the CPU.

With ``--reads`` as the policy no guard runs, but request and whole answer are read as strictly as the gateway reads
them (JSON without ambiguities, every field by the tables), and written again: the least of a gateway that refuses what
it does not know, without routes, keys, limits, retries, metrics, and without putting an edit in its place.
"""

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn

SESSION: list[aiohttp.ClientSession] = []
PROMPT = "Say some words, please. " * 5


async def received(receive) -> bytes:  # noqa: ANN001 - that of ASGI
    """Return the body of a request."""
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body


async def app(scope, receive, send) -> None:  # noqa: ANN001 - those of ASGI
    """Hand a request on, and its answer back, piece by piece."""
    if scope["type"] == "lifespan":
        await receive()
        SESSION.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1000)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = await received(receive)
    headers = {"content-type": "application/json"}
    async with SESSION[0].post(sys.argv[2] + scope["path"], data=body, headers=headers) as reply:
        kind = reply.headers["content-type"].encode()
        await send({"type": "http.response.start", "status": reply.status, "headers": [(b"content-type", kind)]})
        async for piece in reply.content.iter_any():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def reading():  # noqa: ANN201 - an ASGI application
    """Return the application that reads and writes what it passes on."""
    from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
    from penstock.workflows.gateway.json_text import read_json, write_json
    from penstock.workflows.gateway.tables import places

    async def reading_app(scope, receive, send) -> None:  # noqa: ANN001 - those of ASGI
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        endpoint = ENDPOINTS[scope["path"]]
        asked = read_json(await received(receive))
        if places(endpoint.request, asked, asked=True).unknown:
            raise SystemExit("the request holds unknown fields")
        headers = {"content-type": "application/json"}
        async with SESSION[0].post(sys.argv[2] + scope["path"], data=write_json(asked), headers=headers) as reply:
            kind = reply.headers["content-type"].encode()
            await send({"type": "http.response.start", "status": reply.status, "headers": [(b"content-type", kind)]})
            if kind == b"application/json":
                told = read_json(await reply.read())
                if places(endpoint.answer, told).unknown:
                    raise SystemExit("the answer holds unknown fields")
                await send({"type": "http.response.body", "body": write_json(told), "more_body": True})
            else:
                async for piece in reply.content.iter_any():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return reading_app


def guarded(policy: str):  # noqa: ANN201 - an ASGI application
    """Return the application with guards beside it."""
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import FrozenDict
    from penstock.engine.values.model import ModelRequest
    from penstock.workflows.gateway.prompt import ProviderModel
    from penstock.workflows.loading import load_workflow

    workflow = load_workflow(policy)
    info = {"model": ProviderModel("fake-1"), "request": ModelRequest(()), "chunks": None, "from_cache": False}
    about = FrozenDict({**info, "finish_reason": "stop", "usage": None, "tool_calls": None})

    async def guarded_app(scope, receive, send) -> None:  # noqa: ANN001 - those of ASGI
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        body = await received(receive)
        headers = {"content-type": "application/json"}
        async with workflow.start() as run:
            await run.process_input(PROMPT)
            async with SESSION[0].post(sys.argv[2] + scope["path"], data=body, headers=headers) as reply:
                kind = reply.headers["content-type"].encode()
                start = {"type": "http.response.start", "status": reply.status, "headers": [(b"content-type", kind)]}
                await send(start)

                async def source() -> AsyncIterator[Chunk]:
                    async for piece in reply.content.iter_any():
                        yield Chunk("text-delta", "word " * 20 if kind == b"application/json" else " word", "t")
                        await send({"type": "http.response.body", "body": piece, "more_body": True})

                async with run.process_output_stream(source(), release="live", last=False, **info) as stream:
                    async for _ in stream:
                        pass
            message = run.message_list.completed(stream.message)
            await run.judge_step(message, about)
            await run.process_output_result(None, finish_reason="stop", usage=None)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return guarded_app


if __name__ == "__main__":
    policy = sys.argv[3] if len(sys.argv) > 3 else ""
    made = reading() if policy == "--reads" else guarded(policy) if policy else app
    uvicorn.run(made, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False, ws="none")
