"""Budgets of money where something is amiss: unknown prices, broken ledgers, options that cannot be meant."""

import gc
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest

from penstock import OptionError, Workflow
from penstock.engine import MissingExtraError, Usage
from penstock.engine.values.errors import UsageError
from penstock.processors.budgets import (
    FREE,
    CostReport,
    InMemoryLedger,
    Price,
    PriceList,
    Reservation,
    TokenCostControl,
    prices as price_module,
)
from penstock.testing import ScriptedModel, run_stage

EACH = Price(1_000_000, 1_000_000)
RES = {"resource_id": "r"}


def control(max_cost: Any = 10, **options: Any) -> TokenCostControl:
    """A budget of which only the model ``m`` has a price."""
    return TokenCostControl(max_cost, **{"prices": PriceList({"m": EACH}), "token_counter": len, **options})


async def spent(item: TokenCostControl, model: str, usage: Usage | None = Usage(4, 0)) -> tuple[bool, bool]:  # noqa: B008
    """Whether a step is blocked after a model has taken tokens, and whether the next request is."""
    flow = Workflow("w").then(item)
    async with flow.start(request_context=RES) as run:
        await run.process_input("hi")
        run.spend(model, usage)
        step = await run.process_input_step()
    return step.blocked, (await flow.check("hi", request_context=RES)).blocked


# Prices that nobody knows


async def test_a_model_without_a_price_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Before it is asked, and as soon as a judge was, for all requests; the error says what to do."""
    async with Workflow("w").then(control()).start(request_context=RES) as run:
        await run.process_input("hi")
        assert (await run.process_input_step(model="x")).blocked
    assert "the price of the model 'x' is unknown: pass prices=" in caplog.text
    assert await spent(control(), "x") == (True, True)


async def test_a_model_without_a_price_may_count_as_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Which is logged once."""
    item = control(on_unknown_price="ignore")
    for _ in range(3):
        assert await spent(item, "x", Usage(1_000, 0)) == (False, False)
    assert len(caplog.records) == 1


async def test_a_price_may_be_assumed() -> None:
    """Of models that nobody names, too."""
    item = control(on_unknown_price="assume", assumed_price=EACH, reserve=False)
    assert await spent(item, "x", Usage(9, 0)) == (False, False)
    assert await spent(item, "x", Usage(1, 0)) == (True, True)
    async with Workflow("w").then(control(on_unknown_price="assume", assumed_price=EACH)).start() as run:
        await run.process_input("hi")
        assert (await run.process_input_step()).blocked


@pytest.mark.parametrize("cost", ["much", -1, float("nan"), True])
async def test_a_table_that_gives_no_amount_blocks(cost: object) -> None:
    """Whatever it gives instead."""

    class Odd:
        def cost(self, model: str, usage: Usage) -> Any:
            return cost

    assert (await spent(control(prices=Odd()), "m"))[0]


async def test_a_table_of_ones_own_is_asked() -> None:
    """A discount, say, or a price by the hour."""

    class Flat:
        def cost(self, model: str, usage: Usage) -> Decimal | None:
            return Decimal(6)

    item = control(prices=Flat(), reserve=False)
    assert await spent(item, "a") == (False, False)
    assert await spent(item, "b") == (True, True)


async def test_a_usage_that_nobody_reports_or_estimates_is_refused() -> None:
    """Nothing of what was asked is known, so nothing more is spent, unless that may count as free."""
    assert await spent(control(1, reserve=False), "m", None) == (True, True)
    assert await spent(control(1, reserve=False, on_unknown_price="ignore"), "m", None) == (False, False)


# Ledgers that break


class Broken(InMemoryLedger):
    """A ledger of which one method breaks."""

    def __init__(self, method: str) -> None:
        super().__init__()
        setattr(self, method, self._break)

    def _break(self, *_: object, **__: object) -> None:
        raise ConnectionError("secret address")


@pytest.mark.parametrize(("on_error", "blocked"), [(None, True), ("block", True), ("allow", False)])
async def test_a_ledger_that_cannot_be_asked_blocks_unless_told_otherwise(
    on_error: Any, blocked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nobody knows what was spent, nothing more is; `allow` is said once, and nothing of the error is told."""
    flow = Workflow("w").then(control(ledger=Broken("reserve"), on_error=on_error))
    outcome = await flow.check("hi", request_context=RES)
    assert (outcome.blocked, len(caplog.records)) == (blocked, 1)
    assert "secret" not in caplog.text


async def test_what_cannot_be_entered_blocks_the_next_call_not_who_spent_it(caplog: pytest.LogCaptureFixture) -> None:
    """A guard that asked a model is not to break for it."""
    item = control(ledger=Broken("settle"))
    async with Workflow("w").then(item).start(request_context=RES) as run:
        await run.process_input("hi")
        run.spend("m", Usage(1, 1))
        assert "could not be recorded: ConnectionError" in caplog.text
        assert (await run.process_input_step()).blocked


async def test_what_is_set_aside_is_given_back_once() -> None:
    """At the end of the run, and only if there is something."""
    given_back: list[str] = []

    class Counting(InMemoryLedger):
        def release(self, key: str, holder: str) -> None:
            given_back.append(key)
            super().release(key, holder)

    flow = Workflow("w").then(control(100, ledger=Counting(), output_tokens=0))
    for model in (None, "m"):
        async with flow.start(request_context=RES) as run:
            await run.process_input("hi")
            await run.process_input_step(model=model)
        del run
        gc.collect()
    assert given_back == ["resource:r"]


def test_what_a_dropped_run_cannot_give_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is there to be told; it is forgotten when its time is over."""
    run = Workflow("w").then(control(100, ledger=Broken("release"))).start_sync(request_context=RES)
    run.process_input("hi")
    del run
    gc.collect()
    run_stage(control(), "process_input")
    assert "could not be released: ConnectionError" in caplog.text


async def test_a_callback_that_breaks_spoils_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged by the error's name."""

    def broken(report: CostReport) -> None:
        raise ValueError(report.scope_key)

    async with Workflow("w").then(control(on_violation=broken)).start(request_context=RES) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
        outcome = await run.process_input_step()
    assert outcome.tripwire is not None
    assert "failed" not in outcome.tripwire.metadata
    assert "on_violation failed: ValueError" in caplog.text


async def test_a_ledger_that_cannot_tell_models_apart_spoils_no_verdict() -> None:
    """The breakdown is left out."""
    item = control(include_breakdown=True, ledger=Broken("breakdown"))
    async with Workflow("w").then(item).start(request_context=RES) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
        outcome = await run.process_input_step()
    assert outcome.tripwire is not None
    assert "breakdown" not in outcome.tripwire.metadata
    assert outcome.tripwire.metadata["max_cost"] == 10


# Ledgers that wait


class Waiting:
    """A ledger that answers in time: what is entered is there once it was awaited."""

    def __init__(self) -> None:
        self.inner = InMemoryLedger()

    async def settle(self, key: str, charge: str, model: str, cost: Decimal, **how: Any) -> None:
        await anyio.lowlevel.checkpoint()
        self.inner.settle(key, charge, model, cost, **how)

    async def reserve(self, key: str, holder: str, cost: Decimal, **how: Any) -> Reservation:
        await anyio.lowlevel.checkpoint()
        return self.inner.reserve(key, holder, cost, **how)

    async def release(self, key: str, holder: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.inner.release(key, holder)

    async def breakdown(self, key: str, window: Any) -> Mapping[str, Decimal]:
        await anyio.lowlevel.checkpoint()
        return self.inner.breakdown(key, window)


async def test_a_ledger_may_be_async() -> None:
    """What is spent is entered before the next call, and what is set aside given back at the end of the run."""
    ledger = Waiting()
    item = control(100, ledger=ledger, output_tokens=0, include_breakdown=True)
    async with Workflow("w").then(item).start(request_context=RES) as run:
        await run.process_input("hi")
        assert not (await run.process_input_step(model="m")).blocked
        run.spend("m", Usage(95, 0))
        outcome = await run.process_input_step(model="m")
        assert outcome.tripwire is not None
        assert outcome.tripwire.metadata["breakdown"] == {"m": 95}
        run.spend("m", Usage(1, 0))
    assert ledger.inner.total("resource:r") == 96
    async with Workflow("w").then(control(200, ledger=ledger)).start(request_context=RES) as run:
        await run.process_input("hi")
        await run.process_input_step(model="m", model_settings={"max_tokens": 1})
        assert ledger.inner._keys["resource:r"].holds
    assert not ledger.inner._keys["resource:r"].holds


async def test_a_ledger_that_waits_is_refused_in_sync_form_within_a_loop() -> None:
    """With the cure."""
    with pytest.raises(UsageError, match="async steps"):
        Workflow("w").then(control(ledger=Waiting())).check_sync("hi")


# Options


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("max_cost", 0),
        ("max_cost", -1),
        ("max_cost", float("inf")),
        ("max_cost", "much"),
        ("max_cost", True),
        ("max_cost", None),
        ("scope", "planet"),
        ("scope", []),
        ("scope", ("user", "run")),
        ("scope", ("user", "planet")),
        ("scope", 1),
        ("window", "2h"),
        ("window", timedelta(0)),
        ("window", timedelta(days=500)),
        ("window", 60),
        ("strategy", "stop"),
        ("message", 1),
        ("warn_at_percent", 0),
        ("warn_at_percent", 100),
        ("warn_at_percent", "x"),
        ("include_breakdown", 1),
        ("downgrade_to", "m"),
        ("ask", bool),
        ("on_violation", 1),
        ("prices", 1),
        ("on_unknown_price", "raise"),
        ("assumed_price", EACH),
        ("assumed_price", 1),
        ("ledger", {}),
        ("unscoped", "skip"),
        ("reserve", None),
        ("output_tokens", -1),
        ("output_tokens", 1.5),
        ("reserved_for", 0),
        ("reserved_for", float("inf")),
        ("reserved_for", 1e15),
        ("token_counter", 1),
        ("cost_unit", 1),
        ("on_error", "warn"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(option: str, given: object) -> None:
    """With its name, and what is allowed."""
    options: dict[str, Any] = {option: given}
    with pytest.raises(OptionError, match=option):
        control(**options)


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("downgrade_to", {"strategy": "downgrade"}),
        ("downgrade_to", {"strategy": "downgrade", "downgrade_to": 1}),
        ("ask", {"strategy": "ask"}),
        ("ask", {"strategy": "ask", "ask": 1}),
        ("assumed_price", {"on_unknown_price": "assume"}),
        ("on_violation", {"on_violation": InMemoryLedger}),
    ],
)
def test_what_a_strategy_needs_must_be_given(option: str, options: dict[str, Any]) -> None:
    """And nothing that nobody would use."""
    if option == "on_violation":

        async def late(report: object) -> None: ...

        options = {"on_violation": late}
    with pytest.raises(OptionError, match=option):
        control(**options)


def test_without_list_prices_a_mapping_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, the extra is named."""
    monkeypatch.setattr(price_module.importlib.util, "find_spec", lambda name: None)
    assert control(prices={"m": FREE})._pricing.table == PriceList({"m": FREE})
    with pytest.raises(MissingExtraError, match="prices"):
        TokenCostControl(1)


def test_a_budget_declares_what_it_does() -> None:
    """It writes to a ledger, so it cannot run in shadow; equal ones are equal."""
    claims = {
        item.strategy: (item.role, item.edits, item.on_error)
        for item in (
            control(),
            control(strategy="warn"),
            control(strategy="downgrade", downgrade_to=ScriptedModel([])),
            control(strategy="ask", ask=bool),
        )
    }
    assert claims == {
        "block": ("guard", "nothing", "block"),
        "warn": ("observer", "nothing", "allow"),
        "downgrade": ("guard", "anything", "block"),
        "ask": ("guard", "nothing", "block"),
    }
    assert control().stores
    assert control() == control()
    assert control(ledger=InMemoryLedger()) != control(ledger=InMemoryLedger())
    assert control(5) != control(6)
