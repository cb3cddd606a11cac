"""Single flight: what several ask for at the same time is asked for once; it knows nothing of what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from penstock.engine.values.model import JudgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

V = TypeVar("V")


class _Flight(Generic[V]):
    """One question under way."""

    __slots__ = ("error", "found", "landed")

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.found: list[V] = []
        self.error: JudgeError | None = None


class Flights(Generic[V]):
    """The questions that are under way, by key. Lives as long as an event loop."""

    __slots__ = ("_flying",)

    def __init__(self) -> None:
        self._flying: dict[str, _Flight[V]] = {}

    async def fly(self, key: str, work: Callable[[], Awaitable[V]]) -> tuple[V, bool]:
        """Return what the work gives, and whether it was somebody else's.

        The first who asks works, in its own task. If that is cancelled, the next one asks anew: nothing goes on that
        nobody waits for, and nobody is cancelled for another.

        Raises:
            JudgeError: the work failed; for all who waited for it.
        """
        while (flight := self._flying.get(key)) is not None:
            await flight.landed.wait()
            if flight.found:
                return flight.found[0], True
            if flight.error is not None:
                raise _again(flight.error) from flight.error.__cause__
        return await self._lead(key, work), False

    async def _lead(self, key: str, work: Callable[[], Awaitable[V]]) -> V:
        flight = self._flying[key] = _Flight[V]()
        try:
            value = await work()
            flight.found.append(value)
        except JudgeError as error:
            flight.error = error
            raise
        finally:
            del self._flying[key]
            flight.landed.set()
        return value


def _again(error: JudgeError) -> JudgeError:
    """Return the error for somebody else: each has a traceback of its own, and its tokens are counted once."""
    return JudgeError(error.model, error.reason, error.problem, attempts=0)
