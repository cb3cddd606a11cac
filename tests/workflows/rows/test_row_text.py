"""What lists of rows show of a row."""

import json

import pytest

from penstock.workflows.rows.reading import Columns, RawRow, parse_json
from penstock.workflows.rows.row_text import row_text

TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]


def shown(value, columns=None):
    """Return what is shown of a row of JSON Lines."""
    return row_text(parse_json(RawRow(1, json.dumps(value).encode())), columns or Columns())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ({"id": 7, "text": "a text"}, "a text"),
        ({"role": "user", "content": "said"}, "said"),
        ({"text": None, "content": "the other column"}, "the other column"),
        ({"messages": TALK}, "user: hi\nassistant: yes"),
        (TALK[:1], "user: hi"),
        ([{"role": "user", "content": [{"text": "in "}, {"text": "parts"}]}], "user: in parts"),
        ({"arguments": {"to": "ann"}}, '{"arguments": {"to": "ann"}}'),
        ([{"role": "assistant", "tool_calls": [{"id": "é"}]}], 'assistant: {"tool_calls": [{"id": "é"}]}'),
        (["no", "messages"], '["no", "messages"]'),
        ({}, "{}"),
    ],
)
def test_a_row_is_shown_by_what_is_checked_of_it(value, text):
    """Its text, its conversation as a transcript, else all of it as JSON."""
    assert shown(value) == text


def test_the_named_column_is_shown_before_others():
    """As ``--text COLUMN`` names it."""
    assert shown({"text": "no", "question": "yes"}, Columns(text="question")) == "yes"


def test_a_row_that_cannot_be_read_is_shown_as_it_stands():
    """With its broken characters replaced."""
    assert row_text(parse_json(RawRow(3, b'{"text": "cut \xff'))) == '{"text": "cut \ufffd'
