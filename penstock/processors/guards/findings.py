"""`Finding`: a stretch that a guard found, whoever found it, and `Book`, how far each finder has come in a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.values.frozen import Value


class Finding(NamedTuple):
    """A stretch that something was found in.

    Attributes:
        start: where it begins.
        end: where it ends.
        type: what was found.
        score: how sure that is, from 0 to 1.
        judge: the name of the model that found it; empty for the embedded detector.
        located: whether the stretch is what was found; if not, it stands somewhere in the stretch.
        encoded: whether the stretch says it behind a code.
    """

    start: int
    end: int
    type: str
    score: float = 1.0
    judge: str = ""
    located: bool = True
    encoded: bool = False


class Said(NamedTuple):
    """What a judge says that a text holds: a value of a type; None where it names the type alone."""

    type: str
    value: str | None
    score: float = 1.0


class Region(NamedTuple):
    """Findings that overlap, as one; the longest says what it is."""

    start: int
    end: int
    owner: Finding


@dataclass(slots=True)
class Progress:
    """How far a finder has come, in characters from the text's beginning, what it found, and its own notes."""

    at: int
    found: list[Finding] = field(default_factory=list[Finding])
    notes: dict[str, Value] = field(default_factory=dict[str, "Value"])

    def advance(self, spans: Iterable[Finding], base: int, hold: int, *, final: bool) -> None:
        """Note what was found, in characters of a window that begins at ``base``, and up to where all is decided."""
        for span in spans:
            if final or span.end <= hold:
                self.found.append(span._replace(start=span.start + base, end=span.end + base))
        self.at = base + hold


@dataclass(slots=True)
class Book:
    """The finders at work on one text; ``sentences``: where they end, if that matters; ``flagged``: if any did."""

    embedded: Progress
    encoded: Progress
    judged: Progress
    sentences: Progress
    flagged: bool = False

    @classmethod
    def begun(cls, at: int) -> Book:
        """Return the book of a text whose first undecided character stands there."""
        return cls(Progress(at), Progress(at), Progress(at), Progress(at))

    def forget(self, before: int) -> None:
        """Forget what was found before a place: it is decided."""
        for progress in (self.embedded, self.encoded, self.judged, self.sentences):
            progress.found = [item for item in progress.found if item.start >= before]

    def findings(self) -> list[Finding]:
        """Return all that was found and is not forgotten, in order."""
        return sorted(
            [*self.embedded.found, *self.encoded.found, *self.judged.found], key=lambda item: (item.start, item.end)
        )

    def settled(self, limit: int, *, by_sentence: bool) -> int:
        """Return the last place up to a limit that cuts no finding, and no sentence where that matters."""
        found = self.findings()
        while True:
            lower = min((item.start for item in found if item.start < limit < item.end), default=limit)
            if by_sentence:
                ends = [item.end for item in self.sentences.found]
                starts = [item.start for item in self.sentences.found]
                lower = max((end for end in ends if end <= lower), default=min(starts, default=lower))
            if lower == limit:
                return limit
            limit = lower


def of_spans(spans: Iterable[Span], *, encoded: bool = False) -> Iterator[Finding]:
    """Yield what an embedded detector found."""
    for span in spans:
        yield Finding(span.start, span.end, span.type, span.score, encoded=encoded)


def regions(found: Sequence[Finding]) -> list[Region]:
    """Return findings, in order, as stretches that do not overlap."""
    made: list[Region] = []
    for item in found:
        last = made[-1] if made else None
        if last is None or item.start >= last.end:
            made.append(Region(item.start, item.end, item))
            continue
        owner = max(last.owner, item, key=lambda one: (not one.located, one.end - one.start))
        coded = last.owner.encoded or item.encoded
        made[-1] = Region(last.start, max(last.end, item.end), owner._replace(encoded=coded))
    return made
