"""docs/gateway-coverage.md is as the gateway's tables are."""

from __future__ import annotations

from tests.workflows.gateway.coverage_page import PAGE, page


def test_the_page_is_as_the_tables_are():
    assert PAGE.read_text() == page(), "run python -m tests.workflows.gateway.coverage_page"
