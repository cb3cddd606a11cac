"""Whether the facts that steps require are sure to be there, before anything runs: along edges and across stages."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import OutputStepContext, Processor, Workflow, member
from tests.engine.graphs import FACT, Late, Look, W, Wait, agree, nested, problems_of

MISSING: list[tuple[str, Workflow, str]] = [
    ("that nobody puts", W.then(Look(requires=FACT)), "look"),
    ("put later", W.then(Look(requires=FACT)).then(Wait(provides=FACT)), "look"),
    ("put beside", W.parallel(Look(requires=FACT), Wait(provides=FACT)), "look"),
    ("put in one arm", W.branch((bool, Wait(provides=FACT))).then(Look(requires=FACT)), "look"),
    ("put in shadow", W.then(Look(provides=FACT), mode="shadow").then(Wait(requires=FACT)), "wait"),
    (
        "put in a workflow in shadow",
        W.then(nested(Look(provides=FACT)), mode="shadow").then(Wait(requires=FACT)),
        "wait",
    ),
    (
        "put on a way that may not be taken",
        W.dag(
            member(Look(), id="a"),
            member(Wait(provides=FACT), id="b", after={"a": bool}),
            member(Look(requires=FACT), id="c", after=["a", "b"]),
        ),
        "c",
    ),
    ("that a fallback needs", W.then(Look(), on_error=Look(id="f", requires=FACT)), "look.fallback"),
    (
        "that only the step puts, not its fallback",
        W.then(Look(provides=FACT), on_error=Look(id="f")).then(Wait(requires=FACT)),
        "wait",
    ),
    ("put beside the model", W.then(Look(provides=FACT), overlap="model").then(Wait(requires=FACT)), "wait"),
    (
        "put by a workflow beside the model",
        W.then(nested(Look(provides=FACT)), overlap="model").then(Wait(requires=FACT)),
        "wait",
    ),
]


@pytest.mark.parametrize(("workflow", "step"), [row[1:] for row in MISSING], ids=[row[0] for row in MISSING])
def test_a_fact_that_may_not_be_there_is_a_problem(workflow: Workflow, step: str) -> None:
    """Of the step that requires it."""
    assert agree(problems_of(workflow), (f"{step} requires the fact 'fact' in process_input, but no step before it",))


SURE: list[tuple[str, Workflow]] = [
    ("put before", W.then(Look(provides=FACT)).then(Wait(requires=FACT))),
    (
        "put in every arm",
        W.branch((bool, Look(provides=FACT)), otherwise=Wait(provides=FACT)).then(Look(requires=FACT)),
    ),
    ("put in a sequence of a parallel", W.parallel(Wait(provides=FACT), Look(requires=FACT), merge="sequence")),
    (
        "put by all that lead there",
        W.dag(
            member(Look(), id="a"),
            member(Wait(provides=FACT), id="b", after={"a": bool}),
            member(Wait(provides=FACT), id="c", after={"a": bool}),
            member(Look(requires=FACT), id="d", after=["b", "c"]),
        ),
    ),
    ("put beside the model, for later", W.then(Look(provides=FACT), overlap="model").then(Late(requires=FACT))),
    ("within a workflow beside the model", W.then(nested(Look(provides=FACT), Look(requires=FACT)), overlap="model")),
    (
        "that step and fallback put",
        W.then(Look(provides=FACT), on_error=Look(provides=FACT)).then(Look(requires=FACT)),
    ),
    (
        "put where a fallback has nothing to do with the stage",
        W.then(Look(provides=FACT)).then(nested(Late()), on_error=Look(id="f")).then(Look(requires=FACT)),
    ),
]


@pytest.mark.parametrize("workflow", [row[1] for row in SURE], ids=[row[0] for row in SURE])
def test_a_fact_that_is_sure_to_be_there_is_none(workflow: Workflow) -> None:
    """No false alarms."""
    workflow.validate()


class Answered(Processor):
    """Requires the fact when the model has answered."""

    edits = "nothing"
    requires = FACT

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Look."""


class Called(Processor):
    """Puts the fact where a tool is called."""

    edits = "nothing"
    provides = FACT

    def process_tool_call(self, ctx: Any) -> None:
        """Look."""


class Ended(Answered):
    """Requires the fact at the end."""

    stages = ("process_output_result",)

    def process_output_result(self, ctx: Any) -> None:
        """Look."""


def test_a_fact_is_carried_to_later_stages() -> None:
    """From a stage that every run passes, wherever its step is placed; not from one that may not come."""
    W.then(Answered()).then(Look(provides=FACT)).validate()
    (problem,) = problems_of(W.then(Called()).then(Ended()))
    assert problem.startswith("ended requires the fact 'fact' in process_output_result")
