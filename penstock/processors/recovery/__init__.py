"""Processors for the moment when a model call has failed: whether, when and how changed it is made again.

They judge the error and wait for nothing: the agent does the waiting. They know no other family.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
