"""Laws of budgets: what was asked of providers is entered, whatever becomes of the request, and nothing stays held."""

import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest

from penstock import Agent, ModerationProcessor, TokenCostControl, Workflow
from penstock.engine import Chunk, ModelError, ModelRequest, Usage, UsageError
from penstock.processors.budgets import InMemoryLedger, Price, PriceList
from penstock.processors.budgets.cost_ledger import TimeBuckets
from penstock.processors.budgets.unrecorded_costs import unrecorded_of
from penstock.testing import ScriptedModel
from tests.laws import seeds
from tests.waiting import cancelled_when_all_wait

EACH = Price(1_000_000, 1_000_000)
TOOK = {"text": "Nine.", "usage": {"input_tokens": 800, "output_tokens": 900}}


def control(max_cost: float, **options: Any) -> TokenCostControl:
    """A budget of everybody's, by which each token costs 1, each text is ten, and an answer 100."""
    common = {"scope": "everybody", "prices": {"*": EACH}, "token_counter": lambda text: 10, "output_tokens": 100}
    return TokenCostControl(max_cost, **{**common, **options})


class Unruly:
    """A model that is billed from the moment it is asked, and answers as each request's text says."""

    name = "main"

    def __init__(self) -> None:
        self.billed = Decimal(0)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer, fail, or hang, before the first chunk or behind it."""
        self.billed += 10
        how = request.messages[-1].text.split()[-1]
        await anyio.lowlevel.checkpoint()
        match how:
            case "hang":
                await anyio.sleep_forever()
            case "break":
                raise RuntimeError("lost")
            case "server":
                raise ModelError("main", "down", status=503)
            case "nonsense":
                yield Chunk("finish", payload={"reason": "stop", "usage": {"tokens": 5}})
                return
        yield Chunk("text-start", id="t")
        yield Chunk("text-delta", "Nine", id="t")
        self.billed += 10
        match how:
            case "stuck":
                await anyio.sleep_forever()
            case "snap":
                raise ModelError("main", "cut off")
        yield Chunk("text-end", id="t")
        yield Chunk("finish", payload={"reason": "stop", "usage": {"input_tokens": 10, "output_tokens": 10}})


KINDS = ("answer", "hang", "break", "server", "nonsense", "stuck", "snap")


async def asked(agent: Agent, how: str, patience: int, **options: Any) -> None:
    """Ask, and leave after some turns of the event loop."""
    with anyio.CancelScope() as scope:

        async def leave() -> None:
            for _ in range(patience):
                await anyio.lowlevel.checkpoint()
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(leave)
            with suppress(ModelError, RuntimeError):
                await agent.generate(f"How deep? {how}", settings={"max_tokens": 100}, **options)
            if how not in ("hang", "stuck"):
                group.cancel_scope.cancel()


@pytest.mark.parametrize("seed", seeds(range(12)))
async def test_no_request_costs_less_than_was_asked_for(seed: int) -> None:
    """Requests succeed, fail and are left, at random times and with shared ids; in the end nothing is held."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    ledger, model = (WaitingLedger() if seed % 2 else InMemoryLedger()), Unruly()
    agent = Agent(model, processors=[control(1e9, ledger=ledger)])
    async with anyio.create_task_group() as group:
        for _ in range(60):
            ids = {"run_id": "chat"} if dice.random() < 0.5 else {}
            group.start_soon(
                lambda how, when, ids: asked(agent, how, when, **ids), dice.choice(KINDS), dice.randrange(60), ids
            )
    inner = ledger.inner if isinstance(ledger, WaitingLedger) else ledger
    assert inner.total("everybody:all") >= model.billed > 0
    assert all(not costs.holds for costs in inner._keys.values())


async def test_requests_with_one_run_id_hold_each_their_own() -> None:
    """Two hundred at once spend what the budget has, and what one call takes beyond its estimate."""
    ledger = InMemoryLedger()
    model = ScriptedModel([TOOK], repeat_last=True, name="main")
    agent = Agent(model, processors=[control(20_000, ledger=ledger, output_tokens=2_000)])
    async with anyio.create_task_group() as group:
        for _ in range(200):
            group.start_soon(lambda: agent.generate("How deep?", run_id="chat-7"))
    assert 0 < ledger.total("everybody:all") <= 20_000


async def test_a_request_that_the_provider_refused_costs_nothing() -> None:
    """It was not read."""
    ledger = InMemoryLedger()
    model = ScriptedModel([{"error": {"status": 429}}], name="main")
    with pytest.raises(ModelError):
        await Agent(model, processors=[control(1e9, ledger=ledger)]).generate("How deep?")
    assert (ledger.total("everybody:all"), ledger.keys) == (0, ())


async def test_a_judge_that_is_left_costs_what_its_prompt_is_long() -> None:
    """However often: its provider has read the prompt."""
    ledger = InMemoryLedger()
    main = ScriptedModel(["Nine."], name="main")
    agent = Agent(main, processors=[control(1e9, ledger=ledger), ModerationProcessor(Hanging(), embedded=False)])
    for _ in range(3):
        async with cancelled_when_all_wait():
            await agent.generate("How deep?")
    assert ledger.breakdown("everybody:all")["judge"] > 3 * 500


class Hanging:
    """A model that never answers."""

    name = "judge"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Wait."""
        await anyio.sleep_forever()
        yield Chunk("finish")


# What cannot be recorded


class WaitingLedger:
    """An async ledger, which may be unable to write."""

    def __init__(self) -> None:
        self.inner = InMemoryLedger()
        self.is_full = False
        self.released = 0

    async def settle(self, key: str, charge: str, model: str, cost: Decimal, **how: Any) -> None:
        await anyio.lowlevel.checkpoint()
        if self.is_full:
            raise OSError("No space left on /secret")
        self.inner.settle(key, charge, model, cost, **how)

    async def reserve(self, key: str, holder: str, cost: Decimal, **how: Any) -> Any:
        found = self.inner.reserve(key, holder, cost, **how)
        await anyio.lowlevel.checkpoint()
        return found

    async def release(self, key: str, holder: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.released += 1
        self.inner.release(key, holder)

    async def breakdown(self, key: str, window: Any) -> Any:
        return self.inner.breakdown(key, window)


class FullLedger(InMemoryLedger):
    """A ledger that may be unable to write."""

    is_full = False

    def settle(self, key: str, charge: str, model: str, cost: Decimal, *, holder: str | None = None) -> None:
        if self.is_full:
            raise OSError("No space left on /secret")
        super().settle(key, charge, model, cost, holder=holder)


@pytest.mark.parametrize("kind", [FullLedger, WaitingLedger])
async def test_a_ledger_that_cannot_write_refuses_requests_until_it_can(kind: type[Any]) -> None:
    """Of all controls that use it; what was spent meanwhile is entered then."""
    ledger = kind()
    inner = getattr(ledger, "inner", ledger)
    ledger.is_full = True
    model = ScriptedModel([TOOK], repeat_last=True, name="main")
    agent, other = (Agent(model, processors=[control(1e9, ledger=ledger)]) for _ in range(2))
    assert (await agent.generate("How deep?")).status == "success"
    for each in (agent, other, agent):
        tripwire = (await each.generate("How deep?")).tripwire
        assert tripwire is not None
        assert "could not be recorded: OSError; check that the ledger can be written" in tripwire.reason
        assert "secret" not in tripwire.reason
    assert (len(model.requests), inner.total("everybody:all")) == (1, 0)
    assert len(inner._keys["everybody:all"].holds) == 1  # in place of what could not be entered
    ledger.is_full = False
    assert (await other.generate("How deep?")).status == "success"
    assert not inner._keys["everybody:all"].holds
    assert inner.total("everybody:all") == 2 * 1_700
    assert unrecorded_of(ledger) is None


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": -800, "output_tokens": 9},
        {"input_tokens": float("nan"), "output_tokens": 9},
        {"input_tokens": float("inf"), "output_tokens": 9},
        {"input_tokens": 1.5, "output_tokens": 9},
        {"input_tokens": "800", "output_tokens": 9},
        {"input_tokens": True, "output_tokens": 9},
        {"input_tokens": 1, "output_tokens": 9, "cached_tokens": -1},
        {"input_tokens": 1, "output_tokens": 9, "requests": -5},
    ],
)
async def test_a_usage_that_is_none_refuses_requests_until_somebody_says_its_cost(usage: dict[str, Any]) -> None:
    """The reason names the model; the amount is entered before the next request."""
    ledger = InMemoryLedger()
    item = control(1e9, ledger=ledger)
    async with Workflow("w").then(item).start() as run:
        await run.process_input("hi")
        run.spend("main", Usage(**usage))
    outcome = await Workflow("w").then(item).check("hi")
    assert outcome.tripwire is not None
    assert "the usage of the model 'main' is wrong" in outcome.tripwire.reason
    assert [entry.key for entry in item.unrecorded] == ["everybody:all"]
    item.set_unrecorded_cost("everybody:all", "12.5")
    assert not (await Workflow("w").then(item).check("hi")).blocked
    assert (ledger.total("everybody:all"), item.unrecorded) == (Decimal("12.5"), ())
    with pytest.raises(UsageError, match="no usage without a price"):
        item.set_unrecorded_cost("everybody:all", 1)


async def test_whole_numbers_may_be_floats() -> None:
    """Some providers report them so."""
    ledger = InMemoryLedger()
    item = control(1e9, ledger=ledger)
    async with Workflow("w").then(item).start() as run:
        await run.process_input("hi")
        run.spend("main", Usage(8.0, 9.0))  # type: ignore[arg-type]
    assert ledger.total("everybody:all") == 17


async def test_a_price_that_becomes_known_lets_requests_through() -> None:
    """By a control that knows it, though another did not."""
    ledger = InMemoryLedger()
    ignorant, wise = control(1e9, ledger=ledger, prices=PriceList({"m": EACH})), control(1e9, ledger=ledger)
    async with Workflow("w").then(ignorant).start() as run:
        await run.process_input("hi")
        run.spend("new", Usage(5, 5))
    assert (await Workflow("w").then(ignorant).check("hi")).blocked
    assert not (await Workflow("w").then(wise).check("hi")).blocked
    assert not (await Workflow("w").then(ignorant).check("hi")).blocked
    assert ledger.total("everybody:all") == 10


async def test_what_could_not_be_recorded_is_stored_in_bounded_memory() -> None:
    """Where a control lets requests pass all the same: amounts are added up, by key and model."""
    ledger = FullLedger()
    ledger.is_full = True
    flow = Workflow("w").then(control(1e9, ledger=ledger, on_error="allow"))
    for _ in range(300):
        async with flow.start() as run:
            await run.process_input("hi")
            run.spend("main", Usage(1, 1))
            run.spend("main", Usage(-1, 1))
    found = unrecorded_of(ledger)
    assert found is not None
    assert len(found.entries) <= 100
    assert sum(entry.cost or 0 for entry in found.entries) == 600


async def test_a_request_that_is_left_while_the_ledger_answers_holds_nothing() -> None:
    """It may have reserved already."""
    ledger = WaitingLedger()
    agent = Agent(ScriptedModel([TOOK], repeat_last=True, name="main"), processors=[control(1e9, ledger=ledger)])
    for patience in range(25):
        await asked(agent, "hang", patience)
    assert all(not costs.holds for costs in ledger.inner._keys.values())


async def test_what_a_ledger_could_not_write_stays_reserved() -> None:
    """If this process dies before it can, the reservation counts as spent."""
    ledger = WaitingLedger()
    ledger.is_full = True
    agent = Agent(ScriptedModel([TOOK], name="main"), processors=[control(1e9, ledger=ledger)])
    await agent.generate("How deep?")
    assert ledger.released == 0
    assert len(ledger.inner._keys["everybody:all"].holds) == 1


# Time


class Clock:
    """A clock that is set by hand."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        """Tell the time."""
        return self.at


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("window", ["24h", "7d", timedelta(hours=24)])
@pytest.mark.parametrize("start", [datetime(2026, 3, 28, 12, tzinfo=BERLIN), datetime(2026, 10, 24, 12, tzinfo=BERLIN)])
async def test_a_window_is_as_long_across_a_change_of_the_hour(window: Any, start: datetime) -> None:
    """In spring and in autumn, by a clock that tells local time."""
    clock = Clock(start)
    span = timedelta(days=7) if window == "7d" else timedelta(hours=24)
    item = control(100, window=window, clock=clock)
    async with Workflow("w").then(item).start() as run:
        await run.process_input("hi")
        run.spend("main", Usage(100, 0))
    for later, blocked in ((span - timedelta(minutes=30), True), (span + timedelta(minutes=70), False)):
        clock.at = (start.astimezone(UTC) + later).astimezone(BERLIN)
        assert (await Workflow("w").then(item).check("hi")).blocked is blocked


def test_a_hold_lasts_as_long_in_the_hour_that_comes_twice() -> None:
    """Times of one zone compare by the clock on the wall, so the ledger compares moments."""
    clock = Clock(datetime(2026, 10, 25, 2, 50, tzinfo=BERLIN))
    ledger = InMemoryLedger(clock=clock)
    ask: dict[str, Any] = {"limit": Decimal(10), "window": None, "lease": 600}
    assert ledger.reserve("k", "a", Decimal(8), **ask).granted
    clock.at = datetime(2026, 10, 25, 2, 55, tzinfo=BERLIN)
    assert ledger.reserve("k", "b", Decimal(8), **ask).held == 8
    clock.at = datetime(2026, 10, 25, 2, 0, fold=1, tzinfo=BERLIN)
    assert ledger.reserve("k", "b", Decimal(8), **ask).held == 0


@pytest.mark.parametrize("days", [1, 30, 500])
def test_a_clock_that_was_ahead_forgets_nothing(days: int) -> None:
    """It moves old amounts into wide buckets, or out of all of them; they are counted when it is put right."""
    buckets, now = TimeBuckets(), datetime(2026, 3, 2, 12, tzinfo=UTC)
    buckets.add(Decimal(5), now.timestamp())
    buckets.add(Decimal(1), (now + timedelta(days=days)).timestamp())
    assert buckets.total(now - timedelta(hours=1)) >= 5
