"""Counting tokens, for the families of processors that keep to a budget; it knows no family. Names load when used."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
