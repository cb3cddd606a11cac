"""`Meter`: a text lets through what keeps to its tokens, the same for every way to cut it into pieces."""

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from penstock.models.tokens import BPECounter, Counting, HeuristicCounter
from penstock.models.tokens.counters import FunctionCounter
from penstock.models.tokens.meter import Meter
from tests.laws import examples

BPE = Counting(BPECounter())
HEURISTIC = Counting(HeuristicCounter())
WORDS = Counting(FunctionCounter(lambda text: len(text.split())))

PIECES = [
    "don't",
    " we'll",
    "word",
    " word",
    " supercalifragilistic",
    "\n\n",
    "  ",
    " 12",
    "345",
    "漢字",
    "。",
    "é",
    "😀",
    "...",
    ". ",
    "? ",
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=14).map("".join)
styles = st.tuples(st.sampled_from(["token", "word", "sentence"]), st.sampled_from(["", "…", " [cut]"]))


def through(counter: Counting, pieces: list[str], budget: int, at: str = "token", ellipsis: str = "") -> str:
    """Return what comes out of a meter."""
    meter = Meter(counter, budget, at, ellipsis)
    return "".join([meter.feed(piece) for piece in pieces]) + meter.feed("", final=True)


def cut_into(text: str, places: list[int]) -> list[str]:
    """Return the text in pieces, cut at those places."""
    stops = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[start:stop] for start, stop in pairwise(stops)]


@pytest.mark.parametrize("counter", [BPE, HEURISTIC], ids=["bpe", "heuristic"])
@settings(max_examples=examples(400), deadline=None)
@given(text=texts, places=st.lists(st.integers(0, 200), max_size=12), budget=st.integers(0, 14), style=styles)
def test_however_a_text_is_cut_the_same_comes_out(counter, text, places, budget, style) -> None:
    """The law of streams: chunking changes nothing, with every place to cut at and every ellipsis."""
    assert through(counter, cut_into(text, places), budget, *style) == through(counter, [text], budget, *style)


@settings(max_examples=examples(300), deadline=None)
@given(text=texts, budget=st.integers(0, 14), style=styles)
def test_what_comes_out_keeps_to_the_budget(text, budget, style) -> None:
    """It begins like the text, has no more tokens than allowed, and is the whole text where that fits."""
    out = through(HEURISTIC, list(text), budget, *style)
    _, ellipsis = style
    body = out.removesuffix(ellipsis) if out != text else out
    assert text.startswith(body)
    if HEURISTIC.count(text) <= budget:
        assert out == text
    elif HEURISTIC.count(ellipsis) <= budget:
        assert HEURISTIC.count(body) + HEURISTIC.count(ellipsis) <= budget


@settings(max_examples=examples(300), deadline=None)
@given(text=texts, budget=st.integers(0, 14))
def test_the_longest_beginning_that_fits_comes_out(text, budget) -> None:
    """Compared with trying every length; white space at its end is left off."""
    longest = max(size for size in range(len(text) + 1) if BPE.fresh(text[:size]) <= budget)
    assert through(BPE, list(text), budget) == (text if longest == len(text) else text[:longest].rstrip())


@settings(max_examples=examples(200), deadline=None)
@given(text=texts, places=st.lists(st.integers(0, 200), max_size=12))
def test_counting_the_tail_equals_counting_the_whole(text, places) -> None:
    """What was counted for good and what is counted again add up to the tokens of the whole text."""
    meter = Meter(BPE, 1_000_000)
    meter._counter.densest = None  # so that the budget is looked at each time
    try:
        for piece in cut_into(text, places):
            meter.feed(piece)
    finally:
        meter._counter.densest = 4
    assert meter.tokens == BPE.count(text)


def test_a_counter_that_nothing_is_known_of_counts_the_text_so_far() -> None:
    """Its counts need not add up anywhere."""
    assert through(WORDS, ["one tw", "o thr", "ee four"], 2) == "one two"


def test_half_a_word_with_more_tokens_than_the_whole_waits() -> None:
    """`straw` and `berry` are two tokens; what a word will be is known when it has ended."""
    text = " internationalization"
    assert BPE.count(text) < max(BPE.count(text[:size]) for size in range(len(text)))
    assert through(BPE, list(text), BPE.count(text)) == text


def test_a_long_text_is_not_counted_again_for_every_piece() -> None:
    """The characters given to the counter are a small multiple of the text's."""
    given = 0

    def count(text: str) -> int:
        nonlocal given
        given += len(text)
        return len(text)

    text = "x" * 20_000
    assert through(Counting(FunctionCounter(count)), list(text), 50_000) == text
    assert given < 60 * len(text)
    given = 0
    words = "lorem ipsum " * 2_000
    counter = Counting(BPECounter())
    counter.fresh = lambda part: count(part) and BPE.fresh(part)
    assert through(counter, list(words), 50_000) == words
    assert given < 3 * len(words)


@pytest.mark.parametrize(
    ("at", "ellipsis", "expected"),
    [
        ("token", "", "It is late. The lamps are lit,"),
        ("word", "", "It is late. The lamps are lit,"),
        ("word", " …", "It is late. The lamps are …"),
        ("sentence", "", "It is late."),
        ("sentence", "…", "It is late.…"),
    ],
)
def test_the_cut_may_fall_at_the_end_of_a_word_or_sentence(at, ellipsis, expected) -> None:
    """With room for the ellipsis."""
    text = "It is late. The lamps are lit, and nobody is in the streets. Sleep."
    assert through(HEURISTIC, list(text), 9, at, ellipsis) == expected


def test_a_sentence_that_is_too_long_is_cut_at_a_word() -> None:
    """Rather than leaving nothing; a word that is too long, within it."""
    assert through(HEURISTIC, ["one two three four"], 2, "sentence") == "one two"
    assert through(HEURISTIC, ["a" * 20], 2, "word") == "a" * 12
