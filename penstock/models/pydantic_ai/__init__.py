"""Models of every provider that pydantic-ai speaks; it knows no other library. Names load when used."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
