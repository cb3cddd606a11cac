"""The common words that are shipped: made from the data that they name, by the recipe that is written down."""

import json
from pathlib import Path

import pytest

from penstock.detection.language.common_words import COMMON_WORDS, unpack
from training import languages

DATA = Path(__file__).parents[3] / "shared" / "data"


def test_words_are_counted_by_sentence_and_rare_ones_are_left_out() -> None:
    """Once a sentence, in small letters, without what is no prose."""
    words = languages.counted([("de", "Ja, ja, das ist `code` so."), ("de", "Das https://das.de"), ("da", "JA!")])

    assert words.languages == ("da", "de")
    assert words.counts == {"ja": {"de": 1, "da": 1}, "das": {"de": 2}}


def test_the_shipped_words_name_their_source_and_recipe() -> None:
    """Whoever changes the recipe must count anew; the licence allows to build upon the sentences."""
    header = json.loads(COMMON_WORDS.read_bytes().split(b"\n", 1)[0])

    assert header["least"] == languages.LEAST
    assert [(source["set"], source["licence"][:12]) for source in header["sources"]] == [
        (languages.SET, "CC BY 2.0 FR")
    ]
    assert len(unpack(COMMON_WORDS.read_bytes()).languages) == 55


def test_the_shipped_words_are_those_that_the_data_give() -> None:
    """To the bit."""
    if not DATA.is_dir():
        pytest.skip(f"THE DATA ARE NOT THERE ({DATA}): the common words were not counted anew")

    assert languages.same(languages.build(DATA), COMMON_WORDS.read_bytes())
