"""Budgets of money: what counts, for whom, since when, and what is done where they are used up."""

import gc
import logging
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest

from penstock import Answer, Chunk, InputContext, LLMRequestContext, Message, Outcome, Run, Workflow, processor
from penstock.engine import ToolSpec, Usage
from penstock.engine.values.model import ModelRequest, ResponseFormat
from penstock.processors.budgets import FREE, CostReport, InMemoryLedger, Price, PriceList, TokenCostControl
from penstock.testing import ScriptedModel, VirtualClock

EACH = Price(1_000_000, 1_000_000)
"""A price by which a token costs 1."""

PRICES = {"m": EACH, "judge": EACH, "cheap": Price(10_000, 10_000), "free": FREE}
RES = {"resource_id": "r"}


def one(text: str) -> int:
    """Count every text as one token."""
    return len(text[:1])


def control(max_cost: Any = 10, **options: Any) -> TokenCostControl:
    """A budget that counts with these prices."""
    defaults = {"prices": PriceList(PRICES), "token_counter": one, "output_tokens": 0}
    return TokenCostControl(max_cost, **{**defaults, **options})


def started(*items: TokenCostControl, context: dict[str, Any] | None = None, **options: Any) -> Run:
    """A run of budgets in a row."""
    workflow = Workflow("w")
    for item in items:
        workflow = workflow.then(item)
    return workflow.start(request_context=dict(RES if context is None else context), records=True, **options)


def standing(outcome: Outcome, item: TokenCostControl) -> tuple[float, float, float]:
    """What was spent, is held by others, and is estimated."""
    told = outcome.facts[item.standing]
    return told["spent"], told["held"], told["estimate"]


# What counts


async def test_what_the_model_took_counts_before_its_next_call() -> None:
    """At once, and in the next request, too, before anybody is asked."""
    item = control(10)
    async with started(item) as run:
        assert not (await run.process_input("hi")).blocked
        assert not (await run.process_input_step(model="free")).blocked
        run.spend("m", Usage(6, 4))
        outcome = await run.process_input_step(model="free")
        assert outcome.tripwire is not None
        assert outcome.tripwire.reason == "10 of 10 usd are spent"
    async with started(item) as run:
        outcome = await run.process_input("hi")
    assert outcome.tripwire is not None
    assert (outcome.tripwire.stage, outcome.tripwire.processor_id) == ("process_input", "token-cost-control")


async def test_what_judges_took_counts() -> None:
    """Those before it and behind it in a workflow, whichever stage they judge."""

    @processor
    def before(ctx: InputContext) -> None:
        ctx.spend("judge", Usage(1, 1))

    @processor
    def behind(ctx: InputContext) -> None:
        ctx.spend("judge", Usage(2, 1))

    item = control(10)
    async with Workflow("w").then(before).then(item).then(behind).start(request_context=RES) as run:
        await run.process_input("hi")
        assert standing(await run.process_input_step(model="free"), item) == (5, 0, 0)


async def test_what_a_judge_took_counts_though_it_stopped_the_run() -> None:
    """So that a request which is blocked again and again comes to its end, too."""

    @processor
    def judge(ctx: InputContext) -> None:
        ctx.spend("judge", Usage(4, 1))
        ctx.abort("no")

    ledger = InMemoryLedger()
    workflow = Workflow("w").then(control(10, ledger=ledger)).then(judge)
    ends = []
    for _ in range(3):
        outcome = await workflow.check("hi", request_context=RES)
        assert outcome.tripwire is not None
        ends.append(outcome.tripwire.processor_id)
    assert ends == ["judge", "judge", "token-cost-control"]
    assert ledger.breakdown("resource:r") == {"judge": 10}


async def test_a_budget_without_a_model_that_is_named_counts_what_is_spent() -> None:
    """Nothing can be estimated then; nothing is refused for it either."""
    item = control(10)
    async with started(item) as run:
        await run.process_input("hi")
        assert standing(await run.process_input_step(), item) == (0, 0, 0)


@pytest.mark.parametrize(
    ("usage", "spent"),
    [(Usage(2, 3), 5), (None, 15), (Usage(None, 3), 11), (Usage(2, None), 9)],
)
async def test_what_the_provider_does_not_say_counts_as_it_was_estimated(usage: Usage | None, spent: float) -> None:
    """Of its own calls; nothing is known of a judge's prompt."""
    item = control(100, output_tokens=7)
    async with started(item, control(100, id="other")) as run:
        await run.process_input("hi")
        assert standing(await run.process_input_step(model="m"), item) == (0, 0, 15)
        run.spend("m", usage)
        assert standing(await run.process_input_step(model="free"), item)[0] == spent


# What is set aside


async def test_what_a_call_may_cost_is_set_aside_until_it_is_known() -> None:
    """Of others it is held against the budget; then what it took is."""
    item = control(20, output_tokens=5)
    async with started(item) as one_, started(item) as other:
        for run in (one_, other):
            await run.process_input("hi")
        assert standing(await one_.process_input_step(model="m"), item) == (0, 0, 13)
        blocked = await other.process_input_step(model="m")
        assert blocked.tripwire is not None
        assert blocked.tripwire.reason == ("0 of 20 usd are spent, and the next call may cost 13; 7 are left")
        one_.spend("m", Usage(1, 1))
    async with started(item) as third:
        await third.process_input("hi")
        assert standing(await third.process_input_step(model="m"), item) == (2, 0, 13)


async def test_the_estimate_is_of_all_that_the_model_is_sent() -> None:
    """Messages at 4 tokens and their text, a conversation at 3, tools, the form of the answer, its longest length."""
    item = control(1_000)
    tools = {name: ToolSpec(name) for name in ("a", "b")}
    form = ResponseFormat({"type": "object"})
    settings: dict[str, Any] = {"model": "m", "model_settings": {"max_tokens": 100}}
    steps: list[dict[str, Any]] = [
        {"model": "m"},
        settings,
        {**settings, "provider_options": {"max_completion_tokens": 50}},
        {"model": "m", "tools": tools},
        {"model": "m", "tools": tools, "active_tools": ["a"]},
        {"model": "m", "tools": {"x": {"name": "x"}, "y": object()}},
        {"model": "m", "response_format": form},
        {"model": "m", "model_settings": {"max_tokens": True}},
    ]
    async with started(item) as run:
        await run.process_input([Message.system("s"), Message.user("hi")])
        estimates = [standing(await run.process_input_step(**step), item)[2] for step in steps]
    assert estimates == [13, 113, 63, 23, 18, 22, 14, 13]


async def test_the_request_is_weighed_again_as_it_has_become() -> None:
    """Whatever was put into it, or taken from it, since the step began; its model, too."""
    item = control(30)
    async with started(item) as run:
        await run.process_input("hi")
        await run.process_input_step(model="free")
        request = ModelRequest(
            (), (ToolSpec("a"),), settings={"max_tokens": 5}, response_format=ResponseFormat({"a": 1})
        )
        prompt = [Message.user("hi"), Message.user("ho")]
        asked = await run.process_llm_request(prompt, model=ScriptedModel([], name="m"), request=request)
        assert standing(asked, item)[2] == 3 + 10 + 5 + 1 + 5
        assert standing(await run.process_llm_request(prompt, model="m", tools={"a": ToolSpec("a")}), item)[2] == 18
        assert standing(await run.process_llm_request(prompt), item)[2] == 0
        blocked = await run.process_llm_request(prompt * 3, model="m")
    assert blocked.blocked


async def test_an_answer_from_a_cache_costs_nothing() -> None:
    """What was set aside for it is given back at once."""

    @processor
    def cache(ctx: LLMRequestContext) -> Answer:
        return Answer((Chunk("text-delta", "hi"),))

    ledger = InMemoryLedger()
    workflow = Workflow("w").then(cache).then(control(10, ledger=ledger))
    async with workflow.start(request_context=RES) as run:
        await run.process_input("hi")
        await run.process_input_step(model="m")
        assert ledger.keys == ("resource:r",)
        await run.process_llm_request("hi", model="m")
        assert ledger.keys == ()


async def test_a_run_that_ends_gives_back_what_it_has_set_aside() -> None:
    """However it ends: by a verdict, by an error, or cancelled."""
    ledger = InMemoryLedger()
    item = control(100, ledger=ledger)

    async def end(how: str) -> None:
        async with started(item) as run:
            await run.process_input("hi")
            await run.process_input_step(model="m")
            assert ledger.keys == ("resource:r",)
            if how == "error":
                raise ZeroDivisionError
            if how == "cancelled":
                scope.cancel()
                await anyio.lowlevel.checkpoint()

    await end("well")
    assert ledger.keys == ()
    with pytest.raises(ZeroDivisionError):
        await end("error")
    assert ledger.keys == ()
    with anyio.CancelScope() as scope:
        await end("cancelled")
    assert ledger.keys == ()


@pytest.mark.rest
def test_a_run_in_sync_form_gives_it_back_when_it_is_dropped() -> None:
    """It tells nobody of its end; and if nobody collects it, it counts as spent when its time is over."""
    clock = VirtualClock()
    item = control(20, clock=clock, reserved_for=60)
    run = Workflow("w").then(item).start_sync(request_context=RES)
    run.process_input("hi")
    run.process_input_step(model="m")
    other = Workflow("w").then(item).start_sync(request_context=RES)
    other.process_input("hi")
    clock.advance(61)
    assert standing(other.process_input_step(model="free"), item) == (8, 0, 0)
    run.process_input_step(model="m")
    assert standing(other.process_input_step(model="free"), item) == (8, 8, 0)
    del run
    gc.collect()
    assert standing(other.process_input_step(model="free"), item) == (8, 0, 0)


async def test_without_reserving_a_budget_stops_once_it_is_reached() -> None:
    """As the reference does: the call that exceeds it is made."""
    item = control(10, reserve=False, output_tokens=1_000)
    async with started(item) as run:
        await run.process_input("hi")
        for spent in (0, 9):
            assert standing(await run.process_input_step(model="m"), item) == (spent, 0, 0)
            assert not (await run.process_llm_request("hi", model="m")).blocked
            run.spend("m", Usage(9, 0))
        assert (await run.process_input_step(model="m")).blocked


@pytest.mark.rest
async def test_a_thousand_requests_at_once_spend_no_more_than_there_is() -> None:
    """What was estimated was what they cost: so many are let through as the budget pays, and no more."""
    ledger = InMemoryLedger()
    item = control(1_000, ledger=ledger, output_tokens=2)
    passed: list[bool] = []

    async def request() -> None:
        async with started(item) as run:
            if (await run.process_input("hi")).blocked:
                return
            await anyio.lowlevel.checkpoint()
            if (await run.process_input_step(model="m")).blocked:
                return
            await anyio.lowlevel.checkpoint()
            run.spend("m", Usage(8, 2))
            passed.append(True)

    async with anyio.create_task_group() as group:
        for _ in range(1_000):
            group.start_soon(request)
    assert (len(passed), ledger.total("resource:r")) == (100, 1_000)


# For whom, and since when


@pytest.mark.parametrize(
    ("scope", "context", "key"),
    [
        ("resource", {"resource_id": "r"}, "resource:r"),
        ("thread", {"thread_id": "t"}, "thread:t"),
        ("user", {"user_id": 7}, "user:7"),
        ("organization", {"organization_id": "o"}, "organization:o"),
        ("session", {"session_id": "s"}, "session:s"),
        ("everybody", {}, "everybody:all"),
        (("user", "thread"), {"user_id": "u/thread:x", "thread_id": "t"}, "user:u%2Fthread%3Ax/thread:t"),
        (["user"], {"user_id": "u"}, "user:u"),
        ("user", {"user_id": "ada@x.org"}, "user:ada@x.org"),
        ("user", {"user_id": "u/thread:t"}, "user:u%2Fthread:t"),
        ("user", {"user_id": "u%2Fthread:t"}, "user:u%252Fthread:t"),
        ("user", {}, "user:"),
    ],
)
async def test_costs_are_counted_by_scope(scope: Any, context: Mapping[str, Any], key: str) -> None:
    """Where a request does not say whose it is, it shares an account with all that do not."""
    ledger = InMemoryLedger()
    async with started(control(10, scope=scope, ledger=ledger), context=dict(context)) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
        blocked = await run.process_input_step()
    assert ledger.keys == (key,)
    assert blocked.tripwire is not None
    assert blocked.tripwire.metadata["scope_key"] == key


async def test_a_scope_may_be_a_function_of_the_request_context() -> None:
    """Its name tells what it is."""

    def tenant(context: Mapping[str, Any]) -> str | None:
        return context.get("tenant")

    ledger = InMemoryLedger()
    async with started(control(10, scope=tenant, ledger=ledger), context={"tenant": "t"}) as run:
        await run.process_input("hi")
        run.spend("m", Usage(1, 0))
    assert ledger.keys == ("tenant:t",)


async def test_a_budget_of_a_run_is_its_own() -> None:
    """Nothing of it stays in the ledger, and no other run is concerned."""
    ledger = InMemoryLedger()
    item = control(10, scope="run", ledger=ledger)
    async with started(item) as run, started(item) as other:
        for each in (run, other):
            await each.process_input("hi")
        run.spend("m", Usage(20, 0))
        blocked = await run.process_input_step()
        assert not (await other.process_input_step()).blocked
    assert ledger.keys == ()
    assert blocked.tripwire is not None
    assert "scope_key" not in blocked.tripwire.metadata
    assert blocked.tripwire.metadata["window"] is None


@pytest.mark.parametrize(("unscoped", "blocked"), [("error", True), ("ignore", False)])
async def test_requests_that_belong_to_nobody_can_be_refused_or_let_pass(unscoped: str, blocked: bool) -> None:
    """Of several scopes each must be told."""
    item = control(10, scope=("user", "thread"), unscoped=unscoped)
    async with started(item, context={"user_id": "u"}) as run:
        outcome = await run.process_input("hi")
        if not blocked:
            run.spend("m", Usage(20, 0))
            assert not (await run.process_input_step()).blocked
            assert not (await run.process_llm_request("hi")).blocked
    assert outcome.blocked is blocked


@pytest.mark.parametrize(
    ("window", "last", "over"),
    [
        ("1h", 3_500, 3_700),
        ("6h", 21_500, 21_700),
        ("24h", 86_000, 90_100),
        ("7d", 600_000, 608_500),
        ("30d", 2_500_000, 2_700_000),
        ("365d", 31_500_000, 31_700_000),
        (timedelta(minutes=5), 290, 361),
        ("day", 43_000, 43_300),
        ("week", 302_300, 302_500),
        ("month", 2_635_100, 2_635_300),
    ],
)
async def test_costs_count_within_the_window(window: Any, last: float, over: float) -> None:
    """On a Thursday, the first of the month, at noon, they begin."""
    clock = VirtualClock()  # 2026-01-01, a Thursday, at midnight
    clock.advance(43_200)
    item = control(10, window=window, clock=clock)
    async with started(item) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
    for advance, blocked in ((last, True), (over - last, False)):
        clock.advance(advance)
        async with started(item) as run:
            assert (await run.process_input("hi")).blocked is blocked


async def test_without_a_window_costs_count_for_ever() -> None:
    """However long ago."""
    clock = VirtualClock()
    item = control(10, window=None, clock=clock)
    async with started(item) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
    clock.advance(10 * 365 * 86_400)
    async with started(item) as run:
        assert (await run.process_input("hi")).blocked


async def test_budgets_of_one_run_share_a_ledger_without_counting_twice() -> None:
    """One by the hour and one by the month, on one account; what is set aside for the call is one amount."""
    ledger = InMemoryLedger()
    hour = control(20, window="1h", ledger=ledger, id="hour", output_tokens=5)
    month = control(100, window="month", ledger=ledger, id="month", output_tokens=5)
    async with started(hour, month) as run:
        await run.process_input("hi")
        for item, outcome in [(item, await run.process_input_step(model="m")) for item in (hour, month)]:
            assert standing(outcome, item) == (0, 0, 13)
        run.spend("m", Usage(3, 2))
        run.spend("m", Usage(3, 2))  # an equal one is another
    assert ledger.total("resource:r") == 10


async def test_agents_may_share_a_ledger() -> None:
    """What one has spent, another must not spend again."""
    ledger = InMemoryLedger()
    async with started(control(10, ledger=ledger)) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
    assert (await Workflow("other").then(control(10, ledger=ledger)).check("hi", request_context=RES)).blocked
    assert not (await Workflow("other").then(control(10)).check("hi", request_context=RES)).blocked


# What is done about it


async def over(item: TokenCostControl, **settings: Any) -> list[Outcome]:
    """The outcomes of two steps of a run that has spent 20."""
    async with started(item) as run:
        await run.process_input("hi")
        run.spend("m", Usage(20, 0))
        return [await run.process_input_step(**settings), await run.process_llm_request("hi", **settings)]


async def test_a_verdict_tells_how_the_budget_stands() -> None:
    """In figures, for programs; who listens is told the same."""
    seen: list[CostReport] = []
    outcome, _ = await over(control(10, include_breakdown=True, on_violation=seen.append), model="m")
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata == {
        "usage": {"estimated_cost": 20.0, "cost_unit": "usd"},
        "max_cost": 10.0,
        "scope": "resource",
        "scope_key": "resource:r",
        "window": "7d",
        "threshold": "hard",
        "held": 0.0,
        "next_call": {"estimated_cost": 8.0, "model": "m"},
        "breakdown": {"m": 20.0},
    }
    (report,) = seen
    assert (report.spent, report.limit, report.remaining, report.message) == (20, 10, 0, outcome.tripwire.reason)


async def test_a_message_of_ones_own_has_all_of_its_figures() -> None:
    """As often as it names them."""
    message = "{usage}, {usage} of {limit} {unit}; {estimate} more in {scope}, {window}; {remaining}"
    outcome, _ = await over(control("10.50", message=message, cost_unit="eur"), model="m")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "20, 20 of 10.5 eur; 8 more in resource, 7d; 0"


async def test_a_warning_is_given_once_and_lets_the_run_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """What the call may cost is set aside all the same."""
    seen: list[CostReport] = []
    item = control(10, strategy="warn", on_violation=seen.append)
    with caplog.at_level(logging.WARNING):
        outcomes = await over(item, model="m")
    assert not any(outcome.blocked for outcome in outcomes)
    assert ([report.threshold for report in seen], caplog.messages) == (
        ["hard"],
        ["token-cost-control: 20 of 10 usd are spent"],
    )
    assert (item.role, item.on_error) == ("observer", "allow")


@pytest.mark.parametrize(("spent", "warned"), [(7, False), (8, True), (9, True)])
async def test_a_share_of_the_budget_may_be_warned_of(spent: int, warned: bool) -> None:
    """Once a request, whatever the strategy."""
    seen: list[CostReport] = []
    async with started(control(10, warn_at_percent=80, on_violation=seen.append)) as run:
        await run.process_input("hi")
        run.spend("m", Usage(spent, 0))
        for _ in range(2):
            assert not (await run.process_input_step()).blocked
    assert [report.threshold for report in seen] == ["soft"] * warned
    assert [report.message for report in seen] == [f"{spent} of 10 usd are spent"] * warned


async def test_a_run_may_go_on_with_a_cheaper_model() -> None:
    """For each step that does not fit; what the cheaper one may cost is set aside."""
    ledger = InMemoryLedger()
    item = control(30, strategy="downgrade", downgrade_to="cheap", ledger=ledger)
    async with started(item) as run:
        await run.process_input("hi")
        assert (await run.process_input_step(model="m")).overrides["model"] == "m"
        run.spend("m", Usage(25, 0))
        assert (await run.process_input_step(model="m")).overrides["model"] == "cheap"
        assert not (await run.process_llm_request("hi", model="cheap")).blocked
        held = ledger._keys["resource:r"].holds
        assert [cost for cost, _ in held.values()] == [Decimal("0.08")]
        run.spend("cheap", Usage(600, 0))
        outcome = await run.process_input_step(model="cheap")
        assert (outcome.blocked, outcome.overrides["model"]) == (False, "cheap")
    assert ledger.breakdown("resource:r") == {"m": 25, "cheap": 6}


@pytest.mark.parametrize(
    ("answer", "asked", "blocked"),
    [(True, 1, False), (False, 1, True), (100, 1, False), ("28", 1, False), (21, 1, True)],
)
async def test_somebody_may_be_asked(answer: Any, asked: int, blocked: bool) -> None:
    """True lets this run go on, False stops it, a number is its new limit."""
    questions: list[CostReport] = []

    def ask(report: CostReport) -> object:
        questions.append(report)
        return answer

    outcomes = await over(control(10, strategy="ask", ask=ask), model="m")
    assert ([outcome.blocked for outcome in outcomes], len(questions)) == ([blocked] * 2, asked)
    assert questions[0].spent == 20


async def test_who_is_asked_may_take_time_and_is_asked_again_at_the_new_limit() -> None:
    """A callback that is async; another run is not concerned."""
    limits: list[Decimal] = []

    async def ask(report: CostReport) -> float:
        await anyio.lowlevel.checkpoint()
        limits.append(report.limit)
        return float(report.spent + report.estimate)

    item = control(10, strategy="ask", ask=ask)
    async with started(item) as run:
        await run.process_input("hi")
        for _ in range(3):
            assert not (await run.process_input_step(model="m")).blocked
            run.spend("m", Usage(8, 0))
    assert limits == [10, 16]


@pytest.mark.parametrize("answer", [None, "yes", -1])
async def test_an_answer_that_is_none_blocks(answer: object) -> None:
    """As does an error of whoever was asked: it has failed."""
    outcome, _ = await over(control(10, strategy="ask", ask=lambda report: answer))
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata["failed"]


async def test_the_limit_may_be_a_function_of_the_request_context() -> None:
    """Asked once a request; 0 lets nothing through."""
    asked: list[str] = []

    async def limit(context: Mapping[str, Any]) -> float:
        await anyio.lowlevel.checkpoint()
        asked.append(context["plan"])
        return {"free": 0, "paid": 100}[context["plan"]]

    item = control(limit)
    for plan, blocked in (("free", True), ("paid", False)):
        async with started(item, context={**RES, "plan": plan}) as run:
            assert (await run.process_input("hi")).blocked is blocked
            assert (await run.process_input_step(model="m")).blocked is blocked
    assert asked == ["free", "paid"]


@pytest.mark.parametrize("given", [None, "much", -1, float("nan")])
async def test_a_limit_that_is_none_blocks(given: object, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sets it wrongly has set none."""
    outcome = await Workflow("w").then(control(lambda context: given)).check("hi", request_context=RES)
    assert outcome.blocked
    assert "must return a number of 0 or more" in caplog.text
