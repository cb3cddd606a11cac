"""Processors that set what model calls are made with: `ModelSelectionProcessor` and `PrepareStepProcessor`."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
