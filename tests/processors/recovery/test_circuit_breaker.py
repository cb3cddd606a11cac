"""When a breaker opens, what it lets through, and when it closes."""

from __future__ import annotations

import copy

import pytest

from penstock import OptionError
from penstock.processors.recovery import CircuitBreaker
from penstock.testing import VirtualClock


def test_it_opens_after_so_many_failures_and_lets_one_through_after_each_pause() -> None:
    """A model that is down is not asked more than that."""
    clock = VirtualClock()
    breaker = CircuitBreaker(clock=clock, failures=3, within=600, pause=30)
    assert [breaker.failed("m") for _ in range(5)] == [True, True, False, False, False]
    clock.advance(30)
    assert [breaker.failed("m") for _ in range(3)] == [True, False, False]
    clock.advance(30)
    assert [breaker.failed("m") for _ in range(2)] == [True, False]
    assert breaker.is_open("m")


def test_an_answer_closes_it() -> None:
    """Then all is counted anew."""
    breaker = CircuitBreaker(failures=2)
    assert [breaker.failed("m") for _ in range(2)] == [True, False]
    breaker.succeeded("m")
    assert not breaker.is_open("m")
    assert breaker.failed("m")
    breaker.succeeded("never failed")


def test_failures_that_are_long_ago_do_not_count() -> None:
    """Neither to open it, nor to keep it open."""
    clock = VirtualClock()
    breaker = CircuitBreaker(clock=clock, failures=2, within=60, pause=30)
    for _ in range(4):
        assert breaker.failed("m")
        clock.advance(61)
    assert [breaker.failed("m") for _ in range(2)] == [True, False]
    clock.advance(61)
    assert breaker.failed("m")
    assert not breaker.is_open("m")


def test_each_model_has_its_own() -> None:
    """One that is down says nothing about the others."""
    breaker = CircuitBreaker(failures=1)
    assert not breaker.failed("one")
    assert not breaker.is_open("other")
    assert breaker.is_open("one")


@pytest.mark.parametrize("options", [{"failures": 0}, {"failures": 1.5}, {"within": 0}, {"pause": -1}], ids=str)
def test_figures_that_cannot_be_meant_are_refused(options: dict[str, int]) -> None:
    """The error names the figure, and what is allowed."""
    with pytest.raises(OptionError, match=next(iter(options))):
        CircuitBreaker(**options)


def test_it_shows_its_figures() -> None:
    """And no more."""
    assert repr(CircuitBreaker()) == "CircuitBreaker(failures=5, within=60, pause=30)"


def test_a_copy_has_the_options_and_begins_anew() -> None:
    """As workflows may be copied; one that is shared stays what it is."""
    breaker = CircuitBreaker(failures=1, within=9, pause=3)
    breaker.failed("m")
    for twin in (copy.deepcopy(breaker), copy.copy(breaker)):
        assert (repr(twin), twin.is_open("m")) == (repr(breaker), False)
        assert not twin.failed("m")


def test_a_time_beyond_all_calendars_is_refused() -> None:
    """Nobody means a million years, and none can be reckoned with."""
    for wrong in ({"within": 1e15}, {"pause": 1e15}):
        with pytest.raises(OptionError, match="seconds"):
            CircuitBreaker(**wrong)
