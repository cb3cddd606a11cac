"""What puts processors together: the agent, its memory, presets, the command line."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
