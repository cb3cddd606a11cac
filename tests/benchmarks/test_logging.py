"""Benchmarks leave the log as it was: what is measured or tested later in the process logs as ever."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import scaling, stalls
from benchmarks.scale import measure


def _scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "ROWS", {"nothing": lambda _: None})
    monkeypatch.setattr(scaling, "cost", lambda *_: 1.0)
    scaling.main()


def _stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "measured", lambda *_, **__: 1 / 0)
    stalls.main([])


def _scale(monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    measure.measured(Path("/no/such/folder"), print)


@pytest.mark.parametrize("measured", [_scaling, _stalls, _scale])
def test_a_measurement_leaves_the_log_as_it_was(
    measured: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it ends well or not."""
    before = [logging.getLogger(name).level for name in ("penstock", "penstock.findings")]
    with pytest.raises((SystemExit, ZeroDivisionError, FileNotFoundError)):
        measured(monkeypatch)
    assert [logging.getLogger(name).level for name in ("penstock", "penstock.findings")] == before
