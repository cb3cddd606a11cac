"""Codes: what is found in a decoded text stands where the code says it, and nowhere else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, strategies as st

from penstock.detection.code_numbers import NumberReader, NumberRow, bases_in, byte_runs, number_parts, number_rows
from penstock.detection.codes import decoded
from penstock.detection.legible import LEAST

Escape = Callable[[str], str]

ESCAPES: dict[str, Escape] = {
    "percent": lambda char: "".join(f"%{byte:02X}" for byte in char.encode()),
    "reference": lambda char: f"&#{ord(char)};",
    "hexadecimal reference": lambda char: f"&#x{ord(char):x};",
    "JSON": lambda char: json.dumps(char)[1:-1] if not char.isascii() else f"\\u{ord(char):04x}",
    "Python": lambda char: f"\\U{ord(char):08x}",
    "JavaScript": lambda char: f"\\u{{{ord(char):x}}}",
}
TEXTS = st.text(st.sampled_from("abcxyz019 @.-_/äßЖ中😀"), max_size=12)
SAID = st.text(st.sampled_from("abcxyz019@.äßЖ中😀"), min_size=1, max_size=12)


def found_at(code: str, text: str, low: int, high: int) -> list[tuple[int, int]]:
    """Return where part of a text stands in a code, for each reading that is this text."""
    return [said.place(low, high) for said in decoded(code) if said.text == text]


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@given(TEXTS, SAID, TEXTS, st.lists(st.booleans(), min_size=36, max_size=36))
@example("name=Jo&email=".replace("&", " ").replace("=", " "), "jo@example.com", " x", [False] * 2 + [True] * 34)
def test_what_is_found_covers_the_escapes_that_say_it(
    escape: Escape, before: str, said: str, behind: str, chosen: list[bool]
) -> None:
    """Whichever characters of a text are escaped, within what is found and around it."""
    text = f"{before}{said}{behind}"
    chosen = [*chosen, *[True] * len(text)]
    chosen[len(before)] = True
    pieces = [escape(char) if marked else char for char, marked in zip(text, chosen, strict=False)]
    low, high = len(before), len(before) + len(said)
    starts = [sum(map(len, pieces[:at])) for at in (low, high)]

    assert (starts[0], starts[1]) in found_at("".join(pieces), text, low, high)


@given(st.binary(max_size=4), SAID, TEXTS, st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))
def test_in_base64_no_letter_stays_that_holds_a_bit_of_it(
    torn: bytes, said: str, behind: str, encode: Callable[[bytes], bytes]
) -> None:
    """And each letter stays that holds none; wherever the code begins in the text."""
    before = f"{'x' * len(torn)} what goes before, "
    text = f"{before}{said} {behind}, and what is behind"
    raw = text.encode()
    code = encode(raw).decode().rstrip("=")
    low, high = len(before.encode()), len(f"{before}{said}".encode())
    places = found_at(code, text, len(before), len(before) + len(said))

    assert (low * 8 // 6, -(-high * 8 // 6)) in places


@given(st.text(st.sampled_from("abc019 @.äЖ"), min_size=15, max_size=40), st.booleans())
def test_base32_is_read_with_its_padding_and_without(said: str, padded: bool) -> None:
    """Whatever its length, from the first letter to the last."""
    code = base64.b32encode(said.encode()).decode()
    letters = code if padded else code.rstrip("=")
    assert (0, len(code.rstrip("="))) in found_at(letters, said, 0, len(said))


@given(SAID, st.sampled_from(["", "%", "\\x", "0x"]), st.sampled_from(["", " ", ", ", "\n"]))
def test_in_hexadecimal_the_digits_of_its_bytes_are_found(said: str, sign: str, between: str) -> None:
    """With the sign before each."""
    before, behind = "what goes before ", " and what is behind"
    pieces = [f"{sign}{byte:02x}" for byte in f"{before}{said}{behind}".encode()]
    code = between.join(pieces)
    low, high = len(before.encode()), len(f"{before}{said}".encode())
    start = sum(len(piece) + len(between) for piece in pieces[:low])
    end = sum(len(piece) + len(between) for piece in pieces[:high]) - len(between)

    assert (start, end) in found_at(code, f"{before}{said}{behind}", len(before), len(before) + len(said))


@pytest.mark.parametrize("base", ["d", "o", "b"])
def test_of_numbers_those_are_found_that_stand_for_it(base: str) -> None:
    """Decimal, octal and binary."""
    text = "well, jo@example.com it is"
    codes = [format(ord(char), base) for char in text]
    start, end = len(" ".join(codes[:6])) + 1, len(" ".join(codes[:20]))
    assert (start, end) in found_at(" ".join(codes), text, 6, 20)


@pytest.mark.parametrize(
    "text", ["Секретный рецепт бабушки", "祖母留下的秘密配方绝对不能透露出去", "grüße 😀 aus Köln"]
)
@pytest.mark.parametrize("base", ["d", "o", "b"])
def test_numbers_stand_for_characters_of_any_script(text: str, base: str) -> None:
    """As codes of characters, and as bytes."""
    low, high = 3, 9
    chars = [format(ord(char), base) for char in text]
    raw = [format(byte, base) for byte in text.encode()]
    first, last = len(text[:low].encode()), len(text[:high].encode())

    for numbers, begin, end in ((chars, low, high), (raw, first, last)):
        start = len(" ".join(numbers[:begin])) + 1
        assert (start, start + len(" ".join(numbers[begin:end]))) in found_at(" ".join(numbers), text, low, high)


def test_numbers_that_are_no_text_have_no_reading() -> None:
    """Codes of private characters, and of none."""
    assert not [*decoded(" ".join(str(58_980 + number) for number in range(40)))]
    assert not [*decoded(" ".join(str(888_888 + number) for number in range(40)))]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("a+b%40c", "a b@c"),
        (quote("ä b@c"), "ä b@c"),
        (quote_plus("ä b@c"), "ä b@c"),
        ("%C3%A4%ff%C3x", "ä\ufffd\ufffdx"),
        ("a&amp;b &lt;c&gt; &#x40;&#64 &unknown;", "a&b <c> @@ &unknown;"),
        (r"a\/b\n\"c\" \x40\100 😀", 'a/b\n"c" @@ 😀'),
        ("soft=\r\nly =40", "softly @"),
        (r"\U99999999 \ud800", "\\U99999999 \ud800"),
    ],
)
def test_escapes_are_resolved(code: str, said: str) -> None:
    """As those do who read them."""
    assert said in [each.text for each in decoded(code)]


def test_what_holds_no_code_has_no_reading() -> None:
    """It was read already."""
    assert not [*decoded('{"a":"1=2","mail":"jo@example.com","rest":"100%"}')]


def _bases_in(text: str) -> Sequence[int]:
    return bases_in(text, "\n".join(re.findall("[0-9A-Fa-f]+", text)))


_NUMBERS = ("8", "65", "97", "255", "99999", "0x41", "x01100001", "01100001", "1001", "77", "af", "1")


@given(st.lists(st.sampled_from(_NUMBERS), max_size=60))
def test_base_2_is_left_out_only_where_it_says_nothing(numbers: list[str]) -> None:
    """What is read in the other bases is the same."""
    text = " ".join(numbers)
    every = NumberReader().rows(text, len(text), final=True)
    some = NumberReader(_bases_in(text)).rows(text, len(text), final=True)
    assert some == every[: len(some)]
    for row in every[len(some) :]:
        assert [*number_parts(row.said)] == []
        assert all(high - low < LEAST for low, high in byte_runs(row.raw))


_APART = st.sampled_from((" ", ",", "\n", " word ", "-" * 63, "-" * 64, "-" * 65, " 1 2 3 "))


@given(st.lists(st.sampled_from((*_NUMBERS, "1114112", "20013", "00000041", "x61")), max_size=80), _APART)
@example(["64"] * 13 + ["1"] * 20 + ["64"] * 13, " ")
def test_the_numbers_of_a_whole_text_are_read_as_those_of_one_that_goes_on(numbers: list[str], apart: str) -> None:
    """Bases without text are left out; the parts and where they stand are the same."""
    text = apart.join(numbers)

    def parts(rows: Iterable[NumberRow]) -> list[object]:
        read = [(row, number_parts(row.said), byte_runs(row.raw)) for row in rows]
        found = [(row, span) for row, said, raw in read for span in (*said, *raw) if span[1] - span[0] >= LEAST]
        return [(row.raw[low:high], row.places[low:high]) for row, (low, high) in found]

    bases = _bases_in(text)
    assert parts(number_rows(text)) == parts(NumberReader(bases).rows(text, len(text), final=True))
