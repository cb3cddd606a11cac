"""Single flight: one call for all tasks that need the same result at the same time."""

from __future__ import annotations

import gc
from weakref import ref

import anyio
import pytest
from anyio.lowlevel import checkpoint

from penstock.models.single_flight import PerEventLoop, SingleFlight

pytestmark = pytest.mark.anyio


class _Call:
    """A call that waits until it may end; its results are numbered."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = anyio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.count += 1
        number = self.count
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_tasks_that_ask_at_the_same_time_share_one_call() -> None:
    """The leader is told that it made the call, the others that another task did."""
    calls, call = SingleFlight[str, int](), _Call()
    found: list[tuple[int, bool]] = []

    async def ask() -> None:
        found.append(await calls.run("a", call))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert len(calls) == 1
            call.may_end.set()
    assert sorted(found) == [(1, False), (1, True), (1, True)]
    assert len(calls) == 0


async def test_other_keys_are_other_calls_and_nothing_is_remembered() -> None:
    """A later task makes the call again."""
    calls, call = SingleFlight[str, int](), _Call()
    call.may_end.set()
    assert await calls.run("a", call) == (1, False)
    assert await calls.run("a", call) == (2, False)
    assert await calls.run("b", call) == (3, False)


async def test_if_the_leader_is_cancelled_the_next_task_leads() -> None:
    """Nobody is cancelled because of another task."""
    calls, call = SingleFlight[str, int](), _Call()
    found: list[tuple[int, bool]] = []

    async def ask() -> None:
        found.append(await calls.run("a", call))

    async def lead(scope: anyio.CancelScope) -> None:
        with scope:
            await calls.run("a", call)

    scope = anyio.CancelScope()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lead, scope)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            call.may_end.set()
    assert sorted(found) == [(2, False), (2, True)]


@pytest.mark.parametrize("shared", [True, False])
async def test_an_error_is_shared_as_a_copy_or_not_at_all(shared: bool) -> None:
    """Without a copy, a waiter makes the call itself."""
    calls, call = SingleFlight[str, int](), _Call()
    call.error = ValueError("no")
    raised: list[Exception] = []

    async def ask() -> None:
        try:
            await calls.run("a", call, copy_error=lambda error: KeyError(*error.args) if shared else None)
        except Exception as error:  # noqa: BLE001 - whichever it is
            raised.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            call.may_end.set()
    assert [type(error) for error in raised] == [ValueError, KeyError if shared else ValueError]
    assert call.count == (1 if shared else 2)


async def test_a_task_waits_no_longer_than_it_may() -> None:
    """After ``max_wait`` seconds it makes the call itself; one that comes later leads anew."""
    calls, call = SingleFlight[str, int](max_wait=0.01), _Call()
    first = calls.lead("a")
    assert await calls.join("a") is None
    call.may_end.set()
    assert first.is_late
    assert await calls.run("a", call) == (1, False)
    calls.lead("a")
    first.release()  # an older call, ending late, does not remove a newer one
    assert len(calls) == 1


async def test_run_calls_by_itself_when_its_wait_is_over() -> None:
    """The other task's call goes on."""
    calls, call = SingleFlight[str, int](max_wait=0.01), _Call()
    calls.lead("a")
    call.may_end.set()
    assert await calls.run("a", call) == (1, False)


async def test_a_task_that_must_not_wait_gets_nothing() -> None:
    """A task that leads a call elsewhere asks so."""
    calls = SingleFlight[str, int]()
    assert await calls.join("a", wait=False) is calls.find("a")
    assert await calls.join("a", wait=False) is None


async def test_a_result_can_be_joined_until_the_call_is_removed() -> None:
    """A leader that still stores its result lets others have it meanwhile."""
    calls = SingleFlight[str, int]()
    pending = calls.lead("a")
    with pytest.raises(LookupError):
        _ = pending.result
    pending.deliver(7)
    joined = await calls.join("a")
    assert joined is pending
    assert joined.result == 7
    pending.remove()
    assert calls.find("a") is None


def test_each_event_loop_has_its_own() -> None:
    """Objects that wait, such as locks, belong to one loop; they go with their owner."""
    own = PerEventLoop(anyio.Lock)
    found: list[anyio.Lock] = []

    async def ask() -> None:
        await checkpoint()
        found.append(own.get())
        assert own.get() is found[-1]

    anyio.run(ask)
    anyio.run(ask)
    assert found[0] is not found[1]


async def test_what_an_owner_has_in_a_loop_goes_with_the_owner() -> None:
    """A loop that lives on does not keep it."""
    own = PerEventLoop(anyio.Lock)
    kept = ref(own.get())
    del own
    gc.collect()
    assert kept() is None
