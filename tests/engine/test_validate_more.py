"""What validation looks through: workflows in workflows, fallbacks, what runs beside the model, and depth."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import sys
from typing import Any

import pytest

from penstock import (
    DefinitionError,
    InputContext,
    Key,
    OutputStepContext,
    Processor,
    UsageError,
    Workflow,
    WorkflowError,
    member,
)
from penstock.engine.nodes import DEEPEST_GRAPH, Policy
from penstock.engine.processor import EditsClaim, claims_of
from penstock.engine.validate import problems

FACT = Key[int]("fact")
W = Workflow("w")


class Look(Processor):
    """A guard that edits nothing."""

    edits: EditsClaim | None = "nothing"

    def __init__(self, **claims: Any) -> None:
        for name, value in claims.items():
            setattr(self, name, value)

    def process_input(self, _ctx: InputContext) -> None:
        """Look."""


class Change(Look):
    """A step that may do anything."""

    edits = "anything"


class Broken(Look):
    """A step that fails."""

    def process_input(self, _ctx: InputContext) -> None:
        """Fail."""
        raise ValueError


class Late(Look):
    """A guard of answers."""

    stages = ("process_output_step",)

    def process_output_step(self, _ctx: OutputStepContext) -> None:
        """Look."""


def nested(*steps: Processor[Any]) -> Workflow:
    """A workflow to put into another."""
    made = Workflow("n")
    for step in steps:
        made = made.then(step)
    return made


REFUSED: list[tuple[str, Workflow, list[str]]] = [
    ("a workflow off the loop", W.then(nested(Look()), offload="thread"), ["n: offload='thread' is for a step"]),
    (
        "a failure allowed around a guard",
        W.then(nested(Look(), Change(role="transform")), on_error="allow"),
        ["n: on_error='allow' would undo", "'n/look'", "say it on the steps"],
    ),
    (
        "a fallback that stores in shadow",
        W.then(Look(on_error="raise"), mode="shadow", on_error=Look(id="f", stores=True)),
        ["look.fallback: it writes to a store"],
    ),
    (
        "a fallback that edits beside the model",
        W.then(nested(Look()), overlap="model", on_error=Change()),
        ["n.fallback: overlap='model'", "'anything'"],
    ),
    (
        "a fallback of a step that edits beside a guard",
        W.dag(member(Look()), member(Look(id="g"), on_error=Change())),
        ["'g.fallback' may edit anything", "'look'"],
    ),
    (
        "a fact that a fallback needs",
        W.then(Look(), on_error=Look(id="f", requires=FACT)),
        ["look.fallback requires the fact 'fact'"],
    ),
    (
        "a fact that only the step puts, not its fallback",
        W.then(Look(provides=FACT), on_error=Look(id="f")).then(Look(id="b", requires=FACT)),
        ["b requires the fact 'fact'"],
    ),
    (
        "a fact put beside the model",
        W.then(Look(provides=FACT), overlap="model").then(Look(id="b", requires=FACT)),
        ["b requires the fact 'fact' in process_input"],
    ),
    (
        "a fact put by a workflow beside the model",
        W.then(nested(Look(provides=FACT)), overlap="model").then(Look(id="b", requires=FACT)),
        ["b requires the fact 'fact' in process_input"],
    ),
]


@pytest.mark.parametrize(("workflow", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_graph_that_cannot_be_meant_is_refused(workflow: Workflow, words: list[str]) -> None:
    """With one problem, which names the step."""
    (found,) = problems(workflow.root)
    assert all(word in found for word in words), found


FINE: list[tuple[str, Workflow]] = [
    ("a failure allowed around what protects nothing", W.then(nested(Change(role="transform")), on_error="allow")),
    ("a failure allowed in shadow", W.then(nested(Look()), on_error="allow", mode="shadow")),
    ("a fact put beside the model, for later", W.then(Look(provides=FACT), overlap="model").then(Late(requires=FACT))),
    (
        "a fact within a workflow beside the model",
        W.then(nested(Look(provides=FACT), Look(requires=FACT)), overlap="model"),
    ),
    (
        "a fact that step and fallback put",
        W.then(Look(provides=FACT), on_error=Look(provides=FACT)).then(Look(requires=FACT)),
    ),
    (
        "a fallback that has nothing to do with a stage",
        W.then(Look(provides=FACT)).then(nested(Late()), on_error=Look(id="f")).then(Look(requires=FACT)),
    ),
]


@pytest.mark.parametrize("workflow", [row[1] for row in FINE], ids=[row[0] for row in FINE])
def test_a_graph_that_can_be_meant_is_not(workflow: Workflow) -> None:
    """No false alarms."""
    workflow.validate()


@pytest.mark.parametrize(
    ("role", "blocked"), [("guard", True), ("transform", False)], ids=["of a guard", "of what protects nothing"]
)
def test_a_fallback_fails_as_what_it_stands_in_for_would(role: Any, blocked: bool) -> None:
    """Where both fail, a guard's fallback that would allow lets nothing through."""
    workflow = W.then(Broken(role=role, on_error="block"), on_error=Broken(id="f", on_error="allow"))
    assert workflow.check_sync("hi").blocked is blocked


@pytest.mark.parametrize("timeout", [True, 0, -1, float("nan"), float("inf"), "1"])
def test_a_timeout_is_a_finite_number_of_seconds(timeout: Any) -> None:
    """Not something that only compares like one."""
    with pytest.raises(DefinitionError, match="a finite number of seconds above 0"):
        Policy(timeout=timeout)


def deep(levels: int, kind: str) -> Workflow:
    """A workflow with so many workflows in each other."""
    made = Workflow("w0").then(Look())
    for level in range(levels):
        outer = Workflow(f"w{level + 1}")
        made = {
            "then": lambda outer=outer, made=made: outer.then(made, on_error="block"),
            "parallel": lambda outer=outer, made=made: outer.parallel(made, Look()),
            "branch": lambda outer=outer, made=made: outer.branch((bool, made)),
            "dag": lambda outer=outer, made=made: outer.dag(member(made), member(Look())),
        }[kind]()
    return made


@pytest.mark.parametrize("kind", ["then", "parallel", "branch", "dag"])
def test_a_graph_too_deep_to_walk_is_refused_with_that_problem(kind: str) -> None:
    """However deep it is; one as deep as is allowed runs, within the interpreter's usual limit."""
    for levels in (DEEPEST_GRAPH + 1, 1500):
        with pytest.raises(WorkflowError, match=f"nested deeper than {DEEPEST_GRAPH} levels"):
            deep(levels, kind).check_sync("hi")
    with pytest.raises(DefinitionError, match="nested deeper"):
        _ = str(deep(1500, kind))
    assert len(inspect.stack(0)) < sys.getrecursionlimit() // 5
    assert not deep(DEEPEST_GRAPH, kind).check_sync("hi").blocked


def test_what_a_processor_declares_is_read_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each pair of a parallel."""
    workflow = W.parallel(*(Look() for _ in range(40)))
    counted = itertools.count()
    monkeypatch.setattr("penstock.engine.nodes.claims_of", lambda processor: (next(counted), claims_of(processor))[1])
    workflow.validate()
    assert next(counted) <= 40 * 4  # ids, then paths and claims


def test_a_stage_that_does_not_exist_is_refused_with_the_one_that_may_be_meant() -> None:
    """An unknown stage is a slip, not a stage without steps."""
    with pytest.raises(UsageError, match="no stage is called proces_input; did you mean 'process_input'"):
        W.then(Look()).validate("proces_input")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        (lambda **slip: W.then(Look(), **slip), "timeout"),
        (lambda **slip: W.parallel(Look(), **slip), "timeout"),
        (lambda **slip: member(Look(), **slip), "timeout"),
        (lambda **slip: W.then(Look()).start(**slip), None),
        (lambda **slip: W.then(Look()).start_sync(**slip), None),
    ],
    ids=["then", "parallel", "member", "start", "start_sync"],
)
def test_a_keyword_that_does_not_exist_is_refused(slip: Any, meant: str | None) -> None:
    """With those that do."""
    with pytest.raises(UsageError, match="is called timout; " + (f"did you mean '{meant}'" if meant else "there are")):
        slip(timout=1)


def test_members_whose_ids_nobody_set_are_numbered() -> None:
    """And spoken of by the numbered ids; what somebody set stays a problem."""
    workflow = W.dag(member(Look()), member(Look()), member(Late(), after=["look", "look#2"]))
    workflow.validate()
    assert [given.id for given in workflow.root.nodes[0].members] == ["look", "look#2", "late"]  # type: ignore[union-attr]
    (problem,) = problems(W.dag(member(Look()), member(Late(), id="look")).root)[:1]
    assert "'look'" in problem


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301
def test_a_workflow_can_be_copied_and_pickled(copied: Any) -> None:
    """As name and graph, whether it was used before or not."""
    workflow = W.then(Look(), on_error="block").parallel(Late(), Look())
    workflow.check_sync("hi")
    made = copied(workflow)
    assert made == workflow
    assert made.check_sync("hi").text == "hi"
