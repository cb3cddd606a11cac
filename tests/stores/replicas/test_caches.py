"""A response cache that replicas share: equal calls at the same time make one, over all processes."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from penstock import Agent, ResponseCache
from penstock.engine import Cache
from penstock.engine.values.shared import LeasingCache, NameStore, SharedState
from penstock.testing import ScriptedModel
from tests.stores.replicas.processes import Forked
from tests.stores.replicas.servers import Place


async def test_a_state_is_one(shared: Place) -> None:
    """By the protocols."""
    async with shared.state() as state:
        assert isinstance(state, SharedState)
        assert isinstance(state.cache, Cache)
        assert isinstance(state.cache, LeasingCache)
        assert isinstance(state.names, NameStore)


async def test_it_keeps_texts_for_their_time(shared: Place) -> None:
    """Whatever they hold."""
    async with shared.state() as state:
        cache = state.cache
        assert await cache.get("k") is None
        await cache.set("k", "ä\n😀")
        await cache.set("short", "gone", ttl=0.03)
        assert await cache.get("k") == "ä\n😀"
        await anyio.sleep(0.04)
        assert await cache.get("short") is None
        await cache.set("k", "new", ttl=60)
        assert await cache.get("k") == "new"


async def test_one_holder_leads_until_it_ends_its_lease_or_dies(shared: Place) -> None:
    """The next one leads then; if the value was of no use, each makes its own."""
    async with shared.state() as state:
        cache = state.cache
        assert [await cache.lease("k", holder, seconds=60) for holder in ("a", "b", "a")] == ["lead", "wait", "lead"]
        await cache.end_lease("k", "b")
        assert await cache.lease("k", "b", seconds=60) == "wait"
        await cache.end_lease("k", "a")
        assert await cache.lease("k", "b", seconds=0.04) == "lead"
        await anyio.sleep(0.05)
        assert await cache.lease("k", "c", seconds=60) == "lead"
        await cache.end_lease("k", "c", useless=True)
        assert [await cache.lease("k", holder, seconds=60) for holder in ("a", "b")] == ["ask", "ask"]


async def test_names_are_added_up_in_order_whoever_adds_them(shared: Place) -> None:
    """And forgotten when nobody has used them for their time."""
    async with shared.state() as state, shared.state() as other:
        await state.names.add_names("o", ["b", "a"], ttl=60)
        await other.names.add_names("o", ["a", "c"], ttl=60)
        assert list(await state.names.names("o", ttl=60)) == ["b", "a", "c"]
        assert list(await state.names.names("other", ttl=60)) == []
        assert list(await state.names.names("o", ttl=0.03)) == ["b", "a", "c"]
        await anyio.sleep(0.04)
        assert list(await state.names.names("o", ttl=60)) == []


# Over many processes


def asker(shared: Place, number: int, *, script: Any, seconds: float, **options: Any) -> Callable[..., Any]:
    """Return work that asks the same as all others, and notes each call of its model, and what it got."""

    async def work(note: Callable[[str], None]) -> None:
        model = ScriptedModel([script], repeat_last=True, name="main")
        inner = model.stream

        async def stream(request: Any) -> Any:
            note("called")
            await anyio.sleep(seconds)
            async for chunk in inner(request):
                yield chunk

        model.stream = stream
        async with shared.state() as state:
            agent = Agent(model, processors=[ResponseCache(state.cache, **options)])
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(lambda: ask(agent, note))

    async def ask(agent: Agent, note: Callable[[str], None]) -> None:
        note((await agent.generate("How deep?")).text or "nothing")

    return work


@pytest.mark.rest
def test_a_stampede_of_twelve_processes_makes_one_call(shared: Place) -> None:
    """The others wait for its answer."""
    crowd = [Forked(asker(shared, number, script="Nine.", seconds=0.2)) for number in range(12)]
    notes = [note for process in crowd for note in process.end()]
    assert (notes.count("called"), notes.count("Nine.")) == (1, 24)


@pytest.mark.rest
def test_if_the_one_who_asks_dies_another_one_asks(shared: Place) -> None:
    """When its lease has ended; and no more than that one."""
    dying = Forked(asker(shared, 0, script="Nine.", seconds=60, max_wait=0.4))
    assert dying.line() == "called"
    crowd = [Forked(asker(shared, number, script="Nine.", seconds=0.1, max_wait=2)) for number in range(6)]
    dying.kill()
    notes = [note for process in crowd for note in process.end()]
    dying.end()
    assert (notes.count("called"), notes.count("Nine.")) == (1, 12)


@pytest.mark.rest
def test_an_answer_that_is_not_stored_keeps_nobody_waiting(shared: Place) -> None:
    """Each process asks once for itself as soon as that is known."""
    crowd = [Forked(asker(shared, number, script="Nine.", seconds=0.05, max_size=5)) for number in range(4)]
    notes = [note for process in crowd for note in process.end()]
    assert notes.count("Nine.") == 8
    assert 4 <= notes.count("called") <= 8


async def test_a_lost_store_costs_a_call_not_the_request(caplog: pytest.LogCaptureFixture) -> None:
    """As that of a cache that fails does."""
    lost = Place("valkey", "valkey://:pass-word@localhost:1/0", "lost", None)
    async with lost.state(retry_for=0) as state:
        agent = Agent(ScriptedModel(["Nine."]), processors=[ResponseCache(state.cache)])
        assert (await agent.generate("How deep?")).text == "Nine."
    assert "could not be read: StorageError" in caplog.text
    assert "localhost" not in caplog.text
