"""`ModelSelectionProcessor` as a step: what it asks, what it decides and tells, when it steps back, how it fails."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from penstock import (
    BlockedError,
    Judge,
    Message,
    ModelSelectionProcessor,
    OptionError,
    Outcome,
    RegexFilterProcessor,
    Tripwire,
    Workflow,
)
from penstock.engine import ImagePart, Record
from penstock.processors.routing import MODEL_CHOICE, ModelChoice, ModelDecision
from penstock.testing import ScriptedModel

SMALL, LARGE = ModelChoice("acme/small", "simple questions"), ModelChoice("acme/large", "proofs", "thinker")
ASKED = "secret: is 7 prime?"


def saying(choice: str, probability: object = None, **turn: Any) -> ScriptedModel:
    """Return a model that names a choice."""
    answer = {"choice": choice, "probability": probability}
    return ScriptedModel([{"text": json.dumps(answer), **turn}], repeat_last=True, name="acme/judge")


def choosing(judge: ScriptedModel, **options: Any) -> ModelSelectionProcessor[Any]:
    """Return a selection between the two."""
    return ModelSelectionProcessor(model=judge, choices=[SMALL, LARGE], **{"retries": 0, **options})


async def routed(
    selection: ModelSelectionProcessor[Any], messages: Any = ASKED, steps: int = 1
) -> tuple[ModelDecision, list[Any], Record]:
    """Return what is decided for a request, the model of each of its steps, and what is on record."""
    async with Workflow("w").then(selection).start(records=True) as run:
        outcome = await run.process_input(messages)
        models = [
            (await run.process_input_step(model="plain", steps=[object()] * step)).overrides["model"]
            for step in range(steps)
        ]
        return outcome.facts[MODEL_CHOICE], models, outcome.records[0]


# Deciding


async def test_a_model_is_chosen_once_and_used_in_every_step() -> None:
    """One question a request, however many steps it takes."""
    judge = saying("thinker", 0.8)
    decision, models, record = await routed(choosing(judge), steps=3)
    assert decision == ModelDecision("acme/large", "thinker", 0.8)
    assert models == ["acme/large"] * 3
    assert len(judge.requests) == 1
    told = {name: value for name, value in record.details.items() if name != "judge"}
    assert told == {"model": "acme/large", "choice": "thinker", "probability": 0.8}


async def test_the_judge_is_told_the_choices_and_shown_the_request() -> None:
    """Names and criteria among the instructions, the request fenced; nothing is answered by it."""
    judge = saying("thinker")
    await routed(choosing(judge, provider_options={"user": "u"}))
    (request,) = judge.requests
    system, user = (message.text for message in request.messages)
    assert all(word in system for word in ('"acme/small": simple questions', '"thinker": proofs'))
    assert ASKED in user
    assert ASKED not in system
    assert request.provider_options == {"user": "u"}
    assert request.response_format is not None
    assert "acme/small" in json.dumps(request.response_format.schema)


async def test_own_instructions_take_the_place_of_the_task_and_not_of_the_choices() -> None:
    """Without its choices nobody could choose."""
    judge = saying("thinker")
    await routed(choosing(judge, instructions="Be thrifty."))
    system = judge.requests[0].messages[0].text
    assert system.startswith("Be thrifty.\n\nThe choices:")
    assert "thinker" in system


async def test_a_name_is_read_with_patience() -> None:
    """Capitals and blanks make no other choice."""
    assert (await routed(choosing(saying(" Thinker "))))[0].choice == "thinker"


async def test_the_latest_user_message_is_what_counts() -> None:
    """Its texts together; a long one's beginning and end."""
    judge = saying("thinker")
    messages = [Message.user("first"), Message.user("b" * 50 + "c" * 50), Message.assistant("third")]
    await routed(choosing(judge, max_input_length=7), messages)
    assert "\nbbbb\n…\nccc\n" in judge.requests[0].messages[1].text


@pytest.mark.parametrize("messages", [[Message.user([ImagePart("https://x/y.png")])], [Message.assistant("a")]])
async def test_nobody_is_asked_about_a_request_without_words(messages: list[Message]) -> None:
    """The configured model stays."""
    judge = saying("thinker")
    decision, models, record = await routed(choosing(judge), messages)
    assert (decision, models, judge.requests) == (ModelDecision(abstained="no-text"), ["plain"], [])
    assert dict(record.details) == {"abstained": "no-text"}


@pytest.mark.parametrize(("probability", "sure"), [(0.8, True), (0.79, False), (None, False)])
async def test_a_choice_must_be_sure_enough(probability: float | None, *, sure: bool) -> None:
    """If it has to be; one that does not say how sure it is does not count."""
    decision, models, _ = await routed(choosing(saying("thinker", probability), min_probability=0.8))
    assert decision.abstained == (None if sure else "below-threshold")
    assert decision.choice == "thinker"
    assert models == ["acme/large" if sure else "plain"]


async def test_what_is_no_choice_is_told_nowhere() -> None:
    """A judge that is led astray may quote the request."""
    decision, models, record = await routed(choosing(saying(ASKED)))
    assert (decision.abstained, decision.choice, models) == ("no-model-for-choice", None, ["plain"])
    assert ASKED not in repr((decision, record))


@pytest.mark.parametrize("answer", [{"error": {"status": 500}}, {"text": "no idea"}, {"plain_error": "broke"}])
async def test_a_failure_keeps_the_configured_model_and_is_logged(
    answer: Mapping[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A request is answered, by whomever; the log quotes nothing."""
    judge = ScriptedModel([answer], repeat_last=True)
    with caplog.at_level(logging.WARNING, "penstock"):
        decision, models, _ = await routed(choosing(judge))
    assert (decision, models) == (ModelDecision(abstained="error"), ["plain"])
    assert "the configured one stays" in caplog.text
    assert "secret" not in caplog.text


# What happens to the choice


async def test_a_choice_may_hold_for_the_first_step_only() -> None:
    """Rejected attempts are part of it: what counts is accepted answers."""
    _, models, _ = await routed(choosing(saying("thinker"), scope="first-step"), steps=3)
    assert models == ["acme/large", "plain", "plain"]


async def test_a_step_that_is_not_told_of_others_is_counted() -> None:
    """Hosts need not tell the steps."""
    async with Workflow("w").then(choosing(saying("thinker"), scope="first-step")).start() as run:
        await run.process_input(ASKED)
        first = await run.process_input_step(model="plain")
        await run.process_output_step("b")
        second = await run.process_input_step(model="plain")
    assert [one.overrides["model"] for one in (first, second)] == ["acme/large", "plain"]


async def test_a_choice_steps_back_where_another_model_takes_over() -> None:
    """For the rest of the request: whoever moved to a fallback had a reason."""
    async with Workflow("w").then(choosing(saying("thinker"))).start(records=True) as run:
        await run.process_input(ASKED)
        outcomes = [await run.process_input_step(model=model) for model in ("plain", "fallback", "plain")]
    assert [one.overrides["model"] for one in outcomes] == ["acme/large", "fallback", "plain"]
    assert dict(outcomes[1].records[0].details) == {"off": True}


async def test_requests_have_choices_of_their_own() -> None:
    """The processor is shared, the choice is not; it is decided again for nobody."""
    judge = ScriptedModel(lambda request: {"text": json.dumps({"choice": _wanted(request.messages[1].text)})})
    workflow = Workflow("w").then(choosing(judge))
    async with workflow.start() as one, workflow.start() as other:
        for run, text in ((one, "easy"), (other, "hard"), (one, "hard")):
            await run.process_input(text)
        models = [(await run.process_input_step(model="plain")).overrides["model"] for run in (one, other)]
    assert models == ["acme/small", "acme/large"]


def _wanted(text: str) -> str:
    return "thinker" if "\nhard\n" in text else "acme/small"


async def test_a_decision_may_be_told_and_not_applied() -> None:
    """Then it changes nothing, may run beside guards, and branches route by it."""
    selection = choosing(saying("thinker"), apply=False)
    taken: list[str] = []

    def is_large(ctx: Any) -> bool:
        taken.append(ctx.get(MODEL_CHOICE).choice)
        return False

    guard = RegexFilterProcessor(rules=[{"name": "x", "pattern": "xyz"}])
    outcome = await Workflow("w").parallel(guard, selection).branch((is_large, guard)).check(ASKED)
    assert taken == ["thinker"]
    assert outcome.text == ASKED


async def test_a_model_object_is_put_in_place_as_it_is() -> None:
    """Choices are models, or their names."""
    model = ScriptedModel(["x"], name="acme/own")
    selection = ModelSelectionProcessor(model=saying("acme/own"), choices=[ModelChoice(model, "a"), SMALL])
    decision, models, record = await routed(selection)
    assert models == [model]
    assert repr(decision) == "ModelDecision(model='acme/own', choice='acme/own')"
    assert record.details["model"] == "acme/own"


async def test_what_the_judge_takes_is_entered() -> None:
    """Whoever minds the cost knows of it."""
    usage = {"input_tokens": 5, "output_tokens": 2}
    async with Workflow("w").then(choosing(saying("thinker", usage=usage))).start() as run:
        await run.process_input(ASKED)
        (spend,) = run.spent
    assert (spend.model, spend.by, spend.attempts) == ("acme/judge", "model-selection", 1)
    assert spend.usage is not None
    assert spend.usage.input_tokens == 5


# Telling


async def test_whoever_wants_to_know_is_told_each_decision() -> None:
    """Plainly or awaited."""
    told: list[ModelDecision] = []

    async def tell(decision: ModelDecision) -> None:
        told.append(decision)

    decision, _, _ = await routed(choosing(saying("thinker"), on_decision=told.append))
    await routed(choosing(saying("thinker"), on_decision=tell))
    assert told == [decision, decision]


async def test_who_is_told_changes_nothing_by_failing(caplog: pytest.LogCaptureFixture) -> None:
    """The choice holds."""

    def broken(_decision: ModelDecision) -> None:
        raise ValueError(ASKED)

    with caplog.at_level(logging.WARNING, "penstock"):
        _, models, _ = await routed(choosing(saying("thinker"), on_decision=broken))
    assert models == ["acme/large"]
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


# A classifier of one's own


class Kind(BaseModel):
    """What kind of request it is."""

    kind: str


async def test_code_may_choose() -> None:
    """A classifier's answers, and what they mean."""
    own: Any = ModelSelectionProcessor(classifier=len, select=lambda length: "acme/large" if length > 5 else None)
    assert await routed(own) == (ModelDecision("acme/large", "acme/large"), ["acme/large"], _any)
    decision, models, _ = await routed(own, "hi")
    assert (decision, models) == (ModelDecision(abstained="no-model-for-choice"), ["plain"])


async def test_code_may_take_its_time() -> None:
    """Classifier and selection, both."""

    async def length(text: str) -> int:
        return len(text)

    async def pick(found: int) -> str:
        return f"acme/{found}"

    assert (await routed(ModelSelectionProcessor(classifier=length, select=pick)))[1] == [f"acme/{len(ASKED)}"]


async def test_a_judge_may_be_the_classifier() -> None:
    """Its verdict is what the selection is given."""
    judge = Judge(ScriptedModel([{"text": '{"kind": "proof"}'}]), Kind, "What kind of request is it?")
    own = ModelSelectionProcessor(classifier=judge, select=lambda verdict: f"acme/{verdict.kind}")
    assert (await routed(own))[1] == ["acme/proof"]


@pytest.mark.parametrize("picked", [1, "", object()])
async def test_what_is_no_model_is_not_put_in_place(picked: object) -> None:
    """It is a failure, so the configured one stays."""
    own: Any = ModelSelectionProcessor(classifier=len, select=lambda length: picked)
    decision, models, _ = await routed(own)
    assert (decision.abstained, models) == ("error", ["plain"])


async def test_a_verdict_in_the_classifier_is_none_of_its_failures() -> None:
    """A run inside it that was stopped stops this one, too."""

    def guarded(_text: str) -> str:
        raise BlockedError(Tripwire("no", "guard", "process_input"))

    own: Any = ModelSelectionProcessor(classifier=guarded, select=str)
    outcome: Outcome = await Workflow("w").then(own).check("hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "no"


# Options


class _Anything:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


_any = _Anything()


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({}, "choices"),
        ({"model": saying("x"), "choices": [SMALL]}, "choices"),
        ({"model": saying("x"), "choices": [SMALL, SMALL]}, "choices"),
        ({"model": saying("x"), "choices": [SMALL, ModelChoice("b", "c", "ACME/small")]}, "choices"),
        ({"model": saying("x"), "choices": "ab"}, "choices"),
        ({"model": saying("x"), "choices": [SMALL, {"model": "x"}]}, "choices"),
        ({"model": saying("x"), "choices": [SMALL, {"model": "x", "criteria": "a", "when": 1}]}, "choices"),
        ({"model": saying("x"), "choices": [SMALL, 1]}, "choices"),
        ({"model": saying("x"), "choices": [SMALL, {"model": "x", "criteria": " "}]}, "criteria"),
        ({"model": saying("x"), "choices": [SMALL, {"model": 1, "criteria": "a"}]}, "model"),
        ({"choices": [SMALL, LARGE]}, "model"),
        ({"model": 3, "choices": [SMALL, LARGE]}, "model"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "instructions": " "}, "instructions"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "instructions": 3}, "instructions"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "min_probability": 80}, "min_probability"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "min_probability": True}, "min_probability"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "scope": "step"}, "scope"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "scope": "first-step", "apply": False}, "scope"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "on_decision": 1}, "on_decision"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "max_input_length": 0}, "max_input_length"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "select": len}, "classifier"),
        ({"classifier": len}, "select"),
        ({"classifier": 1, "select": len}, "classifier"),
        ({"classifier": len, "select": 1}, "select"),
        ({"classifier": len, "select": str, "model": saying("x")}, "model"),
        ({"classifier": len, "select": str, "choices": [SMALL, LARGE]}, "choices"),
        ({"classifier": len, "select": str, "min_probability": 0.5}, "min_probability"),
        ({"classifier": len, "select": str, "instructions": "x"}, "instructions"),
        ({"classifier": len, "select": str, "provider_options": {}}, "provider_options"),
        ({"classifier": len, "select": str, "timeout": -5}, "timeout"),
        ({"classifier": len, "select": str, "timeout": float("nan")}, "timeout"),
        ({"classifier": len, "select": str, "retries": -1}, "retries"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "timeout": 0}, "timeout"),
        ({"model": saying("x"), "choices": [SMALL, LARGE], "retries": 0.5}, "retries"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], option: str) -> None:
    """The error names the option."""
    with pytest.raises(OptionError) as caught:
        ModelSelectionProcessor(**options)
    assert caught.value.option == option


def test_choices_may_be_written_as_mappings() -> None:
    """As a file has them; equal options make equal processors."""
    judge = saying("x")
    written: Any = [{"model": "acme/small", "criteria": "simple questions"}, LARGE]
    assert ModelSelectionProcessor(model=judge, choices=written, retries=0) == choosing(judge)
    assert choosing(judge) != choosing(judge, scope="first-step")
    assert choosing(judge, id="route").id == "route"
