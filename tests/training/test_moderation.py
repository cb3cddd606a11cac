"""The weights of moderation: by the recipe that is written down, from the data they name."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from penstock.detection.linear.model import Curve, unpack
from penstock.detection.moderation import CATEGORIES, REQUEST, WEIGHTS
from training import moderation, moderation_rows, rows
from training.moderation_curves import Limits, content_curve, request_curve
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


def test_scores_rank_texts_as_margins_do() -> None:
    """The curve of content rises everywhere; that of requests is nought below its limit."""
    texts = [openai(number, hate=number > 70) for number in range(100)]
    points = content_curve([number / 50 - 1 for number in range(100)], "hate", texts)
    curve = Curve(request_curve([0.0, 2.0], Limits(0.5, 1.0, 0.25)))

    assert all(left[1] < right[1] for left, right in pairwise(points))
    assert [curve(0.9), curve(1.1) >= 0.25, curve(2.0)] == [0.0, True, 0.95]


def test_the_shipped_weights_have_the_recipe_of_the_trainer() -> None:
    """Whoever changes it must train anew."""
    packed = unpack(WEIGHTS.read_bytes())
    names = [name for each in CATEGORIES for name in (each, f"{each}{REQUEST}")]

    assert packed.recipe == moderation.RECIPE
    assert [head.name for head in packed.heads] == [name for name in names if name != f"harassment{REQUEST}"]
    assert all(max(map(abs, head.weights)) <= moderation.LEVELS for head in packed.heads)


def test_the_shipped_weights_were_made_from_the_data_that_lie_here() -> None:
    """By the hashes in the header; `python -m training.moderation --check` rebuilds them."""
    if not DATA.is_dir():
        pytest.skip(f"THE DATA ARE NOT THERE ({DATA}): the weights' sources were not compared")
    packed = unpack(WEIGHTS.read_bytes())

    assert packed.notes["sources"] == [rows.source(DATA, name) for name in moderation_rows.SETS]
