"""Excerpts of system prompts, hidden in clean answers in several forms: what they are, and where they are put.

Everything is drawn from hashes of the rows' ids, so the same rows give the same texts.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import itertools
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from benchmarks.quality.rows import Row
from penstock.detection.words import cut, small

Form = Callable[[str], str]

FORMATS: dict[str, Form] = {
    "verbatim": str,
    "upper-case": str.upper,
    "bullets": lambda text: "\n- " + "\n- ".join(_by(text.split(), 6)),
    "bold": lambda text: "**" + "** **".join(text.split()) + "**",
    "zero-width": "\u200b".join,
    "spaced": " ".join,
}
"""The ways in which an excerpt is written."""

ENCODINGS: dict[str, Form] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
}
"""The ways in which it is encoded."""

MORE: dict[str, Form] = {
    "full-width": lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
    "look-alikes": lambda text: text.translate(str.maketrans("aeopcxyi", "аеорсхуі")),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "hex, spaced": lambda text: text.encode().hex(" "),
    "decimal": lambda text: " ".join(str(ord(char)) for char in text),
    "binary": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "without spaces": lambda text: "".join(text.split()),
    "words backwards": lambda text: " ".join(reversed(text.split())),
}
"""Ways that no goal asks for."""


@dataclass(frozen=True, slots=True)
class Planted:
    """An answer with an excerpt in it.

    Attributes:
        prompt: the prompt that the excerpt is from.
        text: the answer.
        start: where the excerpt begins.
        end: where it ends.
    """

    prompt: str
    text: str
    start: int
    end: int


def planted(
    prompts: Sequence[Row], answers: Sequence[Row], words: int, form: Form = str, *, changed: float = 0.0
) -> Iterator[Planted]:
    """Yield an answer for each prompt that is long enough: an excerpt of so many words stands somewhere in it.

    Words are counted as the index of prompts counts them: numbers and lone marks are none, and an excerpt ends with
    whatever stands between two spaces.

    Args:
        prompts: the rows that are system prompts.
        answers: the rows that are clean answers.
        words: how many words of the prompt are taken.
        form: how they are written.
        changed: which share of the words is replaced by words of other answers, each by its own chance.
    """
    for row in prompts:
        spelled = row.text.split()
        before = [0.0, *itertools.accumulate(map(counted, spelled))]
        begins = [at for at in range(len(spelled)) if before[-1] - before[at] >= words and before[at] < before[at + 1]]
        if not begins:
            continue
        draw = random.Random(hashlib.sha256(f"{row.id} {words} {changed}".encode()).digest())  # noqa: S311 - no secret
        begin = draw.choice(begins)
        end = bisect_left(before, before[begin] + words)
        taken = [_changed(word, answers, draw, changed) for word in spelled[begin:end]]
        host = draw.choice(answers).text
        at = draw.choice([0, *(place + 1 for place, char in enumerate(host) if char.isspace())])
        excerpt = form(" ".join(taken))
        yield Planted(row.text, f"{host[:at]}{excerpt} {host[at:]}", at, at + len(excerpt))


@cache
def counted(spelled: str) -> float:
    """Return how many words the index of prompts counts in what stands between two spaces."""
    words = cut(small(spelled)).lettered()
    return sum(words.counts) if words.counts else len(words.words)


def _changed(word: str, answers: Sequence[Row], draw: random.Random, share: float) -> str:
    return draw.choice(draw.choice(answers).text.split()) if draw.random() < share else word


def _by(words: Sequence[str], size: int) -> list[str]:
    return [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
