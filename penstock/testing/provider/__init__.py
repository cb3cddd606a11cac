"""`FakeProvider`: an HTTP server that answers like a provider of models, by a script."""

from penstock.testing.provider.received import Received
from penstock.testing.provider.routing import embed
from penstock.testing.provider.server import FakeProvider
from penstock.testing.provider.wire import Gate, Reply, Sent, Wire, failing, rate_limited, recorded

__all__ = [
    "FakeProvider",
    "Gate",
    "Received",
    "Reply",
    "Sent",
    "Wire",
    "embed",
    "failing",
    "rate_limited",
    "recorded",
]
