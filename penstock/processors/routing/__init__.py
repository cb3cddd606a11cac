"""Processors that decide what a model call is made with: a callback's word, a model by request. It knows no family."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
