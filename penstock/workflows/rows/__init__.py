"""Rows: how they are read, checked in batches and in files, and their results as JSON and as Arrow tables."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
