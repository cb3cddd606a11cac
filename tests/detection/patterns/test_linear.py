"""Built-in patterns take time in proportion to the text, however it was made to hurt them."""

import sys
from re import Pattern
from time import process_time

import pytest

from penstock.detection.patterns.matching import Finder
from penstock.detection.secrets import labelled as labels
from penstock.detection.unicode.normalizing import Profile, normalize
from penstock.processors.text.regex_filter import PRESETS, preset

SMALL, FACTOR = 3_000, 16
FINDER = Finder([rule for name in PRESETS for rule in preset(name)])
EVERYTHING = Profile(form="NFKC", confusables="fold", whitespace="collapse-all", trim=True)
HURTFUL = [
    *("a", "1", "1 ", "12-", "+1", "(12) 34 ", "001 2 ", "0 12 "),
    *("a.", "a@", "@a.1", "a@a.", "a@b.io"),
    *(":", "f:", "1.", "DE44 ", "4111 ", "ssn 123456789 ", "tel 1234567 "),
    *("=", "=x", "token=", "key=", 'password="', "password:   ", "secret", "api_key", "bearer ", "basic "),
    *("sk-", "xsk-", "key-", "pul-.", "dp.pt.", "ghp_", "AKIA", "eyJ", "eyJaaaaaaaa.", "éeyJ", "-us1", ".aaaaaa"),
    *(
        "password is ",
        "password for ",
        "key is a1",
        "-p ",
        " -u a:",
        "mysql -p",
        'login("a", ',
        "a('",
        "password 7 ",
        "Key>",
    ),
    *("-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAAAAAAA "),
    *("://", "a://b:", "http://", "www.", "www.a."),
    *(" ", "\n", " \n", "```\n", '"', "\x1b[", "\x1b]a"),
    *("\u200b", "a\u200b", "\u200d", "\ufe0f", "\u0301\u0323", "e\u0301", "ａ", "а", "aа "),
]


def seconds(work: object, text: str) -> float:
    """Return the processor time of the quickest of three."""
    times = []
    for _ in range(3):
        start = process_time()
        work(text)
        times.append(process_time() - start)
    return min(times)


@pytest.mark.parametrize("piece", HURTFUL, ids=ascii)
@pytest.mark.rest
def test_sixteen_times_the_text_does_not_take_its_square(piece: str) -> None:
    """A quadratic pattern would take 256 times as long, a linear one 16: the bound between them is six times linear."""

    def work(text: str) -> None:
        FINDER.unite(text, FINDER.find(text))
        normalize(text, EVERYTHING)

    text = piece * (SMALL // len(piece))
    work(text)
    assert seconds(work, text * FACTOR) < 6 * FACTOR * max(seconds(work, text), 0.001)


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        ("a@", "a."),
        ("bearer", " "),
        ("GB82", "W"),
        ("SG.aaaaaaaaaaaaaaaaaaaa", "."),
        ("-----BEGIN PRIVATE KEY-----", "A\n"),
    ],
)
def test_one_start_with_a_long_rest_is_read_once(before: str, piece: str) -> None:
    """What follows a start may be as long as it likes."""

    def work(text: str) -> None:
        FINDER.unite(before + text, FINDER.find(before + text))

    text = piece * (SMALL // len(piece))
    work(text)
    assert seconds(work, text * FACTOR) < 6 * FACTOR * max(seconds(work, text), 0.001)


def test_the_rest_of_a_value_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many separators stand in it that have no label: all that is read is in proportion to the text."""
    read = 0
    end = labels._end

    def counted(run: Pattern[str], text: str, at: int, most: int = sys.maxsize) -> int:
        nonlocal read
        found = end(run, text, at, most)
        read += found - at
        return found

    monkeypatch.setattr(labels, "_end", counted)
    text = "key=" * 4_000
    FINDER.find(text)
    assert read < 200 * len(text)
