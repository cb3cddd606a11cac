"""Counts the common words of languages that ship with Penstock: ``python -m training.languages [--check]``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.language.common_words import COMMON_WORDS, CommonWords, distinct_words, pack, unpack
from penstock.detection.language.identifier import prose
from training.rows import read, source

if TYPE_CHECKING:
    from collections.abc import Iterable

SET = "lang_tatoeba_short"
"""The set whose sentences are read: CC BY 2.0 FR. The others with languages are Share-Alike, or none of everyday."""

LEAST = 2
"""In how many sentences a word must stand."""


def counted(sentences: Iterable[tuple[str, str]]) -> CommonWords:
    """Return the words of some sentences, each with its language, that stand in `LEAST` of them or more."""
    counts: dict[str, dict[str, int]] = {}
    languages: set[str] = set()
    for language, text in sentences:
        languages.add(language)
        for word in distinct_words(prose(text)):
            own = counts.setdefault(word, {})
            own[language] = own.get(language, 0) + 1
    kept = {word: own for word, own in counts.items() if sum(own.values()) >= LEAST}
    return CommonWords(tuple(sorted(languages)), kept)


def sources(data: Path) -> list[dict[str, str | int]]:
    """Return what the file says of the rows that were read."""
    return [source(data, SET)]


def build(data: Path) -> bytes:
    """Return the bytes of the file."""
    sentences = ((str(row.labels["lang"]), row.text) for row in read(data, SET))
    return pack(counted(sentences), {"least": LEAST, "sources": sources(data)})


def same(one: bytes, other: bytes) -> bool:
    """Return whether two files hold the same words; their compression may differ between versions of zlib."""
    return one.split(b"\n", 1)[0] == other.split(b"\n", 1)[0] and unpack(one) == unpack(other)


def main() -> None:
    """Write the file; with ``--check`` compare it with the one that is there, and exit 1 if they differ."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    given = parser.parse_args()
    made = build(given.data)
    if given.check:
        equal = same(made, COMMON_WORDS.read_bytes())
        print(f"{COMMON_WORDS.name}: {'the same' if equal else 'DIFFERS'}")
        sys.exit(not equal)
    COMMON_WORDS.write_bytes(made)
    print(f"{COMMON_WORDS.name}: {len(made)} bytes")


if __name__ == "__main__":
    main()
