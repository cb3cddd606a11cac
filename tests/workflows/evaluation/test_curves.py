"""Curves, sweeps and thresholds, with scikit-learn as the oracle."""

import math

import pytest
from hypothesis import assume, given, strategies as st
from sklearn import metrics

from penstock.workflows.evaluation.curves import (
    BINS,
    ScoreHeaps,
    Scores,
    bin_of,
    curve,
    histogram,
    number_between,
    sweep,
    threshold_for,
)
from penstock.workflows.evaluation.recommending import recommend

SCORES = st.lists(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000001, 0.75, 0.9, 0.99, 1.0]) | st.floats(0, 1), max_size=40
)


def heaps(positives, negatives, unlabelled=()) -> ScoreHeaps:
    """Return scores."""
    return ScoreHeaps(Scores(positives), Scores(negatives), Scores(unlabelled))


def labelled(positives, negatives):
    """Return what scikit-learn takes."""
    return [1] * len(positives) + [0] * len(negatives), [*positives, *negatives]


@given(SCORES, SCORES)
def test_areas_are_those_of_scikit_learn(positives, negatives) -> None:
    """Both areas need rows of both kinds."""
    assume(positives and negatives)
    made = heaps(positives, negatives)
    assert made.auc == pytest.approx(metrics.roc_auc_score(*labelled(positives, negatives)), rel=1e-12)
    expected = metrics.average_precision_score(*labelled(positives, negatives))
    assert made.average_precision == pytest.approx(expected, rel=1e-12)


@given(SCORES, SCORES)
def test_points_are_those_of_both_curves_of_scikit_learn(positives, negatives) -> None:
    """One for each score that occurs."""
    assume(positives and negatives)
    points = curve(heaps(positives, negatives))
    false, true, thresholds = metrics.roc_curve(*labelled(positives, negatives), drop_intermediate=False)
    assert [point.threshold for point in points] == list(thresholds[1:])
    assert [point.false_alarms for point in points] == pytest.approx(list(false[1:]))
    assert [point.recall for point in points] == pytest.approx(list(true[1:]))
    precision, recall, lowest = metrics.precision_recall_curve(*labelled(positives, negatives))
    assert [point.threshold for point in reversed(points)] == list(lowest)
    assert [point.precision for point in reversed(points)] == pytest.approx(list(precision[:-1]))
    assert [point.recall for point in reversed(points)] == pytest.approx(list(recall[:-1]))


@given(SCORES, SCORES, st.integers(2, 20))
def test_a_curve_with_few_points_keeps_both_ends(positives, negatives, most) -> None:
    """The points are among those of the whole curve."""
    whole = curve(heaps(positives, negatives))
    few = curve(heaps(positives, negatives), most)
    assert len(few) == min(most, len(whole))
    assert {point.threshold for point in few} <= {point.threshold for point in whole}
    assert not whole or (few[0], few[-1]) == (whole[0], whole[-1])


@given(SCORES, SCORES, SCORES)
def test_a_sweep_counts_what_reaches_each_threshold(positives, negatives, unlabelled) -> None:
    """As one counts by hand."""
    for each in sweep(heaps(positives, negatives, unlabelled), 11):
        right, wrong, others = (
            sum(score >= each.threshold for score in heap) for heap in (positives, negatives, unlabelled)
        )
        assert each.flagged.count == right + wrong + others
        assert (each.recall.count, each.recall.of) == (right, len(positives))
        assert (each.false_alarms.count, each.false_alarms.of) == (wrong, len(negatives))
        assert (each.precision.count, each.precision.of) == (right, right + wrong)


@given(SCORES, SCORES)
def test_each_score_is_in_one_bin(positives, negatives) -> None:
    """The one that `bin_of` says."""
    bins = histogram(heaps(positives, negatives))
    assert [each.positives for each in bins] == [sum(bin_of(one) == at for one in positives) for at in range(BINS)]
    assert sum(each.negatives for each in bins) == len(negatives)


@given(SCORES, st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.99]))
def test_a_threshold_keeps_its_rate_and_none_of_the_scores_below_does(scores, rate) -> None:
    """It is as low as it can be."""
    assume(scores)
    made = threshold_for(Scores(scores), rate)
    allowed = int(rate * len(scores))
    assert sum(score >= made for score in scores) <= allowed
    lower = [score for score in scores if score < made]
    assert not lower or sum(score >= max(lower) for score in scores) > allowed


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_threshold_has_few_digits(low, high) -> None:
    """It lies between, above the one and at most the other."""
    assume(low < high)
    made = number_between(low, high)
    assert low < made <= high
    assert high - low < 0.2 or len(f"{made:g}") <= 3


def test_too_few_rows_get_no_threshold_but_the_number_that_is_needed() -> None:
    """A hundred rows cannot show a rate of 1 %."""
    few = heaps([0.9] * 100, [0.1] * 100)
    made = recommend(few, few, 0.01)
    assert (made.threshold, made.needed) == (None, 381)
    assert (made.collect.negatives, made.collect.positives) == (2 * 281, 0)
    enough = heaps([0.9] * 100, [0.1] * 400)
    made = recommend(enough, enough, 0.01)
    assert made.threshold == 0.5
    assert (made.reported.recall.value, made.reported.false_alarms.value) == (1.0, 0.0)
    lacking = recommend(heaps([0.9], [0.1] * 400), heaps([0.9], [0.1] * 400), 0.01)
    assert lacking.threshold is None
    assert (lacking.collect.negatives, lacking.collect.positives) == (0, 2 * 19)


def test_a_threshold_is_reported_on_the_other_half() -> None:
    """What was chosen on the first half says nothing about the second."""
    first, second = heaps([0.9] * 50, [0.1] * 400), heaps([0.2] * 50, [0.8] * 400)  # 0.5 is between
    made = recommend(first, second, 0.01)
    assert made.basis == "labels"
    assert made.reported == second.at(made.threshold)
    assert made.reported.false_alarms.value == 1.0


def test_without_labels_a_threshold_is_chosen_by_the_rate_alone() -> None:
    """It flags about so many of the other half."""
    spread = [number / 1000 for number in range(1000)]
    made = recommend(heaps((), (), spread), heaps((), (), spread), 0.01)
    assert (made.basis, made.threshold) == ("rate", 0.99)
    assert made.reported.flagged.count == 10
    assert recommend(heaps((), (), spread[:50]), heaps((), (), spread[:50]), 0.01).threshold is None


def test_nothing_follows_from_no_scores() -> None:
    """No rows, no figures."""
    assert (heaps((), ()).auc, threshold_for(Scores(), 0.1), curve(heaps((), ()))) == (None, None, [])
    assert not math.isnan(heaps([0.5], ()).at(0.5).recall.value)
