"""``--fail-if``: what a condition says, and where it cannot be read."""

import pytest

from penstock.workflows.evaluation import evaluate
from penstock.workflows.evaluation.gates import FIGURES, GateError, parse_gate
from tests.workflows.evaluation.guards_under_test import scored

ROWS = [
    {"text": "0.9 a", "label": True, "lang": "en"},
    {"text": "0.4 b", "label": True, "lang": "de"},
    {"text": "0.6 c", "label": False, "lang": "de"},
    {"text": "0.1 d", "label": False, "lang": "en"},
]


def outcome(condition: str, **options):
    """Whether a condition holds on these rows, and the figure."""
    gate = evaluate(scored, ROWS, by=("lang",), fail_if=[condition], **options).gates[0]
    return gate.failed, gate.value


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("recall < 0.9", (True, 0.5)),
        ("recall<.5", (False, 0.5)),
        ("recall >= 50%", (True, 0.5)),
        ("false_alarms > 3/1000", (True, 0.5)),
        ("rows != 4", (False, 4)),
        ("rows == 4", (True, 4)),
        ("slice(lang=de).recall <= 0", (True, 0.0)),
        ("slice( lang = en ).false_alarms > 0", (False, 0.0)),
        ("step(scored).precision < 1", (True, 0.5)),
        ("step(scored).slice(lang=en).f1 < 1", (False, 1.0)),
        ("step(scored).auc < 0.8", (True, 0.75)),
        ("skipped > 0", (False, 0)),
    ],
)
def test_a_condition_compares_a_figure_with_a_number(condition, expected) -> None:
    """Of the whole workflow, a step or a slice."""
    assert outcome(condition) == expected


@pytest.mark.parametrize(
    "condition",
    ["slice(lang=fr).recall < 0", "step(other).recall < 0", "worse > 3", "alarms_a_day > 9", "spans.recall < 0"],
)
def test_a_figure_that_is_not_there_fails(condition) -> None:
    """Nobody knows whether the condition would hold."""
    assert outcome(condition) == (True, None)


def test_ends_of_intervals_are_figures() -> None:
    """The condition for a build: the lower end of the recall."""
    failed, value = outcome("recall.low < 0.09")
    assert (failed, round(value, 4)) == (False, 0.0945)
    assert outcome("alarms_a_day.high > 100000", traffic=1000, base_rate=0.5)[0] is False


@pytest.mark.parametrize(
    ("condition", "at", "problem"),
    [
        ("", 0, "should stand a figure"),
        ("recal < 1", 0, "did you mean recall"),
        ("recall.lo < 1", 7, "low or high"),
        ("recall < ", 9, "should stand a number"),
        ("recall < 1 and f1 < 1", 11, "several times"),
        ("recall 1", 7, "one of <="),
        ("recall < 1/0", 11, "divided by 0"),
        ("slice(lang).recall < 1", 0, "by column and value"),
        ("slice(lang=de.recall < 1", 24, "is missing"),
        ("slice(lang=de) recall < 1", 15, "'.' and a figure"),
        ("slice(lang=de).auc < 1", 15, "a slice has no auc"),
        ("auc.low < 1", 0, "has no interval"),
        ("spans.recal < 1", 6, "did you mean spans.recall"),
    ],
)
def test_an_error_has_its_place(condition, at, problem) -> None:
    """A caret stands below it."""
    with pytest.raises(GateError, match=problem) as raised:
        parse_gate(condition)
    assert raised.value.at == at
    assert str(raised.value).endswith(f"\n  {condition}\n  {' ' * at}^")


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_can_be_asked_for(figure) -> None:
    """With or without rows of that kind, no figure is an error."""
    assert evaluate(scored, ROWS, fail_if=[f"{figure} < -1"]).gates[0].condition == f"{figure} < -1"
