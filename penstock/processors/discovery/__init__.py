"""Processors by which a model discovers tools, skills and instruction files."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
