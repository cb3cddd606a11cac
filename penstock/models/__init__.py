"""Models: clients, embedders, judges (a model asked for a typed verdict), token counters, single flight.

Nothing here imports a processor or an agent. Names load when they are first used.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
