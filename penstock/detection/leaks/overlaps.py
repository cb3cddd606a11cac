"""What of a look at a text is settled, and where the next look begins. It looks at no text itself."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.encoded.stretches import Judged, Seam
    from penstock.detection.leaks.chains import Carried, Chains, Taken
    from penstock.detection.words import Words

_SURE = 2.0  # so many times the words that are needed make it certain


class Place(NamedTuple):
    """How a text goes on where it was cut: chains of words, and a stretch."""

    chains: Carried | None = None
    stretch: Seam | None = None


FRESH = Place()
"""Nothing was cut."""


class Shown(NamedTuple):
    """A stretch that shows something, and how sure that is, from 0 to 1."""

    start: int
    end: int
    score: float


class Look(NamedTuple):
    """What one look at a text found, in its places.

    Attributes:
        hold: from where on more text could change it.
        chains: the chains of words.
        stretches: what is not words.
        canaries: where canaries stand.
        words: the words.
        begun: how the text began.
    """

    hold: int
    chains: Chains
    stretches: Judged
    canaries: Sequence[tuple[int, int]]
    words: Words
    begun: Place

    def shown(self) -> list[Shown]:
        """Return what shows a prompt, in order and disjoint."""
        hidden = (Shown(low, high, 1.0) for low, high in self.stretches.hidden)
        return _united([*map(_shown, self.chains.taken), *hidden])

    def settled(self, shown: Sequence[Shown]) -> tuple[int, Place]:
        """Return the last place up to which all is settled, and how the text goes on there."""
        hold = self._lowered(shown)
        if hold == 0:
            return 0, self.begun
        chains = next((cut for cut in self.chains.cuts if cut.at == hold), None)
        return hold, Place(chains, next((seam for seam in self.stretches.seams if seam.at == hold), None))

    def _lowered(self, shown: Sequence[Shown]) -> int:
        whole = [(one.start, one.end) for one in shown]
        whole += self.canaries
        whole += ((cut.begin, cut.at) for cut in self.chains.cuts)
        whole += self._pieces()
        hold, before = self.hold, -1
        while hold != before:
            before = hold
            hold = min((low for low, high in whole if low < hold < high), default=self.words.begin(hold))
        return hold

    def _pieces(self) -> Iterator[tuple[int, int]]:
        seams = [seam.at for seam in self.stretches.seams]
        for start, end, _ in self.stretches.found:
            places = [start, *(at for at in seams if start < at < end), end]
            yield from pairwise(places)


def _shown(taken: Taken) -> Shown:
    return Shown(taken.start, taken.end, min(taken.worth / (taken.need * _SURE), 1.0))


def _united(shown: Iterable[Shown]) -> list[Shown]:
    united: list[Shown] = []
    for one in sorted(shown):
        last = united[-1] if united else None
        if last is not None and one.start < last.end:
            united[-1] = Shown(last.start, max(last.end, one.end), max(last.score, one.score))
        else:
            united.append(one)
    return united
