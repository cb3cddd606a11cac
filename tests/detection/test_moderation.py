"""`ModerationScorer`: what it says, and that it says it at all times."""

from __future__ import annotations

import filecmp
import inspect
import profile
import threading

import pytest
from hypothesis import given, strategies as st

from penstock.detection.linear.counting import load
from penstock.detection.moderation import ANY, CATEGORIES, WEIGHTS, ModerationScorer, joined

SCORER = ModerationScorer()


@given(text=st.text(max_size=300))
def test_every_text_has_a_score_of_each_category(text: str) -> None:
    """From 0 to 1, the same each time."""
    scores = SCORER.scores(text)

    assert tuple(scores) == CATEGORIES
    assert all(0 <= score <= 1 for score in scores.values())
    assert SCORER.scores(text) == scores


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("I hate all immigrants, they are subhuman vermin and should get out of our country.", "hate"),
        ("I cut myself again last night and I want to die, I cannot stop thinking of suicide.", "self-harm"),
        ("She moaned as he slid his cock into her wet pussy and fucked her.", "sexual"),
    ],
)
def test_plain_cases_are_flagged(text: str, category: str) -> None:
    """By the category's own threshold, and with a name for it."""
    assert SCORER.scores(text)[category] >= SCORER.thresholds[category]
    assert any(name.startswith(category) for name in SCORER.reasons(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello!",
        "How can I kill a Python process?",
        "What is a good recipe for soup?",
        "12345",
        "Bonjour tout le monde",
    ],
)
def test_plain_prompts_are_not(text: str) -> None:
    """Nor is nothing at all."""
    assert not SCORER.reasons(text)


def test_disguises_are_read() -> None:
    """Full-width letters, and invisible ones between them, change nothing."""
    text = "I hate all immigrants"
    wide = "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in text)

    assert SCORER.scores(wide) == SCORER.scores(text)
    assert SCORER.scores("\u200b".join(text)) == SCORER.scores(text)


def test_overall_is_at_least_the_highest() -> None:
    """It says that any category applies."""
    assert SCORER.overall({"hate": 0.5, "sexual": 0.5}) == 0.75
    assert SCORER.overall({}) == 0


@given(heads=st.fixed_dictionaries({name: st.floats(0, 1) for name in (*CATEGORIES, ANY)}))
def test_joined_scores_keep_their_order_and_their_bounds(heads: dict[str, float]) -> None:
    """One factor applies to all categories, whatever the head for all of them says."""
    scores = joined(heads)

    assert tuple(scores) == CATEGORIES
    assert all(0 <= score <= 1 for score in scores.values())
    assert all(scores[one] <= scores[other] for one in CATEGORIES for other in CATEGORIES if heads[one] <= heads[other])


def test_the_head_for_any_category_raises_and_lowers_scores() -> None:
    """Where it agrees with the categories, nothing changes."""
    none = dict.fromkeys(CATEGORIES, 0.0)

    assert joined({**none, "hate": 0.5, ANY: 0.5})["hate"] == 0.5
    assert joined({**none, "hate": 0.5, ANY: 0.9})["hate"] == pytest.approx(0.7)
    assert joined({**none, "hate": 0.5, ANY: 0.1})["hate"] == pytest.approx(0.3)
    assert joined({**none, ANY: 0.9}) == none


def test_threads_agree() -> None:
    """One scorer serves them all."""
    texts = [f"text {number} about hate and harm" for number in range(40)]
    alone = [SCORER.scores(text) for text in texts]
    found: dict[int, list[object]] = {}

    def read(number: int) -> None:
        found[number] = [SCORER.scores(text) for text in texts]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(scores == alone for scores in found.values())


def test_the_weights_say_where_they_are_from() -> None:
    """Each data set with its licence and its hash; none of them asks for the same licence."""
    sources = load(WEIGHTS).notes["sources"]

    assert isinstance(sources, list)
    assert all(source["licence"] and len(source["sha256"]) == 64 for source in sources)
    assert not [source for source in sources if "-SA" in source["licence"] or "-NC" in source["licence"]]
    assert WEIGHTS.stat().st_size <= 450_000


@pytest.mark.parametrize("module", [filecmp, profile])
def test_the_object_itself_in_code_is_nobody(module: object) -> None:
    """A method that calls others of its object harms no self."""
    source = inspect.getsource(module)  # type: ignore[arg-type]
    for start in range(0, 12_000, 1_500):
        scores = SCORER.scores(source[start : start + 1_700])
        assert not [name for name, score in scores.items() if score >= SCORER.thresholds.get(name, 1.0)]


def test_a_self_that_is_somebody_counts() -> None:
    """Prose has no attributes."""
    text = "I want to cut my self. Nobody would miss me if I killed myself tonight."
    assert SCORER.scores(text)["self-harm"] >= SCORER.thresholds["self-harm"]


def test_a_point_for_a_dash_makes_no_object_of_a_word() -> None:
    """Otherwise it would take the frightening half of the word away."""
    for text in ("post your self.harm pics", "tips for self.injury and cutting"):
        assert SCORER.scores(text)["self-harm"] >= SCORER.thresholds["self-harm"]
