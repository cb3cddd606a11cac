"""Guards: personal data, moderation, prompt injection, language, system-prompt leaks. Names are loaded when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.processors.guards.detections import Detection

_HOME_OF = {
    "Detection": "detections",
}

__all__ = ["Detection"]


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
