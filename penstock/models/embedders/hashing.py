"""`HashingEmbedder`: vectors from the words and letters of a text, without a model.

Texts are near each other if they share words, or parts of words; "cat" is no nearer to "pet" than to "car". It is the
default because it works at once, offline, and gives the same vectors in every process.
"""

from __future__ import annotations

import math
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import crc32

import anyio.lowlevel

from penstock.detection.deferred import deferred
from penstock.engine.values.errors import OptionError
from penstock.models.embedders.texts import checked_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FEWEST, _MOST = 16, 4_096
_AT_ONCE = 32  # texts between two checkpoints, so that other tasks can run

# Scripts without spaces have no words to find, so each character is one; pairs of characters weigh more.
_UNSPACED = r"\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORDS = deferred(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_ACCENTS = deferred("[\u0300-\u036f]")
_IS_UNSPACED = deferred(rf"[{_UNSPACED}]")

# Words that every text has say nothing about a text. In other languages, short words count as common.
_COMMON_WORDS = (
    "a about am an and any are as at be been but by can could did do does for from had has have he her him his how i if"
    " in into is it its just me my no not of on or our out she so some tell than that the their them then there these"
    " they this to up us was we were what when where which who why will with would you your"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_COMMON_WEIGHT = 0.1
_LONG_WORD = 6  # letters from which a word has its full weight
_LETTERS = 3  # the length of a run of letters
_SHARE_OF_LETTERS = 0.5  # the weight of all runs of letters in a word, relative to the word


class HashingEmbedder:
    """Turns texts into vectors by hashing their words, and runs of three letters of them. Deterministic; safe to share.

    It is lexical, not semantic: it finds texts that use the same words, in any inflection. To find texts with the same
    meaning, use an embedder with a model: `SentenceEmbedder`, `OpenAICompatibleEmbedder`, or your own.

    Args:
        dimensions: the length of the vectors, 16 to 4,096. Default: 512. With fewer, more words share a dimension.

    Attributes:
        name: ``hashing_`` and the dimensions: vectors of different lengths cannot be compared.
        dimensions: the length of the vectors.
        threshold: the cosine below which texts have hardly a word in common; `SemanticRecall` uses it as its default.

    Raises:
        OptionError: ``dimensions`` is not an int from 16 to 4,096.
    """

    __slots__ = ("dimensions", "name")
    threshold = 0.15  # of 90 pairs of unrelated sentences none has more than 0.12, of 10 related ones none less

    def __init__(self, *, dimensions: int = 512) -> None:
        if type(dimensions) is not int or not _FEWEST <= dimensions <= _MOST:
            raise OptionError("HashingEmbedder", "dimensions", dimensions, f"an int from {_FEWEST} to {_MOST:,}")
        self.dimensions = dimensions
        self.name = f"hashing_{dimensions}"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of length 1 for each text, in order.

        Raises:
            UsageError: ``texts`` is a single str, whose letters would be embedded, or holds something that is no text.
        """
        given = checked_texts(texts)
        made: list[list[float]] = []
        for index, text in enumerate(given):
            if index and index % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            made.append(self.vector(text))
        return made

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text. All texts without words have the same one."""
        counts: dict[str, int] = {}
        for word in _words(text):
            counts[word] = counts.get(word, 0) + 1
        weights = [0.0] * self.dimensions
        for word, count in counts.items():
            said = 1.0 + math.log(count)  # the tenth time says less than the first
            for place, weight in _features(word):
                weights[place % self.dimensions] += said * weight
        length = math.sqrt(sum(weight * weight for weight in weights))
        if length == 0.0:  # no words, or words that cancel each other out
            return [1.0] + [0.0] * (self.dimensions - 1)
        return [weight / length for weight in weights]

    def __eq__(self, other: object) -> bool:
        """Tell whether both give the same vectors."""
        return isinstance(other, HashingEmbedder) and self.dimensions == other.dimensions

    def __hash__(self) -> int:
        """Hash by the dimensions."""
        return hash(self.dimensions)

    def __repr__(self) -> str:
        """Show the dimensions."""
        return f"HashingEmbedder(dimensions={self.dimensions})"


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text in small letters; of scripts without spaces the letters and pairs of letters."""
    for word in _WORDS.findall(_folded(text)):
        if not _IS_UNSPACED.match(word):
            yield word
            continue
        yield from word
        yield from (word[at : at + 2] for at in range(len(word) - 1))


def _folded(text: str) -> str:
    """Return a text in small letters, without accents, full-width letters and the like as plain ones."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFKC", bare)


_LONGEST_CACHED = 40  # letters: no word of a language is longer, so what is longer does not come again


def _features(word: str) -> tuple[tuple[int, float], ...]:
    return _cached_features(word) if len(word) <= _LONGEST_CACHED else _cached_features.__wrapped__(word)


@lru_cache(maxsize=20_000)
def _cached_features(word: str) -> tuple[tuple[int, float], ...]:
    """Return places and weights of a word; the sign of a weight comes from the hash, too, so that clashes cancel."""
    weight = _COMMON_WEIGHT if word in _COMMON else min(len(word) / _LONG_WORD, 1.0)
    if _IS_UNSPACED.match(word):
        weight = float(len(word)) / 2
        return (_place(word, weight),)
    edged = f"<{word}>"
    runs = [edged[at : at + _LETTERS] for at in range(len(edged) - _LETTERS + 1)]
    each = weight * math.sqrt(_SHARE_OF_LETTERS / len(runs))
    return (_place(word, weight), *(_place(f"\0{run}", each) for run in runs))


def _place(feature: str, weight: float) -> tuple[int, float]:
    found = crc32(feature.encode("utf-8", "surrogatepass"))
    return found >> 1, weight if found & 1 else -weight
