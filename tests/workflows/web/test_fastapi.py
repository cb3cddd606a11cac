"""Whether `@app.post` of FastAPI serves both responses, with dependencies, and ends them with their client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

import anyio
import httpx
import pytest
from fastapi import BackgroundTasks, Body, Depends, FastAPI

from penstock import Agent, Chunk
from penstock.testing import ScriptedModel
from penstock.workflows.web import (
    ChatCompletionsEncoder,
    PlainTextEncoder,
    StreamedResponse,
    WholeResponse,
    chat_completions,
    plain_text,
)

done: list[str] = []


class Silent:
    """A model that says nothing, and tells when it is begun and closed."""

    name = "silent"

    def __init__(self) -> None:
        self.begun, self.closed = anyio.Event(), anyio.Event()

    async def stream(self, request: object) -> AsyncGenerator[Chunk]:
        """Wait until the request ends."""
        self.begun.set()
        try:
            await anyio.sleep_forever()
            yield Chunk("text-delta", "never", "1")
        finally:
            self.closed.set()


async def resource() -> AsyncGenerator[str]:
    """A dependency that is cleaned up."""
    yield "resource"
    done.append("closed")


def served(agent: Agent) -> FastAPI:
    """Return an application with both endpoints, and with annotations as users write them."""
    app = FastAPI()

    @app.post("/stream")
    async def stream(
        body: Annotated[dict, Body()], held: Annotated[str, Depends(resource)], after: BackgroundTasks
    ) -> StreamedResponse:
        after.add_task(done.append, "after")
        asked = chat_completions.read_request(body)
        encoder = ChatCompletionsEncoder.answering(asked)
        return StreamedResponse(
            chat_completions.stream(agent.stream(asked.messages), encoder), chat_completions.HEADERS
        )

    @app.post("/whole")
    async def whole(
        body: Annotated[dict, Body()], held: Annotated[str, Depends(resource)]
    ) -> WholeResponse[ChatCompletionsEncoder]:
        asked = chat_completions.read_request(body)
        encoder = ChatCompletionsEncoder.answering(asked)
        return WholeResponse(agent.generate(asked.messages), chat_completions.answer, encoder)

    @app.post("/either", response_model=None, dependencies=[Depends(resource)])
    async def either(body: Annotated[dict, Body()]) -> WholeResponse | StreamedResponse:
        return WholeResponse(agent.generate(str(body)), plain_text.answer, PlainTextEncoder(), status=202)

    return app


BODY = {"messages": [{"role": "user", "content": "Hi"}]}


async def test_fastapi_serves_both_from_its_own_decorators() -> None:
    """With dependencies, background tasks, headers and the status."""
    done.clear()
    transport = httpx.ASGITransport(served(Agent(ScriptedModel(["Hello."], repeat_last=True))))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        streamed = await client.post("/stream", json=BODY)
        whole = await client.post("/whole", json=BODY)
        either = await client.post("/either", json=BODY)
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert '"content":"Hello."' in streamed.text
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert whole.json()["choices"][0]["message"]["content"] == "Hello."
    assert (either.status_code, either.text) == (202, "Hello.")
    assert done.count("closed") == 3
    assert done.count("after") == 1


@pytest.mark.parametrize("path", ["/stream", "/whole"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_answer_in_fastapi_ends_with_its_client(path: str) -> None:
    """While the model is silent."""
    model = Silent()
    app = served(Agent(model))
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-type", b"application/json")]}
    scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http", "server": ("test", 80)}
    pieces = iter([{"type": "http.request", "body": b'{"messages":[{"role":"user","content":"Hi"}]}'}])

    async def receive() -> dict:
        piece = next(pieces, None)
        if piece is None:
            await model.begun.wait()
        return piece or {"type": "http.disconnect"}

    async def send(event: dict) -> None:
        """Take it."""

    with anyio.fail_after(60):
        await app(scope, receive, send)
    assert model.closed.is_set()
