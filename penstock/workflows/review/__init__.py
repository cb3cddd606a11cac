"""Suspended runs: stored, shown to people, decided about, and continued, by any process and once."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
