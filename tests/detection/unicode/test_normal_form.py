"""The edits that lead to a normal form: exact, small, and quick where a text has nothing to change."""

import sys
import unicodedata

import pytest
from hypothesis import given, strategies as st

from penstock.detection.unicode.normalizing import _RANGES, form_edits
from penstock.engine.values.edits import apply, normalise

FORMS = ("NFC", "NFKC")
LIVELY = st.sampled_from(  # what moves, melts or unfolds
    [
        chr(code)
        for low, high in _RANGES
        for code in range(low, high)
        if unicodedata.combining(chr(code)) or unicodedata.decomposition(chr(code))
    ]
)
HANGUL = st.characters(min_codepoint=0x1100, max_codepoint=0x11FF) | st.characters(
    min_codepoint=0xAC00, max_codepoint=0xD7A3
)
TEXTS = st.text(LIVELY | HANGUL | st.sampled_from("aeou \n") | st.characters(), max_size=12)


@pytest.mark.parametrize("form", FORMS)
@given(text=TEXTS)
def test_the_edits_lead_exactly_to_the_normal_form(form: str, text: str) -> None:
    """Segment by segment is the same as the whole."""
    edits = form_edits(text, form)
    assert apply(text, normalise(edits, text)) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
def test_no_character_outside_the_ranges_can_change(form: str) -> None:
    """The ranges that are looked through hold all that has a decomposition or a combining class."""
    inside = {code for low, high in _RANGES for code in range(low, high)}
    others = (chr(code) for code in range(sys.maxunicode + 1) if code not in inside and not 0xD800 <= code < 0xE000)
    assert [char for char in others if unicodedata.combining(char) or not unicodedata.is_normalized(form, char)] == []


def test_an_edit_covers_what_changes_and_no_more() -> None:
    """Two accents are two edits; the letters between stay out of them."""
    text = "cafe\u0301 und nai\u0308f"
    assert [(edit.start, edit.end, edit.text) for edit in form_edits(text, "NFC")] == [(3, 5, "é"), (12, 14, "ï")]


def test_a_run_that_changes_as_a_whole_is_one_edit() -> None:
    """Full-width words are not one edit a letter."""
    assert [(e.start, e.end, e.text) for e in form_edits("say ｈｅｌｌｏ now", "NFKC")] == [(4, 9, "hello")]


@pytest.mark.parametrize("text", ["", "plain", "é ü ñ", "日本語", "Привет"])
def test_a_normal_text_needs_no_edit(text: str) -> None:
    """Nothing to do is nothing done."""
    assert form_edits(text, "NFC") == ()


@pytest.mark.parametrize("form", FORMS)
def test_marks_out_of_order_are_sorted_in_time_and_exactly(form: str) -> None:
    """More marks than any honest letter has take the way around the quadratic sort of the standard library."""
    text = "x" + "e" + "\u0301\u0323\u0344" * 300 + "y"
    assert apply(text, form_edits(text, form)) == unicodedata.normalize(form, text)
