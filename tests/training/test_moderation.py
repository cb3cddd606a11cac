"""The weights of moderation: by the recipe that is written down, from the data they name."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.detection.linear.model import Curve, unpack
from penstock.detection.moderation import ANY, CATEGORIES, REQUEST, WEIGHTS
from training import moderation, moderation_rows
from training.moderation_curves import Limits, content_curve, joined_scores, limits, request_curve
from training.rows import Row
from training.weighted import Valued, fit, margin

DATA = Path(__file__).parents[3] / "shared" / "data"
TINY = [Valued([0, 1], [0.8, 0.6], positive=True), Valued([0, 2], [0.8, 0.6], positive=False)]


def openai(number: int, *, hate: bool) -> moderation_rows.Text:
    """Return a text that people judged."""
    row = Row(moderation_rows.OPENAI, str(number), "text", {"hate": int(hate)})
    return moderation_rows.Text(row, str(number))


def test_the_machine_parts_what_can_be_parted_the_same_way_each_time() -> None:
    """Values count, and the result is the same to the bit."""
    plane = fit(TINY, 3, rounds=20)

    assert [margin(plane, example.places, example.values) > 0 for example in TINY] == [True, False]
    assert fit(TINY, 3, rounds=20) == plane


def test_weights_are_rounded_to_few_steps() -> None:
    """So that they compress; the largest are cut off."""
    steps, scale = moderation.coarse([0.0] * 999 + [1.0])

    assert max(steps) == moderation.LEVELS
    assert scale > 0


def test_what_nobody_said_is_no_example() -> None:
    """A missing label is neither yes nor no."""
    row = Row(moderation_rows.OPENAI, "1", "text", {"hate": 1})

    assert moderation_rows.content(row, "hate") is True
    assert moderation_rows.content(row, "sexual") is None
    assert moderation_rows.request(row, "hate") is None
    assert moderation_rows.request(Row("ben_user_prompts", "1", "text", {}), "hate") is False


def test_any_holds_if_one_label_does() -> None:
    """What people did not label is taken for no."""
    flagged = Row(moderation_rows.OPENAI, "1", "text", {"hate": 0, "violence": 1})
    clean = Row(moderation_rows.OPENAI, "2", "text", {"hate": 0})

    assert moderation_rows.content(flagged, ANY) is True
    assert moderation_rows.content(clean, ANY) is False
    assert moderation_rows.content(Row(moderation_rows.DAVIDSON, "3", "text", {"hate": 1}), ANY) is None


def test_texts_of_our_own_have_every_label() -> None:
    """Each belongs to known categories only, and none stands there twice."""
    own = moderation_rows.own_rows()
    lines = Path(moderation_rows.__file__).with_name("texts") / "moderation.jsonl"
    named = {name for line in lines.read_text("utf-8").splitlines() for name in json.loads(line)["categories"]}

    assert named == {*CATEGORIES}
    assert all({*row.labels} == named for row in own)
    assert len({row.text for row in own}) == len(own)
    assert all(moderation_rows.content(row, ANY) is not moderation_rows.safe(row) for row in own)
    assert all(moderation_rows.request(row, "hate") is (False if moderation_rows.safe(row) else None) for row in own)


def test_scores_rank_texts_as_margins_do() -> None:
    """The curve of content rises everywhere; that of requests is nought below its limit."""
    texts = [openai(number, hate=number > 70) for number in range(100)]
    points = content_curve([number / 50 - 1 for number in range(100)], "hate", texts)
    curve = Curve(request_curve([0.0, 2.0], Limits(threshold=0.25, request=1.0)))

    assert all(left[1] < right[1] for left, right in pairwise(points))
    assert [curve(0.9), curve(1.1) >= 0.25, curve(2.0)] == [0.0, True, 0.95]


def test_limits_are_set_on_scores_that_are_joined() -> None:
    """Of a hundred texts without a category, five may reach its threshold."""
    texts = [openai(number, hate=number >= 100) for number in range(120)]
    left = {name: [number / 60 - 1 for number in range(120)] for name in (*CATEGORIES, ANY)}
    safe = moderation_rows.Text(Row(moderation_rows.XSTEST, "xs-1", "text", {"unsafe": 0}), "safe")
    benign = moderation_rows.Text(Row("ben_user_prompts", "1", "text", {}), "benign")
    texts, left = [*texts, safe, benign], {name: [*margins, -1.0, -1.0] for name, margins in left.items()}
    curves = {name: [(-1.0, 0.01), (1.0, 0.99)] for name in left}

    scores = joined_scores(left, curves)["hate"]
    threshold = limits(scores, None, "hate", texts).threshold

    assert sum(score >= threshold for score in scores[:100]) == 5
    assert all(left <= right for left, right in pairwise(scores[:120]))


def test_the_shipped_weights_have_the_recipe_of_the_trainer() -> None:
    """Whoever changes it must train anew."""
    packed = unpack(WEIGHTS.read_bytes())
    names = [name for each in CATEGORIES for name in (each, f"{each}{REQUEST}")]

    assert packed.recipe == moderation.RECIPE
    assert [head.name for head in packed.heads] == [ANY, *(name for name in names if name != f"harassment{REQUEST}")]
    assert all(max(map(abs, head.weights)) <= moderation.LEVELS for head in packed.heads)


def test_the_shipped_weights_were_made_from_the_data_that_lie_here() -> None:
    """By the hashes in the header; `python -m training.moderation --check` rebuilds them."""
    if not DATA.is_dir():
        pytest.skip(f"THE DATA ARE NOT THERE ({DATA}): the weights' sources were not compared")
    packed = unpack(WEIGHTS.read_bytes())

    assert packed.notes["sources"] == moderation_rows.sources(DATA)
