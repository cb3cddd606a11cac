"""Count tokens, and what messages cost of a token budget. Names load when they are first used."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
