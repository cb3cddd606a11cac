"""The arithmetic behind the quality figures, on made-up rows small enough to count by hand."""

import random
from collections.abc import Sequence

import pytest

from benchmarks.quality.goals import GOALS, Goal, results
from benchmarks.quality.language import macro, recalls
from benchmarks.quality.personal import macro_f1, type_of
from benchmarks.quality.report import shown
from benchmarks.quality.tables import Section
from penstock.detection.spans import Span
from penstock.workflows.evaluation.figures import (
    Counts,
    auc,
    average_precision,
    interval,
    macro_accuracy,
    matches,
    overlap,
    recall_at,
)

pytestmark = pytest.mark.rest


def span(start: int, end: int, kind: str = "email") -> Span:
    """Return a stretch."""
    return Span(start, end, kind)


@pytest.mark.parametrize(
    ("other", "shared"),
    [((0, 10), 1.0), ((0, 5), 0.5), ((5, 15), 1 / 3), ((10, 20), 0.0), ((20, 30), 0.0)],
)
def test_overlap_is_what_is_shared_by_what_is_covered(other: tuple[int, int], shared: float) -> None:
    """Stretches that only touch share nothing."""
    assert overlap(span(0, 10), span(*other)) == pytest.approx(shared)


def test_half_an_overlap_matches_and_less_does_not() -> None:
    """The limit itself is enough."""
    assert matches([span(0, 5)], [span(0, 10)]) == {"email": Counts(right=1)}
    assert matches([span(0, 4)], [span(0, 10)]) == {"email": Counts(wrong=1, missed=1)}


def test_another_type_is_no_match() -> None:
    """What is found in the right place under another name is wrong, and missed."""
    found = matches([span(0, 10, "phone")], [span(0, 10)])
    assert found == {"phone": Counts(wrong=1), "email": Counts(missed=1)}


def test_each_stretch_matches_once_and_the_closest_first() -> None:
    """Two finds of one value are one right and one wrong."""
    assert matches([span(0, 10), span(0, 9)], [span(0, 10)]) == {"email": Counts(right=1, wrong=1)}
    both = [span(0, 10), span(11, 21)]
    assert matches(both, list(reversed(both))) == {"email": Counts(right=2)}


def test_precision_recall_and_f1_of_counts() -> None:
    """Where there is nothing to count there is no figure, rather than nought."""
    counts = Counts(right=6, wrong=2, missed=4)
    assert (counts.precision, counts.recall, counts.f1) == (0.75, 0.6, 12 / 18)
    assert (Counts().precision, Counts().recall, Counts().f1) == (None, None, None)
    assert Counts(missed=3).f1 == 0.0
    assert Counts(1, 2, 3) + Counts(1, 1, 1) == Counts(2, 3, 4)


def test_auc_counts_equal_scores_half() -> None:
    """Perfect, reversed, all equal, and one tie among four pairs."""
    assert auc([0.9, 0.8], [0.1, 0.2]) == 1.0
    assert auc([0.1], [0.9, 0.8]) == 0.0
    assert auc([0.5, 0.5], [0.5, 0.5]) == 0.5
    assert auc([0.9, 0.5], [0.5, 0.1]) == 3.5 / 4
    assert auc([], [0.1]) is None


def test_auc_is_the_share_of_pairs_in_order() -> None:
    """Compared with counting every pair."""
    lots = random.Random(5)  # noqa: S311 - no secret is made
    positives = [lots.randrange(6) / 5 for _ in range(40)]
    negatives = [lots.randrange(5) / 5 for _ in range(30)]
    pairs = [(high > low) + (high == low) / 2 for high in positives for low in negatives]
    assert auc(positives, negatives) == pytest.approx(sum(pairs) / len(pairs))


def test_average_precision_weighs_precision_by_the_recall_it_adds() -> None:
    """Right, wrong, right: (1/1 + 2/3) / 2. Equal scores are taken together, whatever their order."""
    assert average_precision([0.9, 0.5], [0.7]) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision([0.5], [0.5, 0.5, 0.5]) == 0.25
    assert average_precision([0.9], []) == 1.0
    assert average_precision([], [0.1]) is None


def test_recall_at_a_rate_flags_no_more_negatives_than_allowed() -> None:
    """A negative that scores as high as a positive cannot be told from it."""
    negatives = [0.1, 0.2, 0.3, 0.9]
    assert recall_at([0.95, 0.5], negatives, 0.0) == 0.5
    assert recall_at([0.95, 0.5], negatives, 0.25) == 1.0
    assert recall_at([0.9], negatives, 0.0) == 0.0
    assert recall_at([0.9], negatives, 1.0) == 1.0
    assert recall_at([], negatives, 0.5) is None


def test_macro_accuracy_is_the_mean_over_languages_not_rows() -> None:
    """A language with many rows weighs no more; what is not known is missed."""
    found = recalls([("en", "en"), ("en", "en"), ("en", None), ("fr", "de")])
    assert macro_accuracy(found) == pytest.approx((2 / 3 + 0) / 2)


def test_languages_that_are_written_alike_count_as_one_where_asked() -> None:
    """Croatian taken for Serbian is wrong by itself, and right as a macro-language."""
    assert macro_accuracy(recalls([("hr", "sr")])) == 0.0
    assert macro_accuracy(recalls([("hr", "sr"), ("no", "nb")], macro)) == 1.0
    assert macro_accuracy(recalls([("en", None)], macro)) == 0.0


def test_a_type_that_nobody_finds_counts_nought_in_the_macro_figure() -> None:
    """Types of which nothing is labelled, or that have no goal, do not count."""
    counted = {"email": Counts(right=1), "iban": Counts(missed=2), "url": Counts(wrong=9), "mac": Counts(missed=1)}
    assert macro_f1(counted) == 0.5


def test_types_of_the_data_have_a_name_of_ours_or_are_not_scored() -> None:
    """However they are spelled."""
    assert [type_of(each) for each in ("credit-card", "CREDIT_CARD", "ip", "us_ssn", "name")] == [
        "credit-card",
        "credit-card",
        "ip-address",
        "ssn",
        None,
    ]


def test_goals_are_met_at_their_limit_and_in_their_direction() -> None:
    """At least, or at most; one that was not set is not met."""
    least = Goal("a.b", "a", "b", 0.7, 0.9)
    assert [least.verdict(each) for each in (0.9, 0.7, 0.69, None)] == [
        "ambitious",
        "acceptable",
        "missed",
        "not measured",
    ]
    most = Goal("a.b", "a", "b", 0.02, 0.01, at_most=True)
    assert [most.verdict(each) for each in (0.0, 0.015, 0.03)] == ["ambitious", "acceptable", "missed"]
    assert Goal("a.b", "a", "b", None, 0.9).verdict(0.8) == "missed"


def test_every_goal_belongs_to_a_section_and_is_told_once() -> None:
    """By the part of its key before the point; only the goals of what ran are told."""
    assert len({goal.key for goal in GOALS}) == len(GOALS)
    told = results([Section("leaks", measured={"leaks.false": 0.0})])
    assert {result.goal.key for result in told} == {"leaks.recall", "leaks.false", "leaks.changed"}
    assert {result.verdict for result in told} == {"ambitious", "not measured"}


def test_figures_are_shown_with_three_decimals_and_speeds_with_none() -> None:
    """A dash stands where there is no figure."""
    assert [shown(each) for each in (None, 0.5, 1.0, 12.345)] == ["–", ".500", "1.000", "12.3"]
    assert shown(6600.4, "texts/s") == "6,600"


def test_an_interval_holds_the_figure_and_is_the_same_each_time() -> None:
    """More texts make it narrower; without texts there is none."""
    few, many = [True, False] * 10, [True, False] * 500

    def part(heaps: Sequence[Sequence[bool]]) -> float:
        return sum(heaps[0]) / len(heaps[0])

    wide, narrow = interval(part, few), interval(part, many)
    assert wide is not None
    assert narrow is not None
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]
    assert interval(part, few) == wide
    assert interval(part, []) is None
