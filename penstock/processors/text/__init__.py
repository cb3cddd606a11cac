"""Processors that work on text alone, without a model: normalising and pattern filters. Names are loaded when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.processors.text.regex_filter import RegexFilterProcessor
    from penstock.processors.text.reports import PatternMatch, Violation
    from penstock.processors.text.unicode_normalizer import UnicodeNormalizer

_HOME_OF = {
    "PatternMatch": "reports",
    "RegexFilterProcessor": "regex_filter",
    "UnicodeNormalizer": "unicode_normalizer",
    "Violation": "reports",
}

__all__ = ["PatternMatch", "RegexFilterProcessor", "UnicodeNormalizer", "Violation"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"{__name__} has no {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
