"""How many characters a search of a stream waits for: a close look is not repeated at every piece."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock import PIIDetector, Workflow
from penstock.engine.text_guards.window import awaited
from penstock.processors.guards.span_search import SpanSearch


@given(st.integers(0, 5_000), st.integers(0, 100), st.booleans())
def test_a_reader_waits_for_60_characters_unless_more_is_undecided(held: int, before: int, closely: bool) -> None:
    """Undecided text and what the search waits for are 60 characters together at most.

    From 49 undecided ones on it waits for up to 12 more, and from 60 on for 32, so that a text is not searched over and
    over.
    """
    least = awaited(held, before, closely=closely)
    assert least >= 0
    if held >= 60:
        assert least == 32
    else:
        assert held + least <= max(60, held + 12)


@given(st.integers(1, 59))
def test_searches_become_rarer_where_one_follows_the_other(held: int) -> None:
    """The first one waits for no more than was held, the next for twice as many as the one before."""
    first = awaited(held, 0, closely=True)
    then = awaited(held, first, closely=True)
    assert first <= held
    assert first <= then <= max(2 * first, 12)
    assert awaited(held, 50, closely=False) <= held


def test_the_end_of_a_word_is_glanced_at_in_every_piece() -> None:
    """Prose leaves word by word."""
    assert awaited(8, 60, closely=False) == 0


def test_numbers_are_not_searched_at_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces come together first, and nothing is lost."""
    looks: list[int] = []
    scan: Any = getattr(SpanSearch, "scan")  # noqa: B009 - of any value

    def counted(self: Any, *given: Any) -> Any:
        looks.append(1)
        return scan(self, *given)

    monkeypatch.setattr(SpanSearch, "scan", counted)
    text = "".join(f"{row},{row * 7919 % 90_000},{row * 104_729 % 900_000}\n" for row in range(1, 120))
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    guard = Workflow("guard").then(PIIDetector())
    with guard.start_sync(records=False).process_output_stream(pieces) as chunks:
        assert "".join(chunk.text for chunk in chunks) == text
    assert len(looks) * 2 < len(pieces)
