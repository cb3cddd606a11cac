"""Discovery: processors that show a model what there is, and bring it what it asks for: tools, skills, instructions."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
