"""`SyncAgentStream`: the answer of an agent chunk by chunk, without ``await``.

The request runs in an event loop of its own, in another thread, in a single task: objects that it reads and closes may
belong to that task.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, Self, cast

import anyio
from anyio.from_thread import start_blocking_portal
from typing_extensions import TypeVar

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import TracebackType

    from anyio.from_thread import BlockingPortal
    from anyio.streams.memory import MemoryObjectSendStream

    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.agent.results import AgentResult, Status
    from penstock.workflows.agent.stream import AgentStream

T = TypeVar("T", default=object)


class SyncAgentStream(Generic[T]):
    """The answer of an agent while it is generated, for code without ``await``. Made by `Agent.stream_sync`.

    Enter it with ``with``, then iterate over it once. Leaving the block early ends the request.
    """

    def __init__(self, stream: AgentStream[T]) -> None:
        self._stream = stream
        self._closing = ExitStack()
        self._portal: BlockingPortal | None = None
        self._works: MemoryObjectSendStream[tuple[Callable[[], Awaitable[Any]], Future[Any]]] | None = None
        self._served: Future[None] | None = None

    def __enter__(self) -> Self:
        """Prepare the request; the model is not called yet.

        Raises:
            UsageError: the stream was entered before.
            PenstockError: the options or the functions of the request are not usable.
        """
        if self._portal is not None:
            raise UsageError("a stream can be entered once only; make another with agent.stream_sync(...)")
        self._portal = self._closing.enter_context(start_blocking_portal())
        ready: Future[Any] = Future()
        self._served = self._portal.start_task_soon(self._serve, ready)
        try:
            self._works = ready.result()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request, if it has not ended."""
        with self._closing:
            cast("BlockingPortal", self._portal).call(self._leave)
            cast("Future[None]", self._served).result()

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks for the client, as `AgentStream.full_stream`."""
        chunks = self._stream.full_stream
        while (chunk := self._do(lambda: anext(chunks, None))) is not None:
            yield cast("Chunk", chunk)

    @property
    def text_stream(self) -> Iterator[str]:
        """The text of the answer, piece by piece."""
        return (chunk.text for chunk in self if chunk.type == "text-delta")

    @property
    def status(self) -> Status:
        """The status of the request: ``running`` until the end, then as in `AgentResult`."""
        return self._stream.status

    @property
    def result(self) -> AgentResult[T]:
        """The whole result; the rest of the stream is read first."""
        return cast("AgentResult[T]", self._do(self._result))

    @property
    def text(self) -> str:
        """The text of all accepted steps; the rest of the stream is read first."""
        return self.result.text

    def cancel(self) -> None:
        """End the request; see `AgentStream.cancel`. It may be called from another thread."""
        cast("BlockingPortal", self._portal).call(self._stream.cancel)

    async def _result(self) -> AgentResult[T]:
        return await self._stream.result

    def _do(self, work: Callable[[], Awaitable[object]]) -> object:
        """Do something in the task of the request, and return its result."""
        if self._works is None or self._portal is None:
            raise UsageError("enter the stream first: with agent.stream_sync(...) as stream")
        done: Future[object] = Future()
        try:
            self._portal.call(self._works.send_nowait, (work, done))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError):
            raise UsageError("the stream was left; read it within its with block") from None
        return done.result()

    async def _serve(self, ready: Future[Any]) -> None:
        """Hold the stream, and serve the calls of the other thread, until it leaves."""
        send, receive = anyio.create_memory_object_stream[tuple["Callable[[], Awaitable[Any]]", "Future[Any]"]](1)
        try:
            async with send, receive, self._stream:
                ready.set_result(send)
                async for work, done in receive:
                    try:
                        done.set_result(await work())
                    except Exception as error:  # noqa: BLE001 - raised in the thread that asked
                        done.set_exception(error)
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _leave(self) -> None:
        self._stream.cancel()  # a read may still wait, if the other thread was interrupted
        if self._works is not None:
            self._works.close()
