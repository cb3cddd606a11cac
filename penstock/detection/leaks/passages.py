"""Passages of secret texts, found by their words: an index of word pairs, chains of pairs, and what a scan may decide.

A chain links pairs of words that stand in both texts, in the same order and close to each other. Between two pairs,
words may be changed; those that stand in both texts count. It reads the text once, from the front, so nothing that it
has decided depends on text that comes later.
"""

from __future__ import annotations

from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.words import LONGEST, WordList, cut, has_letters, spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.encoded import HiddenStretches, StretchSeam
    from penstock.detection.words import PlainView


LEAST = 4
"""How many words a text has at least to be recognised by them; what is shorter, anybody may say."""

_ROW, _LONG_ROW = 4, 3  # words in a row that must stand in a passage, somewhere in what is taken from it …
_LONG = 17  # … the smaller number if they have so many characters: "one of the" says less than "front-end development"

_MASK = " ǂ "  # a word that no text holds; it comes through all variants
_APART = 16  # places between two texts, more than a chain of words ever skips
_MOST = 32  # places of one pair of words that are followed up; a passage that repeats itself is recognised by the rest


class Passages:
    """An index of word pairs in some texts, with what it takes to recognise each text.

    Attributes:
        pairs: the places of each two words that follow one another; places of different texts are far apart.
        firsts: the words with which a pair begins.
        anchors: the sequences of words of which one must be found: all of four words, and those of three long ones.
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

    def anchored(self, words: Iterable[str]) -> bool:
        """Return whether one of the anchors stands in a text with such words."""
        lettered = [word for word in words if word.isalpha() or has_letters(word)]  # most words need no second look
        return not self.anchors.isdisjoint(chain(rows(lettered, _ROW), rows(lettered, _LONG_ROW)))

    def _add(self, text: str, least: float) -> None:
        found = cut(text).lettered()
        words = [word if len(word) <= LONGEST else _MASK for word in found.words]
        base = len(self.needs)
        counted = sum(found.counts) if found.counts else len(words)
        if counted < LEAST or len(words) < LEAST:
            return
        for at, pair in enumerate(zip(words, islice(words, 1, None), strict=False), base):
            places = self.pairs.setdefault(pair, [])
            if len(places) < _MOST:
                places.append(at)
        self.anchors.update(rows(words, _ROW))
        self.anchors.update(row for row in rows(words, _LONG_ROW) if len("".join(row)) >= _LONG)
        self.words.extend([*words, *[""] * _APART])
        self.needs.extend([min(least, counted)] * (len(words) + _APART))


def rows(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
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


GAP = 8
"""How many words between two pairs are bridged, on either side."""

FAR = 160
"""How many characters between two pairs are bridged."""

LONGEST_CHAIN = 1500
"""How many characters of a chain are decided at once; a longer one is decided in several steps."""

_BRIDGED = 2  # words that are bridged, for each word that a chain has
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
    """The chains that end with a pair of the text.

    Attributes:
        pair: the pair's number.
        end: where the pair ends.
        worth: what its second word counts as, in words.
        begin: where the first of the chains begins.
        bridged: how many words the best of them bridges.
        nodes: the chains, by the pair's place in the passages.
    """

    pair: int
    end: int
    worth: float
    begin: int
    bridged: int
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
            skipped = last - live.pair - 2
            if skipped <= live.bridged and live.begin < held and tail - live.end <= FAR:
                least = skipped * live.worth / _BRIDGED
                held = min([held, *(_begin(node) for node in live.nodes.values() if node.score >= least)])
        return held

    def _visit(self, index: int, places: Sequence[int]) -> None:
        words = self._words
        begin, end = words.starts[index], words.ends[index + 1]
        self._live = [live for live in self._live if index - live.pair - 2 <= live.bridged and begin - live.end <= FAR]
        if self._live and end - self._first() > LONGEST_CHAIN:
            self._cut()
        first, second = (words.counts[index], words.counts[index + 1]) if words.counts else (1.0, 1.0)
        new = ChainNode(first + second, begin, 0.0, begin, 2)
        nodes = self._nodes(index, places, new, second) if self._live else dict.fromkeys(places, new)
        far = min(map(_begin, nodes.values())) if self._live else begin
        bridged = min(GAP, int(_BRIDGED * max(nodes.values()).score / second))
        self._live.append(LiveChains(index, end, second, far, bridged, nodes))
        for at, node in nodes.items():
            need = self._passages.needs[at]
            if node.anchored >= need:
                self.taken.append(TakenStretch(node.anchored_start, end, node.anchored, need))

    def _nodes(self, index: int, places: Sequence[int], new: ChainNode, second: float) -> dict[int, ChainNode]:
        """Return the best chains that end with a pair, by its place."""
        last = self._live[-1]
        direct = last.nodes if last.pair == index - 1 else {}
        longer: dict[ChainNode, ChainNode] = {}  # many chains of a passage that repeats itself are equal
        nodes: dict[int, ChainNode] = {}
        for at in places:
            before = direct.get(at - 1)
            if before is not None and before not in longer:
                longer[before] = self._next(before, at, second)
            nodes[at] = self._node(index, at, new) if before is None else longer[before]
        return nodes

    def _node(self, index: int, at: int, new: ChainNode) -> ChainNode:
        """Return the best chain that ends with a pair at a place, not with the one before it; ``new`` begins there."""
        best = new
        for live in reversed(self._live):  # the nearest first: what others can gain at most is then often too little
            skipped = index - live.pair - 2
            if skipped < 0:  # the pair before: a word is in both
                continue
            for missing in range(live.bridged + 1):
                before = live.nodes.get(at - 2 - missing)
                if before is None:
                    continue
                bridged, same = max(skipped, missing), min(skipped, missing)
                if bridged * live.worth <= _BRIDGED * before.score:
                    if same and _gains(best, before, _cost(bridged, same) * live.worth, new.score):
                        same = self._same(live.pair + 2, index, at - missing, at)
                    best = _better(best, before, _cost(bridged, same) * live.worth, new.score)
        return best

    def _next(self, before: ChainNode, at: int, count: float) -> ChainNode:
        """Return a chain with the next word of its passage, the second of the pair at a place."""
        score, run = before.score + count, before.run + 1
        anchored, start = before.anchored + count if before.anchored else 0.0, before.anchored_start
        if score > anchored and run >= _LONG_ROW and (run >= _ROW or self._is_long(at)):
            anchored, start = score, before.start
        return ChainNode(score, before.start, anchored, start, run)

    def _is_long(self, at: int) -> bool:
        """Return whether the pair at a place and the word before it are an anchor."""
        return tuple(self._passages.words[at - 1 : at + 2]) in self._passages.anchors

    def _same(self, begin: int, end: int, low: int, high: int) -> int:
        """Return how many words between two pairs stand in both texts, in the same order."""
        return in_common(self._words.words[begin:end], self._passages.words[low:high])

    def _first(self) -> int:
        return min(live.begin for live in self._live)

    def _cut(self) -> None:
        """Make all chains begin again where the last pair ends, with the scores that they have."""
        begin, last = self._first(), self._live[-1]
        word = last.pair + 1
        self._live = [
            live._replace(
                begin=last.end,
                nodes={at: node._replace(start=last.end, anchored_start=last.end) for at, node in live.nodes.items()},
            )
            for live in self._live
        ]
        count = self._words.counts[word] if self._words.counts else 1.0
        ahead = tuple(_counted_from(live, word, last.end) for live in self._live)
        self.cuts.append(CutChains(begin, last.end, self._words.words[word], count, ahead))


def in_common(words: Sequence[str], others: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by the algorithm of Hyyrö: a bit for each of the others."""
    places: dict[str, int] = {}
    for at, other in enumerate(others):
        places[other] = places.get(other, 0) | 1 << at
    row = full = (1 << len(others)) - 1
    for found in filter(None, map(places.get, words)):
        used = row & found
        row = (row + used) | (row - used)
    return (~row & full).bit_count()


def _cost(bridged: int, same: int) -> float:
    """Return what bridging words costs if so many of them stand in both texts."""
    return _PENALTY * (bridged - same) - same


def _gains(best: ChainNode, before: ChainNode, cost: float, count: float) -> bool:
    """Return whether a chain that goes on after changed words is better than the best."""
    gain = count - cost
    return before.score + gain > best.score or (before.anchored > 0 and before.anchored + gain > best.anchored)


def _better(best: ChainNode, before: ChainNode, cost: float, count: float) -> ChainNode:
    """Return the better of a chain and one that goes on after changed words."""
    score, start, anchored, anchored_start, run = best
    if before.score > cost and before.score - cost + count > score:
        score, start = before.score - cost + count, before.start
    if before.anchored > max(cost, 0.0) and before.anchored - cost + count > anchored:
        anchored, anchored_start = before.anchored - cost + count, before.anchored_start
    return ChainNode(score, start, anchored, anchored_start, run)


def _begin(node: ChainNode) -> int:
    return min(node.start, node.anchored_start)


def _counted_from(live: LiveChains, index: int, at: int) -> LiveChains:
    nodes = {place: node._replace(start=0, anchored_start=0) for place, node in live.nodes.items()}
    return live._replace(pair=live.pair - index, end=live.end - at, begin=0, nodes=nodes)


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
        return _united([*map(self._shown, set(self.chains.taken)), *hidden])

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
