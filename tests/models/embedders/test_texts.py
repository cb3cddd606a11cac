"""Whether the one text of a message, its pieces and the names of indexes are what both sides need."""

import pytest

from penstock import Message, TextPart, ToolPart
from penstock.engine import AudioPart, FilePart, ImagePart, ReasoningPart
from penstock.models.embedders import index_name, memory_text, pieces


def test_the_parts_that_say_something_are_lines():
    """Texts and what was heard; blank ones are left out."""
    message = Message.user([TextPart("one "), TextPart("  "), AudioPart("x", transcript="two"), AudioPart("y")])
    assert memory_text(message) == "one \ntwo"


def test_what_is_not_said_is_left_out():
    """Thoughts, calls, files and pictures."""
    parts = [ReasoningPart("hm"), ToolPart("c", "f", {"q": "x"}), FilePart(name="a.pdf"), ImagePart(url="https://x")]
    assert memory_text(Message.assistant(parts)) == ""


def test_a_short_text_is_one_piece():
    """As it stands."""
    assert list(pieces("Hello there.")) == [(0, "Hello there.")]


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_blank_text_has_no_piece(text):
    """There is nothing to find."""
    assert list(pieces(text)) == []


def test_a_long_text_is_cut_at_ends_of_sentences_and_nothing_is_lost():
    """Each piece says where it begins, and overlaps the one before."""
    text = "".join(f"Sentence number {number} is about thing {number}. " for number in range(200))
    found = list(pieces(text))
    assert len(found) > 5
    assert all(len(piece.text) <= 1_100 and text.startswith(piece.text, piece.start) for piece in found)
    assert all(piece.text.endswith(". ") for piece in found)
    ends = [piece.start + len(piece.text) for piece in found]
    assert ends[-1] == len(text)
    assert all(piece.start <= end for piece, end in zip(found[1:], ends, strict=False))


def test_a_text_without_a_space_is_cut_all_the_same():
    """A million characters make about a thousand pieces."""
    found = list(pieces("x" * 1_000_000))
    assert 900 <= len(found) <= 1_100


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (None, "penstock_memory_default"),
        ("", "penstock_memory_default"),
        ("hashing_512", "penstock_memory_hashing_512"),
        ("text-embedding-3-small", "penstock_memory_text_embedding_3_small_31a7134a"),
    ],
)
def test_an_index_is_named_for_its_model(model, expected):
    """Plain names stay as they are."""
    assert index_name(model) == expected


def test_models_that_look_alike_have_indexes_of_their_own():
    """Whatever was replaced or cut."""
    names = ["a-b", "a.b", "a_b", "é-b", "x" * 80, "x" * 81, "openai/" + "y" * 80]
    made = {index_name(name) for name in names}
    assert len(made) == len(names)
    assert all(len(name) <= 63 and name.replace("_", "").isalnum() and name.isascii() for name in made)
