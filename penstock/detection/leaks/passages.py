"""Passages of secret texts, found by their words: an index of word pairs, chains of pairs, and the decisions of a scan.

A chain links pairs of words that stand in both texts, in the same order and close to each other. Between two pairs,
words may be changed; those that stand in both texts count. It reads the text once, from the front, so nothing that it
has decided depends on text that comes later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.words import LONGEST, NO_WORDS, WordList, cut, has_letters, spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.slices import HiddenStretches, StretchSeam
    from penstock.detection.words import PlainView


LEAST = 4
"""How many words a text has at least to be recognised by them; what is shorter, anybody may say."""

_ROW, _LONG_ROW = 4, 3  # words in a row that must stand in a passage, somewhere in what is taken from it …
_LONG = 17  # … the smaller number if they have so many characters: "one of the" says less than "front-end development"

_MASK = " ǂ "  # a word that no text holds; it comes through all variants
_APART = 16  # places between two texts, more than a chain of words ever skips
_MOST = 32  # places of one pair of words that are followed up; a passage that repeats itself is recognised by the rest


class Passages:
    """An index of word pairs in some texts, with the data to recognise each text.

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

    def __deepcopy__(self, _: object) -> Passages:
        """Return itself: it does not change."""
        return self

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
"""How many characters between two pairs are bridged, and may stand between the words of a pair, such as numbers."""

LONGEST_CHAIN = 1500
"""How many characters of a chain are decided at once; a longer one is decided in several steps."""

LONG_HELD = 100
"""How many characters of chains may be read again with each piece of text that follows."""

_BRIDGED = 2  # words that are bridged, for each word that a chain has
LONE = 2 * _BRIDGED
"""How many words may follow a pair of words alone, if each counts as one, before it cannot go on any more."""

_PENALTY = 0.25  # what each changed word costs


class TakenStretch(NamedTuple):
    """A stretch of a text that is taken from a passage.

    Attributes:
        start: where it begins.
        end: where it ends.
        sure: how many words it has in common with the passage, less some for each that was changed, for each word that
            was needed.
    """

    start: int
    end: int
    sure: float


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


class ChainCut(NamedTuple):
    """A place at which chains were cut because they are long: their finding ends there, and they go on."""

    begin: int
    at: int


class WordChains:
    """The chains in one text, which may come in pieces: each word is read once.

    Attributes:
        taken: the stretches that are taken from passages, in order and disjoint.
        cuts: the places where chains were cut because they are long.
    """

    def __init__(self, passages: Passages) -> None:
        """Begin with a text."""
        self._passages = passages
        self._words = NO_WORDS  # the last ones
        self._number = 0  # of the first of them
        self._begin = 0  # where the text that is not decided begins
        self._live: list[LiveChains] = []
        self._ended: defaultdict[int, list[LiveChains]] = defaultdict(list)  # by the places where they end
        self.taken: list[TakenStretch] = []
        self.cuts: list[ChainCut] = []
        self._carried = False  # whether they have a part that is decided
        self._long = False  # whether they hold much text back

    def follow(self, words: WordList) -> None:
        """Follow the chains through those words with letters of the undecided text that were not read yet."""
        spelled, starts, ends, counts = words
        counts = counts or [1.0] * len(spelled)
        last, first = self._words, 0
        if last.words:
            read = bisect_right(starts, last.starts[-1] - self._begin)
            kept = max(len(last.words) - GAP - 1, 0)
            self._number += kept
            first = len(last.words) - kept - 1
            spelled = [*last.words[kept:], *spelled[read:]]
            starts = [*last.starts[kept:], *(at + self._begin for at in starts[read:])]
            ends = [*last.ends[kept:], *(at + self._begin for at in ends[read:])]
            counts = [*last.counts[kept:], *counts[read:]]
        self._words = WordList(spelled, starts, ends, counts)
        pairs = pairwise(islice(spelled, first, None) if first else spelled)
        for index, places in enumerate(map(self._passages.pairs.get, pairs), first):
            if places and starts[index + 1] - ends[index] <= FAR:
                self._visit(index, places)

    def hold(self, tail: int) -> int:
        """Return where the first chain begins that could go on after the last word; ``tail`` if there is none.

        ``tail`` is the place from which on words are not known.
        """
        tail += self._begin  # within, places are those of the whole text
        words, starts, ends, _ = self._words
        last = self._number + len(words) - 1
        held = tail
        if words and words[-1] in self._passages.firsts and tail - ends[-1] <= FAR:
            held = starts[-1]
        for live in self._live:
            skipped = last - live.pair - 2
            if skipped <= live.bridged and live.begin < held and tail - live.end <= FAR:
                least = skipped * live.worth / _BRIDGED
                held = min([held, *(_begin(node) for node in live.nodes.values() if node.score >= least)])
        self._long = tail - held > LONG_HELD
        return held - self._begin

    def decided(self, at: int) -> WordChains | None:
        """Let the text begin at a place, up to which it is decided; return None if the chains need not be kept.

        Those that were cut must be kept, and others are kept if much text would be read again without them.
        """
        self._carried = (self._carried and at == 0) or any(cut.at == at for cut in self.cuts)
        self._begin += at
        self.taken = [TakenStretch(start - at, end - at, sure) for start, end, sure in self.taken if start >= at]
        self.cuts = [ChainCut(cut.begin - at, cut.at - at) for cut in self.cuts if cut.at > at]
        return self if self._carried or self._long else None

    def _visit(self, index: int, places: Sequence[int]) -> None:
        words = self._words
        begin, end = words.starts[index], words.ends[index + 1]
        number = self._number + index
        self._live = [live for live in self._live if number - live.pair - 2 <= live.bridged and begin - live.end <= FAR]
        if self._live and end - self._first() > LONGEST_CHAIN:
            self._cut()
        first, second = words.counts[index], words.counts[index + 1]
        new = ChainNode(first + second, begin, 0.0, begin, 2)
        far, best, start, sure = begin, new.score, end, 0.0
        if self._live:
            nodes = self._nodes(index, places, new, second)
            needs = self._passages.needs
            for at, node in nodes.items():
                far, best = min(far, node.start, node.anchored_start), max(best, node.score)
                if node.anchored >= needs[at]:
                    start, sure = min(start, node.anchored_start), max(sure, node.anchored / needs[at])
        else:
            nodes = dict.fromkeys(places, new)
        self._add(LiveChains(number, end, second, far, min(GAP, int(_BRIDGED * best / second)), nodes))
        if sure:
            self._take(start - self._begin, end - self._begin, sure)

    def _take(self, start: int, end: int, sure: float) -> None:
        while self.taken and start < self.taken[-1].end:
            last = self.taken.pop()
            start, sure = min(start, last.start), max(sure, last.sure)
        self.taken.append(TakenStretch(start, end, sure))

    def _add(self, live: LiveChains) -> None:
        self._live.append(live)
        for at in live.nodes:
            ended = self._ended[at]
            if ended and live.pair - ended[0].pair > GAP + 2:  # it cannot go on any more
                del ended[0]
            ended.append(live)

    def _nodes(self, index: int, places: Sequence[int], new: ChainNode, second: float) -> dict[int, ChainNode]:
        """Return the best chains that end with a pair, by its place. Equal ones are one object."""
        last = self._live[-1]
        direct = last.nodes if last.pair == self._number + index - 1 else {}
        longer: dict[int, ChainNode] = {}
        bridging: dict[ChainNode, ChainNode] = {}
        nodes: dict[int, ChainNode] = {}
        for at in places:
            before = direct.get(at - 1)
            if before is None:
                node = self._bridging(index, at, new)
                nodes[at] = bridging.setdefault(node, node)
                continue
            if id(before) not in longer:
                longer[id(before)] = self._next(before, at, second)
            nodes[at] = longer[id(before)]
        return nodes

    def _bridging(self, index: int, at: int, new: ChainNode) -> ChainNode:
        """Return the best chain that ends with a pair at a place, not with the one before it; ``new`` begins there."""
        near = self._near(index, at, new.start)
        if not near:
            return new
        count, start, anchored, anchored_start, run = new
        score = count
        rows: Sequence[int] = ()
        for skipped, missing, live in near:
            before = live.nodes[at - 2 - missing]
            bridged, same = max(skipped, missing), min(skipped, missing)
            if bridged * live.worth > _BRIDGED * before.score:
                continue
            gain = count - _cost(bridged, same) * live.worth
            if same and (before.score + gain > score or before.anchored + gain > anchored):
                if not rows:
                    low, most = index - near[-1][0], max(missing for _, missing, _ in near)
                    rows = common_rows(self._words.words[low:index], self._passages.words[at - most : at])
                same = in_common(rows, skipped, missing)
                gain = count - _cost(bridged, same) * live.worth
            if before.score + gain > score:
                score, start = before.score + gain, before.start
            if before.anchored and before.anchored + gain > max(anchored, count):
                anchored, anchored_start = before.anchored + gain, before.anchored_start
        return ChainNode(score, start, anchored, anchored_start, run)

    def _near(self, index: int, at: int, begin: int) -> list[tuple[int, int, LiveChains]]:
        """Return the chains that a pair at a place may go on, each with the words between them in the text and there.

        The nearest are first: the possible gain of others is then often too small.
        """
        number, ended = self._number + index, self._ended
        near: list[tuple[int, int, LiveChains]] = []
        for place in range(at - GAP - 2, at - 1):
            if place in ended:
                missing = at - 2 - place
                for live in ended[place]:
                    skipped = number - live.pair - 2  # if below 0, it is the pair before: a word is in both
                    if 0 <= skipped <= live.bridged >= missing and begin - live.end <= FAR:
                        near.append((skipped, missing, live))
        near.sort()
        return near

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

    def _first(self) -> int:
        return min(live.begin for live in self._live)

    def _cut(self) -> None:
        """Make all chains begin again where the last pair ends, with the scores that they have."""
        at = self._live[-1].end
        self.cuts.append(ChainCut(self._first() - self._begin, at - self._begin))
        cut = [_begun_at(live, at) for live in self._live]
        self._live.clear()
        self._ended.clear()
        for live in cut:
            self._add(live)


def common_rows(words: Sequence[str], others: Sequence[str]) -> list[int]:
    """Return what `in_common` reads: for each number of words from the end, how they match the others.

    It is the algorithm of Hyyrö: a bit for each of the others, from the end, is 0 where the longest common subsequence
    grows.
    """
    places: dict[str, int] = {}
    for at, other in enumerate(reversed(others)):
        places[other] = places.get(other, 0) | 1 << at
    row = -1
    rows = [row]
    for word in reversed(words):
        used = row & places.get(word, 0)
        row = (row + used) | (row - used)
        rows.append(row)
    return rows


def in_common(rows: Sequence[int], count: int, others: int) -> int:
    """Return the length of the longest common subsequence of so many words from the end, and so many of the others."""
    return (~rows[count] & ((1 << others) - 1)).bit_count()


def _cost(bridged: int, same: int) -> float:
    """Return what bridging words costs if so many of them stand in both texts."""
    return _PENALTY * (bridged - same) - same


def _begun_at(live: LiveChains, at: int) -> LiveChains:
    """Return chains as if they began at a place."""
    moved = {id(node): node._replace(start=at, anchored_start=at) for node in live.nodes.values()}
    return live._replace(begin=at, nodes={place: moved[id(node)] for place, node in live.nodes.items()})


def _begin(node: ChainNode) -> int:
    return min(node.start, node.anchored_start)


_SURE = 2.0  # so many times the words that are needed make it certain


class ScanPosition(NamedTuple):
    """How a text goes on where it was cut: the chains of words, and the stretch, that go on there."""

    chains: WordChains | None = None
    stretch: StretchSeam | None = None


TEXT_START = ScanPosition()
"""The position at the beginning of a text, where nothing was cut."""


class ShownStretch(NamedTuple):
    """A stretch that shows something of a prompt, and how sure that is, from 0 to 1."""

    start: int
    end: int
    score: float


class LeakScan(NamedTuple):
    """The findings of one scan of a text, in places of that text.

    Attributes:
        hold: the place from which on more text could change it.
        chains: the chains of words.
        stretches: the stretches that do not read as words.
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
        taken = (
            ShownStretch(self.view.low(one.start), self.view.high(one.end), min(one.sure / _SURE, 1.0))
            for one in self.chains.taken
        )
        hidden = (ShownStretch(one.start, one.end, 1.0) for one in self.stretches.hidden)
        return _united([*taken, *hidden])

    def decided(self, shown: Sequence[ShownStretch]) -> tuple[int, ScanPosition]:
        """Return the last place up to which all is decided, and how the text goes on there; it cuts no character."""
        hold = self._lowered(shown)
        seams = self.stretches.seams
        seam = self.begun.stretch if hold == 0 else next((seam for seam in seams if seam.at == hold), None)
        return hold, ScanPosition(self.chains.decided(hold), seam)

    def _lowered(self, shown: Sequence[ShownStretch]) -> int:
        whole = [(one.start, one.end) for one in shown]
        whole += self.canaries
        whole += self.chains.cuts
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
