"""`AgentStream`: what an agent answers, chunk by chunk, and how it ended. It knows the loop, no stage.

The loop runs in the frame of whoever reads, so nothing is ever ahead of the reader; in a task of its own only where
something goes on beside the model.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Generic, Self, cast

import anyio
from typing_extensions import TypeVar

from penstock.engine.tasks import BackgroundTasks
from penstock.engine.values.chunks import Chunk, tripwire_chunk
from penstock.engine.values.errors import UsageError
from penstock.workflows.agent.ending import ended
from penstock.workflows.agent.loop import Loop
from penstock.workflows.agent.pulling import CancelledPullError, Pulling
from penstock.workflows.agent.readers import Chunks, Field, Texts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectSendStream

    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import Usage
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.agent.options import RequestOptions
    from penstock.workflows.agent.progress import Task
    from penstock.workflows.agent.results import AgentResult, ModelResponse, Status, StepResult

_LOG = logging.getLogger("penstock.agent")

_PATIENCE = 10.0
"""Seconds for closing what is still open when a stream is left."""

T = TypeVar("T", default=object)

Prepare = Callable[[], Awaitable["tuple[Run, Task]"]]
"""Makes ready what a request needs."""


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
        self._pulling: Pulling[Chunk] | None = None
        self._loop: Loop | None = None
        self._result: AgentResult[T] | None = None
        self._taken = False
        self._buffer: deque[Chunk] = deque()
        self._busy: anyio.Event | None = None  # set when a pull has ended that another waits for
        self._reading = False
        self._cancelled = False
        self._due: Exception | None = None  # what it failed with, until somebody was told

    # What comes

    @property
    def full_stream(self) -> AsyncIterator[Chunk]:
        """All that leaves, chunk by chunk: ``start``, what the steps give, ``finish``; or a ``tripwire`` as the last.

        Of a failure an ``error`` tells, behind which a step that the model failed in ends as any other does.

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
            await self._more()
        self._raise_due()
        return self._result

    def cancel(self) -> None:
        """End the request; what is left to read is one ``abort`` chunk. The fields tell what came until then.

        Where the request has ended already, or a verdict has ended it, it changes nothing.
        """
        if self._result is None and not self._over:
            self._cancelled = True
            if self._pulling is not None:
                self._pulling.cancel()

    # Reading

    async def _next(self) -> Chunk | None:
        """Return the next chunk; None at the end.

        Raises:
            Exception: what the request failed with, to the first that reads to the end.
        """
        while not self._buffer:
            if self._result is not None:
                self._raise_due()
                return None
            await self._more()
        return self._buffer.popleft()

    async def _more(self) -> None:
        """Read on by a chunk, or wait for somebody who does. Behind the last chunk the result is there at once."""
        if self._reading:
            self._busy = self._busy or anyio.Event()
            await self._busy.wait()
            return
        self._reading = True
        made: list[Chunk] = []
        try:
            while self._result is None and (self._over or not made):
                chunk = await self._pulled()
                if chunk is None:
                    self._result = self._ended()
                else:
                    made.append(chunk)
        finally:
            self._reading = False
            if self._busy is not None:
                self._busy.set()
                self._busy = None
            self._buffer.extend(made)
        await self._tell_all(made)

    async def _tell_all(self, made: Sequence[Chunk]) -> None:
        if self._options.on_chunk is not None:
            for chunk in made:
                await self._tell("on_chunk", chunk)
        if self._result is not None and self._result.status != "cancelled":
            if self._due is not None:
                await self._tell("on_error", self._due)
            await self._tell("on_finish", self._result)

    @property
    def _over(self) -> bool:
        """Whether nothing can change any more how it ends."""
        return self._loop is not None and self._loop.over

    async def _pulled(self) -> Chunk | None:
        chunks = cast("AsyncGenerator[Chunk]", self._chunks)
        if not self._cancelled:
            try:
                return await cast("Pulling[Chunk]", self._pulling).next()
            except StopAsyncIteration:
                return None
            except CancelledPullError:
                pass
            except BaseException:  # whoever reads was cancelled, and with him the loop: what is left is its end
                self._cancelled = True
                raise
        await chunks.aclose()
        self._result = self._given_up()
        tripwire, run_id = self._result.tripwire, self._result.run_id
        return Chunk("abort", run_id=run_id) if tripwire is None else tripwire_chunk(tripwire, run_id)

    def _raise_due(self) -> None:
        """Raise what it failed with, once."""
        error, self._due = self._due, None
        if error is not None:
            raise error

    def _given_up(self) -> AgentResult[T]:
        """Return what came of a request that was given up; a verdict or an error that was there before counts."""
        loop = cast("Loop", self._loop)
        loop.run.abandon()
        return self._ended(None if loop.over else "cancelled")

    def _ended(self, status: Status | None = None) -> AgentResult[T]:
        loop = cast("Loop", self._loop)
        self._due = loop.progress.error
        return cast("AgentResult[T]", ended(loop.run, loop.progress, status))

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
        background = BackgroundTasks()
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
        self._chunks, self._pulling = chunks, Pulling(chunks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what goes on still."""
        chunks = cast("AsyncGenerator[Chunk]", self._chunks)
        if self._pulling is not None and self._pulling.busy:
            self.cancel()
            with anyio.CancelScope(shield=True):
                while self._reading:  # until whoever reads has seen it
                    self._busy = self._busy or anyio.Event()
                    await self._busy.wait()
        try:
            with anyio.move_on_after(_PATIENCE, shield=True):
                await chunks.aclose()
            self._result = self._result or self._given_up()
            self._due = None  # who leaves early does not want to know
        finally:
            await self._closing.__aexit__(kind, error, trace)

    @staticmethod
    async def _conducted(chunks: AsyncGenerator[Chunk], background: BackgroundTasks) -> AsyncGenerator[Chunk]:
        """Yield chunks that a task of its own reads, one at a time."""
        send, receive = anyio.create_memory_object_stream[Chunk](0)
        done = anyio.Event()
        background.start(_conduct, chunks, send, done)
        try:
            async with receive:
                async for chunk in receive:
                    yield chunk
        finally:
            background.cancel()
            with anyio.move_on_after(_PATIENCE, shield=True):
                await done.wait()  # what the loop takes back when it is left is not there any more behind this


async def _conduct(chunks: AsyncGenerator[Chunk], send: MemoryObjectSendStream[Chunk], done: anyio.Event) -> None:
    try:
        async with send, aclosing(chunks):
            async for chunk in chunks:
                await send.send(chunk)
    except anyio.BrokenResourceError:
        return  # nobody reads any more
    finally:
        done.set()


async def _close(
    background: BackgroundTasks,
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    await background.close(error)
