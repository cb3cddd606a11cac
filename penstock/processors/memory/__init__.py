"""Processors for memory: message history, semantic recall, working memory, and filters for loaded messages."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
