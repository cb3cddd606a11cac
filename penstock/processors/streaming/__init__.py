"""Processors that change how a stream is cut into chunks, not its text."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
