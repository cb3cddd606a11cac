"""What injection and moderation share: every text scored once by each contestant, and the figures of two heaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from benchmarks.quality.contestants.ports import Candidate, Scorer, flags, line_up
from benchmarks.quality.rows import Row
from benchmarks.quality.speed import speed
from benchmarks.quality.tables import Figures, Line, Table
from penstock.workflows.evaluation.figures import Interval, auc, average_precision, interval, recall_at, share

RATE = 0.01
"""The part of the benign texts that may be flagged."""
RANKED = ("AUC", "AP", f"R at {RATE:.0%}", "R", "FPR")
"""The area under the ROC curve, average precision, recall where 1 % is flagged; both by default."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What one contestant says of one text.

    Attributes:
        scores: its scores by category.
        flags: for each category that has a default threshold, whether its score reaches that.
    """

    scores: Mapping[str, float]
    flags: Mapping[str, bool]

    def of(self, category: str = "any") -> float:
        """Return the score of a category; of a contestant without it, or of any, the highest."""
        found = self.scores.get(category)
        return max(self.scores.values(), default=0.0) if found is None else found

    def is_flagged(self, category: str = "any") -> bool:
        """Return whether a category is flagged; of a contestant without it, or of any, whether one is."""
        found = self.flags.get(category)
        return any(self.flags.values()) if found is None else found


class Readings:
    """Every contestant's scores, each text read once, when it is first asked for."""

    def __init__(self, scorers: Mapping[str, Scorer]) -> None:
        self.scorers = scorers
        self._read: dict[tuple[str, str], Scored] = {}

    def of(self, name: str, rows: Iterable[Row]) -> list[Scored]:
        """Return what a contestant says of rows, in their order."""
        return [self._one(name, row.text) for row in rows]

    def _one(self, name: str, text: str) -> Scored:
        key = name, text
        if key not in self._read:
            scores = self.scorers[name].scores(text)
            self._read[key] = Scored(scores, flags(self.scorers[name], scores))
        return self._read[key]

    def ranked(
        self, data: str, of: str, positives: Sequence[Row], negatives: Sequence[Row], category: str = "any"
    ) -> Line:
        """Return the figures of two heaps, ranked by the score of a category."""
        figures = {name: _ranked(self.of(name, positives), self.of(name, negatives), category) for name in self.scorers}
        return Line(data, of, len(positives) + len(negatives), figures)

    def intervals(
        self, name: str, positives: Sequence[Row], negatives: Sequence[Row], category: str = "any"
    ) -> dict[str, Interval | None]:
        """Return how certain the figures of `ranked` are: ``auc``, ``ap``, ``recall`` and ``flagged``."""
        high, low = (
            [(each.of(category), each.is_flagged(category)) for each in self.of(name, rows)]
            for rows in (positives, negatives)
        )
        scores = [score for score, _ in high], [score for score, _ in low]
        flagged = [flag for _, flag in high], [flag for _, flag in low]
        return {
            "auc": interval(lambda heaps: auc(heaps[0], heaps[1]), *scores),
            "ap": interval(lambda heaps: average_precision(heaps[0], heaps[1]), *scores),
            "recall": interval(_share, flagged[0]),
            "flagged": interval(_share, flagged[1]),
        }

    def shares(self, data: str, of: str, rows: Sequence[Row]) -> Line:
        """Return the part of rows that each contestant flags by default."""
        figures: dict[str, Figures] = {
            name: (share(sum(each.is_flagged() for each in self.of(name, rows)), len(rows)),) for name in self.scorers
        }
        return Line(data, of, len(rows), figures)

    def speeds(self, kinds: Iterable[tuple[str, Sequence[Row]]]) -> Table:
        """Return how fast each contestant reads."""
        table = Table("Speed", ("texts/s", "MB/s"))
        for data, rows in kinds:
            texts = [row.text for row in rows]
            figures: dict[str, Figures] = {
                name: speed(each.scores, texts) or (None, None) for name, each in self.scorers.items()
            }
            if texts:
                table.lines.append(Line(data, "", len(texts), figures))
        return table


def _share(heaps: Sequence[Sequence[bool]]) -> float | None:
    return share(sum(heaps[0]), len(heaps[0]))


def _ranked(positives: Sequence[Scored], negatives: Sequence[Scored], category: str) -> Figures:
    high, low = ([each.of(category) for each in heap] for heap in (positives, negatives))
    return (
        auc(high, low),
        average_precision(high, low) if negatives else None,
        recall_at(high, low, RATE),
        share(sum(each.is_flagged(category) for each in positives), len(positives)),
        share(sum(each.is_flagged(category) for each in negatives), len(negatives)),
    )


def readings(
    candidates: Iterable[Candidate], notes: list[str], plugs: Mapping[str, Scorer], *, peers: bool
) -> Readings:
    """Return the readings of those contestants that are there, and of those that were plugged in."""
    there = line_up(candidates, notes, peers=peers)
    return Readings({**{name: cast("Scorer", each) for name, each in there.items()}, **plugs})


def figure(tables: Iterable[Table], who: str, data: str, of: str, at: int = 0) -> float | None:
    """Return one figure of the first line of that name; None if there is none."""
    for table in tables:
        for line in table.lines:
            if (line.data, line.of) == (data, of) and who in line.figures:
                return line.figures[who][at]
    return None


def split(rows: Iterable[Row], flag: Callable[[Row], bool | None]) -> tuple[list[Row], list[Row]]:
    """Return the rows for which something holds, and those for which it does not; the unknown in neither."""
    known = [(row, flag(row)) for row in rows]
    return [row for row, holds in known if holds is True], [row for row, holds in known if holds is False]
