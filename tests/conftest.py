"""What every test starts from: both event loops and hypothesis without a clock; it knows nothing of what is tested."""

import pytest
from hypothesis import settings

# pytest-timeout is the fuse; a deadline per example only makes tests fail on a busy machine.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


@pytest.fixture(scope="session", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
    return request.param
