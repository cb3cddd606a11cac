"""Policy files: workflows written in YAML or JSON, checked with places, tested, and read again when they change."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
