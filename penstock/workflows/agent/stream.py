"""`AgentStream`: the answer of an agent, chunk by chunk, and how the request ended.

The loop runs in the task of the reader, so nothing is read ahead of the reader. It gets a task of its own only if
some check runs concurrently with the model.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, Self, cast

import anyio
from typing_extensions import TypeVar

from penstock.engine.tasks import BackgroundTasks, close_in, on_asyncio, within
from penstock.engine.values.chunks import Chunk, tripwire_chunk
from penstock.engine.values.errors import NestingError, UsageError
from penstock.engine.values.growing_text import GrowingText
from penstock.engine.values.usage import usage_payload
from penstock.workflows.agent.emitter import Emitter
from penstock.workflows.agent.loop import Loop, make_result
from penstock.workflows.agent.tools import AGENT_DEPTH
from penstock.workflows.agent.ui_messages import UIAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Sequence
    from types import TracebackType

    from anyio.streams.memory import MemoryObjectSendStream

    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import Usage
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.agent.options import RequestOptions
    from penstock.workflows.agent.request import RequestTask
    from penstock.workflows.agent.results import AgentResult, ModelResponse, Status, StepResult


V = TypeVar("V")


class StreamField(Generic[V]):
    """A value that is known at the end of the stream. ``await`` it: the rest of the stream is read first."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Awaitable[V]]) -> None:
        self._read = read

    def __await__(self) -> Generator[object, None, V]:
        """Wait for the value."""
        return self._read().__await__()


class StreamReader(Generic[V]):
    """Iterates over the chunks of a stream, or over a part of each.

    It is not a generator, because a generator has to be closed by a caller who reads only a part.

    Args:
        buffer: the chunks that are read and not taken yet.
        read_more: adds at least one to them; raises StopAsyncIteration at the end.
        pick: returns the item for a chunk; None for a chunk that is left out.
    """

    __slots__ = ("_buffer", "_pick", "_read_more")

    def __init__(
        self, buffer: list[Chunk], read_more: Callable[[], Awaitable[None]], pick: Callable[[Chunk], V | None]
    ) -> None:
        self._buffer = buffer
        self._read_more = read_more
        self._pick = pick

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> V:
        """Return the next item."""
        while True:
            while not self._buffer:
                await self._read_more()
            item = self._pick(self._buffer.pop(0))
            if item is not None:
                return item


_LOG = logging.getLogger("penstock.agent")

_CLOSE_SECONDS = 10.0
"""How long a stream may take to close what is still open, in seconds."""

T = TypeVar("T", default=object)

Prepare = Callable[[], Awaitable["tuple[Run, RequestTask]"]]
"""Prepares the run and the task of a request."""


class AgentStream(Generic[T]):
    """The answer of an agent while it is generated. Made by `Agent.stream`.

    Enter it with ``async with``, then iterate over it once, or await its fields: ``await stream.text``. To await a
    field reads the rest of the stream; its chunks are kept for a later iteration. Leaving the block early ends the
    request: the stream of the model is closed, and tools are cancelled. If the request fails, its error is raised once,
    to the first reader that reaches the end, after all chunks that may leave; the fields are available after that.
    """

    def __init__(self, prepare: Prepare, options: RequestOptions) -> None:
        self._prepare = prepare
        self._options = options
        self._background: BackgroundTasks  # while it is open
        self._chunks: Emitter[Chunk] | None = None
        self._loop: Loop | None = None
        self._result: AgentResult[T] | None = None
        self._started = False
        self._buffer: list[Chunk] = []  # what is read and not taken yet: one chunk, or what came before a field
        self._read_done: anyio.Event | None = None  # set when a read has ended that another task waits for
        self._reading = False
        self._sent = UIAnswer() if options.ui_messages else None
        self._unfinished = GrowingText()  # the text of the step at hand, as it was read
        self._in_task = False  # whether the loop has a task of its own
        self._cancelled = False
        self._error: Exception | None = None  # of the request, until it was raised

    # Chunks

    @property
    def full_stream(self) -> AsyncIterator[Chunk]:
        """The chunks for the client: ``start``, the chunks of the steps, ``finish``; or a ``tripwire`` as the last.

        If the request fails, an ``error`` chunk comes before the end; if the model failed, the step and the request end
        after it as usual, with ``step-finish`` and ``finish``.

        Raises:
            UsageError: the stream was not entered, or is read already.
            PenstockError: on iteration, the error that ended the request; see `Agent.generate`.
        """
        return self._reader(lambda chunk: chunk)

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text of the answer, piece by piece.

        It also contains text that is retracted later: read `full_stream` where that matters.

        Raises:
            UsageError: the stream was not entered, or is read already.
            PenstockError: on iteration, the error that ended the request; see `Agent.generate`.
        """
        return self._reader(lambda chunk: chunk.text if chunk.type == "text-delta" else None)

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """Return `full_stream`."""
        return self._reader(lambda chunk: chunk)

    def _reader(self, pick: Callable[[Chunk], V | None]) -> StreamReader[V]:
        """Begin to read."""
        if self._chunks is None:
            raise _not_entered()
        if self._started:
            raise UsageError("a stream can be read once only; keep its chunks if you need them again")
        self._started = True
        return StreamReader(self._buffer, self._read_more, pick)

    # The result

    @property
    def status(self) -> Status:
        """The status of the request: ``running`` until the end, then as in `AgentResult`."""
        return "running" if self._result is None else self._result.status

    @property
    def result(self) -> StreamField[AgentResult[T]]:
        """The whole result; ``await`` it, as all fields below."""
        return StreamField(self._whole)

    @property
    def text(self) -> StreamField[str]:
        """The text of all accepted steps, after the guards."""
        return self._field("text")

    @property
    def object(self) -> StreamField[T | None]:
        """The object requested with ``output_type``; None if there is none."""
        return self._field("object")

    @property
    def tripwire(self) -> StreamField[Tripwire | None]:
        """The verdict that stopped the request, or None."""
        return self._field("tripwire")

    @property
    def finish_reason(self) -> StreamField[str | None]:
        """Why the last step ended; ``other`` if blocked, ``aborted`` if cancelled, ``error`` if failed."""
        return self._field("finish_reason")

    @property
    def steps(self) -> StreamField[tuple[StepResult, ...]]:
        """Every attempt of the model, including rejected ones."""
        return self._field("steps")

    @property
    def usage(self) -> StreamField[Usage]:
        """The tokens of all attempts."""
        return self._field("usage")

    @property
    def messages(self) -> StreamField[tuple[Message, ...]]:
        """The conversation, without system messages."""
        return self._field("messages")

    @property
    def response(self) -> StreamField[ModelResponse]:
        """The provider's report about the last answer, and the messages that are new."""
        return self._field("response")

    def _field(self, name: str) -> StreamField[Value]:
        async def read() -> Value:
            return getattr(await self._whole(), name)

        return StreamField(read)

    async def _whole(self) -> AgentResult[T]:
        """Return the result; the rest of the stream is read, and kept for a later iteration."""
        while self._result is None:
            await self._read_more()
        error = self._take_error()
        if error is not None:
            raise error
        return self._result

    def cancel(self) -> None:
        """End the request. One ``abort`` chunk follows; the fields hold the values until then.

        Does nothing if the request has ended, or a verdict has ended it.
        """
        if self._result is not None or (self._loop is not None and self._loop.over):
            return
        self._cancelled = True
        if self._chunks is None or not self._chunks.busy:
            return
        if self._in_task:
            self._background.cancel()
        else:
            self._chunks.cancel()

    # Reading

    async def _read_more(self) -> None:  # noqa: C901, PLR0915 - one loop, without calls that cost time
        """Read one more chunk, or wait for the task that reads. After the last chunk, the result is set at once.

        Raises:
            StopAsyncIteration: there is none.
            Exception: the error that ended the request, to the first reader at the end.
            UsageError: the stream was not entered.
        """
        if self._result is not None:
            raise self._take_error() or StopAsyncIteration
        loop, chunks = self._loop, self._chunks
        if loop is None or chunks is None:
            raise _not_entered()
        if self._reading:
            await self._wait_for_reader()
            return
        self._reading = True
        made: list[Chunk] = []
        ended = False
        try:
            while not ended:
                if self._cancelled:
                    made.append(await self._aborted(loop, chunks))
                    break
                try:
                    chunk = await chunks.__anext__()
                except StopAsyncIteration:
                    ended = self._end(loop)
                    continue
                except BaseException:  # the reader was cancelled, and the loop with it
                    self._cancelled = True
                    raise
                made.append(self._noted(chunk, loop))
                if chunk.type == "text-delta" or not loop.over:  # a text is never the last
                    break
        finally:
            self._buffer += made
            self._reading = False
            if self._read_done is not None:
                self._read_done.set()
                self._read_done = None
        if ended or self._cancelled or self._options.on_chunk is not None:
            await self._call_back_all(made)

    async def _wait_for_reader(self) -> None:
        """Wait until the read of another task has ended."""
        self._read_done = self._read_done or anyio.Event()
        await self._read_done.wait()

    async def _call_back_all(self, made: Sequence[Chunk]) -> None:
        if self._options.on_chunk is not None:
            for chunk in made:
                await _call_back(self._options, "on_chunk", chunk)
        if self._result is not None and self._result.status != "cancelled":
            if self._error is not None:
                await _call_back(self._options, "on_error", self._error)
            await _call_back(self._options, "on_finish", self._result)

    def _end(self, loop: Loop) -> bool:
        """Set the result after the last chunk; not if the request was cancelled, since another chunk follows then."""
        if self._cancelled:
            return False
        loop.check_over()
        self._result = self._ended(loop)
        return True

    async def _aborted(self, loop: Loop, chunks: Emitter[Chunk]) -> Chunk:
        """Close the loop of a request that was cancelled; return the last chunk."""
        await chunks.aclose()
        self._result = self._abandoned(loop)
        tripwire, run_id = self._result.tripwire, self._result.run_id
        return Chunk("abort", run_id=run_id) if tripwire is None else tripwire_chunk(tripwire, run_id)

    def _noted(self, chunk: Chunk, loop: Loop) -> Chunk:
        """Note a chunk that leaves; return it, and a ``finish`` with the answer as UI messages, if they are wanted."""
        if chunk.type == "text-delta":
            self._unfinished.write(chunk.text)
        elif chunk.type == "step-finish":  # the start of the next step may be held
            self._unfinished = GrowingText()
        sent = self._sent
        if sent is None:
            return chunk
        if chunk.type != "finish":
            sent.add(chunk)
            return chunk
        return sent.finish(chunk, loop.run.message_list.response)

    def _take_error(self) -> Exception | None:
        """Return the error of the request, once."""
        error, self._error = self._error, None
        return error

    def _abandoned(self, loop: Loop) -> AgentResult[T]:
        """Return the result of a request that was given up; an earlier verdict or error is kept.

        A ``finish`` that was on its way does not count: in a task of its own the loop may be one chunk ahead.
        """
        loop.run.abandon()
        decided = loop.run.tripwire is not None or loop.progress.error is not None
        return self._ended(loop, None if decided else "cancelled")

    def _ended(self, loop: Loop, status: Status | None = None) -> AgentResult[T]:
        self._error = loop.progress.error
        made = make_result(loop.run, loop.progress, status, self._unfinished.getvalue(), loop.earlier_spent)
        result = cast("AgentResult[T]", made)
        loop.run.note_end(status=result.status, finish_reason=result.finish_reason, usage=usage_payload(result.usage))
        return result

    # Opening and closing

    async def __aenter__(self) -> Self:
        """Prepare the request; the model is not called yet.

        Raises:
            UsageError: the stream was entered before.
            NestingError: too many agents run within each other.
            PenstockError: the options or the functions of the request are not usable.
        """
        if self._chunks is not None:
            raise UsageError("a stream can be entered once only; make another with agent.stream(...)")
        most = self._options.max_depth
        if AGENT_DEPTH.get() >= most:
            raise NestingError(
                f"{most} agents run within each other, each as a tool of the one before, which is as deep as max_depth "
                "allows; most likely an agent is its own tool"
            )
        run, task = await self._prepare()
        background = self._background = BackgroundTasks()
        await background.open()
        try:
            await run.__aenter__()
        except BaseException as error:
            await background.close(error)
            raise
        on_step = functools.partial(_call_back, self._options, "on_step_finish")  # which does not refer to the stream
        self._loop = Loop(run, task, background, on_step)
        chunks = Emitter(self._loop.emit_chunks)
        self._in_task = run.runs_beside_model or not on_asyncio()
        if self._in_task:
            chunks = Emitter(functools.partial(_read_in_background, chunks, background))
        self._chunks = chunks
        del self._prepare  # it holds what the caller gave
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request, if it has not ended."""
        if self._chunks is not None and self._chunks.busy:
            self.cancel()
            with anyio.CancelScope(shield=True):
                while self._reading:  # until the reader has seen it
                    await self._wait_for_reader()
        try:
            await self._close_chunks()
            if self._result is None and self._loop is not None:
                self._result = self._abandoned(self._loop)
            if self._loop is not None and self._loop.claimed:  # it was cancelled, left or broke off
                with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await self._loop.give_back()
            self._error = None  # leaving early is not a failure
        finally:
            await self._close(kind, error, trace)

    async def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the run, and the tasks around it, even if closing the run fails."""
        try:
            if self._loop is not None:
                await self._loop.run.__aexit__(kind, error, trace)
        except BaseException as raised:
            await self._background.close(raised)
            raise
        await self._background.close(error)

    async def _close_chunks(self) -> None:
        """Close the loop, in its own task or in this one; also if this task is cancelled, but for a limited time."""
        chunks = cast("Emitter[Chunk]", self._chunks)
        if chunks.over:
            return
        if self._in_task:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await chunks.aclose()
            return
        with self._background.shielded():
            await within(_CLOSE_SECONDS, chunks.aclose())


def _not_entered() -> UsageError:
    return UsageError("enter the stream first: async with agent.stream(...) as stream")


async def _call_back(options: RequestOptions, name: str, what: Value) -> None:
    """Call a callback of the caller; an exception in it is logged, and the request goes on."""
    function: Callable[[Value], Value] | None = getattr(options, name)
    if function is None:
        return
    try:
        done = function(what)
        if inspect.isawaitable(done):
            await done
    except Exception as error:  # noqa: BLE001 - a callback does not decide about a request
        _LOG.warning("%s raised %s; the request goes on", name, type(error).__name__)


async def _read_in_background(chunks: Emitter[Chunk], background: BackgroundTasks, out: Emitter[Chunk]) -> None:
    """Emit chunks that a task of its own reads, one at a time."""
    send, receive = anyio.create_memory_object_stream[Chunk](0)
    done = anyio.Event()
    background.start(_forward, chunks, send, done)
    try:
        async with receive:
            async for chunk in receive:
                await out.emit(chunk)
    finally:
        background.cancel()
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await done.wait()  # by then the loop has rolled back what it had to


async def _forward(chunks: Emitter[Chunk], send: MemoryObjectSendStream[Chunk], done: anyio.Event) -> None:
    """Run the loop, and close it in the same task: a model's stream may hold a cancel scope across its chunks."""
    with anyio.CancelScope() as scope:
        try:
            async with send:
                async for chunk in chunks:
                    await send.send(chunk)
        except anyio.BrokenResourceError:
            return  # the reader has left
        finally:
            close_in(scope, _CLOSE_SECONDS)
            try:
                await chunks.aclose()
            finally:
                done.set()
