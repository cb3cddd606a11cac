"""Models to be asked, by protocol and by name; it knows no processor and no agent."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
