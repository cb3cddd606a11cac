"""What is quiet: a full search finds nothing there, however the text goes on.

``python -m tests.detection.personal_data.test_quiet`` asks it of all texts of ../shared/data (development half).
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

import pytest

from penstock import PIIDetector, RegexFilterProcessor, TextGuard
from penstock.detection.personal_data.detector import EMBEDDED, PersonalData
from penstock.engine.processor.context import AnyContext
from penstock.engine.text_guards.window import Found, TextReader, TextWindow
from tests.detection.coded_texts import coded_text
from tests.laws import seeds

DETECTORS = {"all": PersonalData(EMBEDDED), "keys": PersonalData(["api-key"]), "links": PersonalData(["url", "mac"])}
GUARDS = {
    "personal data": PIIDetector(detection_types=EMBEDDED),
    "keys apart": PIIDetector(detection_types=EMBEDDED, strategy={"api-key": "block", "*": "redact"}),
    "rules": RegexFilterProcessor(presets=["pii", "secrets", "urls"], strategy="redact"),
    "own rules": RegexFilterProcessor([{"name": "own", "pattern": r"\bnew \w+ form\b|\d{4} and"}], strategy="redact"),
}
DATA = Path(__file__).parents[4] / "shared" / "data"
_WORDS = (
    "the it is a on we be access api client private secret authorization password word key keys app apple basic bear"
    " token contact call me at phone born née in May on Jan und über été Größe día сессия привет пароль कृपया काम"
    " مرحبا שלום 東京 です สวัสดี 안녕 번호 Ελλάδα տուն contraseña x y z xab 42 7 2019 3rd 1,000 5.5 12:30 v1.2 50%"
    " C:\\ (a) f(x) key: word= -p --user > a->b https:// @ www. _auth 00 0x1f eyJ AKIA sk- ghp_ pat.ab 1 23 456 7890"
    " +49 new form हिन्दी ⚠️ 👩‍💻 1️⃣ 5%, 100% C:\\skip \\sum 今天天气很好，我们去公园散步吧。12号 これは小さな銀行です。"
    " วันนี้อากาศดีมากเราไปเดินเล่นกัน ทำงาน Иван."
)
PROSE = _WORDS.split()
FOUND = (
    "joe@example.com",
    "+49 151 23456789",
    "(030) 123 45 67",
    "078-05-1120",
    "4111 1111 1111 1111",
    "192.168.7.14",
    "GB82 WEST 1234 5698 7654 32",
    "born on 3 March 1990",
    "né le 12/04/1985",
    "https://x.example.com/a?b=c",
    "tel 555 0199 22",
    "00:1A:2B:3C:4D:5E",
    "api_key = 'aGk3ksl2KSk39sk29sKSl2'",
    "password: hunter2!x",
    "AKIAIOSFODNN7QWERTYU",
    "fe80::1ff:fe23",
    "ghp_16C7e42F292c6912E7810c838347Ae178B4b",
    "mysql -u joe -ps3cr3t!",
    'the password is "Tr0ub4dor&3"',
    "пароль: Qwerty12!",
    "2001:db8::ff00:42:8329",
    "123e4567-e89b-12d3-a456-426614174000",
    "example.org",
    "email: ｊｏｅ@example.com",
    "４１１１ 1111 1111 1111",
)
SIGNS = (
    " ",
    " ",
    " ",
    " ",
    " ",
    "  ",
    "\n",
    "\t",
    ", ",
    ". ",
    ": ",
    " - ",
    "-",
    "/",
    ".",
    "",
    "'",
    " (",
    ") ",
    "\u00a0",
    " — ",
)
ODD = (
    "\u200b",
    "ｐ",
    "５",
    "е",
    "\x1b[1m",
    "\\n",
    "%40",
    "&#64;",
    "\u0301",
    "ﬁ",
    "½",
    "٣",
    "\x00",
    "A" * 22,
    "aGVsbG8g" * 4,
)
AFTER = (
    "@example.com",
    ": hunter2!x",
    " 12 34 56 78",
    "4111 1111 1111 1111",
    " b c d e f g h i j k l m n o p q",
    "\\x40a.com",
)


def _text(drawn: random.Random) -> str:
    words: list[str] = [*drawn.choices(PROSE, k=drawn.randint(1, 24))]
    if drawn.random() < 0.3:
        words.insert(drawn.randrange(len(words)), drawn.choice(FOUND))
    if drawn.random() < 0.2:
        apart = " ".join(drawn.choice("abcdefgh01xé東") for _ in range(drawn.randint(3, 20)))
        words.insert(drawn.randrange(len(words)), apart)
    if drawn.random() < 0.1:
        words.insert(drawn.randrange(len(words)), coded_text(drawn.randrange(1000))[:80])
    text = "".join(chain.from_iterable((word, drawn.choice(SIGNS)) for word in words))
    for _ in range(drawn.choice((0, 0, 0, 1, 2))):
        at = drawn.randrange(len(text) + 1)
        text = text[:at] + drawn.choice(ODD) + text[at:]
    return text


def _found(detector: PersonalData, text: str, start: int) -> list[tuple[int, ...]]:
    """Return the findings in a text, plain and encoded, that is searched from a place on."""
    plain, _ = detector.scan(text, start, {}, final=True)
    encoded, _ = detector.encoded.scan(text, start, {}, final=True)
    return [(span.start, span.end) for span in (*plain, *encoded)]


def _wrong(detector: PersonalData, text: str, drawn: random.Random) -> str | None:
    """Return what is wrong: a text is quiet and something is found in it, or it is held from too late a place."""
    if detector.quiet(text, 0, final=True) is not None and (found := _found(detector, text, 0)):
        return f"{text!r} has findings at {found}"
    held = detector.quiet(text, 0, final=False)
    if held is None:
        return None
    for after in (drawn.choice(AFTER), _text(drawn)[: drawn.randint(0, 60)], ""):
        found = _found(detector, text + after, 0)
        from_there = _found(detector, text + after, held)
        if any(low < held for low, _ in found) or found != from_there:
            return f"{text!r} is held from {held}; with {after!r} it has {found}, and {from_there} from there"
    return None


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("seed", seeds(range(8)))
def test_a_text_that_is_quiet_has_no_finding_however_it_goes_on(name: str, seed: int) -> None:
    """Nothing is found before the place from which it is held, and all that follows is found from there."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    wrong = [_wrong(DETECTORS[name], text, drawn) for text in (_text(drawn) for _ in range(60))]
    assert [one for one in wrong if one] == []


def read_in_pieces(guard: TextGuard, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Return what a guard finds in a text in pieces, as the engine reads it."""

    def scan(window: TextWindow) -> object:
        return guard.scan(window, cast("AnyContext", None))

    reader = TextReader(guard, scan, "text")  # type: ignore[arg-type]
    found: list[tuple[int, int]] = []
    for piece in pieces:
        if reader.add(piece):
            found += [(one.start, one.end) for one in reader.take(_driven(reader, final=False), final=False)]
    found += [(one.start, one.end) for one in reader.take(_driven(reader, final=True), final=True)]
    return sorted(found)


def _driven(reader: TextReader, *, final: bool) -> int:
    try:
        reader.read(final=final).send(None)
    except StopIteration as ended:
        return int(ended.value)
    raise AssertionError


def _cut(text: str, drawn: random.Random) -> Iterator[str]:
    most = drawn.choice((1, 5, 12, 40))
    at = 0
    while at < len(text):
        size = drawn.randint(1, most)
        yield text[at : at + size]
        at += size


@pytest.mark.parametrize("name", GUARDS)
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_a_stream_of_which_much_is_quiet_is_read_as_the_whole_text(name: str, seed: int) -> None:
    """In pieces of any size, the guard finds what it finds in the whole text without asking what is quiet."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    guard = GUARDS[name]
    for _ in range(25):
        text = "".join(_text(drawn) for _ in range(drawn.choice((1, 1, 4))))
        found, _ = cast("tuple[Sequence[Found], int]", guard.scan(TextWindow(text), cast("AnyContext", None)))
        assert read_in_pieces(guard, [*_cut(text, drawn)]) == sorted((one.start, one.end) for one in found), text


def main() -> int:
    """Ask it of all texts of the development data; return 1 if one is wrong."""
    drawn = random.Random(0)  # noqa: S311 - dice, no secrets
    asked = quiet = 0
    wrong: list[str] = []
    for path in sorted(DATA.glob("*/dev.jsonl")):
        for line in path.open(encoding="utf-8"):
            text = str(json.loads(line).get("text", ""))[:2_000]
            asked += 1
            for detector in DETECTORS.values():
                quiet += detector.quiet(text, 0, final=True) is not None
                found = _wrong(detector, text, drawn)
                wrong += [f"{path.parent.name}: {found}"] if found else []
    sys.stdout.write(f"{asked} texts, {quiet / max(asked, 1) / len(DETECTORS):.1%} quiet, {len(wrong)} wrong\n")
    sys.stdout.write("".join(f"{one}\n" for one in wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
