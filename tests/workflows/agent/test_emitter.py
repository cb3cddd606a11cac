"""What a coroutine emits: how it is read, closed and cancelled."""

from __future__ import annotations

import anyio
import pytest

from penstock.engine.workers import AbandonedError
from penstock.workflows.agent.emitter import Emitter

pytestmark = pytest.mark.anyio


async def below(out: Emitter[int], number: int) -> None:
    """Emit from within two calls."""
    await out.emit(number)
    await anyio.lowlevel.checkpoint()


async def test_items_come_from_however_deep() -> None:
    """In order, with waits between them, and not before somebody asks."""
    asked: list[int] = []

    async def work(out: Emitter[int]) -> None:
        for number in range(3):
            asked.append(number)
            await below(out, number)
        await out.emit_all([7, 8])

    emitter, got = Emitter(work), list[tuple[int, int, int | None]]()
    assert (asked, emitter.last) == ([], None)
    async for item in emitter:
        got.append((item, len(asked), emitter.last))
    assert got == [(0, 1, 0), (1, 2, 1), (2, 3, 2), (7, 3, 7), (8, 3, 8)]
    assert [item async for item in emitter] == []


async def test_closing_ends_the_coroutine_where_it_emits() -> None:
    """It may wait while it cleans up; nothing is read after that."""
    ends: list[str] = []

    async def work(out: Emitter[int]) -> None:
        try:
            await below(out, 1)
        except AbandonedError:
            await anyio.lowlevel.checkpoint()
            ends.append("cleaned up")
            raise

    emitter = Emitter(work)
    assert await anext(emitter) == 1
    await emitter.aclose()
    await emitter.aclose()
    assert (ends, emitter.closed, [item async for item in emitter]) == (["cleaned up"], True, [])


async def test_one_that_was_never_read_is_closed_without_having_begun() -> None:
    """No coroutine is made that nobody awaits."""

    async def work(_out: Emitter[int]) -> None:
        pytest.fail("it began")

    emitter = Emitter(work)
    await emitter.aclose()
    assert [item async for item in emitter] == []


async def test_a_coroutine_that_emits_after_its_reader_has_left_is_an_error() -> None:
    """As with a generator that ignores its end."""

    async def work(out: Emitter[int]) -> None:
        try:
            await out.emit(1)
        except AbandonedError:
            await out.emit(2)

    emitter = Emitter(work)
    await anext(emitter)
    with pytest.raises(RuntimeError, match="after its reader had left"):
        await emitter.aclose()


async def test_its_errors_reach_the_reader_while_it_closes_too() -> None:
    """Once; then it has ended."""

    async def fails(out: Emitter[int]) -> None:
        await out.emit(1)
        raise ZeroDivisionError

    async def fails_closing(out: Emitter[int]) -> None:
        try:
            await out.emit(1)
        finally:
            raise ZeroDivisionError

    emitter = Emitter(fails)
    assert await anext(emitter) == 1
    with pytest.raises(ZeroDivisionError):
        await anext(emitter)
    assert [item async for item in emitter] == []
    emitter = Emitter(fails_closing)
    await anext(emitter)
    with pytest.raises(ZeroDivisionError):
        await emitter.aclose()


async def test_a_cancelled_reader_cancels_the_coroutine() -> None:
    """The cancellation arrives where it waits, and goes on to whoever cancelled."""
    ends: list[str] = []

    async def work(out: Emitter[int]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("cancelled")

    emitter = Emitter(work)
    with anyio.move_on_after(0.01) as scope:
        await anext(emitter)
    assert (ends, scope.cancelled_caught, emitter.busy) == (["cancelled"], True, False)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_another_task_may_cancel_a_read_that_waits() -> None:
    """The read ends as at the end of the items, and the reading task goes on uncancelled."""
    ends: list[str] = []

    async def work(out: Emitter[int]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("cancelled")

    emitter = Emitter(work)

    async def cancel() -> None:
        while not emitter.busy:
            await anyio.lowlevel.checkpoint()
        emitter.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        got = [item async for item in emitter]
        await anyio.lowlevel.checkpoint()
        ends.append("went on")
    assert (got, ends) == ([], ["cancelled", "went on"])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_from_outside_counts_more_than_ours() -> None:
    """Both come at once: the reader is cancelled, since somebody else wants it to be."""

    async def work(out: Emitter[int]) -> None:
        await anyio.sleep_forever()

    emitter = Emitter(work)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                while not emitter.busy:
                    await anyio.lowlevel.checkpoint()
                emitter.cancel()
                scope.cancel()

            group.start_soon(cancel)
            async for _ in emitter:
                pass
            await anyio.lowlevel.checkpoint()
            pytest.fail("it went on")
    assert scope.cancelled_caught
