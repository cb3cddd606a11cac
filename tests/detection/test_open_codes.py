"""Codes in streams: they leave up to where they may hide something, and what they hide is hidden in every cut."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from penstock import PIIDetector, Workflow
from penstock.detection.code_numbers import (
    NO_TEXT,
    NumberReader,
    first_number_part_end,
    later_number_begin,
    number_parts,
    open_number_part,
)
from penstock.detection.legible import characters_in, first_part_end, later_begin, open_part
from penstock.detection.slices import AHEAD, PIECE
from tests.laws import examples

SECRETS = [
    "joe.miller@example.com",
    "call +49 30 1234567 now",
    "4111 1111 1111 1111",
    "password: hunter2xY!",
    "sk_live_9fD28GpKxkVCbqisS2yeq8ed",
    "DE89 3704 0044 0532 0130 00",
]
GUARD = Workflow("guard").then(PIIDetector(redaction_method="placeholder"))

CODES: dict[str, Callable[[bytes], str]] = {
    "base64": lambda raw: base64.b64encode(raw).decode(),
    "base64 in lines": lambda raw: base64.encodebytes(raw).decode(),
    "base32": lambda raw: base64.b32encode(raw).decode(),
    "hexadecimal": bytes.hex,
    "hexadecimal with signs": lambda raw: ", ".join(f"0x{byte:02x}" for byte in raw),
    "decimal": lambda raw: " ".join(map(str, raw)),
    "octal": lambda raw: ",".join(f"{byte:o}" for byte in raw),
    "binary": lambda raw: " ".join(f"{byte:08b}" for byte in raw),
    "percent": lambda raw: "".join(f"%{byte:02x}" for byte in raw),
}


def noise(made: random.Random) -> dict[str, Callable[[int], str]]:
    """Return kinds of text that may be codes and are none, by name."""
    return {
        "rows of CSV": lambda count: "".join(
            f"{row},{made.randint(1000, 99999)},{made.randint(100000, 999999)}\n" for row in range(count)
        ),
        "measured values": lambda count: "\t".join(f"{made.random():.6f}" for _ in range(2 * count)),
        "the path of a drawing": lambda count: " L ".join(
            f"{made.randint(0, 500)} {made.randint(0, 500)}" for _ in range(2 * count)
        ),
        "coordinates": lambda count: json.dumps(
            [[round(made.uniform(-180, 180), 5), round(made.uniform(-90, 90), 5)] for _ in range(count)]
        ),
        "base64": lambda count: base64.b64encode(made.randbytes(12 * count)).decode(),
        "lines of base64": lambda count: base64.encodebytes(made.randbytes(12 * count)).decode(),
        "hexadecimal digits": lambda count: made.randbytes(8 * count).hex(),
        "bytes": lambda count: " ".join(f"{byte:02x}" for byte in made.randbytes(5 * count)),
        "digits": lambda count: "".join(str(made.randint(0, 9)) for _ in range(16 * count)),
    }


KINDS = tuple(noise(random.Random(0)))  # noqa: S311 - texts to read


def streamed(text: str, size: Callable[[], int]) -> tuple[str, int]:
    """Return a text as it leaves in pieces, and how many characters were held at most."""
    fed = sent = most = 0

    def pieces() -> list[str]:
        cut: list[str] = []
        at = 0
        while at < len(text):
            cut.append(text[at : at + size()])
            at += len(cut[-1])
        return cut

    def source() -> object:
        nonlocal fed
        for piece in pieces():
            fed += len(piece)
            yield piece

    said: list[str] = []
    with GUARD.start_sync(records=False).process_output_stream(source()) as chunks:  # type: ignore[arg-type]
        for chunk in chunks:
            most = max(most, fed - sent)
            sent += len(chunk.text)
            said.append(chunk.text)
    return "".join(said), most


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 30), st.data())
def test_a_stream_hides_what_the_whole_text_hides(seed: int, data: st.DataObject) -> None:
    """In codes, codes within codes, and noise around them, in every cut."""
    made = random.Random(seed)  # noqa: S311 - texts to read
    around = noise(made)
    parts: list[str] = []
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            raw = (made.choice(["", "please note: "]) + made.choice(SECRETS) + made.choice(["", " and more"])).encode()
            raw = data.draw(st.sampled_from([raw, made.randbytes(90) + raw + made.randbytes(90)]))
            code = CODES[data.draw(st.sampled_from(sorted(CODES)))](raw)
            if made.random() < 0.15:
                code = CODES[data.draw(st.sampled_from(sorted(CODES)))](code.encode())
            parts.append(code)
        else:
            parts.append(around[data.draw(st.sampled_from(KINDS))](made.randint(1, 40)))
        parts.append(data.draw(st.sampled_from(["", " ", "\n", ", ", "+", "%", "&", "=", " The council met. "])))
    text = "".join(parts)
    whole, _ = streamed(text, lambda: len(text))
    cut, _ = streamed(text, lambda: made.choice([1, 2, 3, 5, 5, 8, 20, 100, 700]))
    assert cut == whole


WIDTHS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


@pytest.mark.rest  # an example takes some seconds; what follows it shows two of the widths
@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(sorted(set(CODES) - {"binary", "percent"})))
def test_text_of_every_width_between_bytes_is_hidden_as_in_the_whole(seed: int, kind: str) -> None:
    """In either order of bytes, with a mark at its beginning or without, and wherever the code is cut."""
    made = random.Random(seed)  # noqa: S311 - texts to read
    raw = b""
    for _ in range(made.randint(1, 3)):
        said = made.choice(["", "please ", "中文字 ", "😀 Grüße, ", "x"]) + made.choice(
            [*SECRETS, "[x](y) [x](y) please "]
        )
        raw += made.randbytes(made.choice([0, 0, 1, 2, 5, 25, 60])) + said.encode(made.choice(WIDTHS))
    text = CODES[kind](raw + made.randbytes(made.choice([0, 1, 25, 60])))
    whole, _ = streamed(text, lambda: len(text))
    most = made.choice((8, 60))
    assert streamed(text, lambda: made.randint(1, 2 * most))[0] == whole


@pytest.mark.parametrize("width", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("code", ["base64", "base32", "hexadecimal", "hexadecimal with signs"])
def test_wide_text_is_hidden_where_other_text_follows_it(code: str, width: str) -> None:
    """Both are decided at once, and the one that follows is found first."""
    raw = "please pay with 4111 1111 1111 1111, [x](y)".encode(width)
    text = CODES[code](raw + bytes.fromhex("733ce7cbcd88fe2ad0bb4630202aa4a57b435563ab725397"))
    whole, _ = streamed(text, lambda: len(text))
    assert whole != text
    for size in (4, 5, 20, 50):
        assert streamed(text, lambda size=size: size)[0] == whole  # type: ignore[misc]


WITHIN: dict[str, Callable[[bytes], str]] = {
    "hexadecimal with prefixes": lambda raw: ", ".join(f"0x{byte:02x}" for byte in raw),
    "hexadecimal in lines": lambda raw: "\n".join(f"0x{byte:02x}" for byte in raw),
    "characters by code": lambda raw: ", ".join(f"U+00{byte:02X}" for byte in raw),
    "pairs of digits": lambda raw: ",  ".join(f"{byte:02x}" for byte in raw),
    "numbers with letters between": lambda raw: ",char,".join(map(str, raw)),
    "numbers far apart": lambda raw: "-------------------------".join(map(str, raw)),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("code", WITHIN)
def test_a_code_within_numbers_is_held_from_its_beginning(code: str, secret: str) -> None:
    """Whatever stands between its characters, and wherever the stream is cut."""
    said = f"The council met. {WITHIN[code](secret.encode())} more text"
    text = " ".join(map(str, said.encode()))
    whole, _ = streamed(text, lambda: len(text))
    assert whole != text
    for size in (5, 12, 27):
        assert streamed(text, lambda size=size: size)[0] == whole  # type: ignore[misc]


AT_MOST = {**dict.fromkeys(KINDS, 200), "rows of CSV": 64, "measured values": 64}


@pytest.mark.parametrize(("kind", "most"), AT_MOST.items())
def test_codes_that_hide_nothing_are_held_for_a_moment(kind: str, most: int) -> None:
    """Numbers, tables and noise leave long before their end is known."""
    text = noise(random.Random(16))[kind](150)  # noqa: S311 - a text to read
    said, held = streamed(text, lambda: 4)
    assert said == text
    assert held <= most


@pytest.mark.rest
def test_a_table_of_small_numbers_is_held_for_one_slice_at_most() -> None:
    """They may be characters of a code, with what looks like an escape in it."""
    made = random.Random(4)  # noqa: S311 - a text to read
    rows = (f"2024-{made.randint(10, 12)}-{made.randint(10, 28)},{made.randint(10, 99)},{row}\n" for row in range(300))
    text = "".join(rows)
    said, held = streamed(text, lambda: 4)
    assert said == text
    assert held <= PIECE + AHEAD + 60


PLAIN = "The council met on Tuesday to discuss the new bridge, and asked about the cost. Brücken kosten Geld. " * 5


@pytest.mark.parametrize("code", ["base64", "base64 in lines", "base32", "hexadecimal"])
def test_codes_of_plain_text_leave_before_they_end(code: str) -> None:
    """What they say is read as it comes, and leaves where it hides nothing."""
    text = CODES[code](PLAIN.encode())
    said, held = streamed(text, lambda: 4)
    assert said == text
    assert held <= 160


@pytest.mark.parametrize("secret", [*SECRETS, "call+49+30+1234567%20now", "4111+1111+1111+1111%2E%2E"])
@pytest.mark.parametrize("code", ["base64", "base64 in lines", "base32", "hexadecimal", "decimal"])
def test_a_secret_behind_much_plain_text_in_a_code_is_hidden(code: str, secret: str) -> None:
    """In every cut, and behind text of the same code that has left."""
    text = CODES[code](f"{PLAIN}{secret} and more. {PLAIN[:60]}".encode())
    whole, _ = streamed(text, lambda: len(text))
    assert whole != text
    for size in (7, 61):
        assert streamed(text, lambda size=size: size)[0] == whole  # type: ignore[misc]


@pytest.mark.parametrize("numbers", [6, 12, 15, 16, 17, 40])
def test_numbers_that_may_become_a_code_leave_as_they_come(numbers: int) -> None:
    """Also before they are enough for a code, and when they do not become one."""
    made = random.Random(numbers)  # noqa: S311 - a text to read
    row = ", ".join(str(made.randint(2_000_000, 9_999_999)) for _ in range(numbers))
    text = f"The council met. {row} and asked about the cost."
    said, held = streamed(text, lambda: 1)
    assert said == text
    assert held <= 64
    spelled = ",".join(map(str, b"joe@example.com"))
    assert ",101," not in streamed(f"{text} 7,8,5,4,3,2,{spelled} ", lambda: 1)[0]


def _later(raw: bytes, most: int) -> None:
    at = later_begin(raw, most)
    assert at <= most
    assert open_part(raw[at:]) + at == open_part(raw) or open_part(raw) < at
    if first_part_end(raw) > at:
        assert first_part_end(raw[at:]) + at == first_part_end(raw)


@given(
    st.lists(st.sampled_from([b"ab", b"\xc3\xbc", b"\xe4\xb8\xad", b"\xff", b"\x01", b" c"]), max_size=60), st.data()
)
def test_a_long_text_of_bytes_ends_where_its_end_alone_does(pieces: list[bytes], data: st.DataObject) -> None:
    """So its beginning can be forgotten."""
    raw = b"".join(pieces)
    _later(raw, data.draw(st.integers(0, first_part_end(raw))))


@given(st.binary(max_size=40))
def test_the_characters_of_bytes_stand_where_they_are_encoded(raw: bytes) -> None:
    """Those of no byte that is none."""
    text, places = characters_in(raw)
    assert text == raw.decode(errors="ignore")
    assert all(raw[at:].startswith(char.encode()) for char, at in zip(text, places, strict=True))


@given(st.text(f"ab9 {NO_TEXT}", max_size=60), st.data())
def test_a_long_row_ends_where_its_end_alone_does(said: str, data: st.DataObject) -> None:
    """So its beginning can be forgotten, as that of bytes."""
    end = first_number_part_end(said)
    at = later_number_begin(said, data.draw(st.integers(0, end)))
    assert at == 0 or at + first_number_part_end(said[at:]) == end


@given(st.lists(st.sampled_from(["106", "64", "400", "7", "999999", "ab", "1.5", "0101", "19968", "228"])), st.data())
def test_more_numbers_change_no_part_that_is_closed(numbers: list[str], data: st.DataObject) -> None:
    """Those that begin before the open part are the same, however the numbers go on."""
    text = " ".join(numbers)
    for row in NumberReader().rows(text, len(text), final=True):
        at = data.draw(st.integers(0, len(row.said)))
        hold = open_number_part(row.said[:at])
        closed = [part for part in number_parts(row.said[:at]) if part[0] < hold]
        assert closed == [part for part in number_parts(row.said) if part[0] < hold]


@given(st.lists(st.sampled_from(["106", "64", "400", "7", "999999", "ab", "1.5", "0101", "19968", "228"])), st.data())
def test_numbers_read_piece_by_piece_are_those_of_the_whole(numbers: list[str], data: st.DataObject) -> None:
    """A number that the end may cut off waits."""
    text = " ".join(numbers)
    at = data.draw(st.integers(0, len(text)))
    reader = NumberReader()
    rows = [reader.rows(text[:at], at, final=False), reader.rows(text, len(text), final=True)]
    for whole, first, then in zip(NumberReader().rows(text, len(text), final=True), *rows, strict=True):
        assert whole.said == first.said + then.said
        assert [*whole.places] == [*first.places, *then.places]


def test_a_table_of_values_is_no_text() -> None:
    """Numbers beyond the characters of texts part it."""
    row, *_ = NumberReader().rows("1,23456,789012\n2,34567,890123", 29, final=True)
    assert NO_TEXT in row.said
    assert not [*number_parts(row.said)]


@pytest.mark.rest
@pytest.mark.parametrize("every", [1, 2, 30])
@pytest.mark.parametrize("code", ["base64", "hexadecimal", "decimal"])
def test_a_long_code_with_invisible_characters_is_not_held_for_too_long(code: str, every: int) -> None:
    """Something is found at its beginning, so all is held until it is judged; nothing of the answer is lost."""
    made = random.Random(3)  # noqa: S311 - a text to read
    said = CODES[code](b"mail joe.miller@example.com please " + made.randbytes(5_000))[:9_000]
    text = "\u200b".join(said[at : at + every] for at in range(0, len(said), every))
    whole = GUARD.check_sync(text).text
    assert len(whole) > len(text) * 9 // 10
    assert whole != text
    for size in (50, 700):
        assert streamed(text, lambda size=size: size)[0] == whole  # type: ignore[misc]
