"""`Pricing`: what calls cost, and what becomes of models whose price nobody knows. It knows no ledger and no run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from penstock.engine.values.errors import OptionError, UsageError
from penstock.processors.budgets.list_prices import GenaiPrices, installed
from penstock.processors.budgets.money import NOTHING, amount
from penstock.processors.budgets.price_tables import Price, PriceList, PriceTable

if TYPE_CHECKING:
    from decimal import Decimal

    from penstock.engine.values.model import Usage
    from penstock.processors.budgets._forecasts import Forecast

_LOG = logging.getLogger("penstock")

OnUnknownPrice = Literal["error", "ignore", "assume"]
GivenPrices: TypeAlias = "PriceTable | Mapping[str, Price] | None"


@dataclass(frozen=True, slots=True)
class Pricing:
    """What calls cost. Lives as long as the processor it was made for.

    Attributes:
        table: knows the prices.
        on_unknown: what becomes of a model that it does not know.
        assumed: the price to assume then.
    """

    table: PriceTable
    on_unknown: str
    assumed: Price | None
    _told: set[str] = field(default_factory=set[str], compare=False, repr=False)

    def cost(self, model: str, usage: Usage) -> Decimal:
        """Return what so many tokens of a model cost.

        Raises:
            UsageError: nobody knows, and that is an error; or the table gives no amount.
        """
        given: object = self.table.cost(model, usage)
        if given is None:
            return self._unknown(model, usage)
        made = amount(given)
        if made is None:
            raise UsageError(f"the table of prices must give a number of 0 or more, or None, for {model!r}")
        return made

    def of(self, forecast: Forecast) -> Decimal:
        """Return what a call is estimated to cost: 0 where nobody says which model it asks, unless one is assumed."""
        if forecast.model is not None:
            return self.cost(forecast.model, forecast.usage)
        return NOTHING if self.assumed is None else self.assumed.of(forecast.usage)

    def prepare(self) -> None:
        """Let the table begin with what it must load."""
        table = self.table.otherwise if isinstance(self.table, PriceList) else self.table
        if isinstance(table, GenaiPrices):
            table.prepare()

    def _unknown(self, model: str, usage: Usage) -> Decimal:
        if self.on_unknown == "error":
            raise UsageError(
                f"no price is known of the model {model!r}: give prices={{{model!r}: Price(...)}}, or say "
                "on_unknown_price='ignore' or 'assume'"
            )
        if self.assumed is not None:
            return self.assumed.of(usage)
        if model not in self._told:
            self._told.add(model)
            _LOG.warning("no price is known of the model %r; what it takes counts as nothing (said once)", model)
        return NOTHING


def pricing(owner: str, prices: object, on_unknown: str, assumed: object) -> Pricing:
    """Return what options of ``owner`` say of prices.

    Raises:
        OptionError: an option that is not allowed.
        MissingExtraError: list prices are wanted, and their library is not installed.
    """
    if assumed is not None and not isinstance(assumed, Price):
        raise OptionError(owner, "assumed_price", assumed, "a Price")
    if (on_unknown == "assume") != (assumed is not None):
        raise OptionError(owner, "assumed_price", assumed, "a Price with on_unknown_price='assume', else left out")
    return Pricing(_table(owner, prices), on_unknown, assumed)


def _table(owner: str, prices: object) -> PriceTable:
    if prices is None:
        return GenaiPrices()
    if isinstance(prices, Mapping):
        listed = cast("Mapping[str, Price]", prices)
        return PriceList(listed, otherwise=GenaiPrices() if installed() else None)
    if isinstance(prices, PriceTable):
        return prices
    raise OptionError(
        owner, "prices", prices, "a mapping from models' names to Price, or a table with cost(model, usage)"
    )
