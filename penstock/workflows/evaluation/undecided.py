"""`UndecidedRows`: the unlabelled rows whose label would decide most, to be read and labelled by a person."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_mapping, thaw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.workflows.evaluation.row_facts import RowFacts

UNDECIDED = 50
"""How many rows are kept by default: so many can be labelled within an hour."""

MOST_SLICES = 100
"""Of how many slices rows are kept; those of further ones are together."""

MIDDLE = 0.5
"""Where a step's threshold is taken to be until a row was flagged below it."""

UNSCORED = 0.25
"""The distance of a row that a step flagged without a score: behind rows that are nearer to a threshold."""


class UndecidedRows:
    """Keeps the rows without a label that were flagged, or are nearest to a threshold; of each slice as many.

    The threshold of a step is the lowest score so far that it has flagged.

    Args:
        most: how many rows are kept, of each slice and in all.
    """

    def __init__(self, most: int = UNDECIDED) -> None:
        self._most = most
        self._thresholds: dict[str, float] = {}
        self._kept: dict[tuple[str, ...], list[tuple[float, int, dict[str, object]]]] = {}
        self._count = 0

    def add(self, facts: RowFacts) -> None:
        """Keep a row if it decides much."""
        for step in facts.steps:
            if step.flagged and step.score is not None:
                self._thresholds[step.path] = min(step.score, self._thresholds.get(step.path, MIDDLE))
        if facts.label.truth is not None or facts.input is None:
            return
        distances = [
            (abs(step.score - self._thresholds.get(step.path, MIDDLE)), step)
            for step in facts.steps
            if step.score is not None
        ]
        nearest = min(distances, key=lambda each: each[0], default=None)
        if nearest is None and not facts.flagged:
            return
        distance = UNSCORED if nearest is None else nearest[0]
        self._count += 1
        why = {
            "step": "" if nearest is None else nearest[1].path,
            "score": None if nearest is None else nearest[1].score,
            "flagged": facts.flagged,
            "found": facts.found,
        }
        slices = facts.label.slices
        if slices not in self._kept and len(self._kept) >= MOST_SLICES:
            slices = ()
        kept = self._kept.setdefault(slices, [])
        heapq.heappush(kept, (-distance, -self._count, _row(facts, why)))
        if len(kept) > self._most:
            heapq.heappop(kept)

    def rows(self) -> list[dict[str, object]]:
        """Return the rows: the one of each slice that decides most, then the next of each, and so on."""
        slices = [sorted(kept, key=lambda each: each[:2], reverse=True) for kept in self._kept.values()]
        ranked = [(place, -entry[0], -entry[1], entry[2]) for kept in slices for place, entry in enumerate(kept)]
        ranked.sort(key=lambda each: each[:3])
        return [row for *_, row in ranked[: self._most]]

    def lines(self) -> str:
        """Return the rows as lines of JSON."""
        return "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in self.rows())


def _row(facts: RowFacts, why: Mapping[str, object]) -> dict[str, object]:
    """Return a row as it came, with a place for its label, and why it was chosen."""
    value = facts.input
    if is_mapping(value):
        row: dict[str, object] = {**value}
    else:
        row = {"text" if isinstance(value, str) else "messages": value}
    row.setdefault("id", facts.id if facts.id is not None else f"line-{facts.line}")
    return {**thaw(row), "label": None, "review": why}
