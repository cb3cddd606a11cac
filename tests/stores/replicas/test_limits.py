"""Rate limits and circuits that replicas share."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from penstock import OptionError, StreamErrorRetryProcessor, Workflow
from penstock.engine import ModelError
from penstock.engine.values.shared import Breaker, RateLimiter
from penstock.processors.recovery import CircuitBreaker
from tests.stores.replicas.processes import Forked
from tests.stores.replicas.servers import Place


async def test_a_client_may_send_so_many_and_then_evenly(shared: Place) -> None:
    """Whichever replica counts them; others have their own, and so has another limit."""
    async with shared.state() as state, shared.state() as other:
        limits = [each.rate_limit("r", 3, 60) for each in (state, other)]
        assert all(isinstance(limit, RateLimiter) for limit in limits)
        waits = [await limits[number % 2].take("a") for number in range(4)]
        assert waits[:3] == [0, 0, 0]
        assert 0 < waits[3] <= 20
        assert (await limits[0].take("b"), await state.rate_limit("s", 1, 60).take("a")) == (0, 0)
        assert await limits[1].take("a") > 0
        for _ in range(2):  # one that fills up within the sleep
            assert await state.rate_limit("t", 1, 0.03).take("a") == 0
            await anyio.sleep(0.04)


async def test_a_circuit_opens_for_all_and_lets_one_through_after_each_pause(shared: Place) -> None:
    """And an answer to anybody closes it for all."""
    figures: dict[str, Any] = {"failures": 3, "within": 60, "pause": 0.4}
    async with shared.state() as state, shared.state() as other:
        one, two = state.breaker("b", **figures), other.breaker("b", **figures)
        assert isinstance(one, Breaker)
        assert await two.admits("m")
        assert [await each.failed("m") for each in (one, two, one, two)] == [True, True, False, False]
        assert (await one.is_open("m"), await two.is_open("m"), await two.is_open("other")) == (True, True, False)
        assert not await two.admits("m")
        await anyio.sleep(0.45)
        assert [await each.admits("m") for each in (two, one, two)] == [True, False, False]
        await one.succeeded("m")
        assert not await two.is_open("m")
        assert await two.failed("m")


async def test_failures_that_are_long_ago_do_not_count_in_a_store(shared: Place) -> None:
    """Neither to open a circuit, nor to keep it open."""
    async with shared.state() as state:
        breaker = state.breaker("b", failures=2, within=0.3, pause=0.03)
        assert await breaker.failed("m")
        await anyio.sleep(0.35)
        assert [await breaker.failed("m") for _ in range(2)] == [True, False]
        await anyio.sleep(0.35)
        assert await breaker.failed("m")
        assert not await breaker.is_open("m")


@pytest.mark.parametrize(
    "wrong", [{"failures": 0}, {"within": 0}, {"pause": float("nan")}, {"failures": True}, {"pause": 1e15}], ids=str
)
async def test_figures_of_a_shared_breaker_are_checked(shared: Place, wrong: dict[str, Any]) -> None:
    """As those of the one in memory."""
    state = shared.state()
    with pytest.raises(OptionError, match=next(iter(wrong))):
        state.breaker("b", **wrong)
    with pytest.raises(OptionError, match="requests"):
        state.rate_limit("r", 0, 60)


def test_the_breaker_in_memory_is_one() -> None:
    """By the protocol."""
    assert isinstance(CircuitBreaker(), Breaker)


async def test_a_processor_takes_a_breaker_that_replicas_share(shared: Place) -> None:
    """What one has counted stops the retries of another."""
    async with shared.state() as state, shared.state() as other:
        steps = [
            StreamErrorRetryProcessor(delay=0, max_retries=9, breaker=each.breaker("b", failures=2, pause=60))
            for each in (state, other)
        ]
        retried = []
        for step in (*steps, steps[0]):
            async with Workflow("w").then(step).start(max_error_retries=99) as run:
                retried.append(
                    (await run.process_api_error(ModelError("m", "down", status=503, retryable=True), model="m")).retry
                )
        assert [each is not None for each in retried] == [True, False, False]
        async with Workflow("w").then(steps[1]).start() as run:
            await run.process_llm_request("hi", model="m")
            await run.process_llm_response(model="m")
        assert not await state.breaker("b").is_open("m")


def prober(shared: Place) -> Callable[..., Any]:
    """Return work that asks whether a first call may be made."""

    async def work(note: Callable[[str], None]) -> None:
        async with shared.state() as state:
            breaker = state.breaker("b", failures=1, pause=0.3)
            note("ready")
            while not await breaker.is_open("m"):  # noqa: ASYNC110 - of a server
                await anyio.sleep(0.01)
            with anyio.move_on_after(0.5):
                while True:
                    if await breaker.admits("m"):
                        note("probe")
                    await anyio.sleep(0.01)

    return work


@pytest.mark.rest
def test_half_open_lets_one_probe_through_over_twelve_processes(shared: Place) -> None:
    """Once in each pause: at most twice in half a second."""
    crowd = [Forked(prober(shared)) for _ in range(12)]
    assert {process.line() for process in crowd} == {"ready"}

    async def open_it() -> None:
        async with shared.state() as state:
            await state.breaker("b", failures=1, pause=0.3).failed("m")

    anyio.run(open_it)
    probes = sum(len(process.end()) for process in crowd)
    assert 1 <= probes <= 3
