"""Passages of secret texts, found by their words: an index of word pairs, chains of pairs, and what a scan may decide.

A chain links pairs of words that stand in both texts, in the same order and close to each other, over changed words
too. It reads the text once, from the front, so nothing that it has decided depends on text that comes later.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.words import LONGEST, WordList, cut, spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.encoded import HiddenStretches, StretchSeam
    from penstock.detection.words import PlainView


ANCHOR = 4
"""How many words in a row must stand in a passage, somewhere in what is taken from it."""

_MASK = " ǂ "  # a word that no text holds; it comes through all variants
_SHORT = 4  # words that a text has at least to be recognised by them; what is shorter, anybody may say
_APART = 16  # places between two texts, more than a chain of words ever skips
_MOST = 32  # places of one pair of words that are followed up; a passage that repeats itself is recognised by the rest


class Passages:
    """An index of word pairs in some texts, with what it takes to recognise each text.

    Attributes:
        pairs: the places of each two words that follow one another; places of different texts are far apart.
        firsts: the words with which a pair begins.
        anchors: all sequences of `ANCHOR` words.
        needs: how many words must be found, by place.
        words: the words, by place.
    """

    def __init__(self, texts: Iterable[str], least: float) -> None:
        """Index texts in small letters; ``least`` words of each must be found, or all if it has fewer."""
        self.pairs: dict[tuple[str, str], list[int]] = {}
        self.anchors: set[tuple[str, ...]] = set()
        self.needs: list[float] = []
        self.words: list[str] = []
        for text in texts:
            self._add(text, least)
        self.firsts = frozenset(first for first, _ in self.pairs)

    def __bool__(self) -> bool:
        """Return whether there is anything to recognise."""
        return bool(self.anchors)

    def _add(self, text: str, least: float) -> None:
        found = cut(text).lettered()
        words = [word if len(word) <= LONGEST else _MASK for word in found.words]
        base = len(self.needs)
        counted = sum(found.counts) if found.counts else len(words)
        if counted < _SHORT or len(words) < ANCHOR:
            return
        for at, pair in enumerate(zip(words, islice(words, 1, None), strict=False), base):
            places = self.pairs.setdefault(pair, [])
            if len(places) < _MOST:
                places.append(at)
        self.anchors.update(rows(words))
        self.words.extend([*words, *[""] * _APART])
        self.needs.extend([min(least, counted)] * (len(words) + _APART))


def rows(words: Sequence[str], length: int = ANCHOR) -> Iterator[tuple[str, ...]]:
    """Return all sequences of a number of words."""
    return zip(*(islice(words, by, None) for by in range(length)), strict=False)


def masked(text: str, quotable: Iterable[str], least: int) -> str:
    """Return a text in which the words that stand in quotable texts are made unrecognisable and keep their places.

    Both are in small letters. Only ``least`` words or more in a row count, or the whole of a quotable text.
    """
    found = cut(text)
    gone: set[int] = set()
    for other in quotable:
        spelled = spellings(other)
        length = min(least, len(spelled))
        known = set(rows(spelled, length))
        for at, row in enumerate(rows(found.words, length)):
            if row in known:
                gone.update(range(at, at + length))
    pieces: list[str] = []
    done = 0
    for at in sorted(gone):
        pieces += [text[done : max(found.starts[at], done)], _MASK]
        done = max(found.ends[at], done)
    return "".join([*pieces, text[done:]])


GAP = 6
"""How many words between two pairs may be changed, on either side."""

FAR = 160
"""How many characters between two pairs are bridged."""

LONGEST_CHAIN = 1500
"""How many characters of a chain are decided at once; a longer one is decided in several steps."""

_PENALTY = 0.25  # what each changed word costs


class TakenStretch(NamedTuple):
    """A stretch of a text that is taken from a passage.

    Attributes:
        start: where it begins.
        end: where it ends.
        worth: how many words it has in common with the passage, less one for each that was changed.
        need: how many were needed.
    """

    start: int
    end: int
    worth: float
    need: float


class ChainNode(NamedTuple):
    """The best chain that ends with a pair of words, with its score and start; and the best with an anchor in it."""

    score: float
    start: int
    anchored: float
    anchored_start: int
    run: int


class LiveChains(NamedTuple):
    """The chains that end with a pair of the text, by place; with the pair's number, end and weight in words."""

    pair: int
    end: int
    worth: float
    nodes: dict[int, ChainNode]


class CutChains(NamedTuple):
    """Chains that were cut at a place: the word before the place, and the chains that go on, counted from that word."""

    begin: int
    at: int
    word: str
    worth: float
    live: tuple[LiveChains, ...]

    def resumed(self, words: WordList) -> WordList:
        """Return the words of a text that begins at the place, with the word before it."""
        counts = words.counts or (1.0,) * len(words.words)
        return WordList([self.word, *words.words], [0, *words.starts], [0, *words.ends], [self.worth, *counts])


class WordChains:
    """The chains in one text.

    Attributes:
        taken: the stretches that are taken from passages, in order of discovery; they may overlap.
        cuts: the places where chains were cut because they are long.
    """

    def __init__(self, words: WordList, passages: Passages, live: Sequence[LiveChains] = ()) -> None:
        """Follow all chains; ``live`` are those that were cut before the first of the words."""
        self._words = words
        self._passages = passages
        self._live = list(live)
        self.taken: list[TakenStretch] = []
        self.cuts: list[CutChains] = []
        spelled = words.words
        for index, places in enumerate(map(passages.pairs.get, pairwise(spelled))):
            if places:
                self._visit(index, places)

    def hold(self, tail: int) -> int:
        """Return where the first chain begins that could go on after the last word; ``tail`` if there is none.

        ``tail`` is the place from which on words are not known.
        """
        words, _, ends, _ = self._words
        last = len(words) - 1
        held = tail
        if last >= 0 and words[last] in self._passages.firsts and tail - ends[last] <= FAR:
            held = self._words.starts[last]
        for live in self._live:
            if tail - live.end <= FAR:
                held = min(
                    [
                        held,
                        *(_begin(node) for node in live.nodes.values() if _lives(node, live.worth, last - live.pair)),
                    ]
                )
        return held

    def _visit(self, index: int, places: Sequence[int]) -> None:
        words = self._words
        begin = words.starts[index]
        self._live = [live for live in self._live if index - live.pair <= GAP + 2 and begin - live.end <= FAR]
        if self._live and words.ends[index + 1] - self._first() > LONGEST_CHAIN:
            self._cut()
        first, second = (words.counts[index], words.counts[index + 1]) if words.counts else (1.0, 1.0)
        nodes = {at: self._node(index, at, first, second) for at in places}
        end = words.ends[index + 1]
        self._live.append(LiveChains(index, end, second, nodes))
        for at, node in nodes.items():
            need = self._passages.needs[at]
            if node.anchored >= need:
                self.taken.append(TakenStretch(node.anchored_start, end, node.anchored, need))

    def _node(self, index: int, at: int, first: float, second: float) -> ChainNode:
        if self._live and self._live[-1].pair == index - 1:
            before = self._live[-1].nodes.get(at - 1)
            if before is not None:
                return _next(before, second)
        start = self._words.starts[index]
        best = ChainNode(first + second, start, 0.0, start, 2)
        for live in self._live:
            skipped = index - live.pair - 2
            if skipped >= 0:
                for missing in range(GAP + 1):
                    before = live.nodes.get(at - 2 - missing)
                    if before is not None and max(skipped, missing) * live.worth <= before.score:
                        same = self._same(live.pair + 2, at - missing, skipped) if skipped == missing else 0
                        cost = (_PENALTY * (max(skipped, missing) - same) - same) * live.worth
                        best = _better(best, before, cost, first + second)
        return best

    def _same(self, index: int, at: int, length: int) -> int:
        """Return how many of the words between two pairs stand in both texts."""
        words, own = self._words.words, self._passages.words
        return sum(words[index + by] == own[at + by] for by in range(length))

    def _first(self) -> int:
        return min(_begin(node) for live in self._live for node in live.nodes.values())

    def _cut(self) -> None:
        """Make all chains begin again where the last pair ends, with the scores that they have."""
        begin, last = self._first(), self._live[-1]
        word = last.pair + 1
        self._live = [
            live._replace(
                nodes={at: node._replace(start=last.end, anchored_start=last.end) for at, node in live.nodes.items()}
            )
            for live in self._live
        ]
        count = self._words.counts[word] if self._words.counts else 1.0
        ahead = tuple(_counted_from(live, word, last.end) for live in self._live)
        self.cuts.append(CutChains(begin, last.end, self._words.words[word], count, ahead))


def _next(before: ChainNode, count: float) -> ChainNode:
    """Return a chain with the next word of its passage."""
    score, run = before.score + count, before.run + 1
    anchored, start = before.anchored + count if before.anchored else 0.0, before.anchored_start
    if run >= ANCHOR and score > anchored:
        anchored, start = score, before.start
    return ChainNode(score, before.start, anchored, start, run)


def _better(best: ChainNode, before: ChainNode, cost: float, count: float) -> ChainNode:
    """Return the better of a chain and one that goes on after changed words."""
    score, start, anchored, anchored_start, run = best
    if before.score > cost and before.score - cost + count > score:
        score, start = before.score - cost + count, before.start
    if before.anchored > cost and before.anchored - cost + count > anchored:
        anchored, anchored_start = before.anchored - cost + count, before.anchored_start
    return ChainNode(score, start, anchored, anchored_start, run)


def _begin(node: ChainNode) -> int:
    return min(node.start, node.anchored_start)


def _lives(node: ChainNode, count: float, behind: int) -> bool:
    """Return whether a chain can go on if so many words are known after the first of its last pair.

    The next pair begins with the last known word or later, and a chain skips fewer words than it has.
    """
    skipped = max(behind - 2, 0)
    return skipped <= GAP and skipped * count <= node.score


def _counted_from(live: LiveChains, index: int, at: int) -> LiveChains:
    nodes = {place: node._replace(start=0, anchored_start=0) for place, node in live.nodes.items()}
    return LiveChains(live.pair - index, live.end - at, live.worth, nodes)


_SURE = 2.0  # so many times the words that are needed make it certain


class ScanPosition(NamedTuple):
    """How a text goes on where it was cut: the chains of words, and the stretch, that go on there."""

    chains: CutChains | None = None
    stretch: StretchSeam | None = None


TEXT_START = ScanPosition()
"""The position at the beginning of a text, where nothing was cut."""


class ShownStretch(NamedTuple):
    """A stretch that shows something of a prompt, and how sure that is, from 0 to 1."""

    start: int
    end: int
    score: float


class LeakScan(NamedTuple):
    """What one scan of a text found, in places of that text.

    Attributes:
        hold: the place from which on more text could change it.
        chains: the chains of words.
        stretches: what does not read as words.
        canaries: the places of canaries.
        words: the words.
        begun: how the text began.
        view: the text.
    """

    hold: int
    chains: WordChains
    stretches: HiddenStretches
    canaries: Sequence[tuple[int, int]]
    words: WordList
    begun: ScanPosition
    view: PlainView

    def shown(self) -> list[ShownStretch]:
        """Return what shows a prompt, in order and disjoint."""
        hidden = (ShownStretch(one.start, one.end, 1.0) for one in self.stretches.hidden)
        return _united([*map(self._shown, self.chains.taken), *hidden])

    def _shown(self, taken: TakenStretch) -> ShownStretch:
        sure = min(taken.worth / (taken.need * _SURE), 1.0)
        return ShownStretch(self.view.low(taken.start), self.view.high(taken.end), sure)

    def decided(self, shown: Sequence[ShownStretch]) -> tuple[int, ScanPosition]:
        """Return the last place up to which all is decided, and how the text goes on there; it cuts no character."""
        hold = self._lowered(shown)
        if hold == 0:
            return 0, self.begun
        chains = next((cut for cut in self.chains.cuts if cut.at == hold), None)
        return hold, ScanPosition(chains, next((seam for seam in self.stretches.seams if seam.at == hold), None))

    def _lowered(self, shown: Sequence[ShownStretch]) -> int:
        whole = [(one.start, one.end) for one in shown]
        whole += self.canaries
        whole += ((cut.begin, cut.at) for cut in self.chains.cuts)
        whole += self._pieces()
        hold, before = self.hold, -1
        while hold != before:
            before = hold
            hold = self.view.low(hold)
            hold = min((low for low, high in whole if low < hold < high), default=self.words.begin(hold))
        return hold

    def _pieces(self) -> Iterator[tuple[int, int]]:
        seams = [seam.at for seam in self.stretches.seams]
        for start, end, _ in self.stretches.found:
            places = [start, *(at for at in seams if start < at < end), end]
            yield from pairwise(places)


def _united(shown: Iterable[ShownStretch]) -> list[ShownStretch]:
    united: list[ShownStretch] = []
    for one in sorted(shown):
        last = united[-1] if united else None
        if last is not None and one.start < last.end:
            united[-1] = ShownStretch(last.start, max(last.end, one.end), max(last.score, one.score))
        else:
            united.append(one)
    return united
