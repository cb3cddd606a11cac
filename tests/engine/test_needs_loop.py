"""Async steps that suspend nowhere without an event loop (``needs_loop = False``): wherever they stand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from penstock import InputContext, Processor, TextGuard, Workflow
from penstock.engine import Edit, UsageError
from penstock.engine.tasks import gather, run_without_loop, runs_without_loop
from penstock.engine.values.tripwire import TripwireSignal


class Waits(Processor):
    """Waits for the event loop, if there is one; notes where it ran."""

    needs_loop = False
    edits = "nothing"

    def __init__(self, id: str, seen: list[str], *, aborts: bool = False) -> None:
        self.id = id
        self.seen = seen
        self.aborts = aborts

    async def process_input(self, ctx: InputContext) -> None:
        if not runs_without_loop():
            await anyio.lowlevel.checkpoint()
        self.seen.append(self.id)
        if self.aborts:
            ctx.abort("no")


class Hides(TextGuard):
    """Hides one word; waits for the event loop, if there is one."""

    needs_loop = False
    reach = 6

    def __init__(self, word: str) -> None:
        self.id = f"hides-{word}"
        self.word = word

    async def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit] | None:  # type: ignore[override]
        if not runs_without_loop():
            await anyio.lowlevel.checkpoint()
        at = text.find(self.word)
        return [Edit(at, at + len(self.word), "-", "redact")] if at >= 0 else None


async def test_they_run_inside_a_running_loop_too() -> None:
    """As in a notebook: in parallels, shadows, under time limits and retries, as fallbacks."""
    seen: list[str] = []
    workflow = (
        Workflow("w")
        .then(Waits("shadow", seen), mode="shadow")
        .parallel(Waits("a", seen), Waits("b", seen))
        .then(Waits("limited", seen), timeout=5.0)
        .then(Waits("retried", seen), retries=1)
        .branch((lambda view: True, Waits("arm", seen)))
    )
    assert not workflow.check_sync("hello").blocked
    assert seen == ["shadow", "a", "b", "limited", "retried", "arm"]
    await workflow.check("hello")
    assert sorted(seen[6:]) == sorted(seen[:6])


async def test_streams_run_inside_a_running_loop_too() -> None:
    """Side by side, in shadow, and under a time limit."""
    workflow = (
        Workflow("w")
        .then(Hides("shadow"), mode="shadow")
        .parallel(Hides("apple"), Hides("plum"))
        .then(Hides("fig"), timeout=5.0)
    )
    with workflow.start_sync().process_output_stream(["an app", "le, a plum", ", a fi", "g, a shadow"]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == "an -, a -, a -, a shadow"


async def test_a_verdict_of_one_stops_those_after_it() -> None:
    """Without a loop, branches run in their order."""
    seen: list[str] = []
    outcome = Workflow("w").parallel(Waits("a", seen, aborts=True), Waits("b", seen)).check_sync("hello")
    assert (outcome.blocked, seen[0]) == (True, "a")


async def _true(view: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("place", "waiting"),
    [
        (lambda step: Workflow("w").then(step, retries=1, retry_delay=0.1), "(a)"),
        (lambda step: Workflow("w").branch((_true, step)), "(branch)"),
        (lambda step: Workflow("w").then(step, on_error=_Always()), "a.fallback"),
    ],
)
async def test_what_waits_around_them_still_needs_a_loop(
    place: Callable[[Processor[Any]], Workflow], waiting: str
) -> None:
    """A delay before a retry, an async condition, an async fallback; the error names it."""
    run = place(Waits("a", [])).start_sync()
    with pytest.raises(UsageError, match="async steps") as caught:
        run.process_input("hello")
    assert waiting in str(caught.value)


class _Always(Processor):
    """Waits in any case."""

    async def process_input(self, ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()


def test_without_a_loop_work_is_done_in_order_and_a_verdict_comes_before_an_error() -> None:
    """As concurrent work ends."""
    done: list[int] = []

    def work(number: int, error: BaseException | None = None) -> Callable[[], Awaitable[int]]:
        async def run() -> int:
            done.append(number)
            if error is not None:
                raise error
            return number

        return run

    assert run_without_loop(gather([work(1), work(2)]), "work") == [1, 2]
    with pytest.raises(ValueError, match="first"):
        run_without_loop(gather([work(3, ValueError("first")), work(4), work(5, KeyError())]), "work")
    verdict = Workflow("w").then(Waits("a", [], aborts=True)).check_sync("hello").tripwire
    assert verdict is not None
    with pytest.raises(TripwireSignal):
        run_without_loop(gather([work(6, ValueError()), work(7, TripwireSignal(verdict))]), "work")
    assert done == [1, 2, 3, 4, 5, 6, 7]
