"""How the verdicts of two runs on the same rows differ: a workflow and its baseline, or repeats of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from penstock.workflows.evaluation.intervals import mcnemar, share_of
from penstock.workflows.evaluation.results import Comparison, Repeats
from penstock.workflows.evaluation.summing import verdicts_of
from penstock.workflows.evaluation.tally import UNKNOWN, RankedRows, Tally, example_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from penstock.workflows.evaluation.row_facts import EvaluationRows, RowFacts
    from penstock.workflows.evaluation.undecided import UndecidedRows

_FLAGGED, _RIGHT = 1, 2


class TallyOptions(TypedDict, total=False):
    """The options of a `Tally`."""

    by: tuple[str, ...]
    examples: int
    undecided: UndecidedRows | None


class ComparedTally(Tally):
    """A `Tally` that also compares each verdict with that of an earlier run on the same rows.

    Args:
        form: see `Tally`.
        before: the verdicts of the earlier run.
        options: see `Tally`.
    """

    def __init__(self, form: EvaluationRows, before: bytearray, **options: Unpack[TallyOptions]) -> None:
        super().__init__(form, **options)
        self._before = before
        self.compared = 0
        self.flagged_now = self.passed_now = self.better = self.worse = 0
        self.changed = RankedRows(self.examples)

    def add(self, made: RowFacts) -> None:
        """Count a row, and compare it."""
        super().add(made)
        at = self.rows - 1
        now, before = self.verdicts[at], self._before[at] if at < len(self._before) else UNKNOWN
        if UNKNOWN in (now, before):
            return
        self.compared += 1
        if (now ^ before) & _FLAGGED == 0:
            return
        self.flagged_now += now & _FLAGGED
        self.passed_now += before & _FLAGGED
        labelled = made.label.truth is not None
        self.better += labelled and bool(now & _RIGHT)
        self.worse += labelled and not now & _RIGHT
        rank = 0.0 if not labelled else -1.0 if now & _RIGHT else 1.0
        if self.changed.wants(rank):
            self.changed.add(rank, example_of(made))


def comparison_of(name: str, baseline: Tally, now: ComparedTally) -> Comparison:
    """Return how a workflow differs from its baseline, which ran before on the same rows."""
    verdicts = verdicts_of(baseline.whole.cells)
    pair = (now.better, now.worse) if verdicts.accuracy.of else (now.flagged_now, now.passed_now)
    return Comparison(
        name,
        now.compared,
        now.flagged_now,
        now.passed_now,
        now.better,
        now.worse,
        mcnemar(*pair),
        verdicts,
        now.changed.rows(),
    )


def repeats_of(runs: Sequence[bytearray]) -> Repeats:
    """Return how much verdicts differ between runs on the same rows."""
    known = unstable = 0
    flagged = [0] * len(runs)
    for verdicts in zip(*runs, strict=False):
        if UNKNOWN in verdicts:
            continue
        known += 1
        bits = [verdict & _FLAGGED for verdict in verdicts]
        unstable += len(set(bits)) > 1
        for at, bit in enumerate(bits):
            flagged[at] += bit
    return Repeats(len(runs), share_of(unstable, known), tuple(count / known if known else 0.0 for count in flagged))
