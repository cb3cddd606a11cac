"""Enclose calls into other code: context managers of observers, entered around each hook, model call and tool call.

An observer with a method ``enclose`` gets a `CallSite` and returns a function that makes the context managers. With
them it can make a span of OpenTelemetry current, so that spans of the called code become its children. A context
manager is entered and left in the task or thread of the call, and never while a stream hands a chunk to its reader.
"""

from __future__ import annotations

import inspect
import logging
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
    from types import TracebackType

    from penstock.engine.values.model import ModelRequest

T = TypeVar("T")

log = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call into other code that is about to be made.

    Attributes:
        what: ``stage`` (all hooks and conditions of one call of a stage), ``hook``, ``model`` or ``tool``.
        path: of a hook, the path of its step in the workflow; otherwise the path of its `RunEvent`.
        name: the id of the processor, or the name of the stage, the model or the tool.
        stage: the stage of a hook; else empty.
        parent: of a hook, the path of the `RunEvent` of the part around it; empty if that is not known.
        shadow: whether a hook runs in shadow.
        request: the request to a model; else None.
        call_id: the id of a tool call; else empty.
        arguments: the arguments of a tool call, after the guards; else None.
    """

    what: Literal["stage", "hook", "model", "tool"]
    path: str
    name: str
    stage: str = ""
    parent: str = ""
    shadow: bool = False
    request: ModelRequest | None = None
    call_id: str = ""
    arguments: object = None


Scope: TypeAlias = "Callable[[], AbstractContextManager[object]]"
"""Makes a context manager for one call. A hook in a stream, and a model, are called many times."""


def guarded(call: Callable[[Callable[[], T]], T], function: Callable[[], T]) -> T | None:
    """Return ``call(function)``; None if it raises. The error is only logged, because an observer changes nothing."""
    try:
        return call(function)
    except Exception:
        log.exception(OBSERVER_FAILED)
        return None


class CallScopes:
    """The context managers of one call. An error of one of them is logged, and changes nothing."""

    __slots__ = ("_entered", "_scopes")

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self._scopes = scopes
        self._entered: list[AbstractContextManager[object]] = []

    def __enter__(self) -> Self:
        for scope in self._scopes:
            try:
                manager = scope()
                manager.__enter__()
            except Exception:
                log.exception(OBSERVER_FAILED)
            else:
                self._entered.append(manager)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for manager in reversed(self._entered):
            try:
                manager.__exit__(kind, error, trace)
            except Exception as raised:
                if raised is not error:
                    log.exception(OBSERVER_FAILED)


OBSERVER_FAILED = "an observer failed; the run goes on"


ModelCalls: TypeAlias = "Callable[[str, dict[str, object]], AbstractContextManager[object]]"
"""Makes a context manager around a model call, given the model's name, and a dict that has details at its end."""

MODEL_CALLS: ContextVar[ModelCalls | None] = ContextVar("penstock_model_calls", default=None)
"""What is put around the model calls that a hook makes, such as those of a judge. An observer sets it in its scope."""


@contextmanager
def model_call(name: str) -> Generator[dict[str, object]]:
    """Report a model call that a hook makes to the observer around it, if there is one.

    Args:
        name: the name of the model.

    Yields a dict for details that are known at the end: ``usage``, the `Usage` of the answer.
    """
    details: dict[str, object] = {}
    calls = MODEL_CALLS.get()
    if calls is None:
        yield details
        return
    with CallScopes([partial(calls, name, details)]):
        yield details


Function: TypeAlias = "Callable[..., object]"
"""A function of other code: a hook, for example."""


F = TypeVar("F", bound="Function")


class EnclosedCall:
    """Calls functions of other code within one scope, which is made at the first call.

    Args:
        make: makes the scope.
    """

    __slots__ = ("_make", "_scope")

    def __init__(self, make: Callable[[], Scope]) -> None:
        self._make = make
        self._scope: Scope | None = None

    def _made_scope(self) -> Scope:
        scope = self._scope = self._make()
        return scope

    def around(self, function: F, *, awaits: bool) -> F:
        """Return the function as it is called within the scope.

        Args:
            function: the function.
            awaits: whether it is async.
        """
        if awaits:
            return cast("F", partial(self._awaited, cast("Callable[..., Awaitable[object]]", function)))
        return cast("F", partial(self._called, function))

    def around_either(self, function: Function) -> Function:
        """Return a function that may return an awaitable, as it is called within the scope; so is the awaitable."""
        return partial(self._either, function)

    def _called(self, function: Callable[..., T], *given: object) -> T:
        with (self._scope or self._made_scope())():
            return function(*given)

    def _either(self, function: Callable[..., object], *given: object) -> object:
        result = self._called(function, *given)
        return self._rest(result) if inspect.isawaitable(result) else result

    async def _rest(self, waiting: Awaitable[T]) -> T:
        with (self._scope or self._made_scope())():
            return await waiting

    async def _awaited(self, function: Callable[..., Awaitable[T]], *given: object) -> T:
        with (self._scope or self._made_scope())():
            return await function(*given)


class EnclosedIterator(Generic[T]):
    """Reads and closes an async iterator within a scope, which is left before an item is handed on.

    Attributes:
        first_chunk: the seconds until the first item; None if there was none yet.
    """

    __slots__ = ("_items", "_scope", "_started", "first_chunk")

    def __init__(self, items: AsyncIterator[T], scope: Scope) -> None:
        self._items = items
        self._scope = scope
        self._started = perf_counter()
        self.first_chunk: float | None = None

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> T:
        """Return the next item."""
        with self._scope():
            item = await self._items.__anext__()
        if self.first_chunk is None:
            self.first_chunk = perf_counter() - self._started
        return item

    async def aclose(self) -> None:
        """Close the iterator, unless it cannot be closed, or has ended."""
        close: Callable[[], Awaitable[object]] | None = getattr(self._items, "aclose", None)
        if close is not None and getattr(self._items, "ag_frame", self._items) is not None:
            with self._scope():
                await close()
