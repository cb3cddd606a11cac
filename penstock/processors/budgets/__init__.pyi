from penstock.engine.values.ledgers import (
    CostLedger as CostLedger,
    Reservation as Reservation,
    Window as Window,
    fits as fits,
    window_start as window_start,
)
from penstock.processors.budgets.cost_ledger import InMemoryLedger as InMemoryLedger
from penstock.processors.budgets.cost_report import CostReport as CostReport
from penstock.processors.budgets.prices import (
    FREE as FREE,
    GenaiPrices as GenaiPrices,
    Price as Price,
    PriceList as PriceList,
    PriceTable as PriceTable,
)
from penstock.processors.budgets.token_cost_control import TokenCostControl as TokenCostControl
from penstock.processors.budgets.token_limiter import TokenLimiterProcessor as TokenLimiterProcessor
from penstock.processors.budgets.unrecorded_costs import (
    UnrecordedCost as UnrecordedCost,
    UnrecordedCostError as UnrecordedCostError,
)
