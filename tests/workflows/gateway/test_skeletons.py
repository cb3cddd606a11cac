"""An event that is read by the form of another says what its own JSON says, or is parsed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from penstock.workflows.gateway.blocks import TextBlock
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
