"""`HumanReview`: where it asks, who is shown which text, and the effects of an approval, an edit and a rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import Message, OptionError, RegexFilterProcessor, Workflow
from penstock.engine import SyncRun, UsageError, View
from penstock.processors.tools import HumanReview

if TYPE_CHECKING:
    from penstock import Outcome

MAIL = "ann@example.com"


def started(review: HumanReview, *, behind: bool = True) -> SyncRun:
    """Start a run of a review and a guard, behind it or in front."""
    guard = RegexFilterProcessor(presets=["pii"], strategy="redact")
    steps = (review, guard) if behind else (guard, review)
    return Workflow("w").then(steps[0]).then(steps[1]).start_sync(may_suspend=True)


def answered(run: SyncRun, outcome: Outcome, **answer: Any) -> Outcome:
    """Answer the question of an outcome."""
    return run.resume_stage(outcome.stage, {outcome.questions[0].id: answer}, outcome.finished)


def called(run: SyncRun, place: str, text: str) -> Outcome:
    """Pass a text to the place where the review asks."""
    if place == "input":
        return run.process_input(text)
    run.process_input("hello")
    if place == "tool_result":
        return run.process_tool_result("search", text, call_id="c1")
    run.process_output_step(text)
    return run.process_output_result()


def said(outcome: Outcome) -> str:
    """Return the text that goes on."""
    return outcome.result if outcome.stage == "process_tool_result" else outcome.text


PLACES = ["input", "tool_result", "output"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("behind", [True, False])
def test_a_person_reads_the_guarded_text(place: Any, behind: bool) -> None:
    """Wherever the guard stands; an approval lets it pass as it is."""
    review = HumanReview([place], question="May this pass?", reviewers=["finance"], expires_in=60)
    run = started(review, behind=behind)
    outcome = called(run, place, f"to {MAIL}")
    question = outcome.questions[0]
    assert question.reason == "May this pass?"
    assert question.shown["result" if place == "tool_result" else "text"] == "to [EMAIL]"
    assert question.shown["reviewers"] == ("finance",)
    assert question.expires_in == question.shown["expires_in"] == 60
    end = answered(run, outcome, decision="approve")
    assert said(end) == "to [EMAIL]"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("behind", [True, False])
def test_the_text_of_a_person_is_judged_too(place: Any, behind: bool) -> None:
    """Also by a guard in front."""
    run = started(HumanReview([place]), behind=behind)
    end = answered(run, called(run, place, "hello"), decision="approve", text=f"from {MAIL}")
    assert said(end) == "from [EMAIL]"


@pytest.mark.parametrize("place", PLACES)
def test_a_rejection_blocks_with_the_reason(place: Any) -> None:
    """One that quotes the text is left out."""
    for reason, told in [
        ("too expensive", "a person has rejected it: too expensive"),
        ("", "a person has rejected it"),
        ("it says: the whole truth about it", "a person has rejected it"),
    ]:
        run = started(HumanReview([place]))
        end = answered(run, called(run, place, "the whole truth about it"), decision="reject", reason=reason)
        assert end.tripwire is not None
        assert end.tripwire.reason == told
        assert end.tripwire.metadata == {"rejected": True}
        assert end.tripwire.processor_id == "human-review"


def test_calls_of_tools_are_asked_about_as_by_a_tool_policy() -> None:
    """So every host asks for them as it does for other calls."""
    run = started(HumanReview(["tool_call"], tools=["pay*"], when=lambda ctx: "9" in ctx.text))
    asked = run.process_tool_call("pay_out", {"amount": 9}, call_id="c1")
    assert asked.asks
    assert not asked.suspended
    assert asked.answer == "The call was not run: a person must approve it."
    assert not run.process_tool_call("pay_out", {"amount": 1}, call_id="c2").asks
    assert not run.process_tool_call("search", {"amount": 9}, call_id="c3").asks


def test_it_asks_only_where_it_is_told_to() -> None:
    """By place, condition and tool."""
    run = started(HumanReview(["input", "tool_result"], when='text.contains("refund")', tools=["bank"]))
    assert not run.process_input("hello").suspended
    assert not run.process_tool_result("search", "a refund").suspended
    assert run.process_tool_result("bank", "a refund", call_id="c1").suspended


def test_a_condition_that_fails_blocks() -> None:
    """And one that returns no bool."""

    def breaks(ctx: View) -> bool:
        raise ValueError(ctx.text)

    def forgets(ctx: View) -> Any:
        return ctx.text

    for condition in (breaks, forgets):
        outcome = started(HumanReview(["input"], when=condition)).process_input("hello")
        assert outcome.blocked
        assert outcome.failure is not None


def test_a_question_that_stays_open_only_shows_the_time() -> None:
    """`on_expiry=None`."""
    question = called(started(HumanReview(expires_in=5, on_expiry=None)), "output", "hello").questions[0]
    assert question.expires_in is None
    assert question.shown["expires_in"] == 5


def test_the_answer_must_be_a_decision() -> None:
    """Anything else is refused before it is stored, and blocks where it is given."""
    run = started(HumanReview(["input"]))
    outcome = run.process_input("hello")
    for wrong in (True, "approve", {}, {"decision": "yes"}, {"decision": "approve", "by": "ann"}):
        with pytest.raises(UsageError):
            outcome.questions[0].check(wrong)
    assert answered(run, outcome, decision="maybe").blocked


def test_where_nobody_can_be_asked_the_request_is_blocked() -> None:
    """`check` is such a place."""
    assert Workflow("w").then(HumanReview(["input"])).check_sync("hello").blocked


def test_an_edited_input_of_several_messages_is_one_text() -> None:
    """As the person has read it."""
    run = started(HumanReview(["input"]))
    outcome = run.process_input([Message.user("one"), Message.user("two")])
    assert outcome.questions[0].shown["text"] == "one\ntwo"
    assert answered(run, outcome, decision="approve", text="three").text == "three"


@pytest.mark.parametrize(
    "options",
    [
        {"at": []},
        {"at": ["stream"]},
        {"at": ["input"], "tools": ["pay"]},
        {"at": ["tool_call"], "tools": [1]},
        {"question": " "},
        {"reviewers": [1]},
        {"expires_in": 0},
        {"on_expiry": "approve"},
        {"when": "text +"},
        {"when": 3},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    """When it is made."""
    with pytest.raises(OptionError):
        HumanReview(**options)
