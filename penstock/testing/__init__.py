"""The public tools for tests: fakes of the ports, calls that run a stage, and a fake provider of models.

The provider's names are loaded when they are first asked for: a test without a server needs none of it.
"""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily
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
else:
    __getattr__, __dir__ = lazily(
        __name__,
        provider=["FakeProvider", "Gate", "Received", "Reply", "Sent", "Wire", "failing", "rate_limited", "recorded"],
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
