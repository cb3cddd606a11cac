"""Processors that work on text alone, without a model: normalising and pattern filters. Names are loaded when used."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
