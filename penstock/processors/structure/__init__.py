"""Processors that make objects of answers. It knows no other family."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.structure.facts import OBJECT
    from penstock.processors.structure.structured_output import StructuredOutputProcessor
else:
    __getattr__, __dir__ = lazily(__name__, facts=["OBJECT"], structured_output=["StructuredOutputProcessor"])

__all__ = ["OBJECT", "StructuredOutputProcessor"]
