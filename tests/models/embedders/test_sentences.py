"""Whether sentence models are used as their library wants it: by a stand-in for it, and where one is there by itself.

The stand-in has what we use of fastembed 0.9. ``PENSTOCK_TEST_SENTENCE_MODEL`` names the folder of a real
all-MiniLM-L6-v2 (``model.onnx``, ``tokenizer.json`` …) to run the last test, where fastembed is installed.
"""

import os
import sys
import textwrap
from importlib.util import find_spec

import pytest

from penstock import ModelError, OptionError
from penstock.engine import MissingExtraError, UsageError
from penstock.models import SentenceEmbedder

STAND_IN = """
    made = []

    class Row(list):
        def tolist(self):
            return list(self)

    class TextEmbedding:
        def __init__(self, **options):
            if "gone" in options["model_name"]:
                raise ValueError("Could not load model")
            made.append(options)

        def embed(self, documents, batch_size):
            for document in documents:
                if document == "boom":
                    raise RuntimeError("the text was: " + document)
                if document == "nan":
                    yield Row([float("nan")])
                elif document != "lost":
                    yield Row([float(len(document)), float(batch_size)])
"""


@pytest.fixture
def library(monkeypatch, tmp_path):
    """Put a stand-in in the library's place."""
    (tmp_path / "fastembed.py").write_text(textwrap.dedent(STAND_IN))
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    import fastembed

    yield fastembed
    sys.modules.pop("fastembed", None)


async def test_a_model_is_loaded_once_when_it_is_first_used(library):
    """From disk only, unless one says otherwise."""
    embedder = SentenceEmbedder("some/model", path="/models/some", batch_size=7, threads=2)
    assert library.made == []
    assert await embedder.embed(["ab", "abc"]) == [[2.0, 7.0], [3.0, 7.0]]
    assert await embedder.embed(["a"]) == [[1.0, 7.0]]
    assert await embedder.embed([]) == []
    wanted = {"model_name": "some/model", "threads": 2, "local_files_only": True, "specific_model_path": "/models/some"}
    assert library.made == [wanted]
    assert (embedder.name, repr(embedder)) == ("some/model", "SentenceEmbedder('some/model')")


async def test_it_may_be_told_to_fetch_a_model_and_where_to_keep_it(library, tmp_path):
    """Both are the library's to do."""
    await SentenceEmbedder("some/model", download=True, cache_dir=tmp_path).embed(["a"])
    assert library.made[-1]["local_files_only"] is False
    assert library.made[-1]["cache_dir"] == str(tmp_path)


async def test_a_model_that_is_not_there_is_told_with_the_cure(library):
    """The library's error is the cause."""
    with pytest.raises(ModelError, match=r"not on this machine.*path=.*download=True") as told:
        await SentenceEmbedder("gone").embed(["a"])
    assert isinstance(told.value.__cause__, ValueError)


@pytest.mark.parametrize("text", ["boom", "nan", "lost"])
async def test_a_model_that_fails_is_told_without_the_text(library, text):
    """Whatever the library's error says; and half an answer is none."""
    with pytest.raises(ModelError) as told:
        await SentenceEmbedder().embed(["a", text])
    assert text not in str(told.value)


async def test_a_text_by_itself_is_refused(library):
    """Its letters would be embedded."""
    with pytest.raises(UsageError, match="list of texts"):
        await SentenceEmbedder().embed("text")


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("model", {"model": " "}),
        ("batch_size", {"batch_size": 0}),
        ("batch_size", {"batch_size": 2.0}),
        ("threads", {"threads": 0}),
    ],
)
def test_options_that_cannot_be_are_refused(library, option, options):
    """Once, in the constructor."""
    with pytest.raises(OptionError, match=option):
        SentenceEmbedder(**options)


def test_without_its_library_the_extra_is_named(monkeypatch):
    """When it is made, not at the first request."""
    monkeypatch.setitem(sys.modules, "fastembed", None)
    monkeypatch.setattr("penstock.models.embedders.sentences.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"penstock\[embeddings\]"):
        SentenceEmbedder()


FOLDER = os.environ.get("PENSTOCK_TEST_SENTENCE_MODEL", "")


@pytest.mark.skipif(
    not FOLDER or find_spec("fastembed") is None,
    reason="NOT TESTED: no sentence model here; set PENSTOCK_TEST_SENTENCE_MODEL, and install penstock[embeddings]",
)
async def test_a_real_model_knows_that_a_cat_is_a_pet():
    """No word is shared."""
    embedder = SentenceEmbedder("sentence-transformers/all-MiniLM-L6-v2", path=FOLDER)
    cat, pet, car = await embedder.embed(["my cat is old", "tell me about my pet", "the car broke"])
    assert len(cat) == 384
    assert sum(a * b for a, b in zip(cat, pet, strict=True)) > 0.1 + sum(a * b for a, b in zip(pet, car, strict=True))
