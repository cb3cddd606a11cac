"""Processors that keep to a budget: of tokens. Names are loaded when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.budgets.token_limiter import TokenLimiterProcessor
else:
    __getattr__, __dir__ = lazily(__name__, token_limiter=["TokenLimiterProcessor"])

__all__ = ["TokenLimiterProcessor"]
