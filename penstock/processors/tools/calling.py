"""Running a tool's function: in a thread or on the loop, with a time limit, its result as JSON. It knows no agent."""

from __future__ import annotations

import functools
import inspect
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import anyio
from anyio import from_thread, to_thread
from anyio.lowlevel import RunVar

from penstock.processors.tools._results import NotJSONError, text_of, written
from penstock.processors.tools.errors import ToolError, ToolFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.chunks import Chunk
    from penstock.engine.frozen import Value
    from penstock.processors.tools.context import ToolContext
    from penstock.processors.tools.manner import Manner

_THREADS: RunVar[anyio.CapacityLimiter] = RunVar("penstock-tools")


@dataclass(frozen=True, slots=True)
class Work:
    """What is run: for the tool of a name, a function of the context, in a thread or not, in some manner."""

    name: str
    function: Callable[[ToolContext], object]
    in_thread: bool
    manner: Manner


async def run(work: Work, ctx: ToolContext) -> Value:
    """Return the result of a tool's work, a frozen JSON value.

    A sync function that is cancelled or out of time is left to end by itself; what it writes then goes nowhere.

    Raises:
        ToolError: it failed, took too long, or gave no JSON value. Cancellation and `KeyboardInterrupt` pass through.
    """
    relay = _Relay(ctx.send)
    told = replace(ctx, send=relay.send) if ctx.send is not None else ctx
    try:
        with anyio.move_on_after(work.manner.timeout):
            return await _result(work, told)
    finally:
        relay.open = False
    raise ToolError(work.name, "timed-out", f"it did not finish within {work.manner.timeout:g} seconds")


async def _result(work: Work, ctx: ToolContext) -> Value:
    if work.in_thread:
        begin = functools.partial(_begun, work, ctx)
        begun = await to_thread.run_sync(begin, abandon_on_cancel=True, limiter=_threads())
    else:
        begun = _begun(work, ctx)
    if begun.awaited is None:
        return begun.result
    try:
        result = await begun.awaited
    except Exception as error:
        raise _failure(work, error) from error
    return _checked(work, result)


class _Begun(NamedTuple):
    """What a function gave at once: a result, or what to await for it (which trio lets no thread return bare)."""

    result: Value
    awaited: Awaitable[object] | None = None


def _begun(work: Work, ctx: ToolContext) -> _Begun:
    try:
        made = work.function(ctx)
    except Exception as error:
        raise _failure(work, error) from error
    return _Begun(None, made) if inspect.isawaitable(made) else _Begun(_checked(work, made))


def _checked(work: Work, result: object) -> Value:
    """Return a result as JSON. One that is too long is refused, not cut: half a secret is none that a guard knows."""
    try:
        made = written(result)
    except NotJSONError as error:
        raise ToolError(work.name, "not-json", str(error)) from error.__cause__
    most = work.manner.max_result_characters
    if most is not None and (length := len(text_of(made))) > most:
        problem = f"its result has {length} characters, and at most {most} are allowed; ask for less"
        raise ToolError(work.name, "failed", problem)
    return made


def _failure(work: Work, raised: Exception) -> ToolError:
    """Return the error for what a function raised; of a group of one, for that one."""
    error = _alone(raised)
    if isinstance(error, ToolFailed):
        return ToolError(work.name, "failed", "it said that it failed", for_model=str(error))
    kind = type(error).__name__
    said = str(error) if work.manner.errors == "message" else ""
    most = work.manner.max_result_characters
    if most is not None and len(said) > most:
        said = f"(its message has {len(said)} characters)"
    return ToolError(work.name, "failed", f"it raised {kind}", for_model=f"{kind}: {said}" if said else kind)


def _alone(raised: Exception) -> Exception:
    inside = cast("tuple[Exception, ...]", getattr(raised, "exceptions", ())) if _is_group(raised) else ()
    return _alone(inside[0]) if len(inside) == 1 else raised


def _is_group(raised: Exception) -> bool:
    return isinstance(raised, ExceptionGroup)


def _threads() -> anyio.CapacityLimiter:
    """Return this event loop's limit of threads for tools: their own, so that hung tools starve no guard."""
    try:
        return _THREADS.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(to_thread.current_default_thread_limiter().total_tokens)
        _THREADS.set(limiter)
        return limiter


class _Relay:
    """Hands a tool's chunks to the loop that it was called from, as long as the call lasts."""

    def __init__(self, send: Callable[[Chunk], None] | None) -> None:
        self._send = send
        self._home = threading.get_ident()
        self.open = True

    def send(self, chunk: Chunk) -> None:
        """Send a chunk, from whatever thread."""
        if threading.get_ident() == self._home:
            self._pass_on(chunk)
        elif self.open:
            from_thread.run_sync(self._pass_on, chunk)

    def _pass_on(self, chunk: Chunk) -> None:
        if self.open and self._send is not None:
            self._send(chunk)
