"""Processors that shape the prompt: filters for tool calls, repairs for other providers, and trailing answers."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
