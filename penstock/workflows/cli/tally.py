"""Counts over many results: per status, and per step; it holds no result, so it stays as small as the workflow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.workflows.batch import STATUSES

if TYPE_CHECKING:
    from penstock.engine.values.tripwire import Record
    from penstock.workflows.cli.results import RowChecked


MANY = 100
"""The rows from which on their number a second means something: fewer are over before the machine is warm."""


@dataclass(slots=True)
class StepTally:
    """What one step did over all rows so far."""

    shadow: bool = False
    statuses: Counter[str] = field(default_factory=Counter[str])
    edits: int = 0
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, record: Record) -> None:
        """Count one record."""
        self.statuses[record.status] += 1
        self.edits += len(record.edits)
        self.seconds += record.seconds
        self.slowest = max(self.slowest, record.seconds)

    @property
    def ran(self) -> int:
        """How often it ran."""
        return self.statuses.total() - self.statuses["skipped"]


@dataclass(slots=True)
class Tally:
    """What became of the rows so far.

    Attributes:
        statuses: how many rows ended how.
        steps: what each step did, by path, in the order in which they were first seen.
        broken: how many rows were blocked only because a step failed.
    """

    statuses: Counter[str] = field(default_factory=Counter[str])
    steps: dict[str, StepTally] = field(default_factory=dict[str, StepTally])
    broken: int = 0

    def add(self, checked: RowChecked) -> None:
        """Count one result."""
        self.statuses[checked.status] += 1
        if checked.outcome is not None and checked.outcome.failure is not None:
            self.broken += 1
        for record in checked.records:
            step = self.steps.get(record.step)
            if step is None:
                step = self.steps[record.step] = StepTally(record.shadow)
            step.add(record)

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return self.statuses.total()

    @property
    def incomplete(self) -> bool:
        """Whether some row could not be judged: it was malformed, or a step broke on it."""
        return bool(self.broken or self.statuses["failed"] or self.statuses["invalid"])

    def sentence(self, seconds: float) -> str:
        """Return the counts as a sentence for people."""
        counts = [f"{self.statuses[status]:,} {status}" for status in STATUSES if self.statuses[status]]
        broken = f" ({self.broken:,} of the blocked because a step failed)" if self.broken else ""
        speed = f", {self.rows / seconds:,.0f} rows/s" if self.rows >= MANY and seconds > 0 else ""
        noun = "row" if self.rows == 1 else "rows"
        return f"{self.rows:,} {noun}: {', '.join(counts) or 'nothing to do'}{broken} in {seconds:,.2f} s{speed}"
