"""Processors for streams alone, which judge nothing. Names are loaded when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.streaming.batch_parts import BatchPartsProcessor
else:
    __getattr__, __dir__ = lazily(__name__, batch_parts=["BatchPartsProcessor"])

__all__ = ["BatchPartsProcessor"]
