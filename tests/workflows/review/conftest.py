"""Everything that the tests of reviews store fits the published schema."""

from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401
