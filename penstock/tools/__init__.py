"""Tools: functions that a model may call. A low room: every family of processors may bring tools."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
