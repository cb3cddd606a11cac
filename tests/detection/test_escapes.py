r"""Escapes beside a value: the ``n`` of ``\n`` is no letter of the word behind it, in any text that quotes another."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from penstock.detection.codes import may_escape, read_escapes
from penstock.detection.patterns.matching import Finder
from penstock.detection.personal_data.detector import PersonalData
from penstock.detection.secrets import SECRETS
from penstock.detection.unicode.disguises import PlainPlaces
from tests.laws import seeds

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

RANDOM = "Zq8rT2mW5xK9vB4nL7pY3cJ6"  # in a path it is no key
KEYS = ("AKIAIOSFODNN7QWERTYU", "ghp_abcdefghij0123456789ABCDEFGHIJ012345")
VALUES = (
    *KEYS,
    "4111 1111 1111 1111",
    "4111111111111111",
    "192.168.3.77",
    "+49 170 1234567",
    "DE89370400440532013000",
    "078-05-1120",
    "00:1B:44:11:3A:B7",
    "joe@example.com",
)
SHORT = (r"\n", r"\r", r"\t", r"\b", r"\f", r"\"", r"\/", r"\\", r"\u000a", r"\u0020", r"\u200b", r"\x0a")
DEEPER = (r"\\n", r"\\\n", r"\\\\t", r"\\u000a", r"\r\n", r"\u{a}", r"\U0000000a")
REFERENCES = ("&#10;", "&#x0A;", "&#32;", "&nbsp;", "&quot;", "&lt;", "&amp;quot;", "&amp;amp;#10;")
PERCENT = ("%0A", "%0d%0a", "%20", "%22", "%2C")
PERSONAL = PersonalData()
FINDER = Finder(SECRETS)


def personal(text: str) -> list[str]:
    """Return the personal data in a text."""
    return [text[found.start : found.end] for found in PERSONAL.find(text)]


@pytest.mark.parametrize("escape", [*SHORT, *DEEPER, *PERCENT, *REFERENCES])
@pytest.mark.parametrize("value", VALUES)
def test_an_escape_beside_a_value_hides_nothing_and_stays(value: str, escape: str) -> None:
    """Before it, behind it, and on both sides; an address may have a percent sign, and then more than it is found."""
    for text in (
        f"cat{escape}{value} sat",
        f"a cat {value}{escape}sat",
        f"a cat{escape}{value}{escape}sat",
        f"{escape}{value}",
    ):
        found = personal(text)
        assert found == [value] or (escape in PERCENT and len(found) == 1 and found[0].endswith(value)), text


@pytest.mark.parametrize("escape", [*SHORT, *DEEPER, *PERCENT])
@pytest.mark.parametrize("key", KEYS)
def test_rules_of_secrets_find_keys_beside_escapes(key: str, escape: str) -> None:
    """A filter by patterns has the same rules."""
    text = f"key: cat{escape}{key}{escape}sat"
    places = {(found.start, found.end) for found in FINDER.find(text)}
    assert (text.index(key), text.index(key) + len(key)) in places


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("sign", ["\n", "\t", "\r\n", '"', "/", "\\", "\u2028", "\x07"])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_in_a_dump_of_a_dump_is_found(value: str, sign: str, times: int) -> None:
    """However often a text was put into another as a JSON string."""
    text = f"cat{sign}{value}{sign}sat"
    for _ in range(times):
        text = json.dumps({"a": text, "b": ["c", 1]})
    assert personal(text) == [value]


@pytest.mark.parametrize("escape", [one for one in (*SHORT, *DEEPER, *PERCENT) if one not in (r"\/", r"\\")])
def test_a_key_without_a_prefix_is_found_beside_escapes(escape: str) -> None:
    """Behind a word for one, except in what reads as a path."""
    assert personal(f"key{escape}{RANDOM}{escape}sat") == [RANDOM]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_password_in_a_dump_of_a_dump_is_found(times: int) -> None:
    """Its label stands in escaped quotes."""
    text = json.dumps({"password": "hunter2xyz!"})
    for _ in range(times):
        text = json.dumps(text)
    assert personal(text) == ["hunter2xyz!"]


@pytest.mark.parametrize(
    "text",
    [
        r"jo\u0040example.com",
        "jo%40example.com",
        r"\u0034111 1111 1111 1111",
        r"4111 1111 1111 111\u0031",
        "jo&#64;example.com",
        "jo&#0064;example&#46;com",
        "jo&#64example.com",
        "jo&#X40;example.com",
        "jo&commat;example&period;com",
        "jo&amp;#64;example.com",
        "&#106;o&#64;example.com",
        "4111&#32;1111&nbsp;1111&#x20;1111",
        "192&#46;168&period;3.77",
        "DE89&#x33;70400440532013000",
    ],
)
def test_an_escape_within_a_value_is_part_of_it(text: str) -> None:
    """All of it is replaced."""
    assert personal(f"see {text} ok") == [text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"see \123-45-6789 ok", "123-45-6789"),
        ("see %4111 1111 1111 1111 ok", "4111 1111 1111 1111"),
        ("https://user:p%40ssw0rd@example.com/x", "https://user:p%40ssw0rd@example.com/x"),
    ],
)
def test_what_is_found_as_it_is_written_stays_found(text: str, value: str) -> None:
    """Though its first digits could be those of an escape."""
    assert personal(text) == [value]


def test_a_card_on_a_line_of_its_own_is_found() -> None:
    """The end of the line before it does not belong to the word before."""
    assert personal("cat\n4111 1111 1111 1111\nsat") == ["4111 1111 1111 1111"]


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        (r"a\nb\\nc\\\nd", "a\nb\nc\nd"),
        (r"a\/b\"c\\", 'a/b"c\\'),
        (r"\u00e4\u000a\x41%41%zz%4", "ä\nAA%zz%4"),
        (r"\d+ \w \U99999999 \u00", r"\d+ \w \U99999999 \u00"),
        (r"a\u200bb\u0000c", "a b c"),
        ("５\\n", "5\n"),
    ],
)
def test_escapes_read_as_what_they_stand_for(text: str, reads: str) -> None:
    """And each place leads back to its escape."""
    reading = read_escapes(text, final=True)
    assert reading.text == reads
    assert len(reading.source) == len(text)
    places = PlainPlaces(reading)
    assert all(places.start(at) < places.end(at + 1) for at in range(len(reads)))


@pytest.mark.parametrize("end", ["\\", "\\u", "\\u00", "\\x0", "%", "%0", "\\ud83d", "\\ud83d\\u", "\\U0000"])
def test_an_escape_without_its_end_is_not_read_yet(end: str) -> None:
    """While more text may come."""
    assert read_escapes(f"see{end}", final=False).source == "see"


PIECES = (
    *SHORT,
    *DEEPER,
    *PERCENT,
    "%2",
    "\\u00",
    "\\ud83d\\ude00",
    "\u200b",
    "ｊ",
    "\x1b[1m",
    "\x1b",
    " ",
    "word",
    "\n",
    "0",
    "n",
)
TEXTS = (*VALUES, "password: hunter2xyz", r"\"password\": \"hunter2xyz\"", "http://u:p%40ss@example.com/x")


@pytest.mark.parametrize("seed", seeds(range(60)))
def test_escapes_in_a_stream_are_read_as_in_the_whole_text(seed: int) -> None:
    """However it is cut: within an escape, behind one, within a value."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    text = "".join(drawn.choice(TEXTS if drawn.random() < 0.25 else PIECES) for _ in range(drawn.randint(1, 25)))
    text = f"{'filler words ' * drawn.randint(0, 12)}{text}{' more words' * drawn.randint(0, 12)}"
    whole = {at for found in PERSONAL.find(text) for at in range(found.start, found.end)}
    seen: set[int] = set()
    notes: dict[str, Value] = {}
    start = shown = 0
    while shown < len(text):
        shown = min(shown + drawn.randint(1, drawn.choice((1, 12, 40))), len(text))
        base = max(start - PERSONAL.lookback, 0)
        found, hold = PERSONAL.scan(text[base:shown], start - base, notes, final=shown == len(text))
        seen.update(base + at for span in found for at in range(span.start, span.end))
        start = base + hold
    assert seen == whole, ascii(text)


@pytest.mark.parametrize("step", [*(pytest.param(few, marks=pytest.mark.rest) for few in (1, 2)), 5, 20])
@pytest.mark.parametrize(
    "value", ["FR76 3000 6000 0112 3456 7890 189", "4111 1111 1111 1111", "joe.miller@example.com"]
)
def test_a_value_is_held_while_an_escape_within_it_is_not_finished(value: str, step: int) -> None:
    """Whichever of its characters is escaped: as it is written, the value ends before the escape."""
    for at, sign in enumerate(value):
        for escape in (f"\\x{ord(sign):02x}", f"%{ord(sign):02X}", f"\\u{ord(sign):04x}"):
            text = f"see {value[:at]}{escape}{value[at + 1 :]} there"
            notes: dict[str, Value] = {}
            found, start = PERSONAL.scan("", 0, notes, final=False)
            for end in range(step, len(text) + step, step):
                spans, start = PERSONAL.scan(text[:end], start, notes, final=end >= len(text))
                found = [*found, *spans]
            assert found == PERSONAL.find(text), text


@given(st.text("\\\\%uUxX{}0123489abfnrtvs'\"/ é\u200b", max_size=12))
def test_a_text_that_may_have_no_escape_has_none(text: str) -> None:
    """Nor does it become one, however it goes on."""
    if not may_escape(text, 0):
        assert read_escapes(text, final=True).units == []
        more = read_escapes(f"{text}u0041", final=True)
        assert all(low >= len(text) for low, _ in more.units)


@pytest.mark.parametrize("text", ["5 % of it", "100%, and", r"\sum \int", r"C:\Windows\System"])
def test_signs_that_begin_no_escape_are_seen_at_a_glance(text: str) -> None:
    """So percentages and paths cost little more than words."""
    assert not may_escape(text, 0)


@pytest.mark.parametrize("backslashes", [2, 3, 4, 40])
@pytest.mark.parametrize("code", ["06189", "x3189", "u003189"])
def test_a_backslash_before_an_escape_that_may_go_on_is_no_sign(backslashes: int, code: str) -> None:
    """Nor where the text is held back from the escape on: what stands before both is a part of the finding."""
    text = "Bearer " + "\\" * backslashes + code
    notes: dict[str, Value] = {}
    found, hold = PERSONAL.scan(text, 0, notes, final=False)
    assert [*found, *PERSONAL.scan(text, hold, notes, final=True)[0]] == PERSONAL.find(text) != []


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("value", ["4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"])
def test_characters_of_two_escapes_are_read_in_a_dump_of_a_dump(value: str, times: int) -> None:
    """Digits of other scripts beyond the first plane: each half of one has more backslashes in each dump."""
    text = "".join(chr(0x1D7CE + int(char)) if char.isdigit() else char for char in value)
    for _ in range(times):
        text = json.dumps({"value": text})
    assert len(personal(text)) == 1
