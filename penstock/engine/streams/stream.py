"""`OutputStream`: the chunks of one model step, as they leave a workflow.

Chunks are pulled one at a time, and nothing is yielded within a task group. `StreamHost` is the interface of
the stream's run, which keeps conversation and verdict, and judges the answer after the stream.
"""

from __future__ import annotations

import functools
import itertools
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeVar, TypeVarTuple

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from penstock.engine.execution.boundary import passes_through
from penstock.engine.execution.offloading import is_long_value
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STREAM
from penstock.engine.streams.builder import Builder
from penstock.engine.streams.hooks import (
    NOTHING,
    STEP_ENDS,
    HookPipe,
    chunks_of,
    end_all,
    feed_through,
    first_deadline,
    unended,
    wake_all,
)
from penstock.engine.streams.sources import (
    PATIENCE,
    WAKE,
    Ending,
    FromSync,
    TaskReader,
    as_chunk,
    close_source,
    failure_of,
    iterator_of,
)
from penstock.engine.streams.steps import Stopped, StreamCall
from penstock.engine.tasks import Pace, close_in, on_asyncio, run_without_loop, runs_without_loop
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.call_ids import OF_CALLS, CallIds
from penstock.engine.values.chunks import Chunk, notices
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.messages import Message
from penstock.engine.workers import LONG, run_in_worker

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Iterator,
        Sequence,
    )
    from types import TracebackType
    from typing import Self

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.graph.plan import StreamPlan
    from penstock.engine.graph.plan_cache import Hold
    from penstock.engine.processor.state import RunState, StageCall
    from penstock.engine.streams.hooks import Fed, Leaving, Pipe
    from penstock.engine.streams.sources import Source
    from penstock.engine.tracing.chunk_log import HeldMeter
    from penstock.engine.values.tripwire import Tripwire


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_JUDGES_HELD = frozenset({"tool-input-end", "tool-call", "text-end", "reasoning-end", *STEP_ENDS})
_SELDOM, _OFTEN = 63, 7  # a loop of quick hooks looks at the clock once in 64 chunks, one that reads texts in 8
_SHORT = 256  # characters of a piece of text before which nothing is looked after: no timers, checks or clocks
_STARTS = {"text-start": "text-delta", "reasoning-start": "reasoning-delta"}
_ENDS = {"text-end": "text-delta", "reasoning-end": "reasoning-delta"}
_DELTAS = frozenset(_STARTS.values())


class StreamNormalizer:
    """Normalizes the chunks that leave: a text's start waits for its first piece, and an empty text leaves nothing.

    Attributes:
        answer: the text that has left so far.
    """

    __slots__ = ("_begun", "answer")

    def __init__(self) -> None:
        self.answer = Assembly()
        self._begun: dict[tuple[str, str], Chunk] = {}  # starts without a text yet

    @property
    def current(self) -> tuple[str | None, Callable[[str], object]]:
        """The id of the current text and a function that appends to it; None as id where there is no current text."""
        text, write = self.answer.at_hand
        return _NOTHING_TO_WRITE if self._begun and ("text-delta", text) in self._begun else (text, write)

    def normalize(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Normalize chunks, and add them to the answer."""
        out: list[Chunk] = []
        for chunk in chunks:
            type = chunk.type
            if type in _DELTAS:
                if not chunk.text:
                    continue
                if self._begun:
                    start = self._begun.pop((type, chunk.id), None)
                    if start is not None:
                        self.answer.add(start)
                        out.append(start)
            elif type in _STARTS:
                self._begun[_STARTS[type], chunk.id] = chunk
                continue
            elif type in _ENDS and self._begun.pop((_ENDS[type], chunk.id), None) is not None:
                continue
            self.answer.add(chunk)
            out.append(chunk)
        return out


def _nothing(text: str) -> None:
    """Append nothing."""


_NOTHING_TO_WRITE: tuple[str | None, Callable[[str], object]] = (None, _nothing)
"""In place of the id of a text, and the function that appends to it: its pieces cannot leave as they are."""


class StreamHost(Protocol):
    """The interface of a stream's run. Each stream gets a host of its own; `Run` makes it."""

    @property
    def tripwire(self) -> Tripwire | None:
        """The verdict that ended the run, if one did."""
        ...

    @property
    def has_checks(self) -> bool:
        """Whether there are checks that overlap the model call."""
        ...

    async def run_checks(self) -> Outcome:
        """Run those checks; return their outcome."""
        ...

    def begin(self) -> tuple[StageCall, Payload]:
        """Begin the stage; return its call, and the payload that it starts from."""
        ...

    def passed(self, end: Payload, sent: Sequence[str], *, edited: bool) -> Outcome:
        """Keep the answer; ``sent``: the ids of the texts that the client has; ``edited``: whether steps changed it."""
        ...

    def stopped(self, tripwire: Tripwire, failure: Exception | None) -> Outcome:
        """Roll back to where the stage began; the outcome says whether the model gets another attempt."""
        ...

    async def judge(
        self, answer: Message, hold: Hold, held: list[Chunk]
    ) -> tuple[Outcome, Message | None, list[Chunk]]:
        """Run the stages that an answer's chunks are held for; return outcome, answer and released chunks."""
        ...

    def left(self, sent: int) -> None:
        """Forget the answers of which not all chunks were sent; ``sent``: how many of the judged ones were."""
        ...

    def chunk_log(self) -> HeldMeter | None:
        """Return a log of the chunks for the trace; None if nobody asks for their texts."""
        ...

    def closed(self, error: BaseException | None, log: HeldMeter | None) -> None:
        """Note that the stream is closed, however far it was read; ``error``: the exception, if any."""
        ...


class OutputStream:
    """The chunks of one answer, as they leave the workflow: an async context manager to iterate over.

    `Run.process_output_stream` returns it.

    Attributes:
        outcome: how the stream ended: its verdict, text and facts; None until it has ended. If chunks were held for
            a later stage, it is the outcome of that stage; None if the reader left before all of them were sent.
        judged: the same outcome, if chunks were held; else None.
    """

    outcome: Outcome | None
    judged: Outcome | None
    _before: Payload
    """The payload as the stage began."""
    _feed: Callable[[Chunk], Fed]
    """Feeds a chunk to all pipes."""
    _state: RunState
    """The state of the run, once chunks are read."""
    _takes_offers = False
    _offered: tuple[Chunk, Fed] | None = None
    """What became of a chunk that the source yields now."""
    _current = _NOTHING_TO_WRITE

    def __init__(self, host: StreamHost, plan: StreamPlan, source: Source, hold: Hold, *, sync: bool = False) -> None:
        self.outcome = self.judged = None
        self._answer: Message | None = None  # after a later stage
        self._host = host
        self._plan = plan
        iterator = iterator_of(source)
        if sync and not isinstance(iterator, FromSync):
            raise UsageError("a sync run reads a sync source, and this one is async; use workflow.start()")
        self._read = False
        self._hold: Hold = hold
        self._sync = sync
        self._clock = time.monotonic if sync else anyio.current_time
        if plan.ends:
            iterator = Ending(iterator)
            iterator.why = lambda: None if self._shared is None else self._shared.ending
        self._source: AsyncIterator[Chunk | str] = iterator
        self._iterator = iterator  # the source as it is read
        self._normalizer = StreamNormalizer()
        self._shared: StreamCall | None = None  # of the steps, if there are any
        self._pipes: Sequence[Pipe] = ()
        self._call_ids: CallIds | None = None  # made with the first call
        self._reader: TaskReader | None = None
        self._chunks: AsyncGenerator[Chunk] | None = None
        self._scope: anyio.CancelScope | None = None
        self._checks = host.run_checks if host.has_checks and not sync else None  # a sync stream runs them first
        self._checked: Outcome | None = None
        self._hooks_at_work: anyio.CancelScope | None = None  # while overlapping checks may stop them
        self._unsent: Iterator[tuple[int, Chunk]] = iter(())  # what is left of the judged chunks, numbered from 0
        self._held: list[Chunk] | None = None if hold == "live" and self._checks is None else []
        self._check_error: Exception | None = None
        self._log = host.chunk_log()

    @property
    def text(self) -> str:
        """The text of the answer that has left so far; empty while it is held, and after a verdict."""
        return "" if self.tripwire is not None or self._held is not None else self._normalizer.answer.text

    @property
    def sent_ids(self) -> tuple[str, ...]:
        """The ids of the texts of which something has left, in order. A client may have to take them back."""
        return self._normalizer.answer.blocks if self._held is None else ()

    @property
    def message(self) -> Message:
        """The answer so far, as a message for `Run.process_output_step`. Empty while it is held, and after a verdict.

        If chunks were held for a later stage, it is the answer as that stage left it.
        """
        if self.tripwire is not None or self._held is not None:
            return Message("assistant")
        return self._normalizer.answer.message if self._answer is None else self._answer

    @property
    def tripwire(self) -> Tripwire | None:
        """The verdict, if one stopped the stream."""
        return None if self.outcome is None else self.outcome.tripwire

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """Return the chunks.

        Raises:
            UsageError: the stream was not entered.
        """
        if self._chunks is None:
            raise UsageError("enter the stream first: async with run.process_output_stream(source) as chunks")
        if self._read:
            raise UsageError("a stream can be read once only; keep its chunks in a list to use them again")
        self._read = True
        return self._chunks

    def __iter__(self) -> NoReturn:
        """Raise an error: the stream is read asynchronously.

        Raises:
            UsageError: always.
        """
        raise UsageError("this stream is async: read it with `async for`, or use workflow.start_sync() for a sync one")

    __enter__ = __iter__

    async def __aenter__(self) -> Self:
        """Open the stream; nothing is read yet.

        Raises:
            UsageError: it was entered before.
        """
        if self._chunks is not None:
            raise UsageError("a stream can be entered once only; create a new one from a new source")
        if not self._sync and not on_asyncio():
            self._scope = anyio.CancelScope()
            self._scope.__enter__()  # around any scope of the source's
        if self._checks is not None or ((self._plan.timed or self._plan.gathers) and not self._sync):
            self._check_done = anyio.Event()
            self._reader = TaskReader(
                self._iterator if self._log is None else self._log.source(self._iterator, close_source)
            )
            await self._reader.open(None if self._checks is None else functools.partial(self._check, self._checks))
        elif self._log is not None:
            self._iterator = self._log.source(self._iterator, close_source)
        chunks = self._run()
        self._chunks = chunks if self._log is None else self._log.leaving(chunks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything, however far it was read."""
        try:
            if self._scope is None:
                await self._close()
            else:
                close_in(self._scope, PATIENCE)
                with ExitStack() as leaving:
                    leaving.push(self._scope)
                    await self._close()
        except BaseException as raised:
            self._host.closed(raised, self._log)
            raise
        self._host.closed(error, self._log)

    async def _close(self) -> None:
        """Close all opened objects, in reverse order, even if closing one fails."""
        try:
            if self._chunks is not None:
                await self._chunks.aclose()
        finally:
            self._forget_unsent()
            try:
                await (close_source(self._source) if self._reader is None else self._reader.close())
            finally:
                self._close_steps()
                if self._log is not None:
                    self._log.close()

    def _forget_unsent(self) -> None:
        """If the reader left before all judged chunks were sent, forget them: only sent ones count."""
        unsent = next(self._unsent, None)
        if unsent is None:
            return
        self._answer = None
        if self.tripwire is None:
            self.outcome = self.judged = None
        self._host.left(unsent[0])

    def offer(self, chunk: Chunk) -> Chunk | list[Chunk] | Literal[False] | None:
        """Judge a piece of text while its source works, which saves the way of a chunk through the stream.

        Only the source may call it, between two of its own chunks. It is not the reader's: a chunk that is returned
        here does not come to whoever iterates over the stream, although it counts as sent.

        Args:
            chunk: the piece.

        Returns:
            The chunk that leaves, or several. None if none leaves yet. False if the source has to yield this chunk, as
            any other.
        """
        if not self._takes_offers or chunk.type != "text-delta" or len(chunk.text) > _SHORT:
            return False
        if self._state.stopped is not None:
            return False
        made = self._feed(chunk)
        if made is None:
            return None
        text, write = self._current
        if type(made) is Chunk and made.text and made.id == text:
            write(made.text)
            return made
        if type(made) is list:
            for one in made:
                if one.id != text or not one.text or one.type != "text-delta":
                    break
            else:
                for one in made:
                    write(one.text)
                return made
        self._offered = chunk, made
        return False

    def _take_offered(self, chunk: Chunk) -> Fed:
        """Return the result of the chunk that the source has offered, and yields now.

        Raises:
            UsageError: it yields another one.
        """
        offered, self._offered = self._offered, None
        if offered is None or offered[0] is not chunk:
            raise UsageError("a source that has offered a chunk in vain must yield that chunk before any other")
        return offered[1]

    # What leaves

    async def _run(self) -> AsyncGenerator[Chunk]:  # noqa: C901, PLR0912, PLR0915 - one loop, without calls that cost time
        call, self._before = self._host.begin()
        failure: Exception | None = None
        try:
            await self._unless_tripped(self._open, call)
            run, feed, timed = call.run, self._feed, self._plan.timed
            hooks_only = all(isinstance(pipe, HookPipe) for pipe in self._pipes)
            often = _SELDOM if hooks_only else _OFTEN
            plain = not timed and self._checks is None
            leaving: Callable[[Chunk], Fed] = (
                self._leaving if plain else lambda chunk: self._unless_tripped(self._woken, chunk)
            )
            advance = self._iterator.__anext__ if self._reader is None else functools.partial(self._next, self._reader)
            text, write = _NOTHING_TO_WRITE
            direct = self._reader is None and self._log is None and not self._plan.ends
            self._state, self._takes_offers = run, direct and plain
            rest = Pace().rest
            made: Fed | Leaving
            for count in itertools.count(1):
                try:
                    item = await advance()
                except BaseException as error:  # noqa: BLE001 - the source's: raised after the chunks that are left
                    failure = None if isinstance(error, StopAsyncIteration) else failure_of(error)
                    break
                chunk = item if type(item) is Chunk else as_chunk(item)
                quick = plain and chunk.type == "text-delta" and (hooks_only or len(chunk.text) <= _SHORT)
                if not (quick and count & often):
                    await rest()
                if run.stopped is not None:
                    self._check_going(call)
                made = self._take_offered(chunk) if self._offered else feed(chunk) if quick else leaving(chunk)
                if type(made) is not Chunk:
                    if made is None:
                        continue
                    made = made if isinstance(made, list) else await made
                if type(made) is Chunk:
                    if made.id == text and made.text:
                        write(made.text)
                        yield made
                        continue
                    made = (made,)
                for chunk in self._let(made):
                    yield chunk
                    self._check_going(call)
                plain = not timed and self._check_passed()
                text, write = self._current = _NOTHING_TO_WRITE if self._held is not None else self._normalizer.current
                self._takes_offers = direct and plain
            self._check_going(call)
            last = await self._unless_tripped(self._end)
            for chunk in await self._rest(self._normalizer.normalize(last), failure):
                yield chunk
                self._check_going(call)
        except Stopped as verdict:
            for chunk in self._stopped(verdict, call):
                yield chunk
            return
        if failure is not None:
            raise failure

    def _stopped(self, verdict: Stopped, call: StageCall) -> tuple[Chunk, ...]:
        """Return the chunks that report a verdict; texts that have left are retracted, in one chunk."""
        self._close_steps()
        if self.outcome is None or not self.outcome.blocked:
            self.outcome = self._host.stopped(verdict.tripwire, verdict.failure)
        blocks = dict.fromkeys((*self.outcome.taken_back, *self.sent_ids))
        return notices(verdict.tripwire, call.run.run_id, blocks, retry=self.outcome.retry_granted)

    @staticmethod
    def _check_going(call: StageCall) -> None:
        """Raise `Stopped` if something else has stopped the run meanwhile: then no chunk may leave."""
        if call.run.stopped is not None:
            raise Stopped(call.run.stopped)

    def _let(self, made: Sequence[Chunk]) -> list[Chunk]:
        """Return the chunks that leave: none while they are held, all once the overlapping checks have passed."""
        made, held = self._normalizer.normalize(made), self._held
        if held is None:
            return made
        held.extend(made)
        if self._hold != "live" or not self._check_passed():
            return []
        self._held = None
        return held

    async def _open(self, call: StageCall) -> None:
        """Make the pipes of the stream.

        Raises:
            Stopped: the run was stopped before, or a check or a condition stops it now.
        """
        tripwire = self._host.tripwire
        if tripwire is not None:
            raise Stopped(tripwire)  # as if the verdict came now: one outcome for all
        if self._sync and self._host.has_checks:
            self._checked = await self._host.run_checks()
            self._check_passed()
        if self._plan.block is not None:
            facts = dict(self._before.facts)
            self._shared = StreamCall(call, Payload(self._before.message_list, facts), facts)
            self._shared.reader = self._reader if self._plan.gathers else None
            self._pipes = await Builder(self._shared, self._clock).pipes(self._plan.block)
        self._feed = self._pipes[0].feed if len(self._pipes) == 1 else functools.partial(feed_through, self._pipes)
        if self._log is not None:
            self._log.pipes, self._log.waiting = self._pipes, lambda: self._held

    async def _next(self, reader: TaskReader) -> Chunk | str:
        """Return the next item; `WAKE` if a timer has run out, or the overlapping checks are done."""
        due = first_deadline(self._pipes)
        return await reader.next(None if due is None else max(due - self._clock(), 0))

    def _leaving(self, chunk: Chunk) -> Fed:
        """Feed a chunk, in a worker thread if it takes long: for its own text, or for the text held until now."""
        if chunk.type in OF_CALLS:
            if self._call_ids is None:
                self._call_ids = CallIds(lambda: self._before.message_list.call_ids)
            chunk = self._call_ids.own(chunk)
        if self._plan.movable and (
            len(chunk.text) > LONG
            or (chunk.type in _JUDGES_HELD and unended(self._pipes) > LONG)
            or (chunk.payload and is_long_value(chunk.payload))
        ):
            return self._off_loop(lambda: chunks_of(self._feed(chunk)))
        return self._feed(chunk)

    async def _woken(self, chunk: Chunk) -> Sequence[Chunk]:
        """Wake steps whose timers have run out, and feed the chunk; return the chunks that leave."""
        made = await wake_all(self._pipes, self._clock()) if self._plan.timed else NOTHING
        return made if chunk is WAKE else [*made, *await chunks_of(self._leaving(chunk))]

    async def _end(self) -> Sequence[Chunk]:
        """End the pipes, off the event loop if the end of their texts is long; return the chunks that leave."""
        end = functools.partial(end_all, self._pipes)
        return await (self._off_loop(end) if unended(self._pipes) > LONG else end())

    async def _off_loop(self, feed: Callable[[], Coroutine[object, None, Sequence[Chunk]]]) -> Sequence[Chunk]:
        """Do the work of the pipes in a worker thread, if all of their steps may run there."""
        if self._sync or not self._plan.movable or runs_without_loop():
            return await feed()

        async def whole() -> Sequence[Chunk]:  # `feed` works before it gives a coroutine: that, too, is without a loop
            return await feed()

        return await run_in_worker(lambda: run_without_loop(whole(), STREAM.name))

    async def _rest(self, last: list[Chunk], failure: Exception | None) -> Iterable[Chunk]:
        """Return the chunks that leave at the end of the source; if it failed, none that waits for a later verdict.

        Raises:
            Stopped: chunks that were held for a verdict may not leave.
            UsageError: the checks were cancelled before their verdict.
        """
        if self._held is not None and self._checks is not None:
            await self._check_done.wait()
            if not self._check_passed():  # they were cancelled: so is the reader, unless it has a shield
                await checkpoint_if_cancelled()
                raise failure or UsageError(
                    "the checks beside the model were cancelled before their verdict, so nothing may leave; do not "
                    "read a stream with a shield when the scope around it is cancelled"
                )
        leaving = [*(self._held or ()), *last]
        self._close_steps()
        if self._hold == "live":
            self._held = None
        if failure is not None:
            return leaving if self._hold == "live" else []
        answer = self._normalizer.answer
        shared = self._shared
        facts = FrozenDict(shared.facts) if shared is not None and shared.facts else self._before.facts
        end = Payload(self._before.message_list, facts, FrozenDict(text=answer.text))
        sent = answer.blocks if self._hold == "live" else ()
        passed = self._host.passed(end, sent, edited=shared is not None and shared.edited)
        if self._hold == "live" or passed.blocked:
            self.outcome = passed
            return leaving if not passed.blocked else []
        # Held chunks must not be seen before they are judged, so there is no outcome until then.
        self.outcome, self._answer, leaving = await self._host.judge(answer.message, self._hold, leaving)
        self.judged = self.outcome
        if self.outcome.tripwire is not None:
            raise Stopped(self.outcome.tripwire)
        normalize = StreamNormalizer().normalize
        self._unsent = iter([(at, chunk) for at, one in enumerate(leaving) for chunk in normalize((one,))])
        self._held, self._normalizer = None, StreamNormalizer()  # what leaves is the answer after the later stage
        return self._judged_chunks()

    def _judged_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks that a later stage has judged; those that the reader has not asked for were not sent."""
        for _, chunk in self._unsent:
            self._normalizer.answer.add(chunk)
            yield chunk

    def _close_steps(self) -> None:
        """Record the effects of the steps."""
        if self._shared is not None:
            self._shared.close()

    # Overlapping checks

    async def _check(self, checks: Callable[[], Awaitable[Outcome]]) -> None:
        """Run the checks that overlap the model call; chunks are held until their verdict."""
        try:
            self._checked = await checks()
        except Exception as error:  # noqa: BLE001 - raised to the reader of the chunks
            self._check_error = error
        finally:
            self._check_done.set()
        if self._hooks_at_work is not None and (self._checked is None or self._checked.tripwire is not None):
            self._hooks_at_work.cancel()

    async def _unless_tripped(self, work: Callable[[*Ts], Awaitable[T]], *given: *Ts) -> T:
        """Return the result of work of the hooks. If the checks end the stream, it is not begun, or is cancelled.

        Raises:
            Stopped: they gave a verdict.
            Exception: they failed; or the work did, and they did not end the stream.
        """
        if self._check_passed():
            return await work(*given)
        done: list[T] = []
        try:
            with anyio.CancelScope() as self._hooks_at_work:
                done.append(await work(*given))
        except BaseException as error:
            if not passes_through(error):  # as the verdict came: that counts more
                self._check_passed()
            raise
        finally:
            self._hooks_at_work = None
        self._check_passed()
        return done[0]

    def _check_passed(self) -> bool:
        """Tell whether the checks have passed, if there are any; False while they run.

        Raises:
            Stopped: they gave a verdict.
        """
        if self._check_error is not None:
            raise self._check_error
        if self._checked is None:
            return self._checks is None
        if self._checked.tripwire is not None:
            self.outcome = self._checked
            raise Stopped(self._checked.tripwire)
        return True
