"""Single flight: tasks that need the same result at the same time share one call.

The first task to ask for a key leads: it makes the call, in its own task. The others wait for its result. Nothing goes
on in the background, and no task is cancelled because of another: if the leader is cancelled, the next waiter leads.

Each event loop has its own pending calls, since a task cannot wait for another loop's event. Nothing is remembered
after a call has ended: that is what caches are for.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

from penstock.engine.values.frozen import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable


K = TypeVar("K", bound="Hashable")
V = TypeVar("V")
T = TypeVar("T")


class PerEventLoop(Generic[T]):
    """An object that each event loop has its own instance of, such as a lock or a limiter.

    Instances are dropped with the loop, or with this object, whichever ends first.

    Args:
        make: makes the instance of an event loop, in that loop. It must not refer to this object's owner, which would
            otherwise live as long as the loop.
    """

    __slots__ = ("__weakref__", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def get(self) -> T:
        """Return the instance of the running event loop; it is made when first needed.

        Raises:
            anyio.NoEventLoopError: no event loop runs in this thread.
        """
        instances = _INSTANCES.get(None)
        if instances is None:
            instances = WeakKeyDictionary[PerEventLoop[Value], Value]()
            _INSTANCES.set(instances)
        if self not in instances:
            instances[self] = self._make()
        found: T = instances[self]
        return found


_INSTANCES: RunVar[WeakKeyDictionary[PerEventLoop[Value], Value] | None] = RunVar("penstock_per_event_loop")


class PendingCall(Generic[K, V]):
    """A call that one task leads, and whose result others may be waiting for.

    The leader must end it with `deliver` and `remove`, with `fail`, or with `release`, also when it is cancelled.

    Attributes:
        error: the exception that the call failed with; None if it did not fail, or has not ended.
    """

    __slots__ = ("_calls", "_ended", "_key", "_results", "_until", "error")

    def __init__(self, calls: dict[K, PendingCall[K, V]], key: K, until: float) -> None:
        self._calls = calls
        self._key = key
        self._until = until
        self._ended = anyio.Event()
        self._results: list[V] = []
        self.error: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether it has a result or an error. False while it runs, and after `release`."""
        return bool(self._results) or self.error is not None

    @property
    def is_late(self) -> bool:
        """Whether it has been pending for so long that no other task should wait for it."""
        return anyio.current_time() >= self._until

    @property
    def result(self) -> V:
        """The result that was delivered.

        Raises:
            LookupError: there is none.
        """
        return self._results[0]

    async def ended(self, until: float = inf) -> bool:
        """Wait until the call has ended, or until a time on the event loop's clock; return whether it has ended."""
        with anyio.CancelScope(deadline=min(until, self._until)):
            await self._ended.wait()
        return self._ended.is_set()

    def deliver(self, result: V) -> None:
        """Give the result to all tasks that wait, and to those that join before `remove`."""
        self._results = [result]
        self._ended.set()

    def fail(self, error: Exception) -> None:
        """Give an error to all tasks that wait."""
        self.error = error
        self.release()

    def release(self) -> None:
        """End the call for all tasks that wait; without a result or an error, the next of them leads."""
        self.remove()
        self._ended.set()

    def remove(self) -> None:
        """Stop further tasks from joining. The call itself goes on."""
        if self._calls.get(self._key) is self:
            del self._calls[self._key]


class SingleFlight(Generic[K, V]):
    """The pending calls of one owner, by key. Tasks share them within an event loop, never across loops.

    Args:
        max_wait: for how many seconds a task waits for another at most, and how long a call can be joined. After that
            the next task that asks leads a call of its own.
    """

    __slots__ = ("_loops", "_max_wait")

    def __init__(self, max_wait: float = inf) -> None:
        self._max_wait = max_wait
        self._loops: PerEventLoop[dict[K, PendingCall[K, V]]] = PerEventLoop(dict[K, PendingCall[K, V]])

    async def run(
        self,
        key: K,
        call: Callable[[], Awaitable[V]],
        *,
        copy_error: Callable[[Exception], Exception | None] = lambda _: None,
    ) -> tuple[V, bool]:
        """Return the result of a call, and whether another task made it.

        Args:
            key: identifies the call: two calls of one key must be interchangeable.
            call: makes the call; awaited in this task if it leads.
            copy_error: returns the exception that a waiter raises when the leader's call failed, so that each task has
                a traceback of its own. None: the waiter makes the call itself. By default no error is shared.

        Raises:
            Exception: whatever the call raises; for waiters, what ``copy_error`` returns.
        """
        while True:
            pending = await self.join(key)
            if pending is None:
                return await call(), False
            if pending.error is not None:
                copy = copy_error(pending.error)
                if copy is not None:
                    raise copy
            elif pending.is_done:
                return pending.result, True
            else:
                return await self._lead(pending, call), False

    async def _lead(self, pending: PendingCall[K, V], call: Callable[[], Awaitable[V]]) -> V:
        try:
            result = await call()
        except Exception as error:
            pending.fail(error)
            raise
        else:
            pending.deliver(result)
        finally:
            pending.release()
        return result

    async def join(self, key: K, *, wait: bool = True) -> PendingCall[K, V] | None:
        """Wait for a call that another task leads, or begin one.

        Returns a call that is done, a call that is not done and that this task now leads, or None: another task leads,
        and this one must not wait, or has waited for ``max_wait`` seconds.

        Args:
            key: identifies the call.
            wait: whether to wait for another task at all. A task that leads one call should not wait for another, or
                two tasks can wait for each other.
        """
        until = anyio.current_time() + self._max_wait
        while True:
            pending = self.find(key)
            if pending is None:
                return self.lead(key)
            if not wait or not await pending.ended(until):
                return None
            if pending.is_done:
                return pending

    def find(self, key: K) -> PendingCall[K, V] | None:
        """Return the call of a key that can be joined, or None."""
        pending = self._loops.get().get(key)
        return None if pending is None or pending.is_late else pending

    def lead(self, key: K) -> PendingCall[K, V]:
        """Return a new call of a key, for the caller to make. It takes the place of an older one."""
        calls = self._loops.get()
        pending = calls[key] = PendingCall(calls, key, anyio.current_time() + self._max_wait)
        return pending

    def __len__(self) -> int:
        """Return how many calls can be joined in the running event loop."""
        return len(self._loops.get())
