"""The weights that are shipped: made from the data they name, by the recipe that is written down."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from penstock.detection.injection import WEIGHTS
from penstock.detection.linear.model import unpack
from training import injection
from training.fitting import head
from training.rows import ROOT, own_file
from training.svm import Example, fit

DATA = Path(__file__).parents[3] / "shared" / "data"
TINY = [Example([1, 2, 5], positive=True), Example([1, 3, 6], positive=False), Example([2, 5, 7], positive=True)]


def test_training_on_a_tiny_corpus_gives_the_same_head_twice() -> None:
    """Weights, bias and scale, to the bit."""
    one, other = (head("x", fit(TINY, 8, upper=2.0), [(0.0, 0.5)], 0.5) for _ in range(2))

    assert one == other


def test_the_shipped_weights_have_the_recipe_of_the_trainer() -> None:
    """Whoever changes it must train anew."""
    packed = unpack(WEIGHTS.read_bytes())

    assert packed.recipe == injection.RECIPE
    assert [found.name for found in packed.heads] == ["injection"]


def test_the_shipped_weights_were_made_from_the_data_that_lie_here() -> None:
    """By the hashes in the header; `python -m training.injection --check` rebuilds them."""
    if not DATA.is_dir():
        pytest.skip(f"THE DATA ARE NOT THERE ({DATA}): the weights' sources were not compared")
    packed = unpack(WEIGHTS.read_bytes())

    assert packed.notes["sources"] == injection.sources(DATA)


def test_the_texts_written_for_the_training_are_named_as_a_source() -> None:
    """With their licence and hash, as every other."""
    header = json.loads(WEIGHTS.read_bytes().split(b"\n", 1)[0])
    named = {source["set"]: source for source in header["sources"]}

    for name in injection.OWN:
        source = named[own_file(name)]
        assert source["licence"] == "Apache-2.0"
        assert source["sha256"] == sha256((ROOT / own_file(name)).read_bytes()).hexdigest()


def test_the_texts_written_for_the_training_are_of_both_kinds_in_every_language() -> None:
    """Otherwise a language of its own would be an attack, or none."""
    texts = injection.own_texts()
    languages = [{row.id.split("-")[1] for row in texts if injection.is_attack(row) is side} for side in (True, False)]

    assert languages[0] == languages[1]
    assert len(languages[0]) >= 35
