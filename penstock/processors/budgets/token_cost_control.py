"""`TokenCostControl`: keeps what requests cost within a budget, judges' calls included."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, is_async, one_of
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.facts import Key
from penstock.engine.values.ports import SYSTEM_CLOCK
from penstock.models.tokens.counters import counting as as_counting
from penstock.models.tokens.prices import prices as in_tokens
from penstock.processors.budgets import _cost_options as options, _scopes, _windows
from penstock.processors.budgets._bills import UNLIMITED, Account, Bill, settled
from penstock.processors.budgets._forecasts import Forecast, Forecaster, name_of
from penstock.processors.budgets._pricing import OnUnknownPrice, pricing
from penstock.processors.budgets.cost_report import CostReport
from penstock.processors.budgets.memory_ledger import InMemoryLedger
from penstock.processors.budgets.money import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from decimal import Decimal

    from penstock.engine.processor.context import AnyContext, InputContext, InputStepContext, LLMRequestContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.ports import Clock, Model, TokenCounter
    from penstock.processors.budgets._pricing import GivenPrices
    from penstock.processors.budgets._scopes import Scope, Unscoped
    from penstock.processors.budgets._windows import Window
    from penstock.processors.budgets.cost_ledger import CostLedger, Standing
    from penstock.processors.budgets.price_tables import Price

log = logging.getLogger("penstock")

Strategy = Literal["block", "warn", "downgrade", "ask"]

_MOST_MODELS = 10  # of a breakdown


class TokenCostControl(Processor[Bill]):
    """Keeps what requests cost within a budget, judges' calls included.

    Before each call of the model it estimates what that may cost and sets as much aside, so that requests at the same
    time cannot spend the same money; what the call took is entered as soon as it is known. It should stand before all
    that asks models, so that a request over its budget is stopped before they do.

    Its failure blocks, with ``strategy="warn"`` it does not. With ``warn`` it is an observer, else a guard.

    Args:
        max_cost: how much may be spent in the scope within the window: a number of more than 0, or a function of the
            request context that gives one of 0 or more, asked once a request; may be async.
        scope: what is counted together: ``run``, ``resource``, ``thread``, ``user``, ``organization``, ``session`` (by
            ``request_context["resource_id"]`` and so on), ``everybody``; several of them, each combination with an
            account of its own; or a function of the request context that returns the account's key.
        window: ``1h``, ``6h``, ``24h``, ``7d``, ``30d``, ``365d``, a timedelta; ``day``, ``week``, ``month``: since it
            began, in UTC; None: for ever. It means nothing for ``run``.
        strategy: what is done where the next call does not fit: ``block`` stops the run, ``warn`` tells, ``downgrade``
            goes on with the model ``downgrade_to``, ``ask`` calls ``ask``.
        message: the sentence of verdicts and warnings; ``{usage}``, ``{limit}``, ``{estimate}``, ``{remaining}``,
            ``{unit}``, ``{scope}`` and ``{window}`` stand for figures.
        warn_at_percent: warn at that share of the limit, too: more than 0, less than 100.
        include_breakdown: tell what was spent by which model.
        downgrade_to: the cheaper model, or its name.
        ask: called with a `CostReport`: False stops the run, True lets it go on whatever it costs, a number raises the
            limit of this run to it; may be async.
        on_violation: called, not awaited, with a `CostReport` where something is stopped or warned of.
        prices: a mapping from models' names to `Price` (list prices stand behind it, if the extra ``prices`` is
            installed), or a `PriceTable` of your own; by default list prices.
        on_unknown_price: what becomes of a model whose price nobody knows: an ``error`` (which blocks), ``ignore``
            (it counts as nothing), ``assume`` the price ``assumed_price``.
        assumed_price: that price.
        ledger: where it is kept what was spent; one of its own by default. It may be shared, also by agents.
        unscoped: requests that do not say whose they are ``share`` one account, are an ``error``, or pass (``ignore``).
        reserve: whether calls are estimated beforehand and set aside.
        output_tokens: how long an answer is taken to be where no ``max_tokens`` limits it.
        reserved_for: for how many seconds at most an amount is set aside, should the run never end.
        token_counter: what counts the prompt; see `TokenLimiterProcessor`.
        cost_unit: the currency of all amounts, for people.
        on_error: what its own failure means: ``block``, ``raise``, or ``allow`` (without a ledger, go on uncounted).
        clock: tells the time.
        id: its name in the graph.

    Attributes:
        standing: the fact under which it tells how the budget stood before the last call: ``{"spent", "held",
            "estimate", "limit"}``.
    """

    id = "token-cost-control"
    stores = True

    def __init__(
        self,
        max_cost: float | Decimal | str | Callable[[Mapping[str, Value]], object],
        *,
        scope: Scope = "resource",
        window: Window = "7d",
        strategy: Strategy = "block",
        message: str | None = None,
        warn_at_percent: float | None = None,
        include_breakdown: bool = False,
        downgrade_to: Model | str | None = None,
        ask: Callable[[CostReport], object] | None = None,
        on_violation: Callable[[CostReport], object] | None = None,
        prices: GivenPrices = None,
        on_unknown_price: OnUnknownPrice = "error",
        assumed_price: Price | None = None,
        ledger: CostLedger | None = None,
        unscoped: Unscoped = "share",
        reserve: bool = True,
        output_tokens: int = 1_000,
        reserved_for: float = 600.0,
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
        cost_unit: str = "usd",
        on_error: ErrorPolicy | None = None,
        clock: Clock | None = None,
        id: str | None = None,
    ) -> None:
        """Check the options; begin to load the vocabulary and the list prices, in threads.

        Raises:
            OptionError: an option that is not allowed.
            MissingExtraError: list prices are wanted, and the extra ``prices`` is not installed.
        """
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.max_cost = options.limit(name, max_cost)
        self.scope: Scope = _scopes.checked(name, scope)
        self.window: Window = None if scope == "run" else _windows.checked(name, window)
        self.strategy: str = one_of(name, "strategy", strategy, get_args(Strategy))
        self.message = options.text(name, "message", message)
        self.warn_at_percent = options.percent(name, warn_at_percent)
        self.include_breakdown = flag(name, "include_breakdown", include_breakdown)
        self.downgrade_to = options.cheaper(name, strategy, downgrade_to)
        self.ask = options.asked(name, strategy, ask)
        self.on_violation = options.callback(name, on_violation)
        one_of(name, "on_unknown_price", on_unknown_price, get_args(OnUnknownPrice))
        self._pricing = pricing(name, prices, on_unknown_price, assumed_price)
        self._ledger = options.ledger(name, ledger)
        self.unscoped: Unscoped = options.unscoped(name, unscoped)
        self.reserve = flag(name, "reserve", reserve)
        self._reserved_for = timedelta(seconds=options.seconds(name, reserved_for))
        self.cost_unit = options.text(name, "cost_unit", cost_unit) or ""
        self._clock = SYSTEM_CLOCK if clock is None else clock
        self._claim(name, on_error)
        counting = as_counting(name, token_counter, "o200k_base")
        self._forecaster = Forecaster(counting, in_tokens(counting, "chat"), options.tokens(name, output_tokens))
        self._pricing.prepare()
        if reserve:
            counting.prepare()

    def _claim(self, name: str, on_error: object) -> None:
        """Declare what follows from the options."""
        warns = self.strategy == "warn"
        self.role: ProcessorRole = "observer" if warns else "guard"
        self.edits = "anything" if self.strategy == "downgrade" else "nothing"
        self.on_error: ErrorPolicy = options.policy(name, on_error, "allow" if warns else "block")
        self.awaits = any(map(is_async, (self.max_cost, self.ask, self._ledger.reserve)))
        told = f"{_scopes.name_of(self.scope)}, {_windows.name_of(self.window)}, {self.strategy}"
        self.standing: Key[Values] = Key(f"{self.id}.standing[{told}]")
        self.provides = (self.standing,)

    def new_state(self) -> Bill:
        """Return the bill of a request."""
        return Bill()

    def process_input(self, ctx: InputContext[Bill]) -> object:
        """Begin to count; stop the run if nothing is left to spend, before any judge is asked."""
        return self._run(self._begin(ctx))

    def process_input_step(self, ctx: InputStepContext[Bill]) -> object:
        """Set aside what the step's call may cost, or do what the strategy says."""
        return self._run(self._step(ctx))

    def process_llm_request(self, ctx: LLMRequestContext[Bill]) -> object:
        """Do so again, for what the call has become; give back what is set aside for one that is answered already."""
        return self._run(self._request(ctx))

    def _run(self, hook: Coroutine[object, None, object]) -> object:
        return hook if self.awaits else run_without_loop(hook, self.id)

    async def _begin(self, ctx: InputContext[Bill]) -> None:
        account = self._account(ctx)
        if account is not None and self.strategy == "block":
            report = await self._weighed(ctx, account, None)
            if report is not None:
                self._block(ctx, report)

    async def _step(self, ctx: InputStepContext[Bill]) -> Overrides | None:
        account = self._account(ctx)
        if account is None:
            return None
        await self._ready()
        forecast = self._forecaster.of_step(ctx, ctx.model) if self.reserve else None
        report = await self._weighed(ctx, account, forecast)
        if report is None:
            return None
        await self._act(ctx, account, report)
        cheaper = self.downgrade_to
        return None if cheaper is None or name_of(cheaper) == name_of(ctx.model) else Overrides(model=cheaper)

    async def _request(self, ctx: LLMRequestContext[Bill]) -> None:
        account = self._account(ctx)
        if account is None:
            return
        if ctx.answer is not None:
            account.let_go()
            return
        await self._ready()
        forecast = self._forecaster.of_request(ctx) if self.reserve else None
        report = await self._weighed(ctx, account, forecast)
        if report is not None:
            await self._act(ctx, account, report)

    async def _ready(self) -> None:
        """Have loaded what counts, beside the event loop; hooks that are driven to their end cannot wait."""
        if self.awaits and self.reserve:
            await self._forecaster.counting.ready()

    # How the budget stands

    def _account(self, ctx: AnyContext) -> Account | None:
        """Return the request's account, from its first hook on; None where it is not counted."""
        bill: Bill = ctx.state
        if not bill.opened:
            key = _scopes.key_of(self.scope, ctx.request_context, ctx.run_id, self.unscoped)
            if key is not None:
                ledger = InMemoryLedger() if self.scope == "run" else self._ledger
                bill.account = Account(ledger, key, ctx.run_id, self._pricing, self._clock)
                bill.account.follow(ctx)
            bill.opened = True
        return bill.account

    async def _weighed(self, ctx: AnyContext, account: Account, forecast: Forecast | None) -> CostReport | None:
        """Set aside what a call may cost; return how the budget stands if it does not fit."""
        account.forecast = forecast
        cost = NOTHING if forecast is None else self._pricing.of(forecast)
        limit = await self._limit(ctx)
        standing = await self._reserve(account, cost, limit)
        told = {"spent": standing.spent, "held": standing.held, "estimate": cost, "limit": limit}
        figures = {figure: None if value == UNLIMITED else float(value) for figure, value in told.items()}
        ctx.note(**figures)
        ctx.put(self.standing, figures)
        report = self._report(account, standing, cost, limit)
        if not standing.granted:
            return await self._completed(account, report)
        if self.warn_at_percent is not None and standing.spent + standing.held >= limit * self.warn_at_percent / 100:
            await self._tell_once(ctx, account, replace(report, threshold="soft"))
        return None

    async def _limit(self, ctx: AnyContext) -> Decimal:
        """Return what may be spent, found once a request."""
        bill: Bill = ctx.state
        if bill.limit is None:
            given = self.max_cost
            bill.limit = options.given_limit(await settled(given(ctx.request_context))) if callable(given) else given
        return bill.limit

    async def _reserve(self, account: Account, cost: Decimal, limit: Decimal) -> Standing:
        now = self._clock.now()
        since = _windows.start_of(self.window, now)
        return await account.reserve(cost, limit, since, now, now + self._reserved_for)

    def _report(self, account: Account, standing: Standing, cost: Decimal, limit: Decimal) -> CostReport:
        return CostReport(
            processor_id=self.id,
            scope=_scopes.name_of(self.scope),
            scope_key=None if self.scope == "run" else account.key,
            window=_windows.name_of(self.window),
            limit=limit,
            spent=standing.spent,
            held=standing.held,
            estimate=cost,
            model=None if account.forecast is None else account.forecast.model,
            unit=self.cost_unit,
            strategy=self.strategy,
            run_id=account.run_id,
        )

    async def _completed(self, account: Account, report: CostReport) -> CostReport:
        """Return a report with all that is told of it."""
        if self.include_breakdown:
            since = _windows.start_of(self.window, self._clock.now())
            report = replace(report, breakdown=await account.breakdown(since, _MOST_MODELS))
        return report.saying(self.message)

    # What is done about it

    async def _act(self, ctx: AnyContext, account: Account, report: CostReport) -> None:
        """Do what the strategy says where a call does not fit; return if the run goes on."""
        match self.strategy:
            case "block":
                self._block(ctx, report)
            case "ask":
                await self._asked(ctx, account, report)
            case _:
                await self._tell_once(ctx, account, report)
                await self._reserve(account, self._going_on(account, report), UNLIMITED)

    def _going_on(self, account: Account, report: CostReport) -> Decimal:
        """Return what the call may cost with which the run goes on, the cheaper model's if there is one."""
        forecast = account.forecast
        if self.downgrade_to is None or forecast is None:
            return report.estimate
        account.forecast = forecast._replace(model=name_of(self.downgrade_to))
        return self._pricing.of(account.forecast)

    async def _asked(self, ctx: AnyContext, account: Account, report: CostReport) -> None:
        bill: Bill = ctx.state
        said = None if self.ask is None else await settled(self.ask(report))
        if said is False:
            self._block(ctx, report)
        bill.limit = options.answered(said)
        standing = await self._reserve(account, report.estimate, bill.limit)
        if not standing.granted:
            self._block(ctx, replace(report, limit=bill.limit).saying(self.message))

    def _block(self, ctx: AnyContext, report: CostReport) -> NoReturn:
        self._violated(report)
        ctx.abort(report.message, metadata=report.metadata())

    async def _tell_once(self, ctx: AnyContext, account: Account, report: CostReport) -> None:
        bill: Bill = ctx.state
        if bill.first(report.threshold):
            told = await self._completed(account, report)
            self._violated(told)
            log.warning("%s: %s", self.id, told.message)

    def _violated(self, report: CostReport) -> None:
        if self.on_violation is None:
            return
        try:
            self.on_violation(report)
        except Exception as error:  # noqa: BLE001 - what is done about it does not hang on who is told
            log.warning("%s: on_violation failed: %s", self.id, type(error).__name__)
