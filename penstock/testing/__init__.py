"""The public tools for tests: fakes of the ports, calls that run a stage, and a fake provider of models.

The provider's names are loaded when they are first asked for: a test without a server needs none of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from penstock.engine.testing import CountingIds, RecordingObserver, VirtualClock, run_stage, run_stream
from penstock.testing.scripted_model import ScriptedModel
from penstock.testing.turns import Turn

if TYPE_CHECKING:
    from penstock.testing.provider import (
        FakeProvider,
        Gate,
        Received,
        Reply,
        Sent,
        Wire,
        failing,
        rate_limited,
        recorded,
    )

__all__ = [
    "CountingIds",
    "FakeProvider",
    "Gate",
    "Received",
    "RecordingObserver",
    "Reply",
    "ScriptedModel",
    "Sent",
    "Turn",
    "VirtualClock",
    "Wire",
    "failing",
    "rate_limited",
    "recorded",
    "run_stage",
    "run_stream",
]

_OF_THE_PROVIDER = frozenset(name for name in __all__ if name not in globals())


def __getattr__(name: str) -> object:
    """Load one of the provider's names."""
    if name not in _OF_THE_PROVIDER:
        raise AttributeError(f"penstock.testing has no {name!r}")
    return getattr(importlib.import_module("penstock.testing.provider"), name)
