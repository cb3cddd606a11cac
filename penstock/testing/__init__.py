"""Tools for tests: scripted models and detectors, a fake provider, storage in memory, clocks, ids, running a stage.

Names load when they are first used.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
