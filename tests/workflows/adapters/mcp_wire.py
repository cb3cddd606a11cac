"""Both ends of a proxy as raw messages, for tests: a server that says what a test wants, and a client that sees all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import jsonrpc_message_adapter

from penstock.workflows.adapters.mcp import GuardProxy

Json = dict[str, Any]


def raw(message: Json) -> SessionMessage:
    """Return a message as transports pass it."""
    return SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message}))


class Stranger:
    """A server that answers each message with what a function returns. Give it to `as_proxy`.

    Attributes:
        got: what it was sent.
    """

    def __init__(self, says: Callable[[Json], Iterable[Json]] | None = None, **results: Any) -> None:
        self.got: list[Json] = []
        self._says = says
        self._results = results
        self._out: Any = None

    def __call__(self) -> Any:
        """Return a transport."""
        return self._connected()

    async def say(self, message: Json) -> None:
        """Send a message by itself."""
        while self._out is None:  # noqa: ASYNC110 - another task or process does it
            await anyio.sleep(0.01)
        await self._out.send(raw(message))

    def close(self) -> None:
        """Go away."""
        self._out.close()

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Any, Any]]:
        to_us, ours = anyio.create_memory_object_stream[Any](100)
        self._out, to_proxy = anyio.create_memory_object_stream[Any](100)
        async with to_us, ours, self._out, to_proxy, anyio.create_task_group() as group:
            group.start_soon(self._work, ours)
            yield to_proxy, to_us
            group.cancel_scope.cancel()

    async def _work(self, ours: Any) -> None:
        async for item in ours:
            got = item.message.model_dump(exclude_unset=True)
            self.got.append(got)
            for answer in self._answers(got):
                await self._out.send(raw(answer))

    def _answers(self, got: Json) -> Iterable[Json]:
        if self._says is not None:
            return self._says(got)
        if "id" not in got or "method" not in got:
            return []
        made = self._results.get(got["method"].replace("/", "_"), {})
        return [{"id": got["id"], **(made if "error" in made else {"result": made})}]


class Wire:
    """A client of raw messages.

    Attributes:
        got: what it was sent beside the answers that it waited for.
    """

    def __init__(self, to_proxy: Any, from_proxy: Any) -> None:
        self.got: list[Json] = []
        self._to_proxy, self._from_proxy = to_proxy, from_proxy
        self._next = 0

    async def send(self, **message: Any) -> None:
        """Send a message."""
        await self._to_proxy.send(raw(message))

    async def next(self) -> Json:
        """Return the next message."""
        with anyio.fail_after(60):
            return (await self._from_proxy.receive()).message.model_dump(exclude_unset=True)  # type: ignore[no-any-return]

    async def ask(self, method: str, **params: Any) -> Json:
        """Send a request, and return its response."""
        self._next += 1
        await self.send(id=self._next, method=method, params=params)
        while (message := await self.next()).get("id") != self._next or "method" in message:
            self.got.append(message)
        return message

    async def call(self, name: str, **arguments: Any) -> Json:
        """Call a tool, and return the result."""
        response = await self.ask("tools/call", name=name, arguments=arguments)
        return response["result"]  # type: ignore[no-any-return]


@asynccontextmanager
async def wired(proxy: GuardProxy, session: str = "s") -> AsyncGenerator[Wire]:
    """Give a client of a proxy."""
    to_proxy, read = anyio.create_memory_object_stream[Any](100)
    write, from_proxy = anyio.create_memory_object_stream[Any](100)
    async with to_proxy, read, write, from_proxy, anyio.create_task_group() as group:

        async def serve() -> None:
            await proxy.serve((read, write), session)
            write.close()

        group.start_soon(serve)
        yield Wire(to_proxy, from_proxy)
        group.cancel_scope.cancel()


@asynccontextmanager
async def through(proxy: GuardProxy) -> AsyncGenerator[tuple[Any, Any]]:
    """Give the transport of a proxy, for the official client."""
    async with wired(proxy) as wire:
        yield wire._from_proxy, wire._to_proxy
