"""Counting tokens, for the families of processors that keep to a budget; it knows no family. Names load when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.processors.tokens.bpe import BPECounter
    from penstock.processors.tokens.counters import Counting
    from penstock.processors.tokens.heuristic import HeuristicCounter

_HOME_OF = {"BPECounter": "bpe", "Counting": "counters", "HeuristicCounter": "heuristic"}

__all__ = ["BPECounter", "Counting", "HeuristicCounter"]


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
