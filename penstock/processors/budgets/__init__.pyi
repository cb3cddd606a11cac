from penstock.processors.budgets.cost_ledger import CostLedger as CostLedger, Standing as Standing, fits as fits
from penstock.processors.budgets.cost_report import CostReport as CostReport
from penstock.processors.budgets.list_prices import GenaiPrices as GenaiPrices
from penstock.processors.budgets.memory_ledger import InMemoryLedger as InMemoryLedger
from penstock.processors.budgets.price_tables import (
    FREE as FREE,
    Price as Price,
    PriceList as PriceList,
    PriceTable as PriceTable,
)
from penstock.processors.budgets.token_cost_control import TokenCostControl as TokenCostControl
from penstock.processors.budgets.token_limiter import TokenLimiterProcessor as TokenLimiterProcessor
