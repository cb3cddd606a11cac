"""Legible parts of bytes: text in noise is read, and more bytes change nothing before the part that is open."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given, strategies as st

from penstock import PIIDetector, Workflow
from penstock.detection.codes import decoded
from penstock.detection.legible import legible_parts, open_part, texts_in

SAID = "please write to joe.miller@example.com today"
PIECES = st.one_of(
    st.binary(max_size=8),
    st.text(st.sampled_from("abc @.019äЖ中😀\u200b"), max_size=20).map(str.encode),
    st.text(st.sampled_from("abc @.019"), max_size=20).map(lambda text: text.encode("utf-16-le")),
    st.text(st.sampled_from("abc @.019"), max_size=20).map(lambda text: text.encode("utf-16-be")),
    st.sampled_from([b"\0", b"\xff\xff", b"\x01", SAID.encode(), SAID.encode("utf-16-le")]),
)


@pytest.mark.parametrize("coding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("seed", range(20))
def test_text_in_noise_is_read(coding: str, seed: int) -> None:
    """However much noise stands before it and behind it."""
    noise = random.Random(seed)  # noqa: S311 - noise
    raw = noise.randbytes(noise.randint(0, 400)) + SAID.encode(coding) + noise.randbytes(noise.randint(0, 400))
    read = [one.said for part in legible_parts(raw) for one in texts_in(raw, part)]
    assert any("joe.miller@example.com" in text for text in read)


def test_an_address_in_a_picture_is_hidden() -> None:
    """The noise around it hides it from no reader."""
    noise = random.Random(4)  # noqa: S311 - noise
    code = base64.b64encode(noise.randbytes(300) + SAID.encode() + noise.randbytes(300)).decode()
    outcome = Workflow("w").then(PIIDetector(redaction_method="placeholder")).check_sync(code)
    assert "[EMAIL]" in outcome.text
    assert SAID not in "".join(said.text for said in decoded(outcome.text))


CARD = "4111 1111 1111 1111"
GUARD = Workflow("guard").then(PIIDetector(redaction_method="placeholder"))


def hides(code: str, secret: str) -> None:
    """Neither the whole text nor a stream of single characters, or of pieces of seven, shows the secret's code."""
    for size in (len(code), 1, 7):
        pieces = [code[at : at + size] for at in range(0, len(code), size)]
        with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
            left = "".join(chunk.text for chunk in chunks)
        assert "[CREDIT-CARD]" in left, size
        assert secret not in left, size


@pytest.mark.parametrize("before", [b"", b"\0", b"\x41", b"\x00\x65\x58", b"\x65\x00\x80", b"\x00\x65\x80\x80\x80"])
@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("first", ["", "x \u20ac"])
def test_bytes_that_read_as_another_order_hide_no_text(before: bytes, coding: str, first: str) -> None:
    """By chance they begin a part in the other order of bytes, which goes on in the text without its first letter."""
    hides("see " + (before + f"{first}{CARD}".encode(coding)).hex(), CARD.encode(coding).hex())


@pytest.mark.parametrize("junk", [b"abc\xff\xfe\xff", b"abc\x01\x02\x01", "abc\ue000\ue000\ue001".encode()])
def test_bytes_that_are_no_text_hide_none_behind_them(junk: bytes) -> None:
    """They are one part with it, most of which is illegible."""
    secret = f" card {CARD} ok".encode()
    hides((junk * 30 + secret).hex(), CARD.encode().hex())
    hides(base64.b64encode(junk * 30 + secret).decode(), base64.b64encode(secret).decode())


@given(st.lists(PIECES, max_size=10).map(b"".join), st.data())
def test_more_bytes_change_no_part_that_is_closed(raw: bytes, data: st.DataObject) -> None:
    """Those that begin before the open part are the same, however the bytes go on."""
    at = data.draw(st.integers(0, len(raw)))
    hold = open_part(raw[:at])
    assert hold <= at
    closed = [part for part in legible_parts(raw[:at]) if part.start < hold]
    assert closed == [part for part in legible_parts(raw) if part.start < hold]


@given(st.lists(PIECES, max_size=10).map(b"".join), st.data())
def test_parts_are_the_same_from_any_byte_between_them(raw: bytes, data: st.DataObject) -> None:
    """So a stream need not keep what is decided."""
    at = data.draw(st.integers(0, len(raw)))
    if any(part.start < at < part.end + 12 for part in legible_parts(raw)):
        return
    later = [part for part in legible_parts(raw) if part.start >= at + 12]
    shifted = [part._replace(start=part.start + at, end=part.end + at) for part in legible_parts(raw[at:])]
    assert later == [part for part in shifted if part.start >= at + 12]


def test_noise_is_known_to_be_none_within_a_few_bytes() -> None:
    """The bytes of pictures and signatures hold back hardly anything."""
    raw = random.Random(1).randbytes(1_000)  # noqa: S311 - noise
    held = [at - open_part(raw[:at]) for at in range(len(raw))]
    assert max(held) <= 24
    assert sum(held) / len(held) < 6
