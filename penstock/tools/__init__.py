"""`Tool`: functions that a model may call. Processors of every family can provide tools."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
