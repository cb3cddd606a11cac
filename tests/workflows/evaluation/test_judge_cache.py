"""Judges' answers in a file: a text is asked about once, in later evaluations too, and a repeat asks every time."""

import json
from collections.abc import Callable

import pytest

from penstock import ModerationProcessor, Workflow
from penstock.engine.values.model import ModelRequest
from penstock.models.judges import JudgePanel
from penstock.processors.budgets import Price, PriceList
from penstock.stores import SQLiteCache
from penstock.testing import ScriptedModel
from penstock.workflows.evaluation import Evaluation, evaluate

ROWS = [{"text": f"{word} ann@example.com", "label": word == "rude"} for word in ("rude", "kind", "dull", "rude")]


def verdict(request: ModelRequest) -> str:
    """Return a verdict that quotes the text."""
    rude = "rude" in request.messages[-1].text
    categories = [{"category": "harassment", "score": 0.8}] if rude else []
    return json.dumps({"category_scores": categories, "reason": "says ann@example.com" if rude else None})


@pytest.fixture
def model() -> ScriptedModel:
    """Return a model that judges by a word."""
    return ScriptedModel(verdict)


@pytest.fixture
def ask(tmp_path, model: ScriptedModel) -> Callable[..., Evaluation]:
    """Return a function that evaluates a new guard with the file, one row at a time."""

    def call(threshold: float = 0.5, judge: object = model, **options: object) -> Evaluation:
        guard = ModerationProcessor(judge, threshold=threshold, strategy="block")
        given = {"judge_cache": SQLiteCache(tmp_path / "judge.db"), "jobs": 1, **options}
        return evaluate(Workflow("w").then(guard), ROWS, **given)

    return call


def use(made: Evaluation) -> tuple[int, int, int]:
    """Return how many verdicts there were, how many of a cache, and how many calls."""
    (judge,) = made.judges
    return judge.verdicts, judge.cached, judge.calls


def test_a_later_evaluation_asks_nobody(ask, model, tmp_path) -> None:
    """With another threshold, too, since that is no part of the question; nothing in the file can be read."""
    first, second = ask(), ask(threshold=0.9)
    assert (use(first), use(second), len(model.requests)) == ((4, 1, 3), (4, 4, 0), 3)
    assert (first.whole.flagged.count, second.whole.flagged.count) == (2, 0)
    assert (tmp_path / "judge.db").stat().st_size
    assert not any(b"example" in each.read_bytes() for each in tmp_path.iterdir())


def test_another_question_or_model_is_asked(ask, model) -> None:
    """The key holds the model's name, the instructions and the text."""
    ask()
    other = ScriptedModel(verdict, name="other")
    assert use(ask(judge=other)) == (4, 1, 3)
    guard = ModerationProcessor(model, instructions="Be strict.")
    assert len(model.requests) == 3
    ask_strict = evaluate(Workflow("w").then(guard), ROWS, judge_cache=None, jobs=1)
    assert (use(ask_strict), len(model.requests)) == ((4, 1, 3), 6)


def test_repeats_ask_every_time(ask, model) -> None:
    """About each row, whatever the file holds; so verdicts can differ."""
    ask()
    made = ask(repeat=3)
    assert (use(made), len(model.requests)) == ((4, 4, 0), 3 + 2 * 4)
    assert (made.repeats.runs, made.repeats.unstable.count, made.notes) == (3, 0, ())


def test_the_judge_of_a_panel_is_cached_too(ask, model) -> None:
    """As one of its own is."""
    assert use(ask(judge=JudgePanel(model))) == (4, 1, 3)
    assert use(ask(judge=JudgePanel(model))) == (4, 4, 0)


def test_a_baseline_shares_its_answers_without_a_file(ask, model) -> None:
    """Both ask the same questions, and are compared on the same answers; a judge without a cache asks."""
    old = Workflow("old").then(ModerationProcessor(model, threshold=0.9, strategy="block"))
    made = ask(judge_cache=None, baseline=old)
    assert (use(made), len(model.requests), made.comparison.better) == ((4, 4, 0), 3, 2)
    ask(judge_cache=None, baseline=old, judge=JudgePanel(model, cache=None))
    assert len(model.requests) == 3 + 3 + 4


def test_the_cost_of_a_day_counts_what_the_cache_saved(ask) -> None:
    """Traffic has not that cache. The cost of the calls is that of those that were made."""
    asked = {"prices": PriceList({"scripted": Price(2, 10)}), "traffic": 1000, "base_rate": 0.1}
    first, second = ask(**asked), ask(**asked)
    assert first.traffic.cost == second.traffic.cost > 0
    assert first.judges[0].cost > second.judges[0].cost == 0
