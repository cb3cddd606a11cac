"""Whether the figures of an evaluation are those that one counts by hand, and those of scikit-learn."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from sklearn import metrics

from penstock import PIIDetector, Processor, UnicodeNormalizer, Workflow
from penstock.engine.values.errors import OptionError
from penstock.processors.budgets import Price, PriceList
from penstock.workflows.evaluation import Evaluation, UndecidedRows, evaluate
from penstock.workflows.evaluation.halves import is_second_half
from tests.laws import examples
from tests.workflows.evaluation.guards_under_test import Breaks, Scored, Words, scored, strict, words

SCHEMA = Path(__file__).parents[3] / "docs" / "eval.schema.json"
DATA = Path("/work/shared/data")


def rows(*given):
    """Return rows of scores and labels."""
    return [{"id": number, "text": f"{score} text", "label": label} for number, (score, label) in enumerate(given)]


@given(st.lists(st.tuples(st.floats(0, 1, allow_subnormal=False), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=examples(40))
def test_figures_are_those_of_scikit_learn(given) -> None:
    """Of the whole workflow and of its only step."""
    made = evaluate(scored, rows(*given))
    truth, flagged = [label for _, label in given], [score >= 0.5 for score, _ in given]
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        truth, flagged, average="binary", zero_division=0
    )
    for part in (made.whole, made.step("scored")):
        passed, wrong, missed, right = metrics.confusion_matrix(truth, flagged, labels=[False, True]).ravel()
        verdicts = part.verdicts
        assert (verdicts.right, verdicts.wrong, verdicts.missed, verdicts.passed) == (right, wrong, missed, passed)
        assert (verdicts.precision.value or 0.0) == pytest.approx(precision)
        assert (verdicts.recall.value or 0.0) == pytest.approx(recall)
        assert (verdicts.f1.value or 0.0) == pytest.approx(f1)
        assert verdicts.accuracy.value == pytest.approx(metrics.accuracy_score(truth, flagged))
    if len(set(truth)) == 2:
        scores = [score for score, _ in given]
        assert made.step("scored").scores.auc == pytest.approx(metrics.roc_auc_score(truth, scores))


def test_steps_in_shadow_count_for_themselves_only() -> None:
    """What they would do is a figure of theirs."""
    made = evaluate(Workflow("w").then(Scored(), mode="shadow"), rows((0.9, True), (0.1, False)))
    assert (made.whole.verdicts.right, made.step("scored").verdicts.right) == (0, 1)


def test_a_row_that_is_flagged_and_let_pass_is_flagged() -> None:
    """So is one that a guard edits, but not one that a transform tidies."""
    warned = evaluate(Workflow("w").then(Scored(blocks=False)), rows((0.9, True)))
    assert (warned.whole.verdicts.right, warned.whole.categories) == (1, ())
    edited = evaluate(words, [{"text": "a secret", "label": True}, {"text": "fine", "label": False}])
    assert (edited.whole.verdicts.right, edited.whole.verdicts.passed) == (1, 1)
    tidied = evaluate(Workflow("w").then(UnicodeNormalizer()), [{"text": "ａ  ｂ", "label": False}])
    assert (tidied.whole.verdicts.passed, tidied.whole.verdicts.wrong) == (1, 0)


def test_rows_that_cannot_be_evaluated_are_in_no_figure() -> None:
    """A step failed, the row is malformed, or its label cannot be read; the first problems are told."""
    given = [
        {"text": "fine", "label": False},
        {"text": "crash", "label": True},
        {"text": 3, "label": True},
        {"text": "fine", "label": 7},
    ]
    made = evaluate(Workflow("w").then(Breaks(), on_error="block"), given)
    assert (made.rows.all, made.rows.labelled, made.rows.skipped) == (4, 1, 3)
    assert [problem.split(":")[0] for problem in made.rows.problems] == ["line 2", "line 3", "line 4"]
    assert "crash" not in str(made)


def test_steps_may_have_labels_of_their_own() -> None:
    """By the path of the step, or by the name that the shape of another tool gives it."""
    both = Workflow("w").then(Words()).then(Scored(blocks=False))
    given = [
        {"data": "0.9 secret", "expected_triggers": {"Words Guard": False, "scored": True}},
        {"data": "0.1 x", "expected_triggers": {"Words Guard": False, "scored": False}},
    ]
    made = evaluate(both, given)
    assert (made.step("words").verdicts.wrong, made.step("words").verdicts.passed) == (1, 1)
    assert (made.step("scored").verdicts.right, made.step("scored").verdicts.passed) == (1, 1)
    named = evaluate(both, [{"text": "0.9 secret", "a": 1, "b": 0}], steps={"scored": "a", "words": "b"})
    assert (named.step("words").verdicts.wrong, named.step("scored").verdicts.right) == (1, 1)


def test_slices_come_worst_first() -> None:
    """The worst is the one that is surely wrong most often, and not one of a single row."""
    given = [{"text": "0.9", "label": False, "lang": "de"}] * 20 + [{"text": "0.1", "label": False, "lang": "en"}] * 20
    given += [{"text": "0.9", "label": False, "lang": "fr"}]
    made = evaluate(scored, given, by=("lang",))
    assert [(each.value, each.rows) for each in made.whole.slices] == [("de", 20), ("fr", 1), ("en", 20)]


def test_too_many_slices_become_one() -> None:
    """A column of ids is no column of slices, and must not fill the memory."""
    made = evaluate(scored, [{"text": "0.1", "label": 0, "user": number} for number in range(150)], by=("user",))
    assert len(made.whole.slices) == 101
    assert {each.value: each.rows for each in made.whole.slices}["(other)"] == 50


def test_categories_are_counted_against_names() -> None:
    """Rows with nothing to find count, too, once there are categories."""
    given = [
        {"text": "0.9", "label": "hate"},
        {"text": "0.1", "label": "hate"},
        {"text": "0.9", "label": "none"},
    ]
    for rows in (given, given[::-1]):  # wherever the first category stands
        counts = {(each.label, each.found): each.rows for each in evaluate(scored, rows).whole.categories}
        assert counts == {("hate", "bad"): 1, ("hate", ""): 1, ("", "bad"): 1}


def test_a_wanted_text_is_a_label() -> None:
    """A text that should leave as it came has nothing to find."""
    given = [
        {"text": "a secret", "wanted": "a [X]"},
        {"text": "a secret too", "wanted": "a word too"},
        {"text": "fine", "wanted": "fine"},
    ]
    made = evaluate(words, given)
    assert (made.as_wanted.count, made.as_wanted.of) == (2, 3)
    assert (made.whole.verdicts.right, made.whole.verdicts.passed) == (2, 1)


def test_spans_are_found_with_their_types_and_where_they_stood() -> None:
    """Before the steps that came first have edited the text; the user's own callback is called, too."""
    heard = []
    text = "ｍｙ secret  mail is ann@example.com, call +49 30 1234567"
    start, end = text.index("ann"), text.index(",")
    labels = [{"type": "EMAIL", "start": start, "end": end}, {"type": "phone", "start": end + 7, "end": len(text)}]
    guard = PIIDetector(strategy="redact", on_detection=heard.append)
    flow = Workflow("w").then(Words()).then(UnicodeNormalizer()).then(guard)
    made = evaluate(flow, [{"text": text, "spans": labels}, {"text": "fine", "spans": []}])
    found = {
        each.type: (each.exact.right, each.exact.wrong, each.exact.missed) for each in made.step("pii-detector").spans
    }
    assert found == {"": (2, 0, 0), "email": (1, 0, 0), "phone": (1, 0, 0)}
    whole = {each.type: (each.half.right, each.half.wrong) for each in made.whole.spans}
    assert whole == {"": (2, 1), "email": (1, 0), "phone": (1, 0), "words": (0, 1)}
    assert len(heard) >= 1
    assert guard.action.reporter.callbacks["on_detection"] == heard.append


def test_a_baseline_is_compared_row_by_row() -> None:
    """With the exact test of McNemar over the labelled rows that changed."""
    given = rows((0.9, True), (0.3, True), (0.3, False), (0.1, False), (0.4, True))
    made = evaluate(strict, given, baseline=scored)
    each = made.comparison
    assert (each.baseline, each.rows, each.flagged_now, each.passed_now) == ("scored", 5, 3, 0)
    assert (each.better, each.worse, each.p_value) == (2, 1, 1.0)
    assert [row.id for row in each.changed] == [2, 1, 4]
    same = evaluate(scored, given, baseline=scored).comparison
    assert (same.flagged_now, same.passed_now, same.p_value) == (0, 0, 1.0)


def test_repeats_tell_whose_verdicts_differ() -> None:
    """As those of a judge may."""
    turns = iter([True, False, False, False, True, False])

    class Unsure(Scored):
        def process_input(self, ctx):
            if next(turns):
                ctx.flag("bad")

    made = evaluate(Workflow("w").then(Unsure()), rows((0, True), (0, False)), repeat=3).repeats
    assert (made.runs, made.unstable.count, made.unstable.of, made.flagged) == (3, 1, 2, (0.5, 0.0, 0.5))


def test_a_day_follows_from_traffic_and_base_rate() -> None:
    """With the interval of the shares, and how many rows are lacking."""
    given = rows(*[(0.9, True)] * 9, (0.1, True), *[(0.1, False)] * 99, (0.9, False))
    day = evaluate(scored, given, traffic=10_000, base_rate=0.01).traffic
    assert (day.false_alarms.value, day.misses.value) == (pytest.approx(99), pytest.approx(10))
    assert [round(end) for end in (day.false_alarms.low, day.false_alarms.high)] == [17, 539]
    assert day.precision == pytest.approx(90 / 189)
    assert day.false_alarms.needed > 0
    with pytest.raises(OptionError, match="base_rate"):
        evaluate(scored, given, traffic=10)


def test_the_rows_that_decide_most_come_first() -> None:
    """Of rows without a label: those next to the threshold, from each slice in turn; they come as they were."""
    given = [
        {"id": "far", "text": "0.01", "lang": "en"},
        {"id": "near", "text": "0.49", "lang": "en"},
        {"id": "other", "text": "0.9", "lang": "de"},
        {"id": "labelled", "text": "0.5", "lang": "en", "label": False},
    ]
    undecided = UndecidedRows(3)
    evaluate(scored, given, by=("lang",), undecided=undecided)
    written = [json.loads(line) for line in undecided.lines().splitlines()]
    assert [row["id"] for row in written] == ["near", "other", "far"]
    assert written[0] == {
        **given[1],
        "label": None,
        "review": {"step": "scored", "score": 0.49, "flagged": False, "found": ""},
    }
    assert evaluate(scored, [{**row, "label": True} for row in written]).rows.labelled == 3


def test_a_label_beside_a_message_is_not_read_by_the_guards() -> None:
    """A row may be one message, and whatever stands beside it is part of it, but for its labels."""
    row = {"role": "user", "content": "fine", "label": "secret", "lang": "secret"}
    made = evaluate(words, [row], by=("lang",))
    assert (made.whole.verdicts.missed, made.rows.skipped) == (1, 0)


def test_texts_are_shown_only_if_asked_for() -> None:
    """They hold what was hidden."""
    given = [{"text": "a secret", "label": False}]
    assert "a secret" not in json.dumps(evaluate(words, given).to_json())
    assert evaluate(words, given, texts=True).whole.false_alarms[0].text == "a secret"


@given(st.one_of(st.none(), st.integers(), st.text()), st.text())
def test_a_row_is_always_in_the_same_half(id, text) -> None:
    """By its id, or without one by its text."""
    assert is_second_half(id, text) == is_second_half(id, text if id is None else f"{text}!")


def test_halves_are_about_as_large() -> None:
    """Whatever the ids look like."""
    assert 450 < sum(is_second_half(number, "") for number in range(1000)) < 550


@pytest.mark.rest
def test_an_evaluation_fits_the_published_schema() -> None:
    """To write it anew: ``json.dumps(Evaluation.json_schema(), indent=2)`` and a line end."""
    given = [{"text": "0.9 secret", "label": "hate", "lang": "en", "spans": [{"start": 4, "end": 10, "type": "x"}]}]
    made = evaluate(
        Workflow("w").then(Words()).then(Scored()),
        [*given, *rows((0.1, False), (0.2, None))],
        by=("lang",),
        baseline=scored,
        traffic=100,
        base_rate=0.1,
        repeat=2,
        fail_if=["recall < 1"],
    )
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads(json.dumps(made.to_json()))
    jsonschema.validate(data, schema)
    assert schema == json.loads(json.dumps(Evaluation.json_schema()))
    data["whole"]["verdicts"]["right"] = "many"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


@pytest.mark.parametrize("option", ["rate", "base_rate", "repeat", "traffic", "stage"])
def test_impossible_options_are_refused(option) -> None:
    """With the name of the option."""
    wrong = {"rate": 1.5, "base_rate": 0, "repeat": 0, "traffic": 0, "stage": "process_api_error"}
    with pytest.raises(OptionError, match=re.escape(option)):
        evaluate(scored, [], **{"traffic": 10, "base_rate": 0.1, option: wrong[option]})


def test_no_rows_are_no_figures() -> None:
    """And no error."""
    made = evaluate(scored, [])
    assert (made.rows.all, made.whole.verdicts.recall.value, made.notes) == (0, None, ("There are no rows.",))


def test_a_row_without_a_score_counts_as_its_verdict() -> None:
    """In a step that scores others; a step that scores no row has no thresholds."""

    class Rare(Scored):
        def process_input(self, ctx):
            if ctx.text == "flag":
                ctx.flag("bad")
            elif ctx.text != "pass":
                super().process_input(ctx)

    given = [
        {"text": "pass", "label": False},
        {"text": "flag", "label": True},
        {"text": "0.3", "label": True},
        {"text": "0.2", "label": False},
    ]
    scores = evaluate(Workflow("w").then(Rare()), given).steps[0].scores
    assert (scores.auc, [each.positives for each in scores.bins if each.positives]) == (1.0, [1, 1])
    assert [(each.threshold, each.false_alarms) for each in scores.curve] == [
        (1.0, 0.0),
        (0.3, 0.0),
        (0.2, 0.5),
        (0.0, 1.0),
    ]
    assert evaluate(words, [{"text": "a secret", "label": True}]).steps[0].scores is None


def test_a_category_of_a_step_has_labels_and_thresholds_of_its_own() -> None:
    """Its scores are those of the category, and it is flagged where the step names it."""
    given = [
        {"text": "0.9", "bad": 1, "worse": 0},
        {"text": "0.4", "bad": 1, "worse": 0},
        {"text": "0.1", "bad": 0, "worse": 1},
    ]
    made = evaluate(scored, given, steps={"scored.bad": "bad", "scored.worse": "worse"})
    bad, worse = made.step("scored.bad"), made.step("scored.worse")
    assert (bad.verdicts.right, bad.verdicts.missed, bad.verdicts.passed, bad.scores.auc) == (1, 1, 1, 1.0)
    assert (worse.verdicts.missed, worse.verdicts.passed, worse.scores.auc) == (1, 2, 0.0)
    assert [point.threshold for point in worse.scores.curve] == [0.45, 0.2, 0.05]
    assert made.step("scored").verdicts.right == 1


def test_rows_to_label_of_many_slices_are_bounded() -> None:
    """Their number must not grow with the values of a column."""
    undecided = UndecidedRows(5)
    evaluate(scored, [{"text": "0.45", "user": number} for number in range(400)], by=("user",), undecided=undecided)
    assert len(undecided.rows()) == 5


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"text": "{}"}, {}),
        ({"content": "{}"}, {}),
        ({"role": "user", "content": "{}", "id": "own"}, {}),
        ({"body": "{}"}, {"text": "body"}),
        ({"text": "{}"}, {"stage": "process_output_step"}),
        ({"result": "{}", "tool_name": "mail"}, {"stage": "process_tool_result"}),
    ],
)
def test_spans_and_wanted_texts_of_all_kinds_of_texts(row, options) -> None:
    """Of a user, of an answer, and of a tool."""
    found, clean = (
        {name: value.format(text) for name, value in row.items()} for text in ("mail ann@example.com", "fine")
    )
    span = {"start": 5, "end": 20, "type": "email"}
    given = [
        {**found, "spans": [span], "wanted": "mail [EMAIL]"},
        {**clean, "spans": [], "wanted": "fine"},
        {**found, "spans": [span], "wanted": "mail [EMAIL]"},
    ]
    made = evaluate(Workflow("w").then(PIIDetector(redaction_method="placeholder")), given, **options)
    assert {each.type: (each.exact.right, each.exact.wrong) for each in made.whole.spans} == {
        "": (2, 0),
        "email": (2, 0),
    }
    assert (made.as_wanted.count, made.as_wanted.of, made.whole.verdicts.right) == (3, 3, 2)


def test_judges_are_counted_and_a_cache_is_told() -> None:
    """A verdict of a cache cannot differ from that of the run before."""
    calls = iter([1, 1, 0, 0])

    class Judged(Scored):
        def process_input(self, ctx):
            asked = next(calls)
            counts = {"verdicts": 1, "cached": 1 - asked, "calls": asked, "input_tokens": 10, "output_tokens": 2}
            ctx.note(judge={"some-model": counts})

    made = evaluate(Workflow("w").then(Judged()), [{"text": "a"}, {"text": "b"}], repeat=2)
    assert [(each.model, each.verdicts, each.calls, each.input_tokens) for each in made.judges] == [
        ("some-model", 2, 2, 20)
    ]
    assert "2 verdicts of the repeats came from a cache" in made.notes[-1]


def test_judges_cost_what_their_tokens_do() -> None:
    """In all, and in a day; not at all if the price of one is not known."""

    class Judged(Processor):
        edits = "nothing"

        def process_input(self, ctx):
            ctx.note(judge={"a/b": {"verdicts": 1, "calls": 1, "input_tokens": 1000, "output_tokens": 10}})
            ctx.flag("x")

    rows = [{"text": "a", "label": True}, {"text": "b", "label": True}]
    asked = {"traffic": 5000, "base_rate": 0.1}
    made = evaluate(Workflow("w").then(Judged()), rows, prices=PriceList({"a/b": Price(2, 10)}), **asked)
    assert made.judges[0].cost == pytest.approx(2 * (1000 * 2 + 10 * 10) / 1e6)
    assert made.traffic.cost == pytest.approx(5000 * 2100 / 1e6)
    for prices in (None, PriceList({"other": Price(1, 1)})):
        made = evaluate(Workflow("w").then(Judged()), rows, prices=prices, **asked)
        assert (made.judges[0].cost, made.traffic.cost) == (None, None)
