"""A place to collect spans and measurements for each test."""

import pytest

from tests.workflows.telemetry.collected import Collected


@pytest.fixture
def collected() -> Collected:
    """An observer that sends to memory."""
    return Collected()
