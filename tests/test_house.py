"""Whether a figure of `make house` that may only shrink has grown: names for two things, `Any`, headless clauses."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rest  # it reads every file there is

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_no_figure_of_the_house_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one shrank, record it: `make house ARGS=--record`."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "house", raising=False)
    import house

    assert house.grown() == []
