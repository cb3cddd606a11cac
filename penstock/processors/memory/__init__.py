"""Processors for what is remembered: the older memory processors, and droppers of parts and messages."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.processors.memory.drop_messages import DropMessages
    from penstock.processors.memory.drop_parts import DropParts
    from penstock.processors.memory.legacy import LegacyMemory, LegacyMemoryProcessor
    from penstock.processors.memory.token_limiter import MemoryTokenLimiter
    from penstock.processors.memory.tool_call_filter import MemoryToolCallFilter

_HOME_OF = {
    "DropMessages": "drop_messages",
    "DropParts": "drop_parts",
    "LegacyMemory": "legacy",
    "LegacyMemoryProcessor": "legacy",
    "MemoryTokenLimiter": "token_limiter",
    "MemoryToolCallFilter": "tool_call_filter",
}

__all__ = [
    "DropMessages",
    "DropParts",
    "LegacyMemory",
    "LegacyMemoryProcessor",
    "MemoryTokenLimiter",
    "MemoryToolCallFilter",
]


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
