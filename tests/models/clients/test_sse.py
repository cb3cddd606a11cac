"""Whether events are read by the rules, however their bytes are cut; it knows no provider."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from penstock.models.openai.wire import EventTooLongError, ServerEvent, SSEReader

STREAM = (
    "\ufeff: hello\r\n"
    "data: one\r\ndata:two\rdata:  three\n\n"
    "event: ping\nid: 7\ndata\n\n"
    "event: nothing\n\n"
    "retry: 5\nfoo: bar\nfoo\n: c\r\r\n"
    "data: äöü €😀\u2028\x0b\x85\x1c z\r\r"
    "id: a\0b\ndata: [DONE]\n\n"
    "data: cut off\n"
).encode()
EVENTS = [
    ServerEvent("one\ntwo\n three"),
    ServerEvent("", "ping"),
    ServerEvent("äöü €😀\u2028\x0b\x85\x1c z"),
    ServerEvent("[DONE]"),
]


def read(pieces: list[bytes], **options: int) -> list[ServerEvent]:
    """Return the events of a stream in pieces."""
    reader = SSEReader(**options)
    return [event for piece in pieces for event in reader.feed(piece)]


def test_events_are_read_by_the_rules() -> None:
    """Marks, comments, names, ids, all line ends, several data lines, data without a value; what is cut off is none."""
    assert read([STREAM]) == EVENTS


def test_one_byte_at_a_time_gives_the_same() -> None:
    """Also inside of UTF-8 sequences and between CR and LF."""
    assert read([STREAM[index : index + 1] for index in range(len(STREAM))]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_any_cut_gives_the_same(cuts: list[int]) -> None:
    """A stream has no other pieces than its events."""
    places = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in pairwise(places)]) == EVENTS


def test_what_is_no_utf8_is_replaced() -> None:
    """As the rules have it: nothing raises."""
    assert read([b"data: a\xffb\n\n"]) == [ServerEvent("a\ufffdb")]


def test_an_event_that_never_ends_is_an_error() -> None:
    """Memory is bounded, in one line and in many."""
    with pytest.raises(EventTooLongError, match="more than 20 bytes"):
        read([b"data: ", *[b"x" * 5] * 5], limit=20)
    with pytest.raises(EventTooLongError):
        read([b"data: x\n"] * 5, limit=20)


def test_keep_alive_comments_take_no_room() -> None:
    """However many come between two events."""
    assert read([b": PROCESSING\n"] * 50 + [b"data: x\n\n"], limit=20) == [ServerEvent("x")]
