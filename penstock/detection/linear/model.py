"""`LinearModel`: heads over hashed features of a text, and the file format that its weights are stored in.

The model is deterministic, and is loaded when it is first used. Its file is a line of JSON followed by the compressed
weights. The header holds ``format``, ``name``, ``version``, ``licence``, ``sources`` (per data set: licence, rows, hash
of the file), ``recipe`` (how features are made), ``heads`` (per head: bias, scale, threshold, points of the curve) and
``sha256`` of the weights before compression, so that two builds compare equal whatever zlib made of them.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_right
from functools import cache
from hashlib import sha256
from math import sqrt
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from zlib import crc32

from penstock.detection.linear.reading import folded, undisguised, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


class Curve:
    """A rising, piecewise linear function from margins to scores; flat before its first point and after its last."""

    def __init__(self, points: Sequence[Sequence[float]]) -> None:
        """Take one point or more as (x, y); both rise, x strictly."""
        self.points = tuple(points)
        self._xs = [x for x, _ in points]

    def __call__(self, x: float) -> float:
        at = bisect_right(self._xs, x)
        if at == 0:
            return self.points[0][1]
        if at == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = self.points[at - 1 : at + 1]
        return low + (high - low) * ((x - left) / (right - left))


_KEPT = 20_000  # words whose features are remembered: some 10 MB at most
_LONGEST = 24  # letters of a word that is worth remembering; longer ones hardly come twice


class Recipe(NamedTuple):
    """What counts as a feature.

    Attributes:
        bits: the table has 2 to the power of ``bits`` places, 8 to 24.
        words: the longest run of words and signs.
        least: the shortest run of letters within a word; the two ends of the word count as letters.
        most: the longest run of letters; 0 for none.
        marks: whether the ends of the text count as words, and words in capitals and line breaks as features.
    """

    bits: int = 16
    words: int = 3
    least: int = 3
    most: int = 5
    marks: bool = False


def place_code(recipe: Recipe) -> str:
    """Return the code of an array that holds places of a table."""
    return "H" if recipe.bits <= _SHORT_BITS else "I"


_SHORT_BITS = 16


class _HashedWord(NamedTuple):
    """A word: its bytes as they continue a run, its own hash, and its places: of its letters, its marks and itself.

    The places are packed as in an array: a text touches thousands, and numbers all over the memory take long to fetch.
    """

    data: bytes
    hash: int
    places: bytes


def run_hashes(data: Sequence[bytes], hashes: Sequence[int], longest: int) -> list[list[int]]:
    """Return the hashes of all runs of words, by their length: those of one word, of two, and so on.

    Args:
        data: the bytes with which each word continues a run.
        hashes: the hash of each word.
        longest: the length of the longest runs.
    """
    levels = [[*hashes]]
    for length in range(1, longest):
        levels.append([*map(crc32, data[length:], levels[-1])])
    return levels


def letter_hashes(name: str, recipe: Recipe) -> list[int]:
    """Return the hashes of the runs of letters in a word of ASCII, with its borders. Both kinds of models count them.

    Each letter is a byte, and to cut bytes is quicker than to write each run; a "word" of noise has thousands.
    """
    written = b"<%b>" % name.encode()
    sizes = range(recipe.least, min(recipe.most, len(written)) + 1)
    return [crc32(written[start : start + size], size) for size in sizes for start in range(len(written) - size + 1)]


class Hasher:
    """Turns texts into places of a table; safe to share between threads.

    Runs of letters have the lower half of the table, runs of words and marks the upper half, so that a trainer can give
    them different weight.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._shift = 33 - recipe.bits
        self._half = 1 << (recipe.bits - 1)
        self._code = place_code(recipe)
        self._known: dict[str, _HashedWord] = {}
        # What no text holds: controls cannot be seen, and are gone by then.
        self._first, self._last = self._hashed("\x02", ()), self._hashed("\x03", ())

    def places(self, text: str) -> set[int]:
        """Return the places of the features of a text, which may be disguised."""
        plain = undisguised(text)
        known, learn, marks = self._known, self._word, self.recipe.marks
        found = [known.get(name) or learn(name) for name in words(plain)]
        if marks:
            found = [self._first, *found, self._last]
        if not found:
            return set()
        data, hashes, own = zip(*found, strict=True)
        shift, half = self._shift, self._half
        places = set(array(self._code, b"".join({*own})))  # of words that come again once: in JSON most do
        for level in run_hashes(data, hashes, self.recipe.words)[1:]:
            places.update([half + (run >> shift) for run in level])
        if marks:
            places.update(self._breaks(plain))
        return places

    def word_places(self, name: str) -> list[int]:
        """Return the places of a word and of the letters in it."""
        word = self._known.get(name) or self._word(name)
        return [*array(self._code, word.places)]

    def _word(self, name: str) -> _HashedWord:
        plain = folded(name)
        hashes = letter_hashes(plain, self.recipe) if plain.isascii() else self._letter_hashes(plain)
        places = {own >> self._shift for own in hashes}
        if self.recipe.marks and len(name) > 1 and name.isupper():
            places |= {self._mark(b"capitals"), self._mark(b"capitals " + plain.encode("utf-8", "replace"))}
        word = self._hashed(plain, places)
        if len(name) <= _LONGEST:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[name] = word
        return word

    def _hashed(self, name: str, places: Iterable[int]) -> _HashedWord:
        data = name.encode("utf-8", "replace") + b" "
        own = crc32(data)
        packed = array(self._code, [*places, self._half + (own >> self._shift)]).tobytes()
        return _HashedWord(data, own, packed)

    def _letter_hashes(self, name: str) -> Iterator[int]:
        bounded = f"<{name}>"
        for size in range(self.recipe.least, min(self.recipe.most, len(bounded)) + 1):
            for start in range(len(bounded) - size + 1):
                run = bounded[start : start + size].encode("utf-8", "replace")
                yield crc32(run, len(run))

    def _breaks(self, text: str) -> list[int]:
        return [self._mark(b"lines %d" % size) for size in (1, 2) if "\n" * size in text]

    def _mark(self, name: bytes) -> int:
        return self._half + (crc32(b"\x01" + name) >> self._shift)


FORMAT = 1
Note: TypeAlias = "str | int | float | bool | Sequence[Note] | Mapping[str, Note] | None"


class Head(NamedTuple):
    """One question that a model answers.

    Attributes:
        name: the name of its subject.
        weights: one signed byte for each place.
        scale: the score of a weight of 1.
        bias: the margin of a text without features.
        points: the curve from margins to scores, as (margin, score).
        threshold: the score from which on a text counts as positive, chosen on development data.
    """

    name: str
    weights: array[int]
    scale: float
    bias: float
    points: Sequence[Sequence[float]]
    threshold: float


class Packed(NamedTuple):
    """A model as it is stored: its recipe, its heads, and the rest of its header."""

    recipe: Recipe
    heads: tuple[Head, ...]
    notes: Mapping[str, Note]


def pack(packed: Packed) -> bytes:
    """Return the bytes of a model file."""
    weights = b"".join(head.weights.tobytes() for head in packed.heads)
    header: dict[str, Note] = {
        "format": FORMAT,
        **packed.notes,
        "recipe": packed.recipe._asdict(),
        "heads": [_described(head) for head in packed.heads],
        "sha256": sha256(weights).hexdigest(),
    }
    line = json.dumps(header, ensure_ascii=True, separators=(",", ":"))
    return line.encode() + b"\n" + zlib.compress(weights, 9)


def unpack(data: bytes) -> Packed:
    """Return the model in the bytes of a file.

    Raises:
        ValueError: the file has another format, or is damaged.
    """
    line, _, rest = data.partition(b"\n")
    header = json.loads(line)
    if header.pop("format", None) != FORMAT:
        message = f"not a linear model of format {FORMAT}"
        raise ValueError(message)
    weights = zlib.decompress(rest)
    if sha256(weights).hexdigest() != header.pop("sha256"):
        message = "the weights of a linear model are damaged"
        raise ValueError(message)
    recipe, described = Recipe(**header.pop("recipe")), header.pop("heads")
    size = 1 << recipe.bits
    heads = tuple(_head(row, weights[at * size : (at + 1) * size]) for at, row in enumerate(described))
    return Packed(recipe, heads, header)


def _described(head: Head) -> dict[str, Note]:
    described = head._asdict()
    del described["weights"]
    return described


def _head(row: dict[str, object], weights: bytes) -> Head:
    return Head(weights=array("b", weights), **row)  # type: ignore[arg-type] # as `_described` wrote it


class LinearModel:
    """A model ready for use. It lives as long as the process and may be shared between threads.

    Attributes:
        heads: the names of the heads, in the order of the file.
        thresholds: by head, the score from which on a text counts as positive.
        notes: the header of the file: name, version, licence, sources.
    """

    def __init__(self, packed: Packed) -> None:
        self.notes = packed.notes
        self.heads = tuple(head.name for head in packed.heads)
        self.thresholds: Mapping[str, float] = {head.name: head.threshold for head in packed.heads}
        self._heads = packed.heads
        self._raised = {head.name: _raised(head.weights) for head in packed.heads}
        self._curves = {head.name: Curve(head.points) for head in packed.heads}
        self._hasher = Hasher(packed.recipe)
        self._weighed: dict[str, dict[str, tuple[int, int]]] = {head.name: {} for head in packed.heads}

    def margins(self, text: str) -> dict[str, float]:
        """Return, by head, how far and on which side of the border a text lies."""
        places = self._hasher.places(text)
        return {head.name: self._margin(head, places) for head in self._heads}

    def _margin(self, head: Head, places: Collection[int]) -> float:
        """Return the margin of a text with features at some places. It is exact, so the same on every machine."""
        if not places:
            return head.bias
        return head.bias + head.scale * _added(self._raised[head.name], places) / sqrt(len(places))

    def rough_margin(self, name: str, text: str) -> float:
        """Return the margin that a text without disguises has by its single words: quick, and mostly too high.

        Args:
            name: the name of the head.
            text: the text.
        """
        head = next(head for head in self._heads if head.name == name)
        weighed = self._weighed[name]
        total = count = 0
        for word in set(words(text)):
            added, places = weighed.get(word) or self._weigh(head, word)
            total += added
            count += places
        return head.bias + head.scale * total / sqrt(count) if count else head.bias

    def _weigh(self, head: Head, word: str) -> tuple[int, int]:
        """Return the sum of the weights of a word and of the letters in it, and their number."""
        places = self._hasher.word_places(word)
        known = self._weighed[head.name]
        if len(known) >= _KEPT:
            known.clear()
        known[word] = _added(self._raised[head.name], places), len(places)
        return known[word]

    def scores(self, text: str, shift: float = 0.0) -> dict[str, float]:
        """Return the calibrated score of each head, from 0 to 1, with ``shift`` added to the margins."""
        return {name: self.score(name, value + shift) for name, value in self.margins(text).items()}

    def score(self, name: str, margin: float) -> float:
        """Return the calibrated score of a head at a margin, from 0 to 1."""
        return self._curves[name](margin)


_LIFT = 128
_LIFTED = bytes(code ^ _LIFT for code in range(256))


def _raised(weights: array[int]) -> bytes:
    """Return each weight with 128 added, as a byte: Python has these numbers ready, and need not make them."""
    return weights.tobytes().translate(_LIFTED)


def _added(raised: bytes, places: Collection[int]) -> int:
    """Return the sum of the weights at some places."""
    if len(places) < 2:  # noqa: PLR2004 - `itemgetter` then returns no tuple
        return sum([raised[place] - _LIFT for place in places])
    total: int = sum(itemgetter(*places)(raised))
    return total - _LIFT * len(places)


@cache
def load(path: Path) -> LinearModel:
    """Return the model in a file; each file is read once a process."""
    return LinearModel(unpack(path.read_bytes()))
