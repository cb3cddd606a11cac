"""The pipe of hooks that take chunks as they come: one after another, none or several out each time.

It knows steps and chunks, no text. Hooks that cannot wait are called in a plain loop.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.execution.boundary import close_awaitable
from penstock.engine.processor.stages import STAGES, WrongReturnError, article
from penstock.engine.values.chunks import CONTROL, Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.graph.plan import HookCall
    from penstock.engine.processor.context import OutputStreamContext
    from penstock.engine.streams.steps import StreamStep
    from penstock.engine.values.frozen import Value

STEP_ENDS = frozenset({"step-finish", "finish", "error", "abort"})
"""The chunks before which a step's last words are due."""

BLOCK_ENDS = frozenset({"text-end", "reasoning-end"})
NOTHING: tuple[Chunk, ...] = ()


class Pipe(Protocol):
    """What chunks go through."""

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Return what comes of a chunk."""
        ...

    async def end(self) -> Sequence[Chunk]:
        """Return what is left when the source has ended."""
        ...

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Return what comes of timers that have run out by ``now``."""
        ...

    def deadline(self) -> float | None:
        """Return when the next timer runs out, by the clock that `wake` is told; None without one."""
        ...

    async def give_up(self) -> Sequence[Chunk]:
        """Return what is held, for something else to take on, and begin anew."""
        ...


def _is_unseen(chunk: Chunk) -> bool:
    """Tell whether hooks are not shown a chunk: an end that only says that tools are to be called.

    The step goes on, and its ``step-finish`` tells all that this one does.
    """
    return chunk.type == "finish" and chunk.payload.get("reason") == "tool-calls"


def _is_delta(chunk: Chunk, result: Value) -> bool:
    return type(result) is Chunk and result.type == chunk.type


def _differs_in_text(chunk: Chunk, result: Value) -> bool:
    return type(result) is Chunk and result.differs_in_text(chunk)


def _is_wrong(chunk: Chunk, result: Value) -> bool:
    del chunk, result
    return False


_FITS: Mapping[str, Callable[[Chunk, Value], bool]] = {
    "anything": _is_delta,
    "spans": _differs_in_text,
    "nothing": _is_wrong,
}
"""Tells whether a hook may make that of a piece of text, by what it declares to edit."""


def _shown(call: HookCall) -> HookCall:
    """Return what calls an observer, whose return is ignored."""

    def show(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        call(chunk, ctx)
        return chunk

    return show


class HookStep:
    """One hook at work: how it is called, and when it asked to be woken."""

    __slots__ = ("call", "ctx", "deadline", "fits", "flush", "out", "quickly", "step", "waits", "wake")

    def __init__(self, step: StreamStep, call: HookCall, *, waits: bool) -> None:
        processor = step.step.processor
        self.step = step
        self.ctx: OutputStreamContext = step.ctx
        self.call = call
        self.waits = waits
        self.flush: HookCall | None = getattr(processor, "flush", None)
        self.wake: HookCall | None = getattr(processor, "wake", None) if processor.timed else None
        self.deadline: float | None = None
        self.out = False  # it failed, and is out for the block
        self.fits = _FITS[step.step.edits]
        self.quickly = _shown(call) if step.step.role == "observer" else call


class Raised(NamedTuple):
    """What a hook raised in place of a result."""

    error: BaseException


NOT_CALLED = object()


def _returned(result: Value) -> Value:
    if type(result) is Raised:
        raise result.error
    return result


class HookPipe:
    """Hooks one after another."""

    __slots__ = ("_clock", "_left", "_out", "_row", "_steps")

    def __init__(self, steps: Sequence[HookStep], clock: Callable[[], float]) -> None:
        self._steps = tuple(steps)
        self._clock = clock
        self._row = tuple((step.ctx, step.quickly, step, step.fits) for step in steps)
        self._left: tuple[HookStep, Chunk, Value] | None = None  # where `quickly` left off, and why
        self._out = False  # whether a step has ever been out

    async def feed(self, chunk: Chunk) -> Sequence[Chunk]:
        """Pass a chunk through the hooks."""
        if self._left is None:
            return await self._through(chunk, 0)
        (step, chunk, result), self._left = self._left, None
        made = await self._called(step, chunk, given=result)
        return await self._on(made, self._steps.index(step) + 1)

    def quickly(self, chunk: Chunk | str) -> Chunk | None:
        """Return what comes of a piece of text that every hook gives back, or changes as it may; None for all else.

        Then the next call of `feed` goes on where this one left off.
        """
        if type(chunk) is not Chunk or chunk.type != "text-delta" or self._out:
            return None
        piece: Chunk = chunk
        for ctx, call, step, fits in self._row:
            try:
                result = call(piece, ctx)
            except BaseException as error:  # noqa: BLE001 - dealt with where all failures are
                self._left = (step, piece, Raised(error))
                return None
            if ctx.effects is not None:
                self._left = (step, piece, result)
                return None
            if result is not piece:
                if not fits(piece, result):
                    self._left = (step, piece, result)
                    return None
                step.step.changed = True
                piece = result
        return piece

    async def _through(self, chunk: Chunk, first: int) -> Sequence[Chunk]:
        """Pass a chunk through the hooks from one on; each says what it kept before a text or the step ends."""
        ending = chunk.type in STEP_ENDS or chunk.type in BLOCK_ENDS
        out: list[Chunk] = []
        for index in range(first, len(self._steps)):
            step = self._steps[index]
            if ending:
                out.extend(await self._on(await self._asked(step, step.flush), index + 1))
            made = (chunk,) if _is_unseen(chunk) else await self._called(step, chunk)
            if ending:
                step.out = False
            if len(made) != 1:
                out.extend(await self._on(made, index + 1))
                return out
            chunk = made[0]
        out.append(chunk)
        return out

    async def _on(self, chunks: Sequence[Chunk], first: int) -> Sequence[Chunk]:
        return [out for chunk in chunks for out in await self._through(chunk, first)]

    async def _called(self, step: HookStep, chunk: Chunk, given: Value = NOT_CALLED) -> Sequence[Chunk]:
        """Return what a hook makes of a chunk; ``given``: what it returned already."""
        if step.out:
            return (chunk,)
        try:
            result = step.call(chunk, step.ctx) if given is NOT_CALLED else _returned(given)
            if step.waits:
                result = await result
            as_it_was = result is chunk and step.ctx.effects is None
            made = (chunk,) if as_it_was else settled(step, chunk, result)
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            kept = await self._broken(step, error)
            return kept if any(one is chunk for one in kept) else (*kept, chunk)
        self._set_timer(step)
        return made

    async def _broken(self, step: HookStep, error: BaseException) -> Sequence[Chunk]:
        """Put a step that failed out for the block, if its policy lets the stream go on; return what it had kept."""
        step.step.broke(error)
        self._out = True
        kept = await self._asked(step, step.flush)
        step.out, step.deadline = True, None
        return kept

    async def _asked(self, step: HookStep, call: HookCall | None) -> Sequence[Chunk]:
        """Return what a step says when it is asked: at the end of a text or the step, or when its time has come."""
        if call is None or step.out:
            return NOTHING
        try:
            result: Value = call(step.ctx)
            if inspect.isawaitable(result):
                result = await result
            made = [*step.step.settle(), *_chunks(result)]
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            if call is not step.flush:
                return await self._broken(step, error)
            step.step.broke(error)
            step.out = self._out = True
            return NOTHING
        self._set_timer(step)
        step.step.changed = step.step.changed or bool(made)
        return made

    async def end(self) -> Sequence[Chunk]:
        """Return what the hooks have kept."""
        out: list[Chunk] = []
        for index, step in enumerate(self._steps):
            out.extend(await self._on(await self._asked(step, step.flush), index + 1))
        return out

    async def wake(self, now: float) -> Sequence[Chunk]:
        """Wake the steps whose time has come."""
        out: list[Chunk] = []
        for index, step in enumerate(self._steps):
            if step.deadline is not None and step.deadline <= now:
                step.deadline = None
                out.extend(await self._on(await self._asked(step, step.wake), index + 1))
        return out

    def deadline(self) -> float | None:
        """Return when the first of them wants to be woken."""
        return min((step.deadline for step in self._steps if step.deadline is not None), default=None)

    async def give_up(self) -> Sequence[Chunk]:
        """Return what the hooks have kept."""
        return await self.end()

    def _set_timer(self, step: HookStep) -> None:
        seconds, step.ctx.timer = step.ctx.timer, None
        if seconds is not None and step.wake is not None:
            step.deadline = None if seconds == math.inf else self._clock() + seconds


def settled(step: HookStep, chunk: Chunk, result: Value) -> list[Chunk]:
    """Return what a hook made of a chunk, its data chunks first, checked against what it declares."""
    written = step.step.settle()
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
        raise WrongReturnError("it declares that it edits nothing, but did not return the chunk it was given")
    if any(one is not chunk and not one.differs_in_text(chunk) for one in made):
        raise WrongReturnError("it declares that it edits stretches of text, but it changed more of the chunk")


def _chunks(result: Value) -> list[Chunk]:
    """Return what a hook gave, as chunks.

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
