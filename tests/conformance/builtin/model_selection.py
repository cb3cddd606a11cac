"""The vectors of `ModelSelectionProcessor`: what is asked about, what is decided, which model each step is given."""

from __future__ import annotations

import json
from typing import Any

import anyio

from penstock import MessageList, ModelSelectionProcessor, Workflow
from penstock.engine.values.errors import OptionError
from penstock.processors.routing import ModelDecision
from penstock.testing import ScriptedModel
from tests.conformance.builtin import model_selection_invented
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.language_detector import FENCED
from tests.conformance.builtin.shapes import read, told

OPTIONS = ("choices", "min_probability", "scope", "instructions", "id")


def run(given: Given) -> Fields:
    """Construct it; of a selection run the input stage and each step."""
    options = {name: value for name, value in given.options.items() if name in OPTIONS and value is not None}
    decisions: list[ModelDecision] = []
    judge = ScriptedModel([turn(given.input)], repeat_last=True)
    try:
        selection = ModelSelectionProcessor(model=judge, on_decision=decisions.append, retries=0, **options)
    except OptionError:
        return {"raises": True}
    if given.method == "construct":
        return {"raises": False}
    workflow = Workflow("w").then(selection)
    fields = anyio.run(selected, workflow, given.input)
    texts = [found[2] for request in judge.requests if (found := FENCED.search(str(request.messages[-1].text)))]
    return {"decisions": [shown(one) for one in decisions], "evaluated": [{"request": one} for one in texts], **fields}


async def selected(workflow: Workflow, given: Fields) -> Fields:
    """Run a request: what comes in, then its steps, each with the model that is configured then."""
    async with workflow.start() as run:
        first = await run.process_input(MessageList().add(read(given["messages"]), source="input"))
        applied: list[Any] = []
        for place, model in enumerate(given.get("step_models", [None])):
            outcome = await run.process_input_step(model=model, steps=[object()] * place)
            used = outcome.overrides.get("model")
            applied.append(None if used == model else used)
    return {"applied_model_per_step": applied, **told(first)}


def turn(given: Fields) -> Fields:
    """Return what the judge says: the choice, and how likely it is."""
    verdict = given.get("verdict") or {}
    if verdict.get("error"):
        return {"error": {"status": 400}}
    likely = (verdict.get("probabilities") or {}).get(verdict.get("choice"))
    return {"text": json.dumps({"choice": verdict.get("choice", ""), "probability": likely})}


def shown(decision: ModelDecision) -> Fields:
    """Return a decision in the vectors' words."""
    fields = {name: getattr(decision, name) for name in ("model", "choice", "probability", "abstained")}
    return {name: value for name, value in fields.items() if value is not None}


def projection(fields: Fields) -> Fields:
    """All as it is."""
    return fields


def what_is_no_choice_is_not_quoted(options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """A decision names a choice only where it is one of its user's: what a judge says may quote the request."""
    choices: list[Fields] = options.get("choices", [])
    names = {choice.get("name") or choice["model"] for choice in choices}
    made = [
        one if one.get("choice") in names else {name: value for name, value in one.items() if name != "choice"}
        for one in expected.get("decisions", [])
    ]
    return {**expected, "decisions": made} if made != expected.get("decisions", []) else None


FAMILY = Family(
    files=("model_selection",),
    run=run,
    projections={"select": projection, "construct": projection},
    rules=(what_is_no_choice_is_not_quoted,),
    defaults={"scope": "run", "min_probability": None},
    invented=model_selection_invented.rows,
)
