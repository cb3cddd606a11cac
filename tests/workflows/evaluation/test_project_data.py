"""Whether the figures are those of `make quality` on the project's own data; skipped where the data is not there."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.quality.contestants import ours
from benchmarks.quality.contestants.ports import OURS
from benchmarks.quality.personal import read_set
from benchmarks.quality.rows import load
from benchmarks.quality.scored import Readings, split
from penstock import ModerationProcessor, PIIDetector, PromptInjectionDetector, Workflow
from penstock.detection.personal_data.detector import EMBEDDED
from penstock.workflows.evaluation import evaluate

DATA = Path("/work/shared/data")

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"the project's data is not in {DATA}: nothing is compared with it"),
]


def rows_of(name):
    """Return the rows of a set as the benchmark reads them."""
    return next(each for each in load(DATA, "dev").sets if each.name == name).rows


@pytest.mark.parametrize(
    ("name", "label", "guard", "contestant"),
    [
        ("inj_deepset", "injection", PromptInjectionDetector(), ours.injection),
        ("mod_hatecheck", "hate", ModerationProcessor(strategy="block"), ours.moderation),
    ],
)
def test_scores_have_the_figures_of_the_benchmark(name, label, guard, contestant) -> None:
    """Areas, recall at 1 % and both shares, to the last digit.

    The texts are short: of a long one that it stops, the benchmark takes the score of the part that stopped it, and an
    evaluation the highest.
    """
    made = evaluate(Workflow("w").then(guard), DATA / name / "dev.jsonl", label=f"labels.{label}").steps[0]
    positives, negatives = split(rows_of(name), lambda row: row.flag(label))
    [line] = Readings({OURS: contestant()}).ranked(name, "", positives, negatives).figures.values()
    recall = next(each.recall.value for each in made.scores.recall_at if each.rate == 0.01)
    verdicts = made.verdicts
    found = (made.scores.auc, made.scores.average_precision, recall, verdicts.recall.value, verdicts.false_alarms.value)
    assert found == tuple(line)


def test_spans_have_the_counts_of_the_benchmark() -> None:
    """By type, where both call it the same."""
    name = "pii_presidio_synth_v2"
    guard = PIIDetector(detection_types=EMBEDDED)
    made = evaluate(Workflow("w").then(guard), DATA / name / "dev.jsonl").steps[0]
    found = {each.type: (each.half.right, each.half.wrong, each.half.missed) for each in made.spans}
    [dataset] = [each for each in load(DATA, "dev").sets if each.name == name]
    expected = read_set(ours.personal(), dataset).by_type
    compared = [kind for kind in ("email", "phone", "credit-card", "ssn", "iban") if kind in expected]
    assert len(compared) >= 4
    for kind in compared:
        assert found[kind] == (expected[kind].right, expected[kind].wrong, expected[kind].missed)


def test_the_halves_of_a_set_are_about_as_large() -> None:
    """Its ids are those of real data."""
    from penstock.workflows.evaluation.halves import is_second_half

    counts = Counter(is_second_half(row.id, row.text) for row in rows_of("mod_hatecheck"))
    assert min(counts.values()) > 0.4 * sum(counts.values())
