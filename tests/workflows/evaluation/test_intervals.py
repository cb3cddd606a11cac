"""Intervals and the exact test of McNemar, with scipy as the oracle."""

import math

import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest, chi2

from penstock.workflows.evaluation.intervals import (
    EXACT_ROWS,
    f1_share,
    mcnemar,
    rows_needed,
    share_of,
    wilson,
)

SHARES = st.integers(1, 5_000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@given(SHARES)
def test_wilson_is_that_of_scipy(share) -> None:
    """To the last digits of a float."""
    count, of = share
    expected = binomtest(count, of).proportion_ci(0.95, method="wilson")
    assert wilson(count, of) == pytest.approx((expected.low, expected.high), rel=1e-12, abs=1e-15)


@given(SHARES)
def test_an_interval_holds_its_share(share) -> None:
    """Also at its ends, whatever is rounded."""
    made = share_of(*share)
    assert 0 <= made.low <= made.value <= made.high <= 1


@given(st.integers(0, 900), st.integers(0, 900))
def test_mcnemar_is_the_binomial_test_of_scipy(one, other) -> None:
    """Two-sided; of no rows that differ it is 1."""
    expected = binomtest(one, one + other).pvalue if one + other else 1.0
    assert mcnemar(one, other) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("one", "other"), [(1_400, 1_650), (100_000, 101_000), (3_000, 3_000), (40_000, 10)])
def test_mcnemar_of_many_rows(one, other) -> None:
    """In logarithms, where whole numbers would take long."""
    assert one + other > EXACT_ROWS
    assert mcnemar(one, other) == pytest.approx(min(1.0, binomtest(one, one + other).pvalue), rel=1e-8, abs=1e-300)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_an_f1_lies_in_its_interval_and_follows_from_the_share_of_right_ones(right, wrong, missed) -> None:
    """F1 is 2J / (1 + J)."""
    made = f1_share(right, wrong, missed)
    if not right + wrong + missed:
        assert made.value is None
        return
    assert made.value == pytest.approx(2 * right / (2 * right + wrong + missed))
    assert made.low - 1e-12 <= made.value <= made.high + 1e-12


@given(st.floats(0, 1), st.floats(0.002, 0.5))
def test_the_rows_that_are_needed_are_the_fewest(rate, width) -> None:
    """With them the interval is narrow enough, and with one less it is not."""
    rows = rows_needed(rate, width)

    def width_of(count: int) -> float:
        low, high = wilson(rate * count, count)
        return high - low

    assert width_of(rows) <= width
    assert rows == 1 or width_of(rows - 1) > width


def test_how_sure_one_percent_is() -> None:
    """The figures that an owner has to know: of 100 rows it says little."""
    assert [round(100 * end, 1) for end in wilson(1, 100)] == [0.2, 5.4]
    assert [round(100 * end, 1) for end in wilson(10, 1000)] == [0.5, 1.8]
    assert rows_needed(0.0, 0.01) == math.ceil(chi2.ppf(0.95, 1) * 0.99 / 0.01)


@pytest.mark.parametrize(("rate", "width"), [(-0.1, 0.1), (1.1, 0.1), (0.5, 0.0), (0.5, math.nan)])
def test_impossible_shares_are_refused(rate, width) -> None:
    """A width of 0 takes endless rows."""
    with pytest.raises(ValueError, match="has no interval"):
        rows_needed(rate, width)


def test_a_share_of_nothing_has_no_value() -> None:
    """And no interval; counts beyond the rows are refused."""
    assert share_of(0, 0) == share_of(0, 0)
    assert (share_of(0, 0).value, share_of(0, 0).width) == (None, None)
    with pytest.raises(ValueError, match="no share"):
        wilson(3, 2)
