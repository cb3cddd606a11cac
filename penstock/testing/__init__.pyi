from penstock.engine.testing import (
    CountingIds as CountingIds,
    RecordingObserver as RecordingObserver,
    VirtualClock as VirtualClock,
    run_stage as run_stage,
    run_stream as run_stream,
)
from penstock.stores.sqlite.storage import InMemoryStorage as InMemoryStorage
from penstock.testing.detectors import ScriptedScores as ScriptedScores, ScriptedSpans as ScriptedSpans
from penstock.testing.provider import (
    FakeProvider as FakeProvider,
    Gate as Gate,
    Received as Received,
    Reply as Reply,
    Sent as Sent,
    Wire as Wire,
    failing as failing,
    rate_limited as rate_limited,
    recorded as recorded,
)
from penstock.testing.scripted_model import ScriptedModel as ScriptedModel
from penstock.testing.turns import Turn as Turn
