"""Processors that make objects of answers. It knows no other family."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
