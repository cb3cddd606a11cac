"""Words that a gateway has seen are kept; texts of people, in their place, are not."""

from __future__ import annotations

import sys
import tracemalloc

from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.frames import frame_of
from penstock.workflows.gateway.tables import places

ANSWER = ENDPOINTS["/v1/chat/completions"].answer


def test_a_text_in_the_place_of_a_word_is_not_kept() -> None:
    """It is a key that somebody chose."""
    said = "".join(["anns", "_own_", "words", "9" * 9])
    before = sys.getrefcount(said)
    assert places(ANSWER, {"usage": {said: 1}}).known
    assert sys.getrefcount(said) == before


def test_long_types_of_events_are_not_kept() -> None:
    """A provider could fill the memory with them."""
    tracemalloc.start()
    try:
        for number in range(20):
            assert frame_of(b"event: %s%d\ndata: {}\n\n" % (b"x" * 100_000, number)).event == ""
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_words_are_known_however_many_there_are() -> None:
    """A provider that sends ever new ones pushes out the old ones, and nothing else."""
    for number in range(1_200):
        word = f"tokens_{chr(97 + number % 26)}_{number % 100}_{number // 100}"
        assert not places(ANSWER, {"usage": {word: 1}}).known
        assert frame_of(f"event: {word}\ndata: {{}}\n\n".encode()).event == word
