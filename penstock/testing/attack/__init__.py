"""Attacks on a user's own workflow: cuts, seams, disguises, wire formats, orders, failing steps and stalls."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
