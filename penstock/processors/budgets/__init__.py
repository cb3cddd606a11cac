"""Processors that keep to a budget of tokens or of money, with prices and ledgers."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
