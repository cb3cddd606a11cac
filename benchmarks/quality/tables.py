"""What a section of the report is made of: tables of figures, contestant beside contestant; it measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.workflows.evaluation.figures import Interval

Figures = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the same texts, read by every contestant.

    Attributes:
        data: the set, or what was pooled.
        of: the type, category or language; empty for all.
        size: how many texts or stretches the figures are about.
        figures: one tuple a contestant, in the order of the table's measures; None where there is no figure.
    """

    data: str
    of: str
    size: int
    figures: Mapping[str, Figures]


@dataclass(slots=True)
class Table:
    """Lines with the same measures.

    Attributes:
        title: what they are about.
        measures: the names of the figures.
        lines: the lines.
    """

    title: str
    measures: tuple[str, ...]
    lines: list[Line] = field(default_factory=list[Line])

    def contestants(self) -> list[str]:
        """Return who has a figure, in the order of appearance."""
        return list(dict.fromkeys(name for line in self.lines for name in line.figures))

    def records(self) -> Iterator[dict[str, object]]:
        """Yield each figure of each contestant as a flat record, for programs."""
        for line in self.lines:
            for name, figures in line.figures.items():
                about: dict[str, object] = {"data": line.data, "of": line.of, "size": line.size, "contestant": name}
                yield about | dict(zip(self.measures, figures, strict=True))


@dataclass(slots=True)
class Section:
    """What was measured of one guardrail.

    Attributes:
        name: as ``--only`` takes it.
        tables: its tables.
        measured: our figures that there are goals for, by the goals' keys.
        intervals: between which values they lie in 95 of 100 samples of such texts, as far as that was computed.
        notes: what to know about the figures, a line each.
    """

    name: str
    tables: list[Table] = field(default_factory=list[Table])
    measured: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    intervals: dict[str, Interval | None] = field(default_factory=dict[str, "Interval | None"])
    notes: list[str] = field(default_factory=list[str])
