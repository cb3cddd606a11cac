"""Processors for streams alone, which judge nothing. Names are loaded when used."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
