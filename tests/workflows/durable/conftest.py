"""Everything that the tests of durable requests store fits the published schema; and a PostgreSQL server."""

from collections.abc import Iterator

import pytest

from tests.stores.postgres.servers import running, why_not
from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running() as server:
        yield server.url
