"""Doing several things beside each other and having all their results; it knows nothing of what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from penstock.engine.values.tripwire import TripwireSignal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


async def together(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return what each work gives, in order. One by itself is done in the caller's own task.

    Raises:
        TripwireSignal: a verdict of one; it cancels the others. Of several the first in order.
        Exception: what the first in order raised, if no verdict was given.
    """
    if len(works) <= 1:
        return [await work() for work in works]
    from penstock.engine.tasks import new_crew  # loaded where something waits: asyncio takes long to import

    done: list[T | None] = [None] * len(works)
    ends: list[BaseException | None] = [None] * len(works)
    async with new_crew() as crew:

        async def run(index: int, work: Callable[[], Awaitable[T]]) -> None:
            try:
                done[index] = await work()
            except Exception as error:  # noqa: BLE001 - raised below: another may yet give a verdict, which beats it
                ends[index] = error
            except TripwireSignal as verdict:
                ends[index] = verdict
                crew.cancel()

        for index, work in enumerate(works):
            crew.start(run, index, work)
    raised = sorted(filter(None, ends), key=lambda end: not isinstance(end, TripwireSignal))
    if raised:
        raise raised[0]
    return cast("list[T]", done)
