"""Processors that keep to a budget: of tokens, or of money. Names are loaded when used."""

from penstock.processors.budgets.cost_ledger import CostLedger as CostLedger
from penstock.processors.budgets.cost_ledger import Standing as Standing
from penstock.processors.budgets.cost_ledger import fits as fits
from penstock.processors.budgets.cost_report import CostReport as CostReport
from penstock.processors.budgets.list_prices import GenaiPrices as GenaiPrices
from penstock.processors.budgets.memory_ledger import InMemoryLedger as InMemoryLedger
from penstock.processors.budgets.price_tables import FREE as FREE
from penstock.processors.budgets.price_tables import Price as Price
from penstock.processors.budgets.price_tables import PriceList as PriceList
from penstock.processors.budgets.price_tables import PriceTable as PriceTable
from penstock.processors.budgets.token_cost_control import TokenCostControl as TokenCostControl
from penstock.processors.budgets.token_limiter import TokenLimiterProcessor as TokenLimiterProcessor
