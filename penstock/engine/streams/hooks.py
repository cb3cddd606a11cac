"""`HookPipe`: calls `process_output_stream` hooks on chunks, one hook after another; also the protocol of all pipes.

A hook returns none, one or several chunks. Hooks that are not async are called in a plain loop.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from penstock.engine.execution.boundary import close_awaitable
from penstock.engine.processor.processor import is_async
from penstock.engine.processor.stages import STAGES, WrongReturnError, article
from penstock.engine.values.chunks import CONTROL, Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from penstock.engine.graph.plan import HookCall
    from penstock.engine.processor.context import OutputStreamContext
    from penstock.engine.streams.steps import StreamStep
    from penstock.engine.values.frozen import Value

STEP_ENDS = frozenset({"step-finish", "finish", "error", "abort"})
"""The chunks that end a step: before them, `flush` is called."""

BLOCK_ENDS = frozenset({"text-end", "reasoning-end"})
NOTHING: tuple[Chunk, ...] = ()

Leaving: TypeAlias = "Chunk | Sequence[Chunk]"
"""The chunks that leave a pipe. One chunk stands for a sequence of one."""

Fed: TypeAlias = "Chunk | list[Chunk] | Coroutine[object, None, Leaving] | None"
"""The result of `Pipe.feed`: the chunk that leaves, None if none does, several, or a coroutine that returns them."""


class Pipe(Protocol):
    """A part of the graph in a stream: takes a chunk, and returns the chunks that leave."""

    def feed(self, chunk: Chunk) -> Fed:
        """Take a chunk; return the one that leaves, or None, or several; a coroutine if something waits or fails.

        The coroutine must be awaited before the next chunk is fed. Errors are raised by the coroutine only.
        """
        ...

    async def end(self) -> Sequence[Chunk]:
        """Return the remaining chunks; the source has ended."""
        ...

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Return the chunks that leave because timers have expired by ``now``."""
        ...

    def deadline(self) -> float | None:
        """Return when the next timer expires, on the clock of `wake`; None without a timer."""
        ...

    async def give_up(self) -> Sequence[Chunk]:
        """Return all held chunks, for another pipe to judge, and start afresh."""
        ...

    def held(self) -> int | None:
        """Return how many characters of text are held; None if that is not known."""
        ...

    def unended(self) -> int:
        """Return how many characters of texts were read that have not ended: their end may need a long search."""
        ...


async def chunks_of(fed: Fed) -> Sequence[Chunk]:
    """Return the chunks that leave a pipe, once they are known."""
    made = fed if fed is None or isinstance(fed, (Chunk, list)) else await fed
    return NOTHING if made is None else (made,) if isinstance(made, Chunk) else made


def feed_through(pipes: Sequence[Pipe], chunk: Chunk) -> Fed:
    """Pass a chunk through pipes in sequence; return the chunks that leave, as `Pipe.feed` does."""
    following = iter(pipes)
    for pipe in following:
        fed = pipe.feed(chunk)
        if type(fed) is not Chunk:
            rest = tuple(following)
            return _feed_on(fed, rest) if rest and fed is not None else fed
        chunk = fed
    return chunk


async def _feed_on(fed: Fed, pipes: Sequence[Pipe]) -> Sequence[Chunk]:
    """Pass the chunks that leave a pipe through those that follow."""
    chunks = await chunks_of(fed)
    for pipe in pipes:
        chunks = [out for chunk in chunks for out in await chunks_of(pipe.feed(chunk))]
    return chunks


async def end_all(pipes: Sequence[Pipe]) -> list[Chunk]:
    """End pipes in sequence; return the chunks that leave."""
    out: list[Chunk] = []
    for index, pipe in enumerate(pipes):
        out.extend(await feed_all(pipes[index + 1 :], await pipe.end()))
    return out


async def wake_all(pipes: Sequence[Pipe], now: float) -> list[Chunk]:
    """Wake pipes in sequence whose timers have run out by ``now``; return the chunks that leave."""
    out: list[Chunk] = []
    for index, pipe in enumerate(pipes):
        out.extend(await feed_all(pipes[index + 1 :], await pipe.wake(now)))
    return out


async def feed_all(pipes: Sequence[Pipe], chunks: Sequence[Chunk]) -> list[Chunk]:
    """Pass chunks through pipes in sequence; return the chunks that leave."""
    return [out for chunk in chunks for out in await chunks_of(feed_through(pipes, chunk))]


def first_deadline(pipes: Sequence[Pipe]) -> float | None:
    """Return when the first timer of the pipes runs out; None without a timer."""
    return min((due for pipe in pipes if (due := pipe.deadline()) is not None), default=None)


def unended(pipes: Sequence[Pipe]) -> int:
    """Return how many characters of texts were read that have not ended."""
    return sum([pipe.unended() for pipe in pipes])


def _is_unseen(chunk: Chunk) -> bool:
    """Tell whether hooks do not see a chunk: a ``finish`` that only says that tools are to be called.

    The step goes on, and its ``step-finish`` says the same.
    """
    return chunk.type == "finish" and chunk.payload.get("reason") == "tool-calls"


_FITS: Mapping[str, Callable[[Chunk, Value], bool]] = {
    "anything": lambda chunk, result: type(result) is Chunk and result.type == chunk.type,
    "spans": lambda chunk, result: type(result) is Chunk and result.differs_in_text(chunk),
    "nothing": lambda _chunk, _result: False,
}
"""By what a hook declares to edit: whether it may return that result for a piece of text."""


def _shown(call: HookCall) -> HookCall:
    """Return a function that calls an observer and ignores its result."""

    def show(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        call(chunk, ctx)
        return chunk

    return show


def _shown_async(call: HookCall) -> HookCall:
    """Return a function that calls an async observer and ignores its result."""

    async def show(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        await call(chunk, ctx)
        return chunk

    return show


class Leavable(Protocol):
    """Returns a hook as it is called under a time limit or by observers, and whether that waits."""

    def __call__(self, call: HookCall, *, waits: bool) -> tuple[HookCall, bool]:
        """Return the hook, and whether it waits."""
        ...


def _as_called(call: HookCall | None, leavable: Leavable | None) -> HookCall | None:
    return call if call is None or leavable is None else leavable(call, waits=is_async(call))[0]


class HookStep:
    """One hook in a stream: how it is called, and when it asked to be woken."""

    __slots__ = ("call", "ctx", "deadline", "fits", "flush", "out", "plain_call", "step", "waits", "wake")

    def __init__(self, step: StreamStep, call: HookCall, waits: bool, leavable: Leavable | None) -> None:  # noqa: FBT001 - a field
        """Describe a hook; ``leavable``: how its functions are called, where that is not as they are."""
        processor = step.step.processor
        if leavable is not None:
            call, waits = leavable(call, waits=waits)
        self.step = step
        self.ctx: OutputStreamContext = step.ctx
        self.call = call
        self.waits = waits
        self.flush = _as_called(getattr(processor, "flush", None), leavable)
        self.wake = _as_called(getattr(processor, "wake", None), leavable) if step.step.timed else None
        self.deadline: float | None = None
        self.out = False  # it failed, so it takes no part in the rest of the block
        self.fits = _FITS[step.step.edits]
        shown = _shown_async if waits else _shown
        self.plain_call = shown(call) if step.step.role == "observer" else call


class Raised(NamedTuple):
    """The exception that a hook raised instead of returning a result."""

    error: BaseException


NOT_CALLED = object()


def _returned(result: Value) -> Value:
    if type(result) is Raised:
        raise result.error
    return result


class HookPipe:
    """Hooks one after another, none of which is async."""

    __slots__ = ("_clock", "_each", "_row", "_steps")

    def __init__(self, steps: Sequence[HookStep], clock: Callable[[], float]) -> None:
        self._steps = tuple(steps)
        self._clock = clock
        self._row = tuple([(step.ctx, step.plain_call, step, step.fits) for step in steps])
        self._each = any(step.wake is not None for step in steps)  # so is a text: a step has timers, or has failed

    def feed(self, chunk: Chunk) -> Fed:
        """Pass a chunk through the hooks. A piece of text that each hook returns as one piece needs no coroutine."""
        if chunk.type != "text-delta" or self._each:
            return self._pass_on(chunk, 0)
        piece = chunk
        for ctx, call, step, fits in self._row:
            try:
                result = call(piece, ctx)
            except BaseException as error:  # noqa: BLE001 - raised or handled by the coroutine
                return self._go_on(step, piece, Raised(error))
            if ctx.effects is not None:
                return self._go_on(step, piece, result)
            if result is not piece:
                if not fits(piece, result):
                    return self._go_on(step, piece, result)
                step.step.changed = True
                piece = result
        return piece

    async def _go_on(self, step: HookStep, chunk: Chunk, result: Value) -> Sequence[Chunk]:
        """Pass a chunk through the hooks from ``step`` on, which has returned ``result``, or `Raised`."""
        made = await self._call(step, chunk, given=result)
        return await self._pass_all(made, self._steps.index(step) + 1)

    async def _pass_on(self, chunk: Chunk, first: int) -> Sequence[Chunk]:
        """Pass a chunk through the hooks from ``first`` on; each is flushed before a text or the step ends."""
        ending = chunk.type in STEP_ENDS or chunk.type in BLOCK_ENDS
        out: list[Chunk] = []
        for index in range(first, len(self._steps)):
            step = self._steps[index]
            if ending and step.flush is not None:
                out.extend(await self._pass_all(await self._ask(step, step.flush), index + 1))
            made = (chunk,) if _is_unseen(chunk) else await self._call(step, chunk)
            if ending:
                step.out = False
            if len(made) != 1:
                out.extend(await self._pass_all(made, index + 1))
                return out
            chunk = made[0]
        out.append(chunk)
        return out

    async def _pass_all(self, chunks: Sequence[Chunk], first: int) -> Sequence[Chunk]:
        return [out for chunk in chunks for out in await self._pass_on(chunk, first)]

    async def _call(self, step: HookStep, chunk: Chunk, given: Value = NOT_CALLED) -> Sequence[Chunk]:
        """Return the result of a hook for a chunk; ``given``: its result, if it was called already."""
        if step.out:
            return (chunk,)
        try:
            if given is not NOT_CALLED:
                result = _returned(given)
            else:
                result = step.call(chunk, step.ctx)
                if step.waits:
                    result = await step.step.watched(result)
            as_it_was = result is chunk and step.ctx.effects is None
            made = (chunk,) if as_it_was else checked_result(step, chunk, result)
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            kept = await self._handle(step, error)
            return kept if any(one is chunk for one in kept) else (*kept, chunk)
        self._set_timer(step)
        return made

    async def _handle(self, step: HookStep, error: BaseException) -> Sequence[Chunk]:
        """Leave a failed step out for the block, if its policy allows that; return the chunks that it had kept."""
        step.step.broke(error)
        self._each = True
        kept = await self._ask(step, step.flush)
        step.out, step.deadline = True, None
        return kept

    async def _ask(self, step: HookStep, call: HookCall | None) -> Sequence[Chunk]:
        """Call `flush` or `wake` of a step; return its chunks."""
        if call is None or step.out:
            return NOTHING
        try:
            result: Value = call(step.ctx)
            if inspect.isawaitable(result):
                result = await step.step.watched(result)
            made = [*step.step.take_effects(), *_chunks(result)]
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            if call is not step.flush:
                return await self._handle(step, error)
            step.step.broke(error)
            step.out = self._each = True
            return NOTHING
        self._set_timer(step)
        step.step.changed = step.step.changed or bool(made)
        return made

    async def end(self) -> Sequence[Chunk]:
        """Flush the hooks; return their remaining chunks."""
        out: list[Chunk] = []
        for index, step in enumerate(self._steps):
            if step.flush is not None:
                out.extend(await self._pass_all(await self._ask(step, step.flush), index + 1))
        return out

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps whose timers have expired."""
        out: list[Chunk] = []
        for index, step in enumerate(self._steps):
            if step.deadline is not None and step.deadline <= now:
                step.deadline = None
                out.extend(await self._pass_all(await self._ask(step, step.wake), index + 1))
        return out

    def deadline(self) -> float | None:
        """Return when the first timer runs out."""
        return min((step.deadline for step in self._steps if step.deadline is not None), default=None)

    async def give_up(self) -> Sequence[Chunk]:
        """Flush the hooks; return their remaining chunks."""
        return await self.end()

    def held(self) -> None:
        """Return None: what hooks keep for later is theirs to know."""

    def unended(self) -> int:
        """Return 0: hooks take chunks one by one."""
        return 0

    def _set_timer(self, step: HookStep) -> None:
        seconds, step.ctx.timer = step.ctx.timer, None
        if seconds is not None and step.wake is not None:
            step.deadline = None if seconds == math.inf else self._clock() + seconds


class AsyncHookPipe(HookPipe):
    """Hooks one after another, some of which are async."""

    __slots__ = ("_async_row", "_watched_since")

    def __init__(self, steps: Sequence[HookStep], clock: Callable[[], float]) -> None:
        super().__init__(steps, clock)
        self._watched_since = steps[0].step.watched_since
        self._async_row = tuple([(step.ctx, step.plain_call, step.waits, step.step, step) for step in steps])

    async def feed(self, chunk: Chunk) -> Leaving:
        """Pass a chunk through the hooks."""
        if chunk.type != "text-delta" or self._each:
            return await self._pass_on(chunk, 0)
        piece, now, never = chunk, self._watched_since(), math.inf
        for ctx, call, waits, watched, step in self._async_row:
            watched.since = now
            try:
                result = call(piece, ctx)
                if waits:
                    result = await result
            except BaseException as error:  # noqa: BLE001 - `_call` handles it
                watched.since = never
                return await self._go_on(step, piece, Raised(error))
            watched.since = never
            if ctx.effects is not None:
                return await self._go_on(step, piece, result)
            if result is not piece:
                if not step.fits(piece, result):
                    return await self._go_on(step, piece, result)
                watched.changed = True
                piece = result
        return piece


def checked_result(step: HookStep, chunk: Chunk, result: Value) -> list[Chunk]:
    """Return the chunks of a hook's result, after the data chunks it wrote; checked against what it declares.

    Raises:
        WrongReturnError: it returned something other than chunks, or more than the hook declares to edit.
    """
    written = step.step.take_effects()
    claims = step.step.step
    made = [chunk] if claims.role == "observer" else _chunks(result)
    if claims.edits != "anything":
        _check_claim(claims.edits, chunk, made)
    if chunk.type in CONTROL and not any(one.type == chunk.type for one in made):
        made.append(chunk)  # a control chunk cannot be dropped
    if len(made) != 1 or made[0] is not chunk:
        step.step.changed = True
    return [*written, *made]


def _check_claim(edits: str, chunk: Chunk, made: Sequence[Chunk]) -> None:
    if edits == "nothing" and (len(made) != 1 or made[0] is not chunk):
        raise WrongReturnError("it declares edits='nothing', but did not return the chunk unchanged")
    if any(one is not chunk and not one.differs_in_text(chunk) for one in made):
        raise WrongReturnError(
            "it declares edits='spans', so it may change the text only, but it changed more of the chunk"
        )


def _chunks(result: Value) -> list[Chunk]:
    """Return the result of a hook as chunks.

    Raises:
        WrongReturnError: it is something else.
    """
    if result is None:
        return []
    if isinstance(result, Chunk):
        return [result]
    if inspect.isawaitable(result):
        close_awaitable(result)
        raise WrongReturnError("it returned an awaitable; declare the hook `async def`")
    other: object = result
    if isinstance(other, (str, dict)) or not hasattr(other, "__iter__"):
        cure = ": chunk.with_text(…)" if isinstance(other, str) else ""
        raise WrongReturnError(f"it returned {article(result)}; {_TAKES}{cure}")
    made: list[Value] = [*result]
    wrong = next((one for one in made if not isinstance(one, Chunk)), None)
    if wrong is not None:
        raise WrongReturnError(f"it returned {article(wrong)} among its chunks; {_TAKES}")
    return made


_TAKES = f"process_output_stream takes {STAGES['process_output_stream'].returns}"
