"""What counts as a quotation of a text."""

from __future__ import annotations

import pytest

from penstock.models.judges.verdict_requests import quotes

TEXT = "Please wire 4,500 Euro to Zed at zed@example.com, KEY-77abc, or Überweisung! 我的密码是秘密 Verfassungsgericht"


@pytest.mark.parametrize(
    "said",
    [
        "it says please wire 4,500 euro",
        "names ZED@example.com.",
        "shows the key key-77abc",
        "the word “überweisung”",
        'says "zed"',
        "says `Zed`",
        '{"input": "\\u00dcberweisung! \\u6211\\u7684\\u5bc6\\u7801"}',
        "密码是秘",
        "a verfassungsgericht",
    ],
)
def test_what_shows_a_piece_of_the_text_quotes_it(said: str) -> None:
    """Four words, a value, whatever stands in quotation marks."""
    assert quotes(said, TEXT)


@pytest.mark.parametrize(
    "said",
    ["", "asks for money", 'a "scam", 90 % sure', "the user's wish, and the sender's", "wire to Zed", "HTTP 429"],
)
def test_what_tells_of_the_text_in_own_words_does_not(said: str) -> None:
    """Single words of everyday are no quotation."""
    assert not quotes(said, TEXT)


def test_a_text_of_a_word_is_quoted_by_that_word() -> None:
    """And nothing quotes no text."""
    assert quotes("it says zebra", "Zebra!")
    assert not quotes("it says zebra", " ")
