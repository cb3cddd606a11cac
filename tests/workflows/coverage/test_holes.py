"""The table names the hole of a workflow that has one, and none where there is none."""

import pytest

from tests.workflows.coverage.holes import HOLES, WHOLE


@pytest.mark.parametrize("name", HOLES)
def test_a_hole_is_named(name: str) -> None:
    """By kind and channel."""
    make, kind, channel = HOLES[name]
    assert (kind, channel) in {(gap.kind, gap.channel) for gap in make().coverage().gaps}


@pytest.mark.parametrize("name", WHOLE)
def test_where_there_is_no_hole_none_is_named(name: str) -> None:
    """Presets and variants."""
    assert WHOLE[name]().coverage().gaps == ()
