"""Objects as texts for guards: nothing is escaped, nothing is lost."""

import json

from hypothesis import given, strategies as st

from penstock.processors.structure.object_parsing import from_texts, to_texts

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_can_be_put_together(data: object) -> None:
    """Whatever the value is."""
    assert json.loads(from_texts(to_texts(data))) == data


@given(st.text())
def test_every_text_stands_there_as_it_is(text: str) -> None:
    """In one piece, however JSON would escape it."""
    assert any(text in piece for piece in to_texts({"a": [text]}))


def test_a_plain_object_is_one_text() -> None:
    """What needs no escape needs no part of its own."""
    assert to_texts({"a": "b", "n": [1, None]}) == ['{"a": "b", "n": [1, null]}']
    assert to_texts({"a": "x\ny"}) == ['{"a": "', "x\ny", '"}']


def test_a_text_that_was_edited_takes_its_place() -> None:
    """Whatever the edit leaves, quotes included, stays within its string."""
    head, _, tail = to_texts({"a": "x\ny"})
    assert json.loads(from_texts([head, 'a "b"', tail])) == {"a": 'a "b"'}
