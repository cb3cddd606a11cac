"""Call a tool's function: in a thread or on the event loop, with a time limit; its result becomes a JSON value."""

from __future__ import annotations

import inspect
import json
import math
import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias, TypedDict, cast

import anyio
from anyio import from_thread, to_thread

from penstock.engine.processor.processor import is_async
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import json_value
from penstock.models.single_flight import PerEventLoop
from penstock.tools.context import ToolError, ToolFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.tools.context import ToolContext

    Approval: TypeAlias = bool | Callable[[Values], bool]

ErrorDetail = Literal["message", "type"]
"""What a model gets about an exception: its type and message, or its type alone."""


Timeout: TypeAlias = 'float | Literal["default"] | None'
"""The time limit of a call: seconds, ``default``, or None for no limit."""

DEFAULT_SECONDS = 300.0
"""Seconds that a call may take by default, counted from its start, or from the last chunk that it has sent."""


class ToolCallKeywords(TypedDict, total=False):
    """The fields of `ToolCallOptions`, as keywords."""

    approval: Approval
    concurrent: bool
    timeout: Timeout
    offload: bool | None
    errors: ErrorDetail
    max_result_characters: int | None
    repeatable: bool


@dataclass(frozen=True, slots=True)
class ToolCallOptions:
    """How a tool is called.

    Attributes:
        approval: whether a call needs approval: always, never, or as a function of its arguments decides.
        concurrent: whether it may run beside other calls of the same answer.
        timeout: the seconds that a call may take, above 0. ``default``: `DEFAULT_SECONDS` without a sign of life: each
            chunk that the tool sends starts them anew. None: without a limit; nothing else ends a tool that hangs.
        offload: whether the function runs in a worker thread; None: if it is sync.
        errors: the form of the result when the function raises.
        max_result_characters: the longest result, in characters of its JSON text, 1 or more; None: any.
        repeatable: whether a call may run again if the process ended while it ran, so that its effect is unknown.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    approval: Approval = False
    concurrent: bool = True
    timeout: Timeout = "default"
    offload: bool | None = None
    errors: ErrorDetail = "message"
    max_result_characters: int | None = None
    repeatable: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        asks, seconds, most = self.approval, self.timeout, self.max_result_characters
        is_duration = isinstance(seconds, (int, float)) and not _is_bool(seconds) and 0 < seconds < math.inf
        allowed = {
            "approval": (
                _is_bool(asks) or (callable(asks) and not is_async(asks)),
                "True, False, or a sync function (def, not async def)",
            ),
            "concurrent": (_is_bool(self.concurrent), "True or False"),
            "timeout": (
                seconds in (None, "default") or is_duration,
                "a number of seconds above 0, 'default', or None for no limit",
            ),
            "repeatable": (_is_bool(self.repeatable), "True or False"),
            "offload": (self.offload is None or _is_bool(self.offload), "True, False, or None"),
            "errors": (self.errors in ("message", "type"), "'message' or 'type'"),
            "max_result_characters": (
                most is None or (isinstance(cast("object", most), int) and not _is_bool(most) and most > 0),
                "an int, 1 or more, or None",
            ),
        }
        for option, (fits, expected) in allowed.items():
            if not fits:
                raise OptionError("Tool", option, getattr(self, option), expected)


def _is_bool(value: Value) -> bool:
    return isinstance(value, bool)


class NotJSONError(Exception):
    """A result that is not a JSON value. The text says why, and quotes nothing of it."""


def written(result: object) -> Value:
    """Return a result as a frozen JSON value.

    Pydantic models, dataclasses, dates, enums, sets … are written as pydantic writes them.

    Raises:
        NotJSONError: something in it cannot be written: an object of an unknown type, NaN, an infinite number, bytes
            that are not UTF-8, half a surrogate pair, a value that contains itself or is nested more than 200 levels
            deep.
    """
    made = _plain(result)
    try:
        text_of(made)
    except UnicodeEncodeError as error:
        raise NotJSONError("its result holds half a surrogate pair, which is not a character") from error
    except ValueError as error:
        raise NotJSONError("a number in its result is not a JSON number") from error
    return made


def _plain(result: object) -> Value:
    from pydantic_core import to_jsonable_python

    try:
        return json_value(to_jsonable_python(result), "result")
    except UnicodeDecodeError as error:
        reason = "its result holds bytes that are not UTF-8; return them as text, in base64 for example"
        raise NotJSONError(reason) from error
    except Exception as error:  # a lazy iterator or a user's serialiser may raise anything
        reason = "something in its result is not a JSON value; return strings, numbers, lists and dicts"
        raise NotJSONError(reason) from error


def text_of(result: Value) -> str:
    """Return a result's JSON text; a str is returned unchanged.

    Raises:
        ValueError: a number is not a JSON number, or a str cannot be encoded.
    """
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


_THREADS = PerEventLoop(dict[str, anyio.CapacityLimiter])

MOST_LEFT = 400
"""How many threads of the process may be abandoned: tools that hang and are called again would otherwise use more and
more. It is ten times the number that anyio runs at the same time."""

MOST_LEFT_OF_A_TOOL = 100
"""How many of them may be one tool's, so that it leaves some to the others."""


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call that is ready to run: the tool's name, a function of the context, where it runs, the options."""

    name: str
    function: Callable[[ToolContext], object]
    in_thread: bool
    options: ToolCallOptions


async def run(work: BoundCall, ctx: ToolContext) -> Value:
    """Return the result of a call, as a frozen JSON value.

    A sync function that is cancelled or out of time goes on in its thread; chunks that it writes after that are
    dropped.

    Raises:
        ToolError: it failed, took too long, or returned no JSON value. Cancellation and `KeyboardInterrupt` pass
            through.
    """
    relay = _Relay(ctx.send)
    own_ctx = replace(ctx, send=relay.send) if ctx.send is not None else ctx
    limit = work.options.timeout
    seconds = DEFAULT_SECONDS if limit == "default" else limit
    try:
        with anyio.move_on_after(seconds) as scope:
            relay.renewed = scope if limit == "default" else None
            return await _result(work, own_ctx)
    finally:
        relay.open = False
    how = "; a tool that takes longer needs timeout=" if limit == "default" else ""
    raise ToolError(work.name, "timed-out", f"it did not finish within {seconds:g} seconds{how}")


async def _result(work: BoundCall, ctx: ToolContext) -> Value:
    if work.in_thread:
        begun = await _begun_in_thread(work, ctx)
    else:
        begun = _begun(work, ctx)
    if begun.awaited is None:
        return begun.result
    try:
        result = await begun.awaited
    except Exception as error:
        raise _failure(work, error) from error
    return _checked(work, result)


async def _begun_in_thread(work: BoundCall, ctx: ToolContext) -> _Begun:
    if left() >= MOST_LEFT:
        raise ToolError(work.name, "failed", "too many tool calls have never ended, so no further one is started")
    if _ThreadCall.left_of[work.name] >= MOST_LEFT_OF_A_TOOL:
        raise ToolError(work.name, "failed", "too many of its calls have never ended, so no further one is started")
    call = _ThreadCall(work.name)
    try:
        return await to_thread.run_sync(call.made, work, ctx, abandon_on_cancel=True, limiter=_threads(work.name))
    except BaseException:
        call.leave()
        raise


def left() -> int:
    """Return how many threads of the process were abandoned and still run."""
    return _ThreadCall.left_of.total()


class _ThreadCall:
    """A call in a thread, and whether its result is still wanted."""

    __slots__ = ("_is_left", "_runs", "_tool")

    left_of: ClassVar[Counter[str]] = Counter()
    _lock: ClassVar = threading.Lock()

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._runs = False
        self._is_left = False

    def made(self, work: BoundCall, ctx: ToolContext) -> _Begun:
        """Call the function, in the thread."""
        self._runs = True
        try:
            return _begun(work, ctx)
        finally:
            with self._lock:
                self._runs = False
                self._count(-1)

    def leave(self) -> None:
        """Abandon the thread, unless it has ended."""
        with self._lock:
            self._is_left = self._runs
            self._count(1)

    def _count(self, one: int) -> None:
        if self._is_left:
            self.left_of[self._tool] += one
            if not self.left_of[self._tool]:
                del self.left_of[self._tool]


class _Begun(NamedTuple):
    """The return value of a function: a result, or an awaitable (which trio does not let a thread return directly)."""

    result: Value
    awaited: Awaitable[object] | None = None


def _begun(work: BoundCall, ctx: ToolContext) -> _Begun:
    try:
        made = work.function(ctx)
    except Exception as error:
        raise _failure(work, error) from error
    return _Begun(None, made) if inspect.isawaitable(made) else _Begun(_checked(work, made))


def _checked(work: BoundCall, result: object) -> Value:
    """Return a result as JSON. A result that is too long is refused, not cut: no guard recognises half a secret."""
    try:
        made = written(result)
    except NotJSONError as error:
        raise ToolError(work.name, "not-json", str(error)) from error.__cause__
    most = work.options.max_result_characters
    if most is not None and (length := len(text_of(made))) > most:
        problem = f"its result has {length} characters, and at most {most} are allowed; ask for less"
        raise ToolError(work.name, "failed", problem)
    return made


def _failure(work: BoundCall, raised: Exception) -> ToolError:
    """Return the error for an exception of a function; a group of one counts as its one exception."""
    error = _alone(raised)
    if isinstance(error, ToolFailed):
        return ToolError(work.name, "failed", "it said that it failed", for_model=str(error))
    kind = type(error).__name__
    said = str(error) if work.options.errors == "message" else ""
    most = work.options.max_result_characters
    if most is not None and len(said) > most:
        said = f"(its message has {len(said)} characters)"
    return ToolError(work.name, "failed", f"it raised {kind}", for_model=f"{kind}: {said}" if said else kind)


def _alone(raised: Exception) -> Exception:
    is_group = isinstance(cast("object", raised), ExceptionGroup)
    inside = cast("tuple[Exception, ...]", getattr(raised, "exceptions", ())) if is_group else ()
    return _alone(inside[0]) if len(inside) == 1 else raised


def _threads(tool: str) -> anyio.CapacityLimiter:
    """Return the event loop's limit of threads for a tool.

    It is separate, so that a tool that hangs keeps no other tool waiting, and no guard.
    """
    limiters = _THREADS.get()
    found = limiters.get(tool)
    if found is None:
        if len(limiters) >= MOST_LEFT:
            for name in [name for name, limiter in limiters.items() if not limiter.borrowed_tokens]:
                del limiters[name]
        found = limiters[tool] = anyio.CapacityLimiter(to_thread.current_default_thread_limiter().total_tokens)
    return found


class _Relay:
    """Passes a tool's chunks to the event loop that called it, as long as the call lasts."""

    def __init__(self, send: Callable[[Chunk], None] | None) -> None:
        self._send = send
        self._home = threading.get_ident()
        self.open = True
        self.renewed: anyio.CancelScope | None = None  # whose time begins anew with each chunk

    def send(self, chunk: Chunk) -> None:
        """Send a chunk, from any thread."""
        if threading.get_ident() == self._home:
            self._pass_on(chunk)
        elif self.open:
            from_thread.run_sync(self._pass_on, chunk)

    def _pass_on(self, chunk: Chunk) -> None:
        if self.open and self._send is not None:
            if self.renewed is not None:
                self.renewed.deadline = anyio.current_time() + DEFAULT_SECONDS
            self._send(chunk)
