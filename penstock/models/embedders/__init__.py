"""Embedders, which turn texts into vectors; a cache for any of them; and which text of a message is embedded.

Nothing here imports a store or a processor. Names load when they are first used.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
