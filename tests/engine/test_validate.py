"""What a graph is refused for, before anything runs: every problem at once, each naming its step and the cure."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import InputContext, Key, OutputStepContext, Processor, Workflow, WorkflowError, member, pick, processor

FACT = Key[int]("fact")


class Look(Processor):
    """A guard that edits nothing."""

    edits = "nothing"

    def __init__(self, **claims: Any) -> None:
        for name, value in claims.items():
            setattr(self, name, value)

    def process_input(self, ctx: InputContext) -> None:
        """Look."""


class Wait(Look):
    """The same, async."""

    async def process_input(self, ctx: InputContext) -> None:  # type: ignore[override]
        """Look."""


class Change(Look):
    """A step that may do anything."""

    edits = "anything"


def problems(workflow: Workflow, stage: str | None = None) -> tuple[str, ...]:
    """What is wrong with it."""
    with pytest.raises(WorkflowError) as caught:
        workflow.validate(stage)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    assert caught.value.workflow == workflow.name
    return caught.value.problems


W = Workflow("w")
PROBLEMS: list[tuple[str, Workflow, list[str]]] = [
    ("equal ids that somebody set", W.then(Look(id="a")).parallel(Look(id="a"), Wait()), ["id 'a'"]),
    ("an id set in one place and taken in another", W.then(Look()).then(Wait(), id="look"), ["id 'look'"]),
    ("equal ids in a nested workflow", W.then(Workflow("n").then(Look(id="a")).then(Wait(id="a"))), ["'n/a'"]),
    ("two members of one id", W.dag(member(Look(), id="a"), member(Wait(), id="a")), ["two members have the id 'a'"]),
    ("a member after nobody", W.dag(member(Look(), after="ghost")), ["'ghost'", "the members are look"]),
    (
        "a cycle, and what waits for it",
        W.dag(
            member(Look(), id="a", after="b"),
            member(Look(), id="b", after="a"),
            member(Look(), id="c", after="b"),
            member(Look(), id="d"),
        ),
        ["a, b wait for each other in a cycle", "'c' is unreachable"],
    ),
    ("a member after itself", W.dag(member(Look(), id="a", after="a")), ["a wait for each other"]),
    ("a timeout on a sync hook", W.then(Look(), timeout=1), ["look: timeout= cannot stop a sync hook"]),
    ("a timeout on sync steps", W.then(Workflow("n").then(Look()), timeout=1), ["n: timeout= cannot stop sync steps"]),
    (
        "a timeout on nothing but sync steps",
        W.parallel(Look(), Look(), timeout=1),
        ["look: timeout=", "look#2: timeout="],
    ),
    ("an async hook off the loop", W.then(Wait(), offload="thread"), ["offload='thread' is for sync hooks"]),
    ("a store in shadow", W.then(Look(stores=True), mode="shadow"), ["writes to a store"]),
    (
        "a store in a workflow in shadow",
        W.then(Workflow("n").then(Look(stores=True)), mode="shadow"),
        ["n/look", "store"],
    ),
    ("an editor beside the model", W.then(Change(), overlap="model"), ["overlap='model'", "'anything'"]),
    (
        "an editor in a workflow beside the model",
        W.then(Workflow("n").then(Change()), overlap="model"),
        ["n/change", "overlap='model'"],
    ),
    ("a fallback that cannot stand in", W.then(Look(), on_error=processor("process_output_step")(print)), ["fallback"]),
    ("an editor beside a guard", W.parallel(Change(), Look()), ["'change' may edit anything", "'look'", "merge="]),
    ("two editors", W.parallel(Change(), Change()), ["'change' may edit anything", "'change#2'"]),
    (
        "an editor in an arm beside another",
        W.branch((bool, Change()), (bool, Look()), match="all"),
        ["'change' may edit anything"],
    ),
    ("an editor beside a guard in a dag", W.dag(member(Change()), member(Look())), ["'change' may edit anything"]),
    (
        "a fallback that edits beside a guard",
        W.parallel(Look(id="a"), Workflow("n").then(Wait(), on_error=Change(id="f"))),
        ["may edit anything"],
    ),
    ("a pick of nobody", W.parallel(Look(id="a"), Look(id="b"), merge=pick("c")), ["pick('c')", "a, b"]),
    ("a fact that nobody puts", W.then(Look(requires=FACT)), ["look requires the fact 'fact' in process_input"]),
    ("a fact put later", W.then(Look(requires=FACT)).then(Wait(provides=FACT)), ["look requires the fact"]),
    ("a fact put beside", W.parallel(Look(requires=FACT), Wait(provides=FACT)), ["look requires the fact"]),
    ("a fact put in one arm", W.branch((bool, Wait(provides=FACT))).then(Look(requires=FACT)), ["look requires"]),
    ("a fact put in shadow", W.then(Look(provides=FACT), mode="shadow").then(Wait(requires=FACT)), ["wait requires"]),
    (
        "a fact put in a workflow in shadow",
        W.then(Workflow("n").then(Look(provides=FACT)), mode="shadow").then(Wait(requires=FACT)),
        ["wait requires"],
    ),
    (
        "a fact put on a way that may not be taken",
        W.dag(
            member(Look(), id="a"),
            member(Wait(provides=FACT), id="b", after={"a": bool}),
            member(Look(requires=FACT), id="c", after=["a", "b"]),
        ),
        ["c requires the fact"],
    ),
]


@pytest.mark.parametrize(("workflow", "words"), [row[1:] for row in PROBLEMS], ids=[row[0] for row in PROBLEMS])
def test_a_graph_that_cannot_be_meant_is_refused(workflow: Workflow, words: list[str]) -> None:
    """When it is validated, and when it is started, before any hook runs."""
    found = "\n".join(problems(workflow))
    assert all(word in found for word in words), found
    with pytest.raises(WorkflowError):
        workflow.start()


FINE: list[tuple[str, Workflow]] = [
    ("nothing", W),
    ("ids that nobody set", W.then(Look()).then(Look()).parallel(Look(), Wait())),
    ("one id in two workflows", W.then(Workflow("a").then(Look(id="x"))).then(Workflow("b").then(Look(id="x")))),
    ("a timeout off the loop", W.then(Look(), timeout=1, offload="thread")),
    ("a timeout on those that can be stopped", W.parallel(Look(), Wait(), Workflow("n").then(Look()), timeout=1)),
    ("a timeout on a workflow that may wait", W.then(Workflow("n").then(Look()).then(Wait()), timeout=1)),
    ("an editor beside a watcher", W.parallel(Change(), Look(role="observer"))),
    ("an editor in shadow beside a guard", W.parallel(Workflow("n").then(Change(), mode="shadow"), Look())),
    ("an editor beside a guard, with a policy", W.parallel(Change(), Look(), merge="first")),
    ("editors one after the other", W.parallel(Change(), Change(), merge="sequence").dag(member(Look()))),
    ("an editor behind a guard in a dag", W.dag(member(Look()), member(Change(), after="look"))),
    ("arms of which one is taken", W.branch((bool, Change()), (bool, Change()), otherwise=Change())),
    ("a fact put before", W.then(Look(provides=FACT)).then(Wait(requires=FACT))),
    (
        "a fact put in every arm",
        W.branch((bool, Look(provides=FACT)), otherwise=Wait(provides=FACT)).then(Look(requires=FACT)),
    ),
    ("a fact put in a sequence of a parallel", W.parallel(Wait(provides=FACT), Look(requires=FACT), merge="sequence")),
    (
        "a fact put by all that lead there",
        W.dag(
            member(Look(), id="a"),
            member(Wait(provides=FACT), id="b", after={"a": bool}),
            member(Wait(provides=FACT), id="c", after={"a": bool}),
            member(Look(requires=FACT), id="d", after=["b", "c"]),
        ),
    ),
    ("an overlapping check", W.then(Look(), overlap="model")),
]


@pytest.mark.parametrize("workflow", [row[1] for row in FINE], ids=[row[0] for row in FINE])
def test_a_graph_that_can_be_meant_is_not(workflow: Workflow) -> None:
    """No false alarms."""
    workflow.validate()
    workflow.start()


def test_all_problems_are_told_at_once() -> None:
    """Not one an attempt."""
    workflow = W.then(Look(), timeout=1).then(Wait(requires=FACT)).parallel(Change(), Look())
    assert len(problems(workflow)) == 3


def test_a_workflow_is_refused_at_a_stage_that_none_of_its_steps_has() -> None:
    """An empty one is at home everywhere."""
    (problem,) = problems(W.then(Look()), "process_output_result")
    assert problem == "no step has process_output_result; the steps have process_input"
    W.validate("process_output_result")


def test_a_fact_is_carried_to_later_stages() -> None:
    """From a stage that every run passes; not from one that may not come."""

    class Later(Processor):
        edits = "nothing"
        requires = FACT

        def process_output_step(self, ctx: OutputStepContext) -> None:
            """Look."""

    W.then(Later()).then(Look(provides=FACT)).validate()

    class Tool(Processor):
        edits = "nothing"
        provides = FACT

        def process_tool_call(self, ctx: Any) -> None:
            """Look."""

    class End(Later):
        stages = ("process_output_result",)

        def process_output_result(self, ctx: Any) -> None:
            """Look."""

    assert "end requires" in problems(W.then(Tool()).then(End()))[0]
