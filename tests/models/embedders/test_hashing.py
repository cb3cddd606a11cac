"""Whether the embedder without a model finds what is said in the same words, and gives the same everywhere."""

import math
import subprocess
import sys

import pytest

from penstock import OptionError
from penstock.engine import UsageError
from penstock.engine.values.protocols import Embedder
from penstock.models import HashingEmbedder

EMBEDDER = HashingEmbedder()


def likeness(one: str, other: str) -> float:
    """Return the cosine of two texts' vectors."""
    return sum(a * b for a, b in zip(EMBEDDER.vector(one), EMBEDDER.vector(other), strict=True))


async def test_it_gives_a_vector_of_length_1_for_each_text():
    """In order."""
    vectors = await EMBEDDER.embed(["one text", "another", "one text"])
    assert [len(vector) for vector in vectors] == [512, 512, 512]
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0, 1.0, 1.0])
    assert vectors[0] == vectors[2] != vectors[1]
    assert isinstance(EMBEDDER, Embedder)


async def test_many_texts_are_embedded_without_keeping_others_waiting():
    """It looks up now and then."""
    assert len(await EMBEDDER.embed(["text"] * 100)) == 100


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (("my cat is old", "how old is the cat?"), ("my cat is old", "what is my name?")),
        (("the invoices of March", "March invoice"), ("the invoices of March", "the weather in Rome")),
        (("Rechnung für März", "rechnungen im märz"), ("Rechnung für März", "Wetter für Rom")),
        (("Café crème", "cafe creme"), ("Café crème", "tea")),
        (("私の猫は古い", "猫"), ("私の猫は古い", "車")),
        (("ｃａｔ food", "cat food"), ("ｃａｔ food", "dog")),
    ],
)
def test_texts_that_share_words_are_near_each_other(near, far):
    """In any inflection, without accents, and in scripts without spaces."""
    assert likeness(*near) > likeness(*far) + 0.1


def test_words_that_every_text_has_hardly_count():
    """Two questions are not alike for being questions."""
    assert likeness("what is it that you would tell me", "what is it that he would tell us about Rome") < 0.5


def test_texts_without_words_are_alike():
    """A vector of zeros would have no direction."""
    assert EMBEDDER.vector("") == EMBEDDER.vector("?!")
    assert math.hypot(*EMBEDDER.vector("")) == 1.0


def test_lone_surrogates_are_text_too():
    """They may come from anywhere."""
    assert math.hypot(*EMBEDDER.vector("a \ud800 b")) == pytest.approx(1.0)


def test_another_process_gives_the_same_vectors():
    """What was indexed yesterday is found today."""
    code = (
        "from penstock.models import HashingEmbedder; print(repr(HashingEmbedder(dimensions=16).vector('some text')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == repr(HashingEmbedder(dimensions=16).vector("some text"))


def test_the_name_tells_the_dimensions():
    """Vectors of another length belong in another index."""
    assert HashingEmbedder(dimensions=64).name == "hashing_64"
    assert HashingEmbedder(dimensions=64) != HashingEmbedder() == HashingEmbedder()
    assert repr(HashingEmbedder()) == "HashingEmbedder(dimensions=512)"
    assert len({HashingEmbedder(), HashingEmbedder()}) == 1


@pytest.mark.parametrize("dimensions", [8, 5_000, True, "512", None])
def test_dimensions_that_cannot_be_are_refused(dimensions):
    """Once, in the constructor."""
    with pytest.raises(OptionError, match="dimensions"):
        HashingEmbedder(dimensions=dimensions)


async def test_a_text_by_itself_is_refused():
    """Its letters would be embedded."""
    with pytest.raises(UsageError, match="list of texts"):
        await EMBEDDER.embed("text")
