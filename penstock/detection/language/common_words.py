"""Common words of everyday sentences, as evidence for the languages of short texts: by a count for each language.

``python -m training.languages`` counts them, in sentences of Tatoeba (CC BY 2.0 FR); the file says in which. A word
counts only against the languages that lack it or have it less often, so a word that is not in the table says nothing.
"""

from __future__ import annotations

import json
import math
import zlib
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.language.names import macro_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COMMON_WORDS = Path(__file__).parent.parent / "weights" / "common_words.bin"
"""The file with the words and their counts."""

FORMAT = 1
"""The format of that file: a line of JSON, and compressed lines of a word and its counts."""

_WORD = deferred(r"[^\W\d_][\w\u0900-\u097f]*")
_MOST = 100  # words of a text that are read; a longer text needs no such help
# Fitted on Tatoeba's development half, cross-validated: .5 to 1 and .3 to .5 do as well as each other.
_WEIGHT = 0.7
_UNCOUNTED = 0.3  # the share of the evidence against a language that lacks a word, for languages without counts
_UNSEEN = 0.05  # what a word that was not counted in a language counts there


class CommonWords(NamedTuple):
    """The words that were counted.

    Attributes:
        languages: the languages in whose sentences words were counted.
        counts: by word, in how many sentences of each language it stands; 0 is left out.
    """

    languages: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]


def distinct_words(text: str) -> list[str]:
    """Return the first words of a text, in small letters, each once and in order."""
    return [*dict.fromkeys(found.group() for found in islice(_WORD.finditer(text.lower()), _MOST))]


def pack(words: CommonWords, notes: Mapping[str, object]) -> bytes:
    """Return the bytes of a file with words; ``notes`` are written into its first line."""
    header = {"format": FORMAT, "languages": words.languages, **notes}
    rows = (
        " ".join([word, *(f"{code}:{count}" for code, count in sorted(counts.items()))])
        for word, counts in sorted(words.counts.items())
    )
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + zlib.compress("\n".join(rows).encode(), 9)


def unpack(data: bytes) -> CommonWords:
    """Return the words in the bytes of a file.

    Raises:
        ValueError: the file has another format.
    """
    line, _, rest = data.partition(b"\n")
    header = json.loads(line)
    if header["format"] != FORMAT:
        message = f"not a table of common words of format {FORMAT}"
        raise ValueError(message)
    rows = (row.split(" ") for row in zlib.decompress(rest).decode().split("\n"))
    return CommonWords(tuple(header["languages"]), {word: dict(map(_count, counts)) for word, *counts in rows})


def _count(given: str) -> tuple[str, int]:
    code, _, count = given.partition(":")
    return code, int(count)


class WordEvidence:
    """What common words say against languages.

    Args:
        words: the words, with their counts.
    """

    def __init__(self, words: CommonWords) -> None:
        self._languages = frozenset(words.languages)
        self._by_word = {word: _evidence(counts) for word, counts in words.counts.items()}

    def against(self, text: str, languages: Iterable[str]) -> dict[str, float]:
        """Return the factors, 0 to 1, for the probabilities of some languages; empty if no word is known.

        The evidence of a text is divided by the root of its length, as py3langid's is.
        """
        found = [evidence for word in distinct_words(text) if (evidence := self._by_word.get(word))]
        if not found:
            return {}
        lacking = sum(each for each, _ in found)
        gains = [each for _, each in found]
        scale = _WEIGHT / math.sqrt(len(text.encode(errors="surrogatepass")))
        return {code: math.exp(scale * (lacking + self._gained(code, lacking, gains))) for code in languages}

    def _gained(self, code: str, lacking: float, gains: Sequence[Mapping[str, float]]) -> float:
        """Return the share that a language gets back of the weight against one that lacks all the words."""
        if code in self._languages:
            return sum(gained.get(code, 0.0) for gained in gains)
        counted = macro_of(code) & self._languages
        if counted:
            return max(self._gained(other, lacking, gains) for other in counted)
        return (_UNCOUNTED - 1) * lacking


def _evidence(counts: Mapping[str, int]) -> tuple[float, dict[str, float]]:
    """Return the logarithm that counts against a language without the word, and the share that others get back."""
    lacking = math.log(_UNSEEN / (max(counts.values()) + _UNSEEN))
    return lacking, {code: math.log((count + _UNSEEN) / _UNSEEN) for code, count in counts.items()}


@cache
def word_evidence() -> WordEvidence:
    """Return the evidence of the shipped words; they are read once a process."""
    return WordEvidence(unpack(COMMON_WORDS.read_bytes()))
