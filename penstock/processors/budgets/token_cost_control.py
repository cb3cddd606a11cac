"""`TokenCostControl`: keep the cost of requests within a budget; with its options, scopes and windows of time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, cast, get_args
from urllib.parse import quote

from penstock.engine.processor.option_checks import check_callback, check_count, check_number, check_text
from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import ErrorPolicy, Processor, flag, is_async, one_of
from penstock.engine.tasks import resolved, run_without_loop
from penstock.engine.tracing.display import visible
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.facts import Key
from penstock.engine.values.ledgers import LONGEST_WINDOW, Calendar, CostLedger, Sliding, Window, window_start
from penstock.engine.values.protocols import SYSTEM_CLOCK, Model
from penstock.models.tokens.counters import counting as as_counting
from penstock.models.tokens.message_costs import prices as in_tokens
from penstock.processors.budgets.call_estimates import CallEstimate, CallEstimator, model_name
from penstock.processors.budgets.cost_ledger import InMemoryLedger
from penstock.processors.budgets.cost_report import CostReport
from penstock.processors.budgets.prices import NOTHING, OnUnknownPrice, exact_amount, pricing
from penstock.processors.budgets.request_cost import UNLIMITED, CostRecorder, RequestCost
from penstock.processors.budgets.unrecorded_costs import UnrecordedCost, UnrecordedCostError, unrecorded_of
from penstock.stores.shared import state_at

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from decimal import Decimal

    from penstock.engine.processor.context import AnyContext, InputContext, InputStepContext, LLMRequestContext
    from penstock.engine.processor.processor import ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.ledgers import Reservation
    from penstock.engine.values.protocols import Clock, TokenCounter
    from penstock.processors.budgets.prices import GivenPrices, Price


_LOG = logging.getLogger("penstock")

Strategy = Literal["block", "warn", "downgrade", "ask"]

_MOST_MODELS = 10  # in a breakdown


class TokenCostControl(Processor[RequestCost]):
    """Keep the cost of requests within a budget, including the calls of judges.

    Before each model call it estimates the cost and reserves it, so that concurrent requests cannot spend the same
    money. The actual cost is recorded as soon as it is known. Place it before all processors that ask models, so that a
    request over its budget is stopped before they do.

    With ``strategy="warn"`` it is an observer, and its own failure does not block; otherwise it is a guard that blocks.

    Args:
        max_cost: the amount that may be spent in the scope within the window: a number above 0, or a function (sync or
            async) from the request context to a number of 0 or more, called once per request.
        scope: whose costs are added up: ``run``, ``resource``, ``thread``, ``user``, ``organization``, ``session`` (by
            ``request_context["resource_id"]`` and so on) or ``everybody``; a list of names, with one budget for each
            combination; or a function from the request context to the key of the budget, or None.
        window: the last ``1h``, ``6h``, ``24h``, ``7d``, ``30d``, ``365d``, or a timedelta of up to 400 days; or the
            current ``day``, ``week`` or ``month`` in UTC; None: all time. Ignored for the scope ``run``.
        strategy: what to do if the next call does not fit: ``block`` aborts the run, ``warn`` logs a warning,
            ``downgrade`` goes on with the model ``downgrade_to``, ``ask`` calls ``ask``.
        message: the text of tripwires and warnings; ``{usage}``, ``{limit}``, ``{estimate}``, ``{remaining}``,
            ``{unit}``, ``{scope}`` and ``{window}`` are replaced. None: a built-in text.
        warn_at_percent: also warn when this share of the limit is spent, in per cent: above 0 and below 100.
        include_breakdown: add the costs by model to reports.
        downgrade_to: the cheaper model, or its name; for ``downgrade`` only.
        ask: a function (sync or async) of a `CostReport`, for ``ask`` only: False aborts the run, True lets it go on
            without a limit, a number is the new limit of this run.
        on_violation: a function (not async) of a `CostReport`, called when a run is aborted or a warning is logged.
        prices: a mapping from model names to `Price`, backed by list prices if the extra ``prices`` is installed; or a
            `PriceTable`. None: list prices (extra ``prices``).
        on_unknown_price: what to do with a model whose price is unknown: ``error`` fails (which blocks by default),
            ``ignore`` counts it as free, ``assume`` uses ``assumed_price``.
        assumed_price: the `Price` for ``assume``; for it only.
        ledger: the `CostLedger` that stores amounts; it may be shared by agents, and by processes (`ValkeyState`,
            `PostgresState`), whose address a policy file names. None: a new `InMemoryLedger`.
        unscoped: requests whose context lacks the ids of the scope ``share`` one budget, fail (``error``), or are not
            counted (``ignore``).
        reserve: estimate and reserve the cost of calls.
        output_tokens: the tokens assumed for an answer that no ``max_tokens`` limits, 0 or more.
        reserved_for: seconds after which a reservation counts as spent if the run never ends: above 0, at most 366
            days.
        token_counter: counts the prompt; see `TokenLimiterProcessor`.
        cost_unit: the name of the currency, for messages.
        on_error: the effect of a failure of its own: ``block``, ``raise``, or ``allow`` (go on without counting). None:
            ``allow`` for ``warn``, otherwise ``block``.
        clock: tells the time to the ledger that it makes itself; None: the system's clock.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: list prices are needed, and the extra ``prices`` is not installed.

    Attributes:
        standing: the key of the fact with the budget's state before the last call: ``{"spent", "held", "estimate",
            "limit"}``; None in ``limit`` means no limit.
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
        ledger: CostLedger | str | None = None,
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
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.max_cost = checked_limit(name, max_cost)
        self.scope: Scope = checked_scope(name, scope)
        self.window: Window = None if scope == "run" else checked_window(name, window)
        self.strategy: str = one_of(name, "strategy", strategy, get_args(Strategy))
        self.message = None if message is None else check_text(name, "message", message)
        self.warn_at_percent = checked_percent(name, warn_at_percent)
        self.include_breakdown = flag(name, "include_breakdown", include_breakdown)
        self.downgrade_to = checked_downgrade(name, strategy, downgrade_to)
        self.ask = checked_ask(name, strategy, ask)
        self.on_violation = check_callback(name, "on_violation", on_violation)
        one_of(name, "on_unknown_price", on_unknown_price, get_args(OnUnknownPrice))
        self._pricing = pricing(name, prices, on_unknown_price, assumed_price)
        self._clock = SYSTEM_CLOCK if clock is None else clock
        self._ledger = checked_ledger(name, ledger, self._clock)
        self.unscoped: Unscoped = cast("Unscoped", one_of(name, "unscoped", unscoped, get_args(Unscoped)))
        self.reserve = flag(name, "reserve", reserve)
        seconds = "a number of seconds above 0, at most 366 days"
        self._lease = check_number(name, "reserved_for", reserved_for, seconds, most=_LONGEST_RESERVATION, above=True)
        self.cost_unit = check_text(name, "cost_unit", cost_unit or "")
        self._claim(name, on_error)
        counting = as_counting(name, token_counter, "o200k_base")
        self._estimator = CallEstimator(
            counting, in_tokens(counting, "chat"), check_count(name, "output_tokens", output_tokens)
        )
        self._pricing.prepare()
        if reserve:
            counting.prepare()

    def _claim(self, name: str, on_error: object) -> None:
        """Set the declarations that follow from the options."""
        warns = self.strategy == "warn"
        self.role: ProcessorRole = "observer" if warns else "guard"
        self.edits = "anything" if self.strategy == "downgrade" else "nothing"
        self.on_error: ErrorPolicy = checked_policy(name, on_error, "allow" if warns else "block")
        ledger = self._ledger
        self.awaits = any(map(is_async, (self.max_cost, self.ask, ledger.reserve, ledger.settle, ledger.release)))
        described = f"{scope_name(self.scope)}, {window_name(self.window)}, {self.strategy}"
        self.standing: Key[Values] = Key(f"{self.id}.standing[{described}]")
        self.provides = (self.standing,)

    def new_state(self) -> RequestCost:
        """Return the cost of a request: nothing yet."""
        return RequestCost()

    def process_input(self, ctx: InputContext[RequestCost]) -> object:
        """Start to count; abort the run if nothing is left to spend, before any judge is asked."""
        return self._run(self._begin(ctx))

    def process_input_step(self, ctx: InputStepContext[RequestCost]) -> object:
        """Reserve the cost of the step's model call, or apply the strategy."""
        return self._run(self._step(ctx))

    def process_llm_request(self, ctx: LLMRequestContext[RequestCost]) -> object:
        """Reserve again for the final request; release the reservation of a call that is answered already."""
        return self._run(self._request(ctx))

    @property
    def unrecorded(self) -> tuple[UnrecordedCost, ...]:
        """What models took that this process could not record in the ledger. Requests of its keys are refused."""
        outstanding = unrecorded_of(self._ledger)
        return () if outstanding is None else outstanding.entries

    def set_unrecorded_cost(self, key: str, cost: float | Decimal | str) -> None:
        """Set the cost of the usage under a key that could not be priced, so that its requests are let through again.

        The amount is recorded before the next request of the key. Use it where the price cannot be mended, because a
        provider has reported nonsense.

        Args:
            key: the key in the ledger, as in `unrecorded`.
            cost: the amount for all of it, 0 or more.

        Raises:
            UsageError: there is no such usage under the key, or the amount is not allowed.
        """
        exact = exact_amount(cost)
        if exact is None:
            raise UsageError(f"the cost must be a number of 0 or more, not {type(cost).__name__}")
        outstanding = unrecorded_of(self._ledger)
        if outstanding is None or not outstanding.set_cost(key, exact):
            raise UsageError("there is no usage without a price under that key: see unrecorded")

    def _run(self, hook: Coroutine[object, None, object]) -> object:
        return hook if self.awaits else run_without_loop(hook, self.id)

    async def _begin(self, ctx: InputContext[RequestCost]) -> None:
        recorder = self._recorder(ctx)
        if recorder is not None and self.strategy == "block":
            report = await self._checked(ctx, recorder, None)
            if report is not None:
                self._block(ctx, report)

    async def _step(self, ctx: InputStepContext[RequestCost]) -> Overrides | None:
        recorder = self._recorder(ctx)
        if recorder is None:
            return None
        await self._ready()
        estimate = self._estimator.of_step(ctx, ctx.model) if self.reserve else None
        report = await self._checked(ctx, recorder, estimate)
        if report is None:
            return None
        await self._act(ctx, recorder, report)
        cheaper = self.downgrade_to
        return None if cheaper is None or model_name(cheaper) == model_name(ctx.model) else Overrides(model=cheaper)

    async def _request(self, ctx: LLMRequestContext[RequestCost]) -> None:
        recorder = self._recorder(ctx)
        if recorder is None:
            return
        if ctx.answer is not None:
            recorder.release()
            return
        await self._ready()
        estimate = self._estimator.of_request(ctx) if self.reserve else None
        report = await self._checked(ctx, recorder, estimate)
        if report is not None:
            await self._act(ctx, recorder, report)

    async def _ready(self) -> None:
        """Wait for the vocabulary, unless the hook runs in sync form, which cannot wait."""
        if self.awaits and self.reserve:
            await self._estimator.counting.ready()

    # How the budget stands

    def _recorder(self, ctx: AnyContext) -> CostRecorder | None:
        """Return the recorder of the request, made at its first hook; None if it is not counted."""
        cost: RequestCost = ctx.state
        if not cost.is_open:
            key = scope_key(self.scope, ctx.request_context, ctx.run_id, self.unscoped)
            if key is not None:
                ledger = InMemoryLedger(clock=self._clock) if self.scope == "run" else self._ledger
                cost.recorder = CostRecorder(ledger, key, ctx, self._pricing, self._clock)
                cost.recorder.follow(ctx)
            cost.is_open = True
        return cost.recorder

    async def _checked(
        self, ctx: AnyContext, recorder: CostRecorder, estimate: CallEstimate | None
    ) -> CostReport | None:
        """Reserve the cost of a call; return a report if it does not fit."""
        recorder.estimate = estimate
        cost = NOTHING if estimate is None else self._pricing.of(estimate)
        limit = await self._limit(ctx)
        try:
            standing = await self._reserve(recorder, cost, limit)
        except UnrecordedCostError as error:
            if self.on_error != "block":
                raise
            ctx.abort(str(error), metadata={"failed": True, "error": type(error).__name__})
        amounts = {"spent": standing.spent, "held": standing.held, "estimate": cost, "limit": limit}
        figures = {figure: None if value == UNLIMITED else float(value) for figure, value in amounts.items()}
        ctx.note(**figures)
        ctx.put(self.standing, figures)
        report = self._report(recorder, standing, cost, limit)
        if not standing.granted:
            return await self._complete(recorder, report)
        if self.warn_at_percent is not None and standing.spent + standing.held >= limit * self.warn_at_percent / 100:
            await self._warn_once(ctx, recorder, replace(report, threshold="soft"))
        return None

    async def _limit(self, ctx: AnyContext) -> Decimal:
        """Return the limit, determined once per request."""
        cost: RequestCost = ctx.state
        if cost.limit is None:
            given = self.max_cost
            cost.limit = (
                checked_function_limit(await resolved(given(ctx.request_context))) if callable(given) else given
            )
        return cost.limit

    async def _reserve(self, recorder: CostRecorder, cost: Decimal, limit: Decimal) -> Reservation:
        return await recorder.reserve(cost, limit, self.window, self._lease)

    def _report(self, recorder: CostRecorder, standing: Reservation, cost: Decimal, limit: Decimal) -> CostReport:
        return CostReport(
            processor_id=self.id,
            scope=scope_name(self.scope),
            scope_key=None if self.scope == "run" else recorder.key,
            window=window_name(self.window),
            limit=limit,
            spent=standing.spent,
            held=standing.held,
            estimate=cost,
            model=None if recorder.estimate is None else recorder.estimate.model,
            unit=self.cost_unit,
            strategy=self.strategy,
            run_id=recorder.run_id,
        )

    async def _complete(self, recorder: CostRecorder, report: CostReport) -> CostReport:
        """Return a report with its breakdown and message."""
        if self.include_breakdown:
            report = replace(report, breakdown=await recorder.breakdown(self.window, _MOST_MODELS))
        return report.saying(self.message)

    # What is done about it

    async def _act(self, ctx: AnyContext, recorder: CostRecorder, report: CostReport) -> None:
        """Apply the strategy to a call that does not fit; return if the run goes on."""
        match self.strategy:
            case "block":
                self._block(ctx, report)
            case "ask":
                await self._ask_user(ctx, recorder, report)
            case _:
                await self._warn_once(ctx, recorder, report)
                await self._reserve(recorder, self._estimate_to_go_on(recorder, report), UNLIMITED)

    def _estimate_to_go_on(self, recorder: CostRecorder, report: CostReport) -> Decimal:
        """Return the estimated cost of the call with which the run goes on, by the cheaper model if there is one."""
        estimate = recorder.estimate
        if self.downgrade_to is None or estimate is None:
            return report.estimate
        recorder.estimate = estimate._replace(model=model_name(self.downgrade_to))
        return self._pricing.of(recorder.estimate)

    async def _ask_user(self, ctx: AnyContext, recorder: CostRecorder, report: CostReport) -> None:
        cost: RequestCost = ctx.state
        said = None if self.ask is None else await resolved(self.ask(report))
        if said is False:
            self._block(ctx, report)
        cost.limit = limit_from_answer(said)
        standing = await self._reserve(recorder, report.estimate, cost.limit)
        if not standing.granted:
            self._block(ctx, replace(report, limit=cost.limit).saying(self.message))

    def _block(self, ctx: AnyContext, report: CostReport) -> NoReturn:
        self._call_back(report)
        ctx.abort(report.message, metadata=report.metadata())

    async def _warn_once(self, ctx: AnyContext, recorder: CostRecorder, report: CostReport) -> None:
        cost: RequestCost = ctx.state
        if cost.is_first(report.threshold):
            report = await self._complete(recorder, report)
            self._call_back(report)
            ctx.flag(f"{report.threshold} limit")
            _LOG.warning("%s: %s", self.id, visible(report.message))

    def _call_back(self, report: CostReport) -> None:
        if self.on_violation is None:
            return
        try:
            self.on_violation(report)
        except Exception as error:  # noqa: BLE001 - a callback does not decide about the run
            _LOG.warning("%s: on_violation failed: %s", self.id, type(error).__name__)


_LONGEST_RESERVATION = 366 * 86_400.0


class DefaultLedger(InMemoryLedger):
    """The ledger of a control without ``ledger=``. All are equal, since their content is not an option."""

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is one too."""
        return isinstance(other, DefaultLedger)

    __hash__ = InMemoryLedger.__hash__


def checked_limit(owner: str, given: object) -> Decimal | Callable[[Mapping[str, Value]], object]:
    """Check ``max_cost``, and return an exact amount or the function."""
    if callable(given):
        return given
    made = exact_amount(given)
    if not made:
        raise OptionError(owner, "max_cost", given, "a number above 0, or a function of the request context")
    return made


def checked_function_limit(given: object) -> Decimal:
    """Return the result of the function ``max_cost`` as an exact amount.

    Raises:
        UsageError: it is not a number of 0 or more.
    """
    made = exact_amount(given)
    if made is None:
        raise UsageError(f"the function max_cost must return a number of 0 or more, not {type(given).__name__}")
    return made


def limit_from_answer(given: object) -> Decimal:
    """Return the limit of a run from the result of ``ask``, other than False.

    Raises:
        UsageError: the result is not allowed.
    """
    if given is True:
        return UNLIMITED
    made = exact_amount(given)
    if made is None:
        raise UsageError(f"ask must return True, False, or a new limit of 0 or more, not {type(given).__name__}")
    return made


def checked_percent(owner: str, given: object) -> Decimal | None:
    """Check ``warn_at_percent``, and return it as an exact amount."""
    made = exact_amount(given)
    if given is not None and (made is None or not 0 < made < 100):  # noqa: PLR2004 - per cent
        raise OptionError(owner, "warn_at_percent", given, "a number above 0 and below 100, or None")
    return made


def checked_downgrade(owner: str, strategy: str, given: object) -> Model | str | None:
    """Check ``downgrade_to``, and return it."""
    if (given is not None) != (strategy == "downgrade") or not (given is None or isinstance(given, (str, Model))):
        allowed = "a model or its name with strategy='downgrade', otherwise None"
        raise OptionError(owner, "downgrade_to", given, allowed)
    return given


def checked_ask(owner: str, strategy: str, given: object) -> Callable[[CostReport], object] | None:
    """Check ``ask``, and return it."""
    if (given is not None) != (strategy == "ask") or not (given is None or callable(given)):
        raise OptionError(owner, "ask", given, "a function with strategy='ask', otherwise None")
    return cast("Callable[[CostReport], object] | None", given)


def checked_ledger(owner: str, given: object, clock: Clock) -> CostLedger:
    """Check ``ledger``, and return it, or a new one for None."""
    if given is None:
        return DefaultLedger(clock=clock)
    if isinstance(given, str):
        return state_at(given).ledger
    if not isinstance(given, CostLedger):
        raise OptionError(owner, "ledger", given, "an object with reserve, settle, release and breakdown: a CostLedger")
    return given


def checked_policy(owner: str, given: object, otherwise: ErrorPolicy) -> ErrorPolicy:
    """Check ``on_error``, and return it, or the default for None."""
    if given is None:
        return otherwise
    return cast("ErrorPolicy", one_of(owner, "on_error", given, get_args(ErrorPolicy)))


ScopeName = Literal["run", "resource", "thread", "user", "organization", "session", "everybody"]
ScopeFunction: TypeAlias = "Callable[[Mapping[str, Value]], str | None]"
Scope: TypeAlias = "ScopeName | Sequence[ScopeName] | ScopeFunction"
"""Whose costs are added up: a name, several names (one budget for each combination), or a function from the request
context to the key of the budget; None for a request without one."""

Unscoped = Literal["share", "error", "ignore"]
"""What to do with requests whose context lacks the ids of the scope."""


def checked_scope(owner: str, given: object) -> Scope:
    """Check ``scope``, and return it; several names as a tuple.

    Raises:
        OptionError: it is not a scope.
    """
    if callable(given) and not is_async(given):
        return cast("ScopeFunction", given)
    names: object = (given,) if isinstance(given, str) else given
    known = get_args(ScopeName)
    found = tuple(cast("Sequence[object]", names)) if isinstance(names, Sequence) else ()
    alone = ("run", "everybody")
    if not found or any(name not in known for name in found) or (len(found) > 1 and set(found) & set(alone)):
        allowed = (
            f"one of {', '.join(map(repr, known))}, several of them (except 'run' and 'everybody'), or a function "
            "(not async) of the request context"
        )
        raise OptionError(owner, "scope", given, allowed)
    return cast("Scope", found[0] if len(found) == 1 else tuple(dict.fromkeys(found)))


def scope_name(scope: Scope) -> str:
    """Return the name of a scope, for reports."""
    if callable(scope):
        return getattr(scope, "__name__", type(scope).__name__)
    return scope if isinstance(scope, str) else "+".join(scope)


def scope_key(scope: Scope, context: Mapping[str, Value], run_id: str, unscoped: Unscoped) -> str | None:
    """Return the key of a request in the ledger; None if the request is not counted.

    Raises:
        UsageError: the context lacks an id of the scope, and ``unscoped`` is ``error``.
    """
    if callable(scope):
        ids = [(scope_name(scope), scope(context))]
    else:
        names = (scope,) if isinstance(scope, str) else scope
        ids = [(name, _id(name, context, run_id)) for name in names]
    if any(not id for _, id in ids):
        if unscoped == "error":
            missing = ", ".join(f"{name}_id" for name, id in ids if not id)
            raise UsageError(f"the request context lacks {missing}, which the scope of the budget needs")
        if unscoped == "ignore":
            return None
    if len(ids) > 1:  # quoted, here and below, so that no id can imitate another key
        return "/".join(f"{name}:{quote(id or '', safe='')}" for name, id in ids)
    name, id = ids[0]
    return f"{name}:{(id or '').replace('%', '%25').replace('/', '%2F')}"


def _id(name: str, context: Mapping[str, Value], run_id: str) -> str | None:
    if name == "everybody":
        return "all"
    if name == "run":
        return run_id
    found: object = context.get(f"{name}_id")
    return None if found is None else str(found)


def checked_window(owner: str, given: object) -> Window:
    """Check ``window``, and return it.

    Raises:
        OptionError: it is not a window.
    """
    known = (*get_args(Sliding), *get_args(Calendar))
    spans = isinstance(given, timedelta) and timedelta(0) < given <= LONGEST_WINDOW
    if given is not None and given not in known and not spans:
        allowed = f"one of {', '.join(map(repr, known))}, a positive timedelta of at most 400 days, or None"
        raise OptionError(owner, "window", given, allowed)
    return cast("Window", given)


def window_end(window: Window, now: datetime) -> datetime | None:
    """Return the time when a current day, week or month ends, in UTC; None for any other window."""
    start = window_start(window, now)
    if start is None or window not in ("day", "week", "month"):
        return None
    if window == "month":
        return (start + timedelta(days=31)).replace(day=1)
    return start + timedelta(days=1 if window == "day" else 7)


def window_name(window: Window) -> str | None:
    """Return the name of a window, for reports."""
    return str(window) if isinstance(window, timedelta) else window
