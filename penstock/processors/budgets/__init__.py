"""Processors that keep to a budget: of tokens, or of money. Names are loaded when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.budgets.cost_ledger import CostLedger, Standing, fits
    from penstock.processors.budgets.cost_report import CostReport
    from penstock.processors.budgets.list_prices import GenaiPrices
    from penstock.processors.budgets.memory_ledger import InMemoryLedger
    from penstock.processors.budgets.price_tables import FREE, Price, PriceList, PriceTable
    from penstock.processors.budgets.token_cost_control import TokenCostControl
    from penstock.processors.budgets.token_limiter import TokenLimiterProcessor
else:
    __getattr__, __dir__ = lazily(
        __name__,
        cost_ledger=["CostLedger", "Standing", "fits"],
        cost_report=["CostReport"],
        list_prices=["GenaiPrices"],
        memory_ledger=["InMemoryLedger"],
        price_tables=["FREE", "Price", "PriceList", "PriceTable"],
        token_cost_control=["TokenCostControl"],
        token_limiter=["TokenLimiterProcessor"],
    )

__all__ = [
    "FREE",
    "CostLedger",
    "CostReport",
    "GenaiPrices",
    "InMemoryLedger",
    "Price",
    "PriceList",
    "PriceTable",
    "Standing",
    "TokenCostControl",
    "TokenLimiterProcessor",
    "fits",
]
