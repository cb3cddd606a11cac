"""`Bill`: what one request has cost so far, as a cost control knows it: enters, sets aside. It decides nothing."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Awaitable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.engine.processor.processor import is_async
from penstock.processors.budgets._books import book_of

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.model import Usage
    from penstock.engine.values.ports import Clock
    from penstock.engine.values.usage import UsageEntry
    from penstock.processors.budgets._books import Book
    from penstock.processors.budgets._forecasts import Forecast
    from penstock.processors.budgets._pricing import Pricing
    from penstock.processors.budgets.cost_ledger import CostLedger, Standing

_LOG = logging.getLogger("penstock")

T = TypeVar("T")

UNLIMITED = Decimal("Infinity")


class Bill:
    """The state of one request. Lives as long as the request.

    Attributes:
        account: where it is entered; None until it is opened, and where it is not counted.
        opened: whether the request's account was looked for.
        limit: what may be spent, once somebody said so for this request alone.
        told: of which thresholds somebody was told.
    """

    def __init__(self) -> None:
        self.account: Account | None = None
        self.opened = False
        self.limit: Decimal | None = None
        self.told: set[str] = set()

    def first(self, threshold: str) -> bool:
        """Tell whether nobody was told of a threshold yet, and note that somebody is now."""
        new = threshold not in self.told
        self.told.add(threshold)
        return new


class Account:
    """One request's way into a ledger.

    Attributes:
        key: the ledger's key.
        run_id: whose account it is.
        ledger: where it is entered.
        forecast: the call at hand, as estimated.
    """

    def __init__(self, ledger: CostLedger, key: str, run_id: str, pricing: Pricing, clock: Clock) -> None:
        self.key = key
        self.run_id = run_id
        self.ledger = ledger
        self.forecast: Forecast | None = None
        self._book: Book = book_of(run_id)
        self._pricing = pricing
        self._clock = clock
        self._trouble: Exception | None = None
        self._waiting: list[Awaitable[None]] = []
        self._dropped: weakref.finalize[..., Account] | None = None
        self._holds = False

    def follow(self, ctx: AnyContext) -> None:
        """Enter all that the run has spent and will spend; give back what is set aside when it ends, or is dropped."""
        ctx.on_spend(self._heard)
        ctx.on_end(self._ended)
        if not is_async(self.ledger.release):  # what runs in sync form tells nobody that it has ended
            self._dropped = weakref.finalize(self, _DROPPED.append, (self.ledger, self.key, self._book.holder))
            self._dropped.atexit = False

    async def reserve(
        self, cost: Decimal, limit: Decimal | None, since: datetime | None, at: datetime, until: datetime
    ) -> Standing:
        """Set aside what the call at hand may cost, in place of what was.

        Raises:
            Exception: what was spent could not be entered, so that nobody knows how the account stands.
        """
        _give_back_dropped()
        await self._settled()
        if self._trouble is not None:
            raise self._trouble
        bound = None if limit == UNLIMITED else limit
        standing = await settled(
            self.ledger.reserve(self.key, self._book.holder, cost, limit=bound, since=since, at=at, until=until)
        )
        self._holds = standing.granted and cost > 0
        return standing

    async def breakdown(self, since: datetime | None, most: int) -> dict[str, Decimal]:
        """Return what was spent by the models that spent most; nothing where the ledger cannot tell."""
        try:
            found = await settled(self.ledger.breakdown(self.key, since))
        except Exception as error:  # noqa: BLE001 - a verdict does not hang on it
            _LOG.debug("a ledger could not tell what was spent by model: %s", type(error).__name__)
            return {}
        return dict(sorted(found.items(), key=lambda one: one[1], reverse=True)[:most])

    def let_go(self) -> None:
        """Give back what is set aside."""
        self.forecast = None
        if self._holds:
            self._holds = False
            self._later(self.ledger.release(self.key, self._book.holder))

    def _heard(self, spend: UsageEntry) -> None:
        """Enter a spend; what goes wrong is told before the next call, for whoever spends is not to blame."""
        try:
            self._enter(spend)
        except Exception as error:  # noqa: BLE001 - see above
            self._trouble = self._trouble or error
            _LOG.warning("what a model took could not be entered: %s", type(error).__name__)

    def _enter(self, spend: UsageEntry) -> None:
        forecast = self.forecast if not spend.by else None
        if not self._book.once(self.ledger, self.key, spend):
            return
        usage = _filled(spend.usage, forecast)
        cost = None if usage is None else self._pricing.cost(spend.model, usage)
        if cost:
            self._later(self.ledger.add(self.key, spend.model, cost, self._clock.now()))
        if not spend.by:
            self.let_go()

    def _later(self, result: Awaitable[None] | None) -> None:
        if result is not None:
            self._waiting.append(result)

    async def _settled(self) -> None:
        waiting, self._waiting = self._waiting, []
        for result in waiting:
            await result

    def _ended(self, _: RunEnd) -> Awaitable[None] | None:
        if self._dropped is not None:
            self._dropped.detach()
        self.let_go()
        return self._settled() if self._waiting else None


_DROPPED: deque[tuple[CostLedger, str, str]] = deque()
"""What runs that were dropped had set aside. The collector may find that out in the midst of a ledger's own work, so it
only notes it; whoever sets aside next gives it back."""


def _give_back_dropped() -> None:
    """Give back what runs that were dropped had set aside; nobody is there to be told of a failure."""
    for _ in range(len(_DROPPED)):
        try:
            ledger, key, holder = _DROPPED.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            ledger.release(key, holder)
        except Exception as error:  # noqa: BLE001 - see above; it is forgotten when its time is over
            _LOG.warning("what a run had set aside could not be given back: %s", type(error).__name__)


async def settled(made: Awaitable[T] | T) -> T:
    """Return what something gives at once, or in time."""
    if isinstance(made, Awaitable):
        return await cast("Awaitable[T]", made)
    return made


def _filled(usage: Usage | None, forecast: Forecast | None) -> Usage | None:
    """Return a usage with what the provider does not say taken from the estimate, where there is one."""
    if forecast is None:
        return usage
    guess = forecast.usage
    if usage is None:
        return guess
    asked, answered = usage.input_tokens, usage.output_tokens
    return replace(
        usage,
        input_tokens=guess.input_tokens if asked is None else asked,
        output_tokens=guess.output_tokens if answered is None else answered,
    )
