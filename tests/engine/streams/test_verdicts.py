"""Verdicts in a stream: every way to trip, in every place, at every moment; nothing of what is blocked leaves."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from penstock import Chunk, Outcome, Run, Workflow, member
from penstock.engine import Record, StepFailedError
from penstock.engine.streams import sources
from penstock.engine.streams.stream import OutputStream
from tests.engine.streams.breaking import (
    BREAKS,
    FACT,
    TRIPS,
    WRONG,
    AsyncBreakingGuard,
    BreakingGuard,
    BreakingHook,
    HangingGuard,
    HoldingGuard,
    WrongGuard,
    abort,
    raised,
)
from tests.engine.streams.toys import Rule, Toy

BEFORE = "all is well here, and goes on. "
AFTER = "@secret behind the sign"


def yes(ctx: Any) -> bool:
    """Hold."""
    return True


def other(id: str = "other") -> Toy:
    """A guard that has nothing to find."""
    toy = Toy(Rule("never", "redact"))
    toy.id = id
    return toy


PLACES: dict[str, Callable[..., Workflow]] = {
    "alone": lambda item, **policy: Workflow("w").then(item, **policy),
    "first": lambda item, **policy: Workflow("w").then(item, **policy).then(other()),
    "last": lambda item, **policy: Workflow("w").then(other()).then(item, **policy),
    "nested": lambda item, **policy: Workflow("w").then(Workflow("inner").then(other()).then(item), **policy),
    "branch": lambda item, **policy: Workflow("w").branch((yes, Workflow("inner").then(item, **policy))),
}
BESIDE: dict[str, Callable[..., Workflow]] = {
    "parallel": lambda item, **policy: Workflow("w").parallel(Workflow("p").then(item, **policy), other()),
    "behind": lambda item, **policy: Workflow("w").parallel(other(), Workflow("p").then(item, **policy)),
    "every": lambda item, **policy: Workflow("w").branch(
        (yes, Workflow("p").then(item, **policy)), (yes, other()), match="all"
    ),
    "dag": lambda item, **policy: Workflow("w").dag(
        member(other("a"), id="a"),
        member(item, id="breaking", after="a", **policy),
        member(other("c"), id="c", after="a"),
    ),
}
EVERYWHERE = PLACES | BESIDE
MOMENTS = {
    "at once": [AFTER, BEFORE],
    "in the middle": [BEFORE, AFTER, BEFORE],
    "at the end": [BEFORE, BEFORE, AFTER],
    "in pieces": list(BEFORE + AFTER + BEFORE),
}

places = pytest.mark.parametrize("place", EVERYWHERE)


class Source:
    """An answer that can tell whether it was closed, and how far it was read."""

    def __init__(self, pieces: list[str], error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.given = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        """Give the pieces."""
        try:
            yield Chunk("text-start", id="t")
            for piece in self.pieces:
                self.given += 1
                yield Chunk("text-delta", piece, "t")
            if self.error is not None:
                raise self.error
            yield Chunk("text-end", id="t")
            yield Chunk("step-finish", payload={"reason": "stop"})
        finally:
            self.closed = True


class Ended:
    """How a stream ended."""

    def __init__(self, run: Run, stream: OutputStream, out: list[Chunk], error: Exception | None, source: Source):
        self.run, self.stream, self.out, self.error, self.source = run, stream, out, error, source
        self.text = "".join(chunk.text for chunk in out)

    def of(self, step: str) -> list[Record]:
        """The records of a step in this stage."""
        return [r for r in self.run.records if r.processor_id == step and r.stage == "process_output_stream"]


async def ended(workflow: Workflow, pieces: list[str], error: Exception | None = None, **options: Any) -> Ended:
    """Run a stream to its end; afterwards no task is left, and the source is closed."""
    tasks = {task.id for task in anyio.get_running_tasks()}
    source, out, failure = Source(pieces, error), [], None
    with anyio.fail_after(60):
        async with workflow.start(records=True, **options) as run:
            stream = run.process_output_stream(source.__aiter__(), release="live")
            try:
                async with stream as chunks:
                    async for chunk in chunks:
                        out += [chunk]
            except Exception as raised_error:  # noqa: BLE001 - the test asks for it
                failure = raised_error
    assert {task.id for task in anyio.get_running_tasks()} <= tasks
    assert source.closed
    return Ended(run, stream, out, failure, source)


async def check_blocked(end: Ended, reason: str, status: str) -> None:
    """One tripwire, nothing of what is blocked, one verdict everywhere, all rolled back."""
    assert end.error is None
    assert [chunk.type for chunk in end.out].count("tripwire") == 1
    assert end.out[-1].type == "tripwire"
    assert reason in end.out[-1].payload["reason"]
    assert "@" not in end.text
    assert "secret" not in end.text
    assert (BEFORE * 2).startswith(end.text)
    outcome = end.stream.outcome
    assert isinstance(outcome, Outcome)
    assert outcome.blocked
    assert outcome.text == end.stream.text == ""
    assert outcome.fact(FACT) is None
    assert end.run.tripwire == outcome.tripwire == end.stream.tripwire
    assert not end.run.message_list.conversation
    told = [record.status for record in end.of("breaking")]
    assert told == [status] or (status == "too late" and told in ([], ["failed"]))
    assert "secret" not in repr(end.run.records)
    later = await end.run.process_output_step("more")
    assert later.tripwire == outcome.tripwire


@places
@pytest.mark.parametrize("way", TRIPS)
@pytest.mark.parametrize("kind", [BreakingGuard, AsyncBreakingGuard])
async def test_a_guard_that_trips_stops_the_stream(kind: Any, way: str, place: str) -> None:
    """However it trips, wherever it stands, and whenever it is."""
    for pieces in MOMENTS.values():
        end = await ended(EVERYWHERE[place](kind(TRIPS[way])), pieces)

        await check_blocked(end, "it was tripped", "tripped")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", TRIPS)
@pytest.mark.parametrize("at", ["hook", "flush"])
async def test_a_hook_that_trips_stops_the_stream(at: str, way: str, place: str) -> None:
    """However it trips, in its hook or when it says its last words."""
    for pieces in MOMENTS.values():
        end = await ended(PLACES[place](BreakingHook(TRIPS[way], at)), pieces)

        if at == "flush":  # it saw the sign, and let it go
            assert [chunk.type for chunk in end.out].count("tripwire") == 1
            assert end.out[-1].type == "tripwire"
            assert end.run.tripwire is not None
        else:
            await check_blocked(end, "it was tripped", "tripped")


BROKEN: dict[str, Callable[[], Any]] = {
    **{way: functools.partial(BreakingGuard, act) for way, act in BREAKS.items()},
    **{f"wrong: {what}": functools.partial(WrongGuard, wrong) for what, wrong in WRONG.items()},
    "too much held": HoldingGuard,
    "too late": HangingGuard,
    "async": functools.partial(AsyncBreakingGuard, raised),
    "at the end of the text": functools.partial(BreakingGuard, raised, final_only=True),
}
broken = pytest.mark.parametrize("how", BROKEN)
some_places = pytest.mark.parametrize("place", ["alone", "nested", "parallel", "dag"])


def limits(how: str, **policy: Any) -> dict[str, Any]:
    """The policy, and what makes it break."""
    return {**policy, "timeout": 0.001} if how == "too late" else policy


@broken
@places
async def test_a_guard_that_breaks_blocks_the_stream(how: str, place: str) -> None:
    """A check that broke is no verdict, but nothing passes it."""
    for pieces in MOMENTS.values():
        end = await ended(EVERYWHERE[place](BROKEN[how](), **limits(how, on_error="block")), pieces)

        await check_blocked(end, "failed", "too late" if how == "too late" else "failed")


@broken
@some_places
async def test_a_failure_that_is_to_be_raised_is_raised(how: str, place: str) -> None:
    """Closed and debuggable: nothing that was held leaves, and the error tells which step it was."""
    for pieces in MOMENTS.values():
        item = BROKEN[how]()
        item.on_error = "raise"
        end = await ended(EVERYWHERE[place](item, **limits(how, on_error="raise")), pieces)

        assert isinstance(end.error, StepFailedError)
        assert "secret" not in str(end.error)
        assert (BEFORE * 2).startswith(end.text)
        assert "passed" not in [record.status for record in end.of("breaking")]


@broken
@some_places
async def test_a_failure_that_is_allowed_lets_all_of_the_text_pass(how: str, place: str) -> None:
    """What was held is passed on; the step is out for this text."""
    for pieces in MOMENTS.values():
        item = BROKEN[how]()
        item.on_error = "allow"
        policy = {} if place == "nested" else {"on_error": "allow"}
        if place == "nested" and how == "too late":
            continue  # refused when it is built: the guard beside it would be left out, too
        end = await ended(EVERYWHERE[place](item, **limits(how, **policy)), pieces)

        assert end.error is None
        assert end.text == "".join(pieces)
        assert end.stream.outcome is not None
        assert not end.stream.outcome.blocked
        assert "passed" not in [record.status for record in end.of("breaking")]
        assert [chunk.type for chunk in end.out][-2:] == ["text-end", "step-finish"]


@broken
@some_places
async def test_a_fallback_judges_what_was_not_released(how: str, place: str) -> None:
    """It begins where the failed step had decided."""
    for pieces in MOMENTS.values():
        item = BROKEN[how]()
        item.on_error = "raise"
        end = await ended(EVERYWHERE[place](item, **limits(how, on_error=fallback())), pieces)

        assert end.error is None
        assert end.text == "".join(pieces).replace("secret", "***")
        assert "passed" not in [record.status for record in end.of("breaking")]


@pytest.mark.parametrize("place", ["alone", "first", "last", "branch", *BESIDE])
async def test_a_verdict_that_was_given_before_the_time_ran_out_counts(
    place: str, time_is_up: Callable[[], None]
) -> None:
    """Its policy for failures does not let it pass."""
    workflow = EVERYWHERE[place](HangingGuard(trips=True, hangs=time_is_up), timeout=0.1, on_error="allow")
    end = await ended(workflow, MOMENTS["in the middle"])

    await check_blocked(end, "it was tripped", "tripped")


@places
async def test_a_verdict_beats_a_failure_beside_it(place: str) -> None:
    """Of two that stop the stream at one piece, the verdict counts."""
    first, second = BreakingGuard(raised), BreakingGuard(abort)
    second.id = "tripping"
    first.on_error = "raise"
    both = Workflow("both").parallel(first, second)
    end = await ended(EVERYWHERE[place](both), MOMENTS["in the middle"])

    assert end.error is None
    assert end.run.tripwire is not None
    assert end.run.tripwire.processor_id == "tripping"


@pytest.mark.parametrize("kind", [BreakingGuard, AsyncBreakingGuard])
async def test_a_source_that_breaks_is_judged_to_its_end(kind: Any) -> None:
    """What was held is flushed as final, then the error follows; a verdict takes its place."""
    for place in EVERYWHERE.values():
        end = await ended(place(kind(abort)), [BEFORE, "secret"], OSError("the line is dead"))

        assert isinstance(end.error, OSError)
        assert end.text == BEFORE + "***"

        end = await ended(place(kind(abort)), [BEFORE, AFTER], OSError("the line is dead"))

        await check_blocked(end, "it was tripped", "tripped")


@places
async def test_a_consumer_that_leaves_ends_all(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is closed, the steps are on record, nothing goes on, and the run is not blocked."""
    monkeypatch.setattr(sources, "READ_AHEAD_AFTER", 60.0)  # no look of a guard takes so long that more is read
    source = Source([BEFORE] * 5)
    async with EVERYWHERE[place](AsyncBreakingGuard(abort)).start(records=True) as run:
        async with run.process_output_stream(source.__aiter__(), release="live") as chunks:
            async for chunk in chunks:
                if chunk.text:
                    break

        assert source.closed
        assert source.given <= 2
        assert chunks.outcome is None
        assert run.tripwire is None


def fallback() -> Toy:
    """A guard that hides the secret."""
    toy = Toy(Rule("secret", "redact", "***"))
    toy.id = "fallback"
    return toy
