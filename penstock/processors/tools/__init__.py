"""Processors that decide about tools: which may run, with which arguments, and after what."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
