"""How long waits are, and that they are spread."""

from __future__ import annotations

import pytest

from penstock import OptionError
from penstock.processors.recovery import Backoff


def test_waits_grow_up_to_the_longest() -> None:
    """Twice as long each time, here."""
    backoff = Backoff(first=1.0, factor=2.0, most=5.0, jitter=0.0)
    assert [backoff.seconds(retry, lambda: 0.5) for retry in range(4)] == [1.0, 2.0, 4.0, 5.0]
    assert backoff.seconds(10**6, lambda: 0.5) == 5.0


def test_a_share_of_each_wait_is_left_to_chance() -> None:
    """From the whole wait down to what the share leaves; what a provider asks for is never shortened."""
    backoff = Backoff(first=4.0, jitter=0.25)
    assert [backoff.seconds(0, lambda at=at: at) for at in (0.0, 0.5, 1.0)] == [4.0, 3.5, 3.0]
    assert [backoff.spread(10.0, lambda at=at: at) for at in (0.0, 1.0)] == [10.0, 11.0]


@pytest.mark.parametrize(
    "options",
    [{"first": -1}, {"factor": 0.5}, {"most": float("nan")}, {"jitter": 1.5}, {"jitter": True}, {"first": "1"}],
    ids=str,
)
def test_figures_that_cannot_be_meant_are_refused(options: dict[str, float]) -> None:
    """The error names the figure, and what is allowed."""
    with pytest.raises(OptionError, match=next(iter(options))):
        Backoff(**options)
