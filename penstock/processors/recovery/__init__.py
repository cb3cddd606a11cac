"""Processors that handle failed model calls: retries with backoff, circuit breaking, refused prefilled answers.

They decide whether, when and with which messages a call is repeated. The agent does the waiting.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
