"""Penstock: a workflow engine for LLM agents in which processors are steps.

The public names that most programs use. Each loads when it is first used; the rest is imported from its family
(`penstock.engine`, `penstock.processors.guards`, `penstock.stores` …).
"""

from penstock.lazy import lazily

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazily(__name__, __file__)
