"""Which texts a query is about, by BM25 over names and descriptions; it knows no tools and no skills.

Own code, though there are libraries: the figures are the reference's (builtins.md §13.3) down to the second decimal,
names weigh more than what is said about them, and no library of BM25 splits names as names are written.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import regex
from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

K1 = 1.5
"""How soon more of a word in a text counts no more: the usual figure, and the reference's."""

B = 0.75
"""How much a long text is worth less, from 0 to 1: the usual figure, and the reference's."""

PART_OF_NAME = 2.0
"""What a word of the query adds that the name has in it."""

WHOLE_NAME = 3.0
"""What the query adds that says the whole name, beside `PART_OF_NAME` for each of its words: 5 for a name of one."""

SHORTEST_WORD = 2
SHORTEST_BEGINNING = 3
"""How long a word must be to count, and to find a name by its beginning alone: ``in`` begins too many."""

LONGEST_QUERY = 4_000
MOST_WORDS = 200
"""How many characters and words of a query count: it takes as long as it has words, for every text."""

MUCH = 50_000
"""From how many characters on a text is read in a thread: some 20 ms of reading."""

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+[+#]*|[+#]+[\p{L}\p{M}\p{N}]+")  # c++ is a word; `re` parts Hindi
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNPARTED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class Hit(NamedTuple):
    """A text that a query is about.

    ``score`` is above 0 and has no upper end; it is of use to compare hits of one query, and nothing else.
    """

    place: int
    score: float


@dataclass(frozen=True, slots=True)
class _Document:
    """A name and the words of it and of what is said about it."""

    name: str
    name_words: tuple[str, ...]
    counts: Counter[str]
    length: int


class Index:
    """Names with what is said about them, ready to be searched. It does not change."""

    __slots__ = ("_average", "_documents", "_frequencies")

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._documents = [_document(name, text) for name, text in texts]
        self._frequencies = Counter(word for document in self._documents for word in document.counts)
        lengths = sum(document.length for document in self._documents)
        self._average = lengths / len(self._documents) if lengths else 1.0

    def search(self, query: str) -> list[Hit]:
        """Return what the query is about, the best first; equals in the order in which they were given."""
        asked = query[:LONGEST_QUERY]
        words, terms = tuple(islice(spoken(asked), MOST_WORDS)), tuple(islice(_terms(asked), MOST_WORDS))
        weights = {term: self._rarity(term) for term in terms if term in self._frequencies}
        scored = (self._scored(document, words, terms, weights) for document in self._documents)
        hits = [Hit(place, score) for place, score in enumerate(scored) if score > 0]
        return sorted(hits, key=lambda hit: -hit.score)

    def _rarity(self, term: str) -> float:
        having = self._frequencies[term]
        return math.log(1 + (len(self._documents) - having + 0.5) / (having + 0.5))

    def _scored(
        self, document: _Document, words: Sequence[str], terms: Sequence[str], weights: dict[str, float]
    ) -> float:
        saturation = K1 * (1 - B + B * document.length / self._average)
        score = sum(
            weights[term] * document.counts[term] * (K1 + 1) / (document.counts[term] + saturation)
            for term in terms
            if term in document.counts
        )
        if not score and not any(_begins(word, document) for word in words):
            return 0.0
        parts = sum(word in document.name for word in words)
        return score + PART_OF_NAME * parts + WHOLE_NAME * _times_said(document.name_words, words)


async def hits_of(query: str, texts: Iterable[tuple[str, str]]) -> list[Hit]:
    """Return which of the names with what is said about them a query is about, the best first.

    Where there is much to read, that is done in a worker thread.
    """
    given = tuple(texts)
    if sum(len(text) for _, text in given) < MUCH:
        return index_of(given).search(query)
    return await to_thread.run_sync(_searched, given, query, abandon_on_cancel=True)


def _searched(texts: tuple[tuple[str, str], ...], query: str) -> list[Hit]:
    return index_of(texts).search(query)


@lru_cache(maxsize=16)
def index_of(texts: tuple[tuple[str, str], ...]) -> Index:
    """Return the index of names with what is said about them; those of late are kept."""
    return Index(texts)


def spoken(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case; names in camel case are several words."""
    for word in _WORD.findall(text):
        for part in _CAMEL.split(word):
            yield from (piece for piece in _pieces(part.lower()) if len(piece) >= SHORTEST_WORD)


def _terms(text: str) -> Iterator[str]:
    """Yield what a name or a query is found by: its words, and those in camel case whole, too."""
    for word in _WORD.findall(text):
        whole = list(_pieces(word.lower()))
        yield from (piece for piece in whole if len(piece) >= SHORTEST_WORD)
        if _CAMEL.search(word):
            yield from spoken(word)


def _plain(text: str) -> Iterator[str]:
    """Yield the words of a description: GitHub is one."""
    for word in _WORD.findall(text):
        yield from (piece for piece in _pieces(word.lower()) if len(piece) >= SHORTEST_WORD)


def _pieces(word: str) -> Iterator[str]:
    """Yield a word; of what is written without blanks, each two signs that follow each other."""
    if not _IDEOGRAPH.search(word):
        yield word
        return
    for run in _UNPARTED.findall(word):
        if _IDEOGRAPH.match(run) and len(run) > SHORTEST_WORD:
            yield from (run[at : at + SHORTEST_WORD] for at in range(len(run) - 1))
        else:
            yield run


def _document(name: str, text: str) -> _Document:
    counts = Counter([*_terms(name), *_plain(text)])
    return _Document(name.lower(), tuple(spoken(name)), counts, counts.total())


def _begins(word: str, document: _Document) -> bool:
    return len(word) >= SHORTEST_BEGINNING and any(own.startswith(word) for own in document.name_words)


def _times_said(name: Sequence[str], words: Sequence[str]) -> int:
    """Return how often the words of a name stand in the query, one behind the other."""
    size = len(name)
    return sum(words[at : at + size] == name for at in range(len(words) - size + 1)) if size else 0
