"""Processors for what is remembered: histories, recall, the older memory processors, droppers of parts and messages."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
