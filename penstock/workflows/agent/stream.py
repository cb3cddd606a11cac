"""`AgentStream`: what an agent answers, chunk by chunk, and how it ended. It knows the loop, no stage.

The loop runs in the frame of whoever reads, so nothing is ever ahead of the reader; in a task of its own only where
something goes on beside the model.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Generic, Self, cast

import anyio
from typing_extensions import TypeVar

from penstock.engine.background import Background
from penstock.engine.chunks import Chunk
from penstock.engine.errors import UsageError
from penstock.workflows.agent.ending import ended
from penstock.workflows.agent.loop import Loop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectSendStream

    from penstock.engine.frozen import Value
    from penstock.engine.messages import Message
    from penstock.engine.model import Usage
    from penstock.engine.run import Run
    from penstock.engine.tripwire import Tripwire
    from penstock.workflows.agent.options import RequestOptions
    from penstock.workflows.agent.progress import Task
    from penstock.workflows.agent.results import AgentResult, ModelResponse, Status, StepResult

_LOG = logging.getLogger("penstock.agent")

_PATIENCE = 10.0
"""Seconds for closing what is still open when a stream is left."""

T = TypeVar("T", default=object)
V = TypeVar("V")

Prepare = Callable[[], Awaitable["tuple[Run, Task]"]]
"""Makes ready what a request needs."""


class Field(Generic[V]):
    """Something that is known when the stream has ended: await it. What is left of the stream is read for it."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Awaitable[V]]) -> None:
        self._read = read

    def __await__(self) -> Generator[object, None, V]:
        """Wait for it."""
        return self._read().__await__()


class Chunks:
    """Reads a stream's chunks; no generator, which would have to be closed by whoever reads only some."""

    __slots__ = ("_next",)

    def __init__(self, following: Callable[[], Awaitable[Chunk | None]]) -> None:
        self._next = following

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk."""
        chunk = await self._next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk


class Texts:
    """Reads a stream's pieces of text."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> str:
        """Return the next piece."""
        while True:
            chunk = await self._chunks.__anext__()
            if chunk.type == "text-delta":
                return chunk.text


class AgentStream(Generic[T]):
    """An agent's answer as it comes. Made by `Agent.stream`; enter it, then iterate over it, or await its fields.

    Leaving it early ends the request: the model's stream is closed, tools are cancelled. A request that fails raises
    its error to whoever reads, once all has left that may; the fields tell then how it ended.
    """

    def __init__(self, prepare: Prepare, options: RequestOptions) -> None:
        self._prepare = prepare
        self._options = options
        self._closing = AsyncExitStack()
        self._chunks: AsyncGenerator[Chunk] | None = None
        self._loop: Loop | None = None
        self._result: AgentResult[T] | None = None
        self._taken = False
        self._buffer: deque[Chunk] = deque()
        self._busy: anyio.Event | None = None  # set when a pull has ended that another waits for
        self._reading = False
        self._pulling: anyio.CancelScope | None = None
        self._cancelled = False
        self._raised = False

    # What comes

    @property
    def full_stream(self) -> AsyncIterator[Chunk]:
        """All that leaves, chunk by chunk: ``start``, what the steps give, ``finish``; or a ``tripwire`` as the last.

        Raises:
            UsageError: the stream was not entered, or is being read already.
        """
        return self._read()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The answer's text, piece by piece. What is retracted later is in it: watch `full_stream` where that matters.

        Raises:
            UsageError: the stream was not entered, or is being read already.
        """
        return Texts(self._read())

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """Return `full_stream`."""
        return self._read()

    def _read(self) -> Chunks:
        if self._chunks is None:
            raise UsageError("enter the stream first: async with agent.stream(...) as stream")
        if self._taken:
            raise UsageError("a stream is read once; keep its chunks where you need them again")
        self._taken = True
        return Chunks(self._next)

    # How it ended

    @property
    def status(self) -> Status:
        """How the request stands."""
        return "running" if self._result is None else self._result.status

    @property
    def result(self) -> Field[AgentResult[T]]:
        """All that came of the request."""
        return Field(self._whole)

    @property
    def text(self) -> Field[str]:
        """See `AgentResult.text`."""
        return self._field("text")

    @property
    def object(self) -> Field[T | None]:
        """See `AgentResult.object`."""
        return self._field("object")

    @property
    def tripwire(self) -> Field[Tripwire | None]:
        """See `AgentResult.tripwire`."""
        return self._field("tripwire")

    @property
    def finish_reason(self) -> Field[str | None]:
        """See `AgentResult.finish_reason`."""
        return self._field("finish_reason")

    @property
    def steps(self) -> Field[tuple[StepResult, ...]]:
        """See `AgentResult.steps`."""
        return self._field("steps")

    @property
    def usage(self) -> Field[Usage]:
        """See `AgentResult.usage`."""
        return self._field("usage")

    @property
    def messages(self) -> Field[tuple[Message, ...]]:
        """See `AgentResult.messages`."""
        return self._field("messages")

    @property
    def response(self) -> Field[ModelResponse]:
        """See `AgentResult.response`."""
        return self._field("response")

    def _field(self, name: str) -> Field[Value]:
        async def read() -> Value:
            return getattr(await self._whole(), name)

        return Field(read)

    async def _whole(self) -> AgentResult[T]:
        """Return the result; what is left of the stream is read, and kept for whoever iterates."""
        if self._result is None and self._chunks is None:
            raise UsageError("enter the stream first: async with agent.stream(...) as stream")
        while self._result is None:
            chunk = await self._next(keep=True)
            if chunk is None:
                break
        return cast("AgentResult[T]", self._result)

    def cancel(self) -> None:
        """End the request; what is left to read is one ``abort`` chunk. The fields tell what came until then."""
        if self._result is None:
            self._cancelled = True
            if self._pulling is not None:
                self._pulling.cancel()

    # Reading

    async def _next(self, *, keep: bool = False) -> Chunk | None:
        """Return the next chunk; None at the end. ``keep``: it stays for whoever iterates.

        Raises:
            Exception: what the request failed with, to the first that reads to the end.
        """
        while self._reading:
            self._busy = self._busy or anyio.Event()
            await self._busy.wait()
        if self._buffer and not keep:
            return self._buffer.popleft()
        if self._result is not None:
            return None
        self._reading = True
        try:
            chunk = await self._pulled()
            if chunk is None:
                await self._finished()
                return None
        finally:
            self._reading = False
            if self._busy is not None:
                self._busy.set()
                self._busy = None
        if keep:
            self._buffer.append(chunk)
        if self._options.on_chunk is not None:
            try:
                await self._tell("on_chunk", chunk)
            except BaseException:  # whoever reads was cancelled; the chunk is for the next that reads
                if not keep:
                    self._buffer.appendleft(chunk)
                raise
        return chunk

    async def _pulled(self) -> Chunk | None:
        chunks = cast("AsyncGenerator[Chunk]", self._chunks)
        if not self._cancelled:
            try:
                with anyio.CancelScope() as self._pulling:
                    return await chunks.__anext__()
            except StopAsyncIteration:
                return None
            except BaseException:  # whoever reads was cancelled, and with him the loop: what is left is its end
                self._cancelled = True
                raise
            finally:
                self._pulling = None
        await chunks.aclose()
        cast("Loop", self._loop).run.abandon()
        self._result = self._ended("cancelled")
        return Chunk("abort", run_id=self._result.run_id)

    async def _finished(self) -> None:
        """Note how it ended, and tell; raise what it failed with."""
        self._result = self._ended()
        error = self._result.error
        if error is not None:
            await self._tell("on_error", error)
        await self._tell("on_finish", self._result)
        if error is not None:
            raise error

    def _ended(self, status: Status | None = None) -> AgentResult[T]:
        loop = cast("Loop", self._loop)
        return cast("AgentResult[T]", ended(loop.run, loop.progress, status, self._options.output_type))

    async def _tell(self, name: str, what: Value) -> None:
        """Call one of the caller's own functions; what it raises is logged, and changes nothing."""
        function: Callable[[Value], Value] | None = getattr(self._options, name)
        if function is None:
            return
        try:
            done = function(what)
            if inspect.isawaitable(done):
                await done
        except Exception as error:  # noqa: BLE001 - a request's outcome does not hang on it
            _LOG.warning("%s raised %s; the request goes on", name, type(error).__name__)

    # Opening and closing

    async def __aenter__(self) -> Self:
        """Make ready; no model is asked yet.

        Raises:
            UsageError: it was entered before.
            PenstockError: the request's own options or functions cannot be meant.
        """
        if self._chunks is not None:
            raise UsageError("a stream is entered once; make another with agent.stream(...)")
        run, task = await self._prepare()
        background = Background()
        await background.open()
        self._closing.push_async_exit(functools.partial(_close, background))
        try:
            await self._closing.enter_async_context(run)
        except BaseException:
            await self._closing.aclose()
            raise
        self._loop = Loop(run, task, background, lambda step: self._tell("on_step_finish", step))
        chunks = self._loop.chunks()
        if run.waits_beside:
            chunks = self._conducted(chunks, background)
        self._chunks = chunks
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what goes on still."""
        chunks = cast("AsyncGenerator[Chunk]", self._chunks)
        if self._pulling is not None:
            self.cancel()
            with anyio.CancelScope(shield=True):
                while self._reading:  # until whoever reads has seen it
                    self._busy = self._busy or anyio.Event()
                    await self._busy.wait()
        try:
            with anyio.move_on_after(_PATIENCE, shield=True):
                await chunks.aclose()
            if self._result is None:
                cast("Loop", self._loop).run.abandon()
                self._result = self._ended("cancelled")
        finally:
            await self._closing.__aexit__(kind, error, trace)

    @staticmethod
    async def _conducted(chunks: AsyncGenerator[Chunk], background: Background) -> AsyncGenerator[Chunk]:
        """Yield chunks that a task of its own reads, one at a time."""
        send, receive = anyio.create_memory_object_stream[Chunk](0)
        background.start(_conduct, chunks, send)
        try:
            async with receive:
                async for chunk in receive:
                    yield chunk
        finally:
            background.cancel()


async def _conduct(chunks: AsyncGenerator[Chunk], send: MemoryObjectSendStream[Chunk]) -> None:
    async with send, aclosing(chunks):
        try:
            async for chunk in chunks:
                await send.send(chunk)
        except anyio.BrokenResourceError:
            return  # nobody reads any more


async def _close(
    background: Background,
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    await background.close(error)
