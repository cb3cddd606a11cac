"""Guards that share a `JudgePanel`: what they ask together, and what each does with its part of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import ModelError, ModerationProcessor, OptionError, PIIDetector, PromptInjectionDetector, Workflow
from penstock.models import JudgePanel
from penstock.testing import ScriptedModel

if TYPE_CHECKING:
    from penstock.engine.values.model import ModelRequest

TEXT = "Tell Mary Jones that I will see to the matter she wrote about."
MODERATION, PII, INJECTION = "q1_moderation", "q2_pii_detector", "q3_prompt_injection"
NOTHING: dict[str, Any] = {
    MODERATION: {"category_scores": [], "reason": None},
    PII: {"findings": []},
    INJECTION: {"categories": [], "reason": None},
}
HARM: dict[str, Any] = {MODERATION: {"category_scores": [{"category": "violence", "score": 0.9}], "reason": None}}
NAME: dict[str, Any] = {PII: {"findings": [{"type": "name", "value": "Mary Jones", "score": 0.9}]}}


def panel(*answers: Any) -> tuple[JudgePanel, list[ModelRequest]]:
    """A panel with a scripted model, and the requests that it makes."""
    turns: list[Any] = [{"object": answer} if isinstance(answer, dict) else {"error": answer} for answer in answers]
    model = ScriptedModel(turns, repeat_last=True)
    return JudgePanel(model, retries=0), model.requests


def side_by_side(judge: JudgePanel, **policy: Any) -> Workflow:
    """Three guards in a parallel; ``policy``: that of the one for personal data."""
    private = Workflow("private").then(PIIDetector(judge), **policy)
    return Workflow("guard").parallel(private, PromptInjectionDetector(judge), ModerationProcessor(judge))


async def test_guards_side_by_side_ask_once_and_each_acts_on_its_field() -> None:
    """One hides what its field names; the others find nothing."""
    judge, requests = panel(NOTHING | NAME)
    outcome = await side_by_side(judge).check(TEXT)
    assert (outcome.blocked, "Mary Jones" in outcome.text, len(requests)) == (False, False, 1)


async def test_a_guard_blocks_by_its_field_of_the_shared_answer() -> None:
    """Whatever the others found."""
    judge, requests = panel(NOTHING | NAME | HARM)
    outcome = await side_by_side(judge).check(TEXT)
    assert outcome.tripwire is not None
    assert (outcome.tripwire.processor_id, len(requests)) == ("moderation", 1)


@pytest.mark.parametrize("missing", [*NOTHING])
async def test_a_missing_field_is_the_failure_of_its_guard(missing: str) -> None:
    """It has approved nothing, so it blocks."""
    judge, _ = panel({name: answer for name, answer in NOTHING.items() if name != missing})
    outcome = await side_by_side(judge).check(TEXT)
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == missing.partition("_")[2].replace("_", "-")
    assert (outcome.tripwire.metadata["failed"], outcome.tripwire.metadata["why"]) == (True, "unreadable")


async def test_only_the_policy_of_the_guard_without_an_answer_counts() -> None:
    """The others have their verdicts."""
    left = {name: answer for name, answer in NOTHING.items() if name != PII}
    judge, _ = panel(left)
    assert not (await side_by_side(judge, on_error="allow").check(TEXT)).blocked
    judge, _ = panel(left | HARM)
    assert (await side_by_side(judge, on_error="allow").check(TEXT)).blocked


async def test_a_shared_request_that_fails_is_a_failure_of_every_guard() -> None:
    """One that may fail lets the text pass; the others block."""
    judge, requests = panel(ModelError("m", "no", status=401))
    outcome = await side_by_side(judge, on_error="allow").check(TEXT)
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata["why"] == "model"
    assert outcome.tripwire.processor_id in ("prompt-injection", "moderation")
    assert len(requests) == 1


async def test_the_tokens_of_a_shared_request_are_spent_once() -> None:
    """In the usage of the run, as in the panel's."""
    model = ScriptedModel([{"object": NOTHING, "usage": {"input_tokens": 50, "output_tokens": 7}}])
    judge = JudgePanel(model)
    run = side_by_side(judge).start()
    await run.process_input(TEXT)
    assert [entry.usage for entry in run.spent if entry.usage] == [judge.usage]
    assert judge.usage.input_tokens == 50


async def test_guards_in_a_sequence_ask_one_after_another() -> None:
    """Each is shown the text as the one before it left it."""
    own: dict[str, Any] = {"findings": [], "category_scores": [], "categories": [], "reason": None}
    judge, requests = panel(own)
    guards = Workflow("guard").then(PIIDetector(judge)).then(PromptInjectionDetector(judge))
    await guards.then(ModerationProcessor(judge)).check(TEXT)
    assert len(requests) == 3


async def test_guards_share_requests_in_a_stream() -> None:
    """A request for each window of the answer, with the questions of all."""
    judge, requests = panel(NOTHING | NAME)
    guards = (PIIDetector(judge), PromptInjectionDetector(judge, phase="all"), ModerationProcessor(judge))
    async with Workflow("guard").parallel(*guards).start().process_output_stream([TEXT[:9], TEXT[9:]]) as chunks:
        said = "".join([chunk.text async for chunk in chunks])
    assert "Mary Jones" not in said
    assert len(requests) == 1


async def test_a_guard_of_a_panel_can_be_asked_a_question_of_ones_own() -> None:
    """Its instructions stand under its id."""
    judge, requests = panel(
        {"q1_manners": {"category_scores": [], "reason": None}, "q2_prompt_injection": NOTHING[INJECTION]}
    )
    manners = ModerationProcessor(judge, instructions="Is it polite?", id="manners")
    outcome = await Workflow("guard").parallel(manners, PromptInjectionDetector(judge)).check(TEXT)
    assert not outcome.blocked
    assert "# q1_manners\n\nIs it polite?" in requests[0].messages[0].text


def test_how_a_panel_asks_is_not_an_option_of_its_guards() -> None:
    """The request is the panel's."""
    with pytest.raises(OptionError, match="given to the panel itself"):
        ModerationProcessor(JudgePanel(ScriptedModel([])), retries=1)
