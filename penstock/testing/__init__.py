"""The public tools for tests: fakes of the ports, calls that run a stage, and a fake provider of models.

The store's and the provider's names are loaded when they are first asked for: most tests need none of them.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
