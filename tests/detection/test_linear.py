"""The linear model: features, margins, scores, and the file it is kept in."""

from array import array
from math import sqrt
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from hypothesis import given, strategies as st

from penstock.detection.linear.counting import ONCE, CountingModel, TermReader, damped
from penstock.detection.linear.model import (
    Curve,
    Hasher,
    Head,
    LinearModel,
    Packed,
    Recipe,
    letter_hashes,
    load,
    pack,
    unpack,
)
from penstock.detection.linear.reading import words
from penstock.detection.linear.sentences import sentences

RECIPE = Recipe(bits=10, words=2, least=3, most=4)


def model_of(word: str) -> Packed:
    """A model whose only weights are those of one word."""
    weights = array("b", bytes(1 << RECIPE.bits))
    for place in Hasher(RECIPE).places(word):
        weights[place] = 100
    return Packed(RECIPE, (Head("found", weights, 0.01, -0.5, [(-0.5, 0.0), (9.5, 1.0)], 0.5),), {"name": "test"})


def test_a_text_scores_by_the_words_it_has() -> None:
    """Nothing else has weights."""
    model = LinearModel(model_of("secret"))

    assert model.scores("secret")["found"] > model.scores("a secret")["found"] > model.scores("nothing")["found"]
    assert model.scores("") == {"found": 0.0}


@pytest.mark.parametrize("text", ["one", "one two one", '{"a": 1, "a": 1, "a": 2}', "", "x " * 50])
@pytest.mark.parametrize("seed", range(4))
def test_a_margin_is_the_sum_of_the_weights_at_the_places_of_a_text(text: str, seed: int) -> None:
    """For any weights, negative ones too, and each place once, however often its word comes."""
    drawn = Random(seed)  # noqa: S311 - dice, no secrets
    weights = array("b", [drawn.randint(-128, 127) for _ in range(1 << RECIPE.bits)])
    model = LinearModel(Packed(RECIPE, (Head("h", weights, 0.5, -0.25, [(0.0, 0.0), (1.0, 1.0)], 0.5),), {}))
    places = Hasher(RECIPE).places(text)
    total = sum(weights[place] for place in places)
    assert model.margins(text)["h"] == -0.25 + (0.5 * total / sqrt(len(places)) if places else 0.0)


@pytest.mark.parametrize("disguise", ["SECRET", "ｓｅｃｒｅｔ", "se\u200bcret", "ѕесrеt", "śécrét", "𝐬𝐞𝐜𝐫𝐞𝐭"])
def test_a_disguise_changes_no_score(disguise: str) -> None:
    """Texts are folded before they are hashed."""
    model = LinearModel(model_of("secret"))

    assert model.scores(disguise) == model.scores("secret")


def test_honest_letters_of_other_scripts_make_words() -> None:
    """Vowel signs do not part a word, and what is no letter stands by itself."""
    assert words("हिन्दी, नमस्ते! «Да»") == ["हिन्दी", ",", "नमस्ते", "!", "«", "Да", "»"]


def test_places_are_within_the_table_and_the_same_every_time() -> None:
    """Memory of words that were met before changes nothing."""
    hasher = Hasher(RECIPE)
    first = hasher.places("one two one two")

    assert first == hasher.places("one two one two") == Hasher(RECIPE).places("one two one two")
    assert first <= set(range(1 << RECIPE.bits))
    assert first > hasher.places("two one")


def test_lone_surrogates_are_hashed_like_anything_else() -> None:
    """A text from a broken client is no reason to fail."""
    assert LinearModel(model_of("secret")).scores("\ud800 secret")["found"] > 0


def test_a_packed_model_comes_back_equal() -> None:
    """The header keeps what it was given."""
    packed = model_of("secret")

    again = unpack(pack(packed))

    assert again.heads[0].weights == packed.heads[0].weights
    assert pack(again) == pack(packed)
    assert again.notes == {"name": "test"}


def test_a_damaged_file_is_refused() -> None:
    """Weights that are not those of the header would judge at random."""
    other = pack(model_of("other")).split(b"\n", 1)[1]
    header = pack(model_of("secret")).split(b"\n", 1)[0]

    with pytest.raises(ValueError, match="damaged"):
        unpack(header + b"\n" + other)
    with pytest.raises(ValueError, match="format"):
        unpack(b'{"format": 99}\n')


def test_a_file_is_read_once(tmp_path: Path) -> None:
    """The model is shared from then on."""
    path = tmp_path / "model.bin"
    path.write_bytes(pack(model_of("secret")))

    assert load(path) is load(path)


def test_a_curve_rises_between_its_points_and_is_flat_outside() -> None:
    """Scores stay between those of the ends."""
    curve = Curve([(-1.0, 0.1), (1.0, 0.5), (2.0, 1.0)])

    assert [curve(x) for x in (-9, -1, 0, 1, 1.5, 2, 9)] == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.75, 1.0, 1.0])


def test_marks_tell_the_ends_of_a_text_its_capitals_and_its_lines() -> None:
    """Each is a feature of its own, beside those of the same text without marks."""
    plain, marked = Hasher(RECIPE), Hasher(RECIPE._replace(marks=True))

    assert plain.places("stop") == plain.places("STOP") < marked.places("stop") < marked.places("STOP")
    assert marked.places("stop\n\nnow") > marked.places("stop\nnow") > marked.places("stop now")
    assert marked.places("stop now") & marked.places("now stop") < marked.places("now stop")


def test_words_have_the_upper_half_of_the_table_and_letters_the_lower() -> None:
    """So a trainer can tell them apart."""
    words_only = Hasher(RECIPE._replace(most=0)).places("one two")
    letters_too = Hasher(RECIPE).places("one two")

    assert min(words_only) >= 512 > min(letters_too)
    assert {place for place in letters_too if place >= 512} == words_only


def test_the_sums_of_a_counting_model_are_those_of_its_weights() -> None:
    """Whether a term occurs once or more often, and whether its word was met before."""
    recipe = Recipe(bits=8, words=2, least=2, most=3)
    random = Random(5)  # noqa: S311 - no secret is made
    heads = tuple(
        Head(name, array("b", [random.randint(-128, 127) for _ in range(256)]), 0.5, 0.25, ((0.0, 0.0),), 0.5)
        for name in ("one", "other", "third")
    )
    ends = (("lowest", -128), ("highest", 127), ("nothing", 0))
    heads += tuple(heads[0]._replace(name=name, weights=array("b", [weight] * 256)) for name, weight in ends)
    model, reader = CountingModel(Packed(recipe, heads, {})), TermReader[list[int]](recipe, list)
    for text in (
        "",
        "a",
        "the cat and the dog and the cat",
        "THE Cat",
        "ähnlich the the the",
        "the cat",
        "the " * 9_000,
    ):
        terms = reader.read(text)
        features = [*terms.words, *([run] for run in terms.runs)]
        for head in heads:
            total = 0
            for term, places in dict(zip(terms.hashes, features, strict=True)).items():
                weight = round(256 * sqrt(terms.hashes.count(term)))
                total += weight * sum(head.weights[place] for place in places)
            size = sum(map(len, features))
            assert model.margins(text)[head.name] == head.bias + head.scale * total / (256 * sqrt(size) or 1.0)


def test_a_word_said_often_counts_less_than_as_many_words() -> None:
    """It counts with the root of its number, and each of its letters with it."""
    reader = TermReader[list[int]](Recipe(words=2, least=3, most=4), list)

    terms = reader.read("two two two two")

    assert len(set(terms.hashes)) == 2  # the word, and the pair of it
    assert terms.size == 4 * len(terms.words[0]) + 3
    assert [damped(count) / ONCE for count in (1, 4, 9)] == [1, 2, 3]


@given(st.lists(st.sampled_from("abZ1_ ,-\t"), max_size=30).map("".join))
def test_a_line_is_a_sentence_if_two_words_stand_in_it(line: str) -> None:
    """A word has two letters. A space parts the words, and maybe a comma before it."""
    line = f"{line} 0123456789 0123456789"
    parts = line.split(" ")
    pairs = zip((part.removesuffix(",")[-2:] for part in parts), (part[:2] for part in parts[1:]), strict=False)
    two = any(len(left) == len(right) == 2 and f"{left}{right}".isalpha() for left, right in pairs)

    assert sentences(line) == ([line] if two else [])


@given(st.text(st.characters(max_codepoint=127), max_size=12))
def test_a_word_has_the_runs_of_its_letters(word: str) -> None:
    """Those of three and four letters, with its borders among them."""
    bounded = f"<{word}>"
    runs = [bounded[start : start + size] for size in (3, 4) for start in range(max(len(bounded) - size + 1, 0))]
    assert letter_hashes(word, RECIPE) == [crc32(run.encode(), len(run)) for run in runs]
