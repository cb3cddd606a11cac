"""The texts that cost `PIIDetector` most: 20 kB each, whole, against as much English prose.

Both sides are Penstock; the floor is prose, so the ratio says how much more of a core a client can ask for with a text
of the same length. The target is that of the design, and not met yet. The texts are random, from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from harness import Contest, Timed, Work

from penstock import PIIDetector, Workflow

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
}


async def contests() -> list[Contest]:
    """Return a contest for each text."""
    guard = Workflow("guard").then(PIIDetector())
    floor = _read(guard, (PROSE * (SIZE // len(PROSE) + 1))[:SIZE])
    return [
        Contest(f"20 kB of {name} through PIIDetector", "20 kB of prose", _read(guard, text), floor, TARGET)
        for name, text in TEXTS.items()
    ]


def _read(guard: Workflow, text: str) -> Work:
    async def work(times: int) -> None:
        for _ in range(times):
            guard.check_sync(text)

    return work


SCENARIO = Timed("worst_texts", contests)
