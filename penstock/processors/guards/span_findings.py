"""`SpanFinding`: a stretch of a text in which a guard found something; and how findings that overlap become one."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.edits import Edit, apply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.spans import Span

NOTHING = ""
"""The type of a finding that only makes an action report that a text holds nothing."""

_PLACE = itemgetter(0, 1)


class SpanFinding(NamedTuple):
    """A stretch of a text in which something was found.

    Attributes:
        start: where it begins, in characters.
        end: where it ends.
        type: what was found.
        score: how sure that is, from 0 to 1.
        judge: the name of the model that found it; empty for detectors.
        detector: the name of the user's own detector that found it; empty for the embedded one.
        located: whether the stretch is what was found; if not, what was found stands somewhere in the stretch.
        encoded: whether the stretch is encoded text.
    """

    start: int
    end: int
    type: str
    score: float = 1.0
    judge: str = ""
    detector: str = ""
    located: bool = True
    encoded: bool = False


class JudgedValue(NamedTuple):
    """A value that a judge names: its type, the value itself (None if the judge names only the type), its score."""

    type: str
    value: str | None
    score: float = 1.0


class FindingGroup(NamedTuple):
    """Findings that overlap, as one stretch.

    ``owner`` is the longest of them; it gives the type. ``action`` is the strategy for them.
    """

    start: int
    end: int
    owner: SpanFinding
    action: str = ""


def to_findings(spans: Iterable[Span], *, encoded: bool = False) -> Iterator[SpanFinding]:
    """Yield the spans of an embedded detector as findings."""
    for span in spans:
        yield SpanFinding(span.start, span.end, span.type, span.score, encoded=encoded)


def group_findings(found: Sequence[SpanFinding], action: str = "") -> list[FindingGroup]:
    """Return findings, which are in order, as stretches that do not overlap; ``action`` is the strategy for them."""
    made: list[FindingGroup] = []
    for item in _told_apart(found):
        last = made[-1] if made else None
        if last is None or item.start >= last.end:
            made.append(FindingGroup(item.start, item.end, item, action))
            continue
        owner = max(last.owner, item, key=lambda one: (not one.located, one.end - one.start))
        encoded = last.owner.encoded or item.encoded
        made[-1] = FindingGroup(last.start, max(last.end, item.end), owner._replace(encoded=encoded), action)
    return made


def _told_apart(found: Sequence[SpanFinding]) -> Iterator[SpanFinding]:
    """Yield findings; one in encoded text that lies within one in the text as it is written counts as plain, too."""
    if not any(item.encoded for item in found):
        yield from found
        return
    plain = sorted((item.start, item.end) for item in found if not item.encoded)
    starts = [start for start, _ in plain]
    reach = [0, *itertools.accumulate((end for _, end in plain), max)]  # the furthest end among those before each
    for item in found:
        known = item.encoded and item.end <= reach[bisect_right(starts, item.start)]
        yield item._replace(encoded=False) if known else item


def confirmed(found: Sequence[SpanFinding]) -> list[SpanFinding]:
    """Return the judge's findings, and those of the embedded detector that one of the user's own of a type overlaps."""
    theirs: dict[str, list[SpanFinding]] = {}
    for item in found:
        if item.detector:
            theirs.setdefault(item.type, []).append(item)
    return [
        item
        for item in found
        if item.judge
        or (
            not item.detector
            and any(one.start < item.end and item.start < one.end for one in theirs.get(item.type, ()))
        )
    ]


def hide_spans(text: str, spans: Iterable[Span]) -> str:
    """Return a text with spans replaced by the names of their types, as a judge is shown it: ``[EMAIL]``."""
    made = group_findings(sorted(to_findings(spans), key=_PLACE))
    return apply(text, tuple(Edit(item.start, item.end, f"[{item.owner.type.upper()}]", "redact") for item in made))
