"""The public tools for tests: fakes of the ports, calls that run a stage, and a fake provider of models.

The store's and the provider's names are loaded when they are first asked for: most tests need none of them.
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
    from penstock.testing.stores import InMemoryStorage
else:
    __getattr__, __dir__ = lazily(
        __name__,
        provider=["FakeProvider", "Gate", "Received", "Reply", "Sent", "Wire", "failing", "rate_limited", "recorded"],
        stores=["InMemoryStorage"],
    )

__all__ = [
    "CountingIds",
    "FakeProvider",
    "Gate",
    "InMemoryStorage",
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
