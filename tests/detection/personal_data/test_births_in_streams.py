"""Dates right before a word for birth, in streams: they are held while such a word may follow."""

from __future__ import annotations

import pytest

from penstock import PIIDetector, Workflow

GUARD = Workflow("guard").then(PIIDetector(redaction_method="placeholder"))


@pytest.mark.parametrize("date", ["12.03.1985", "1985-03-12", "12 March 1985", "March 12, 1985"])
@pytest.mark.parametrize(
    "behind", [" geboren", " in Wien geboren", ", geb.", " i Oslo født", " INFO ok", " in Bad Town", "\t"]
)
def test_a_stream_hides_the_dates_that_the_whole_text_hides(date: str, behind: str) -> None:
    """Wherever it is cut."""
    text = f"Am {date}{behind} und mehr Text."
    whole = GUARD.check_sync(text).text
    for size in (1, 3, 8, 40):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
            assert "".join(chunk.text for chunk in chunks) == whole


@pytest.mark.parametrize("date", ["12.03.1985", "1985-03-12", "12 March 1985", "March 12, 1985", "1985年3月12日"])
@pytest.mark.parametrize("word", ["生まれ", "出生", "생 ", "출생", "태어", "को जन्म"])
def test_a_word_for_birth_right_behind_a_date_is_awaited(date: str, word: str) -> None:
    """Without a blank between them, cut in three anywhere near."""
    text = f"Am {date}{word} und mehr Text."
    whole = GUARD.check_sync(text).text
    assert "1985" not in whole
    end = 3 + len(date)
    for first in range(end - 8, end + 1):
        for second in range(first + 1, end + len(word) + 1):
            pieces = [text[:first], text[first:second], text[second:]]
            with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
                assert "".join(chunk.text for chunk in chunks) == whole
