"""A scripted provider behind `exchange`, and a client that reads the reply to its end."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock import Workflow
from penstock.workflows.gateway.ended import Ended
from penstock.workflows.gateway.exchange import exchange
from penstock.workflows.gateway.guards import Guards
from penstock.workflows.gateway.http import HttpRequest, StreamedBody, UpstreamError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from penstock.engine.workflow import Item
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint


@dataclass
class Scripted:
    """A provider that sends these pieces; an error among them is raised there."""

    sends: Sequence[bytes | UpstreamError]
    content_type: str = "text/event-stream"
    status: int = 200
    more: tuple[tuple[str, str], ...] = ()
    asked: list[HttpRequest] = field(default_factory=list)
    read: int = 0

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("content-type", self.content_type), *self.more)

    @asynccontextmanager
    async def send(self, request: HttpRequest) -> AsyncGenerator[Scripted]:
        self.asked.append(request)
        yield self

    async def pieces(self) -> AsyncGenerator[bytes]:
        for piece in self.sends:
            if isinstance(piece, UpstreamError):
                raise piece
            self.read += 1
            yield piece

    @property
    def got(self) -> Any:
        """The last request that it got, as a value."""
        return json.loads(self.asked[-1].body)


@dataclass
class Got:
    """A reply, read to its end; ``pieces``: as they came, each with how many pieces of the provider were read then."""

    status: int
    headers: dict[str, str]
    pieces: list[tuple[bytes, int]]
    ended: Ended

    @property
    def body(self) -> bytes:
        return b"".join(piece for piece, _ in self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of each event, without the last mark."""
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def event(data: object, kind: str = "") -> bytes:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


async def run_exchange(
    endpoint: Endpoint, body: object, upstream: Scripted, *steps: Item, direct: bool = True, **guards: Any
) -> Got:
    """Send a request through guards to a scripted provider, and read the reply; ``direct``: as the server reads it."""
    ended: list[Ended] = []
    workflow = Workflow("guard")
    for step in steps:
        workflow = workflow.then(step)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = HttpRequest("POST", endpoint.paths[0], (("content-type", "application/json"),), raw)
    async with exchange(endpoint, request, Guards(workflow, on_end=ended.append, **guards), upstream) as reply:
        if isinstance(reply.body, bytes):
            pieces = [(reply.body, upstream.read)]
        else:
            pieces = []

            async def send(piece: bytes) -> None:
                pieces.append((piece, upstream.read))

            if direct and isinstance(reply.body, StreamedBody):
                reply.body.send = send
            async for piece in reply.body:
                await send(piece)
    return Got(reply.status, dict(reply.headers), pieces, ended[0])


def cut(raw: bytes, places: Iterable[int]) -> list[bytes]:
    """Return bytes in pieces, cut at these places."""
    ends = sorted({place for place in places if 0 < place < len(raw)})
    return [raw[start:end] for start, end in zip([0, *ends], [*ends, len(raw)], strict=True)]
