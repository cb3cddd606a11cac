"""Processors that work on text alone, without a model: normalising and pattern filters. Names are loaded when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.text.regex_filter import RegexFilterProcessor
    from penstock.processors.text.reports import PatternMatch, Violation
    from penstock.processors.text.unicode_normalizer import UnicodeNormalizer
else:
    __getattr__, __dir__ = lazily(
        __name__,
        regex_filter=["RegexFilterProcessor"],
        reports=["PatternMatch", "Violation"],
        unicode_normalizer=["UnicodeNormalizer"],
    )

__all__ = ["PatternMatch", "RegexFilterProcessor", "UnicodeNormalizer", "Violation"]
