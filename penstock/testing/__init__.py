"""Tools for tests: a scripted model, a fake provider, a storage in memory, clocks, ids, and functions that run a stage.

Names load when they are first used.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
