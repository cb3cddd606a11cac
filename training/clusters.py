"""Finds texts that are nearly the same, so that no text is judged by a model that saw its twin; pure.

As `PROVENANCE.md` of the data sets says: shingles of four words, Jaccard of 0.5 or more, or 0.8 of the smaller text.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORD = re.compile(r"\w+")
_COMMON = 400  # a shingle that more texts share says nothing


def clusters(texts: Sequence[str]) -> list[int]:
    """Return for each text the number of its cluster: the place of the first text in it."""
    shingles = [_shingles(text) for text in texts]
    parent = list(range(len(texts)))
    for left, right in _near(shingles):
        first, second = sorted((_root(parent, left), _root(parent, right)))
        parent[second] = first
    return [_root(parent, at) for at in range(len(texts))]


def _shingles(text: str) -> set[str]:
    words = _WORD.findall(text.lower())
    return {" ".join(words[at : at + 4]) for at in range(max(1, len(words) - 3))}


def _near(shingles: Sequence[set[str]]) -> Iterator[tuple[int, int]]:
    having: dict[str, list[int]] = defaultdict(list)
    for at, own in enumerate(shingles):
        shared: Counter[int] = Counter()
        for shingle in own:
            if len(having[shingle]) < _COMMON:
                shared.update(having[shingle])
                having[shingle].append(at)
        for other, count in sorted(shared.items()):
            least = min(len(own), len(shingles[other]))
            if count >= 0.8 * least or count >= 0.5 * (len(own) + len(shingles[other]) - count):
                yield other, at


def _root(parent: list[int], at: int) -> int:
    while parent[at] != at:
        parent[at] = parent[parent[at]]
        at = parent[at]
    return at


def folds(groups: Sequence[int], names: Sequence[str], count: int) -> list[int]:
    """Return a fold for each text: that of its group, by the hash of the group's first name."""
    return [crc32(names[group].encode()) % count for group in groups]
