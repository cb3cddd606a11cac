"""Asking models for verdicts, for the families of processors that do; it knows no family. Names load when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.processors.judges.judge import Judge
    from penstock.processors.judges.judgement import Judgement
    from penstock.processors.judges.scores import Score

_HOME_OF = {"Judge": "judge", "Judgement": "judgement", "Score": "scores"}

__all__ = ["Judge", "Judgement", "Score"]


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
