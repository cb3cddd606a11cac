"""The texts that cost guards most: 20 kB each, whole, against as much English prose; `PIIDetector`, and `safety`.

Both sides are Penstock; the floor is prose, so the ratio says how much more of a core a client can ask for with a text
of the same length. The target was once promised; docs/design.md says why it is not kept. The texts are random, from one
seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from harness import Contest, Timed, Work

from penstock import PIIDetector, Workflow
from penstock.workflows.presets import safety

SIZE, TARGET = 20_000, 8.0
PROSE = "The quick brown fox jumps over the lazy dog, and nobody in the office knew what to say about it. "
_RANDOM = random.Random(36)  # noqa: S311 - texts to measure
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _of(*parts: Callable[[], str], between: str = "") -> str:
    """Return a text of parts that are made anew, in turn."""
    made: list[str] = []
    size = 0
    while size < SIZE:
        made.append(between.join(part() for part in parts))
        size += len(made[-1]) + len(between)
    return between.join(made)[:SIZE]


def _one_of(characters: str) -> Callable[[], str]:
    return lambda: _RANDOM.choice(characters)


def _one_of_these(*texts: str) -> Callable[[], str]:
    return lambda: _RANDOM.choice(texts)


def _number(low: int, high: int, form: str = "d") -> Callable[[], str]:
    return lambda: format(_RANDOM.randint(low, high), form)


TEXTS = {
    "percent noise": _of(_one_of("%%%%0123456789abcdef")),
    "percent codes": _of(lambda: f"%{_RANDOM.randrange(256):02x}"),
    "character references": _of(lambda: f"&#{_RANDOM.randint(32, 126)};"),
    "backslash escapes": _of(lambda: _RANDOM.choice((f"\\u00{_RANDOM.randint(32, 126):02x}", "\\n", "\\\\"))),
    "keycaps": _of(lambda: f"{_RANDOM.randint(0, 9)}\ufe0f\u20e3"),
    "a table of numbers": _of(*[_number(0, 99_999)] * 6, between="\t"),
    "rows of CSV": _of(lambda: f"{_RANDOM.randint(1, 999)},{_RANDOM.randint(1000, 999_999)}\n"),
    "measured values": _of(lambda: f"{_RANDOM.random():.6f}", between="\t"),
    "the path of a drawing": _of(_number(0, 500), _number(0, 500), lambda: "L", between=" "),
    "octal codes": _of(_number(0, 255, "o"), between=" "),
    "hexadecimal codes": _of(_number(16, 255, "x"), between=" "),
    "binary codes": _of(_number(0, 255, "08b"), between=" "),
    "base64": _of(_one_of(_LETTERS)),
    "digits": _of(_one_of("0123456789")),
    "groups of digits": _of(_number(100, 999), _number(1000, 9999), between="-"),
    "numbers with dots": _of(*[_number(0, 299)] * 4, between="."),
    "letters written apart": _of(_one_of("abcdefghij"), between=" "),
    "letters with marks": _of(lambda: _RANDOM.choice("ab") + "\u0301"),
    "signs": _of(_one_of("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")),
    "printable noise": _of(lambda: chr(_RANDOM.randint(32, 126))),
    "escapes in escapes": _of(_one_of_these("%2526%252364;", "&amp;#37;34;", r"\\u0025\u0036", "%5cu0041", "&#92;x41")),
    "octal escapes": _of(lambda: f"\\{_RANDOM.randrange(256):03o}"),
    "full width": _of(lambda: chr(_RANDOM.randint(0xFF01, 0xFF5E))),
    "numbers like cards": _of(*[_number(0, 9999, "04d")] * 4, between=" "),
    "links": _of(lambda: f"https://host{_RANDOM.randint(0, 99)}.com/?q={_RANDOM.randint(0, 9999)}&x=%20 "),
    "letters without a space": _of(_one_of("abcdefghijklmnopqrstuvwxyz")),
    "markup within words": _of(lambda: f"*{_RANDOM.choice('abc')}*{_RANDOM.choice('abc')}"),
    "letters parted by nothing": _of(lambda: f"{_RANDOM.choice('abcdefgh ')}\u200b"),
    "letters parted by NUL": _of(lambda: "a\0"),
    "characters of Unicode": _of(lambda: chr(_RANDOM.randint(0x20, 0xD7FF))),
}

OF_ALL_GUARDS = (
    "percent noise",
    "escapes in escapes",
    "octal escapes",
    "character references",
    "numbers like cards",
    "base64",
    "full width",
    "letters without a space",
    "letters written apart",
    "markup within words",
    "letters parted by NUL",
    "characters of Unicode",
)
"""The texts that cost `safety()` most."""


async def contests() -> list[Contest]:
    """Return a contest for each guard and text."""
    personal, every = Workflow("guard").then(PIIDetector()), safety(attacks="warn")
    chosen = [("PIIDetector", personal, name) for name in TEXTS] + [("safety()", every, name) for name in OF_ALL_GUARDS]
    prose = (PROSE * (SIZE // len(PROSE) + 1))[:SIZE]
    return [
        Contest(
            f"20 kB of {name} through {of}", "20 kB of prose", _read(guard, TEXTS[name]), _read(guard, prose), TARGET
        )
        for of, guard, name in chosen
    ]


_numbers = itertools.count()


def _read(guard: Workflow, text: str) -> Work:
    async def work(times: int) -> None:
        for _ in range(times):
            guard.check_sync(f"{text} {next(_numbers)}")  # a new text each time: guards know those that they have read

    return work


SCENARIO = Timed("worst_texts", contests)
