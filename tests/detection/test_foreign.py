"""`foreign_language`: texts in ASCII are cut into the same words as others, only quicker."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from penstock.detection.foreign import _first_words  # pyright: ignore[reportPrivateUsage]


@given(st.text(st.characters(max_codepoint=127), max_size=300))
def test_ascii_is_cut_into_the_words_that_the_expression_finds(text: str) -> None:
    """The first forty, each once."""
    assert _first_words(text) == {*re.findall(r"[^\W\d_]+", text)[:40]}


def test_other_letters_are_cut_as_well() -> None:
    """A word may mix them."""
    assert _first_words("où est la gare_du nord2sud?") == {"où", "est", "la", "gare", "du", "nord", "sud"}
