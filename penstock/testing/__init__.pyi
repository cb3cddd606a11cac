"""The public tools for tests: fakes of the ports, calls that run a stage, and a fake provider of models.

The store's and the provider's names are loaded when they are first asked for: most tests need none of them.
"""

from penstock.engine.testing import CountingIds as CountingIds
from penstock.engine.testing import RecordingObserver as RecordingObserver
from penstock.engine.testing import VirtualClock as VirtualClock
from penstock.engine.testing import run_stage as run_stage
from penstock.engine.testing import run_stream as run_stream
from penstock.testing.scripted_model import ScriptedModel as ScriptedModel
from penstock.testing.turns import Turn as Turn
from penstock.testing.provider import FakeProvider as FakeProvider
from penstock.testing.provider import Gate as Gate
from penstock.testing.provider import Received as Received
from penstock.testing.provider import Reply as Reply
from penstock.testing.provider import Sent as Sent
from penstock.testing.provider import Wire as Wire
from penstock.testing.provider import failing as failing
from penstock.testing.provider import rate_limited as rate_limited
from penstock.testing.provider import recorded as recorded
from penstock.testing.stores import InMemoryStorage as InMemoryStorage
