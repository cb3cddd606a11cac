"""Coverage: which step of a workflow reads which channel, computed from its plan."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
