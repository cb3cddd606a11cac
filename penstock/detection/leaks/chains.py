"""Follows the words of a text along passages, over changed words too: what is taken from them, and what may yet be.

A chain links pairs of words that stand in both texts, in the same order and close to each other. It reads its text
once, from the front, so what it has decided depends on nothing that comes later.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.leaks.passages import ANCHOR
from penstock.detection.words import Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.detection.leaks.passages import Passages

GAP = 6
"""How many words between two pairs may be changed, on either side."""

FAR = 160
"""How many characters between two pairs are bridged."""

LONGEST = 1500
"""How many characters of a chain are decided at once; a longer one is decided piece by piece."""

_PENALTY = 0.25  # what each changed word costs


class Taken(NamedTuple):
    """A stretch that is taken from a passage, in places of the text.

    Attributes:
        start: where it begins.
        end: where it ends.
        worth: how many words it has in common, less one for each that was changed.
        need: how many were needed.
    """

    start: int
    end: int
    worth: float
    need: float


class Node(NamedTuple):
    """The best chain that ends with a pair of words: its score and start; and the best with an anchor in it."""

    score: float
    start: int
    anchored: float
    anchored_start: int
    run: int


class Live(NamedTuple):
    """The chains that end with a pair of the text, by place; the pair's number, its end and what its words count."""

    pair: int
    end: int
    worth: float
    nodes: dict[int, Node]


class Carried(NamedTuple):
    """Chains cut in two at a place: the word before it, and what goes on, counted from that word and place."""

    begin: int
    at: int
    word: str
    worth: float
    live: tuple[Live, ...]

    def resumed(self, words: Words) -> Words:
        """Return the words of a text that begins at the place, with the one before it."""
        counts = words.counts or (1.0,) * len(words.words)
        return Words([self.word, *words.words], [0, *words.starts], [0, *words.ends], [self.worth, *counts])


class Chains:
    """The chains in one text.

    Attributes:
        taken: what is taken, in order of discovery; stretches may overlap.
        cuts: the places where chains were cut because they are long.
    """

    def __init__(self, words: Words, passages: Passages, live: Sequence[Live] = ()) -> None:
        """Follow all chains; ``live`` are those that were cut before the first of the words."""
        self._words = words
        self._passages = passages
        self._live = list(live)
        self.taken: list[Taken] = []
        self.cuts: list[Carried] = []
        spelled = words.words
        for index, places in enumerate(map(passages.pairs.get, pairwise(spelled))):
            if places:
                self._visit(index, places)

    def hold(self, tail: int) -> int:
        """Return where the first chain begins that could still go on behind the last word; ``tail`` if none.

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
        if self._live and words.ends[index + 1] - self._first() > LONGEST:
            self._cut()
        first, second = (words.counts[index], words.counts[index + 1]) if words.counts else (1.0, 1.0)
        nodes = {at: self._node(index, at, first, second) for at in places}
        end = words.ends[index + 1]
        self._live.append(Live(index, end, second, nodes))
        for at, node in nodes.items():
            need = self._passages.needs[at]
            if node.anchored >= need:
                self.taken.append(Taken(node.anchored_start, end, node.anchored, need))

    def _node(self, index: int, at: int, first: float, second: float) -> Node:
        if self._live and self._live[-1].pair == index - 1:
            before = self._live[-1].nodes.get(at - 1)
            if before is not None:
                return _next(before, second)
        start = self._words.starts[index]
        best = Node(first + second, start, 0.0, start, 2)
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
        """Let all chains begin anew where the last pair ends, with the scores they have."""
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
        self.cuts.append(Carried(begin, last.end, self._words.words[word], count, ahead))


def _next(before: Node, count: float) -> Node:
    """Return a chain with the next word of its passage."""
    score, run = before.score + count, before.run + 1
    anchored, start = before.anchored + count if before.anchored else 0.0, before.anchored_start
    if run >= ANCHOR and score > anchored:
        anchored, start = score, before.start
    return Node(score, before.start, anchored, start, run)


def _better(best: Node, before: Node, cost: float, count: float) -> Node:
    """Return the better of a chain and one that goes on behind changed words."""
    score, start, anchored, anchored_start, run = best
    if before.score > cost and before.score - cost + count > score:
        score, start = before.score - cost + count, before.start
    if before.anchored > cost and before.anchored - cost + count > anchored:
        anchored, anchored_start = before.anchored - cost + count, before.anchored_start
    return Node(score, start, anchored, anchored_start, run)


def _begin(node: Node) -> int:
    return min(node.start, node.anchored_start)


def _lives(node: Node, count: float, behind: int) -> bool:
    """Tell whether a chain can go on when so many words are known behind the first of its last pair.

    The next pair begins with the last known word or later, and a chain skips fewer words than it has.
    """
    skipped = max(behind - 2, 0)
    return skipped <= GAP and skipped * count <= node.score


def _counted_from(live: Live, index: int, at: int) -> Live:
    nodes = {place: node._replace(start=0, anchored_start=0) for place, node in live.nodes.items()}
    return Live(live.pair - index, live.end - at, live.worth, nodes)
