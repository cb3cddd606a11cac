"""An event that is read by the form of another says what its own JSON says, or is parsed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from penstock.workflows.gateway.blocks import TextBlock
from penstock.workflows.gateway.frames import frame_of
from penstock.workflows.gateway.skeletons import skeleton_of

BLOCK = TextBlock("0.content", "text")
PATH = ("choices", 0, "delta", "content")


def event(text: object, index: object = 0, **more: object) -> bytes:
    return json.dumps(
        {"id": "c-1", "created": 1, "choices": [{"index": index, "delta": {"content": text}}], **more}
    ).encode()


SKELETON = skeleton_of(event("Good day", obfuscation="aB1"), PATH, BLOCK)
assert SKELETON is not None


@given(st.text(min_size=1), st.integers(0, 9**9), st.text("abcXYZ019"))
def test_only_the_piece_ids_times_and_padding_may_differ(text, created, padding):
    data = event(text, obfuscation=padding, created=created)
    assert SKELETON.text(data) == text


@pytest.mark.parametrize(
    "data",
    [
        event("day", obfuscation="a", more=1),
        event("day", 1, obfuscation="a"),
        event("day", "0", obfuscation="a"),
        event(None, obfuscation="a"),
        event(["day"], obfuscation="a"),
        event("day", obfuscation="ann@example.com"),
        event("day", obfuscation="a", id="ann@example.com"),
        event("day", obfuscation="a", id="an id of words"),
        event("day", obfuscation="a").replace(b'"day"', b'"day", "content": "ann"'),
        event("day", obfuscation="a").replace(b'"day"', b'"da\\x"'),
        event("day", obfuscation="a").replace(b"day", b"\xff"),
        event("day", obfuscation="a")[:-1],
        event("day", obfuscation="a") + b" ",
        event("day", obfuscation="a").replace(b'"created": 1', b'"created": 1e999'),
    ],
)
def test_an_event_of_another_form_is_not_read_by_it(data):
    text = SKELETON.text(data)
    assert text is None or json.loads(data)["choices"][0]["delta"]["content"] == text
    assert text is None or b"1e999" in data


def test_a_text_elsewhere_that_looks_alike_is_not_the_piece():
    data = json.dumps({"choices": [{"delta": {"content": "x", "note": "content"}}], "id": "content"}).encode()
    made = skeleton_of(data, PATH, BLOCK)
    assert made is not None
    assert made.text(data.replace(b'"x"', b'"content"')) == "content"
    assert made.text(data.replace(b'"note": "content"', b'"note": "other"')) is None


def next_texts(first: bytes, *others: bytes) -> list[str | None]:
    made = skeleton_of(event("Good day"), PATH, BLOCK)
    frame = frame_of(first)
    assert made is not None
    assert frame.data is not None
    assert made.text(frame.data, frame) == "Good day"
    assert made.kind == frame.event
    return [made.next_text(other) for other in others]


@pytest.mark.parametrize("head", [b"data: ", b"event: chunk\ndata: "])
def test_the_next_event_of_the_same_form_need_not_be_parsed(head):
    first = head + event("Good day") + b"\n\n"
    texts = next_texts(first, first, head + event(" to you") + b"\n\n")
    assert texts == ["Good day", " to you"]


@pytest.mark.parametrize(
    "other",
    [
        b"data: " + event('a "quote"') + b"\n\n",
        b"data: " + event("a\nline") + b"\n\n",
        b"data: " + event("day", id="c-2") + b"\n\n",
        b"data: " + event("day", 1) + b"\n\n",
        b"data: " + event("day").replace(b'"day"', b'"day", "content": "ann"') + b"\n\n",
        b"data: " + event("day").replace(b"day", b"\xff") + b"\n\n",
        b"data: " + event("day") + b"\n",
        b"data: " + event("day") + b"\n\n" + b"data: " + event("day") + b"\n\n",
        b"event: chunk\ndata: " + event("day") + b"\n\n",
        b"data: " + event("")[:-20],
        b"",
    ],
)
def test_a_piece_that_is_not_one_such_event_is_left_to_the_parser(other):
    assert next_texts(b"data: " + event("Good day") + b"\n\n", other) == [None]


def test_an_event_with_other_line_ends_is_no_sample_for_the_next_one():
    first = b"data: " + event("Good day") + b"\r\n\r\n"
    assert next_texts(first, first) == [None]
