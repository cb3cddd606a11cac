"""The engine: workflows, the values that flow through them, and how they run.

The public names stand in ``__init__.pyi`` and are loaded when they are first used.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
