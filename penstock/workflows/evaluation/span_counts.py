"""How the spans that were found in a text fit the labelled ones: exactly, by half, or at all; by type and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.workflows.evaluation.figures import ENOUGH, Counts, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.detection.spans import Span

ANY = ""
"""The type under which spans are compared whatever their types."""

TOUCHING = 1e-12
"""An overlap that any two spans have which share a character."""

NOTHING = Counts()


class SpanCounts(NamedTuple):
    """How often spans were right.

    Attributes:
        exact: where they begin and end where the labelled ones do.
        half: where they share at least half of what both cover together.
        touching: where they share a character.
    """

    exact: Counts = NOTHING
    half: Counts = NOTHING
    touching: Counts = NOTHING

    def plus(self, other: SpanCounts) -> SpanCounts:
        """Return the counts of both."""
        return SpanCounts(self.exact + other.exact, self.half + other.half, self.touching + other.touching)


def span_counts(found: Sequence[Span], labelled: Sequence[Span]) -> dict[str, SpanCounts]:
    """Return how the spans of one text fit, by type, and under `ANY` whatever their types."""
    if not found and not labelled:
        return {}
    by_type = _counted(found, labelled)
    return by_type | _counted(_untyped(found), _untyped(labelled))


def _untyped(spans: Iterable[Span]) -> list[Span]:
    """Return spans without types; those of two types at one place are one."""
    return [*dict.fromkeys(span._replace(type=ANY, score=1.0) for span in spans)]


def _counted(found: Sequence[Span], labelled: Sequence[Span]) -> dict[str, SpanCounts]:
    exact, half, touching = (matches(found, labelled, enough) for enough in (1.0, ENOUGH, TOUCHING))
    return {kind: SpanCounts(exact[kind], half[kind], touching[kind]) for kind in half}
