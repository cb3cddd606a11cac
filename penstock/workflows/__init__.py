"""Agents, their memory, the presets and the command line: what combines processors into applications."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
