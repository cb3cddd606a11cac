"""Rank texts by a query with BM25 over names and descriptions, and suggest names that are spelt alike.

No library is used: scores equal those of Mastra (builtins.md §13.3) to the second decimal, names weigh more than
descriptions, and BM25 libraries do not split names such as ``searchTools`` or ``search_tools``.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import regex
from anyio import to_thread

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


K1 = 1.5
"""How soon further occurrences of a word stop to add to the score: the usual value, and Mastra's."""

B = 0.75
"""How much long texts are discounted, from 0 to 1: the usual value, and Mastra's."""

PART_OF_NAME = 2.0
"""The bonus for each word of the query that the name contains."""

WHOLE_NAME = 3.0
"""The bonus for the whole name in the query, on top of `PART_OF_NAME` for each word: 5 for a one-word name."""

SHORTEST_WORD = 2
SHORTEST_BEGINNING = 3
"""The shortest word, and the shortest prefix by which a name is found: ``in`` would find too many."""

LONGEST_QUERY = 4_000
MOST_WORDS = 200
"""The most characters and words of a query that count: the time grows with the words, for every text."""

LARGE_TEXT = 50_000
"""Texts of this many characters or more are ranked in a thread: it takes about 20 ms."""

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+[+#]*|[+#]+[\p{L}\p{M}\p{N}]+")  # c++ is a word; `re` would split Hindi words
_CAMEL = deferred(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCRIPT_RUNS = deferred(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_IDEOGRAPH = deferred(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class RankedText(NamedTuple):
    """A text that matches a query.

    Attributes:
        place: the index of the text.
        score: above 0, without an upper limit; only scores of the same query can be compared.
    """

    place: int
    score: float


@dataclass(frozen=True, slots=True)
class _Document:
    """A name, and the words of the name and its description."""

    name: str
    name_words: tuple[str, ...]
    counts: Counter[str]
    length: int


class TextIndex:
    """Names with their descriptions, prepared for search. Immutable."""

    __slots__ = ("_average", "_documents", "_frequencies")

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._documents = [_document(name, text) for name, text in texts]
        self._frequencies = Counter(word for document in self._documents for word in document.counts)
        lengths = sum(document.length for document in self._documents)
        self._average = lengths / len(self._documents) if lengths else 1.0

    def search(self, query: str) -> list[RankedText]:
        """Return the texts that match a query, the best first; equal ones in the given order."""
        query_text = query[:LONGEST_QUERY]
        words, terms = tuple(islice(words_of(query_text), MOST_WORDS)), tuple(islice(_terms(query_text), MOST_WORDS))
        weights = {term: self._rarity(term) for term in terms if term in self._frequencies}
        scored = (self._score(document, words, terms, weights) for document in self._documents)
        hits = [RankedText(place, score) for place, score in enumerate(scored) if score > 0]
        return sorted(hits, key=lambda hit: -hit.score)

    def _rarity(self, term: str) -> float:
        having = self._frequencies[term]
        return math.log(1 + (len(self._documents) - having + 0.5) / (having + 0.5))

    def _score(
        self, document: _Document, words: Sequence[str], terms: Sequence[str], weights: dict[str, float]
    ) -> float:
        saturation = K1 * (1 - B + B * document.length / self._average)
        score = sum(
            weights[term] * document.counts[term] * (K1 + 1) / (document.counts[term] + saturation)
            for term in terms
            if term in document.counts
        )
        if not score and not any(_starts_name(word, document) for word in words):
            return 0.0
        parts = sum(word in document.name for word in words)
        return score + PART_OF_NAME * parts + WHOLE_NAME * _times_named(document.name_words, words)


async def ranked_texts(query: str, texts: Iterable[tuple[str, str]]) -> list[RankedText]:
    """Return which names and descriptions match a query, the best first. Large inputs are ranked in a worker thread."""
    given = tuple(texts)
    if sum(len(text) for _, text in given) < LARGE_TEXT:
        return text_index(given).search(query)
    return await to_thread.run_sync(_search, given, query, abandon_on_cancel=True)


def _search(texts: tuple[tuple[str, str], ...], query: str) -> list[RankedText]:
    return text_index(texts).search(query)


@lru_cache(maxsize=16)
def text_index(texts: tuple[tuple[str, str], ...]) -> TextIndex:
    """Return the index of names and descriptions; recent ones are cached."""
    return TextIndex(texts)


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case; camel case is split."""
    for word in _WORD.findall(text):
        for part in _CAMEL.split(word):
            yield from (piece for piece in _pieces(part.lower()) if len(piece) >= SHORTEST_WORD)


def _terms(text: str) -> Iterator[str]:
    """Yield the search terms of a name or a query: its words, and words in camel case also unsplit."""
    for word in _WORD.findall(text):
        whole = list(_pieces(word.lower()))
        yield from (piece for piece in whole if len(piece) >= SHORTEST_WORD)
        if _CAMEL.search(word):
            yield from words_of(word)


def _plain_words(text: str) -> Iterator[str]:
    """Yield the words of a description; camel case is not split (GitHub is one word)."""
    for word in _WORD.findall(text):
        yield from (piece for piece in _pieces(word.lower()) if len(piece) >= SHORTEST_WORD)


def _pieces(word: str) -> Iterator[str]:
    """Yield a word; text in scripts without spaces is split into overlapping pairs of characters."""
    if not _IDEOGRAPH.search(word):
        yield word
        return
    for run in _SCRIPT_RUNS.findall(word):
        if _IDEOGRAPH.match(run) and len(run) > SHORTEST_WORD:
            yield from (run[at : at + SHORTEST_WORD] for at in range(len(run) - 1))
        else:
            yield run


def _document(name: str, text: str) -> _Document:
    counts = Counter([*_terms(name), *_plain_words(text)])
    return _Document(name.lower(), tuple(words_of(name)), counts, counts.total())


def _starts_name(word: str, document: _Document) -> bool:
    return len(word) >= SHORTEST_BEGINNING and any(own.startswith(word) for own in document.name_words)


def _times_named(name: Sequence[str], words: Sequence[str]) -> int:
    """Return how often the words of a name occur in the query in sequence."""
    size = len(name)
    return sum(words[at : at + size] == name for at in range(len(words) - size + 1)) if size else 0


MOST = 3
"""The most names that are suggested (as in Mastra, builtins.md §13.2)."""

_LONGEST = 200  # characters: a longer text is not a misspelt name
_CLOSE = 0.75  # one error in a name of four letters, two in one of eight


def similar_names(meant: str, names: Iterable[str]) -> list[str]:
    """Return up to `MOST` names that contain a name or are contained in it, otherwise names that are spelt alike."""
    known = list(names)
    said = meant.strip().casefold()
    if not said or len(said) > _LONGEST:
        return []
    holding = [name for name in known if said in name.casefold() or name.casefold() in said]
    return (holding or difflib.get_close_matches(meant, known, n=MOST, cutoff=_CLOSE))[:MOST]
