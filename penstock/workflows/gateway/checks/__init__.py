"""The policy as a check for other products: our own contract, and those of products that call one."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
