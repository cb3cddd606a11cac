"""What a graph is refused for, before anything runs: every problem at once, each naming its step and the cure.

What the facts of its steps are refused for stands in `test_validate_facts`.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import sys
from typing import Any

import pytest

from penstock import InputContext, Workflow, WorkflowError, member, processor
from penstock.engine import DefinitionError, UsageError, pick
from penstock.engine.graph.nodes import DEEPEST_GRAPH, Policy
from penstock.engine.processor.processor import claims_of
from tests.engine.graphs import FACT, Change, Late, Look, W, Wait, agree, nested, problems_of

PROBLEMS: list[tuple[str, Workflow, tuple[str, ...]]] = [
    (
        "equal ids that somebody set",
        W.then(Look(id="a")).parallel(Look(id="a"), Wait()),
        ("2 steps have the id 'a', which was set explicitly; give each its own",),
    ),
    (
        "an id set in one place and taken in another",
        W.then(Look()).then(Wait(), id="look"),
        ("2 steps have the id 'look'",),
    ),
    ("equal ids in a nested workflow", W.then(nested(Look(id="a"), Wait(id="a"))), ("2 steps have the id 'n/a'",)),
    (
        "two members of one id",
        W.dag(member(Look(), id="a"), member(Wait(), id="a")),
        ("2 steps have the id 'a'", "dag: two members have the id 'a'"),
    ),
    (
        "a member after nobody",
        W.dag(member(Look(), after="ghost")),
        ("dag: 'look' comes after 'ghost', which is not a member; the members are look",),
    ),
    (
        "a cycle, and what waits for it",
        W.dag(
            member(Look(), id="a", after="b"),
            member(Look(), id="b", after="a"),
            member(Look(), id="c", after="b"),
            member(Look(), id="d"),
        ),
        ("dag: a, b wait for each other in a cycle", "dag: 'c' is unreachable"),
    ),
    ("a member after itself", W.dag(member(Look(), id="a", after="a")), ("dag: a wait for each other in a cycle",)),
    ("an async hook off the loop", W.then(Wait(), offload="thread"), ("wait: offload='thread' is for sync hooks",)),
    (
        "a workflow off the loop",
        W.then(nested(Look()), offload="thread"),
        ("n: offload='thread' is for a step, not for a workflow",),
    ),
    ("a store in shadow", W.then(Look(stores=True), mode="shadow"), ("look: it writes to a store",)),
    (
        "a store in a workflow in shadow",
        W.then(nested(Look(stores=True)), mode="shadow"),
        ("n/look: it writes to a store",),
    ),
    (
        "a fallback that stores in shadow",
        W.then(Look(on_error="raise"), mode="shadow", on_error=Look(id="f", stores=True)),
        ("look.fallback: it writes to a store",),
    ),
    (
        "an editor beside the model",
        W.then(Change(), overlap="model"),
        ("change: overlap='model' is for checks with edits='nothing', and it declares 'anything'",),
    ),
    (
        "an editor in a workflow beside the model",
        W.then(nested(Change()), overlap="model"),
        ("n/change: overlap='model' is for checks",),
    ),
    (
        "a fallback that edits beside the model",
        W.then(nested(Look()), overlap="model", on_error=Change()),
        ("n.fallback: overlap='model' is for checks",),
    ),
    (
        "a fallback that cannot stand in",
        W.then(Look(), on_error=processor("process_output_step")(print)),
        ("look: its fallback 'print' has no process_input, so it could not stand in there",),
    ),
    (
        "a failure allowed around a guard",
        W.then(nested(Look(), Change(role="transform")), on_error="allow"),
        ("n: on_error='allow' would undo … the guard 'n/look' in it does … say it on the steps",),
    ),
    (
        "an editor beside a guard",
        W.parallel(Change(), Look()),
        ("'change' may edit anything in process_input in parallel with 'look' … or say merge=",),
    ),
    ("two editors", W.parallel(Change(), Change()), ("'change' may edit anything … in parallel with 'change#2'",)),
    (
        "an editor in an arm beside another",
        W.branch((bool, Change()), (bool, Look()), match="all"),
        ("'change' may edit anything … in parallel with 'look'",),
    ),
    (
        "an editor beside a guard in a dag",
        W.dag(member(Change()), member(Look())),
        ("'change' may edit anything … in parallel with 'look'",),
    ),
    (
        "a fallback in a workflow that edits beside a guard",
        W.parallel(Look(id="a"), Workflow("n").then(Wait(), on_error=Change(id="f"))),
        ("'n/wait.fallback' may edit anything … in parallel with 'a'",),
    ),
    (
        "a fallback of a step that edits beside a guard",
        W.dag(member(Look()), member(Look(id="g"), on_error=Change())),
        ("'g.fallback' may edit anything … in parallel with 'look'",),
    ),
    (
        "a pick of nobody",
        W.parallel(Look(id="a"), Look(id="b"), merge=pick("c")),
        ("parallel: merge=pick('c') names no branch of it; the branches are a, b",),
    ),
    (
        "several things",
        W.then(Wait(), offload="thread").then(Wait(requires=FACT)).parallel(Change(), Look()),
        ("wait: offload=", "'change' may edit anything", "wait#2 requires the fact 'fact'"),
    ),
]


@pytest.mark.parametrize(("workflow", "told"), [row[1:] for row in PROBLEMS], ids=[row[0] for row in PROBLEMS])
def test_a_graph_that_cannot_be_meant_is_refused(workflow: Workflow, told: tuple[str, ...]) -> None:
    """With all that is wrong with it; when it is validated, and when it is started, before any hook runs."""
    found = problems_of(workflow)
    assert agree(found, told), found
    with pytest.raises(WorkflowError):
        workflow.start()


FINE: list[tuple[str, Workflow]] = [
    ("nothing", W),
    ("ids that nobody set", W.then(Look()).then(Look()).parallel(Look(), Wait())),
    ("one id in two workflows", W.then(Workflow("a").then(Look(id="x"))).then(Workflow("b").then(Look(id="x")))),
    ("a timeout off the loop", W.then(Look(), timeout=1, offload="thread")),
    ("a timeout on a sync hook", W.then(Look(), timeout=1)),
    ("a timeout on sync steps", W.then(nested(Look()), timeout=1)),
    ("a timeout on nothing but sync steps", W.parallel(Look(), Look(), timeout=1)),
    ("a timeout on those that wait and those that do not", W.parallel(Look(), Wait(), nested(Look()), timeout=1)),
    ("a timeout on a workflow that may wait", W.then(nested(Look(), Wait()), timeout=1)),
    ("an overlapping check", W.then(Look(), overlap="model")),
    ("an editor beside a watcher", W.parallel(Change(), Look(role="observer"))),
    ("an editor in shadow beside a guard", W.parallel(Workflow("n").then(Change(), mode="shadow"), Look())),
    ("an editor beside a guard, with a policy", W.parallel(Change(), Look(), merge="first")),
    ("editors one after the other", W.parallel(Change(), Change(), merge="sequence").dag(member(Look()))),
    ("an editor behind a guard in a dag", W.dag(member(Look()), member(Change(), after="look"))),
    ("arms of which one is taken", W.branch((bool, Change()), (bool, Change()), otherwise=Change())),
    ("a failure allowed around what protects nothing", W.then(nested(Change(role="transform")), on_error="allow")),
    ("a failure allowed in shadow", W.then(nested(Look()), on_error="allow", mode="shadow")),
]


@pytest.mark.parametrize("workflow", [row[1] for row in FINE], ids=[row[0] for row in FINE])
def test_a_graph_that_can_be_meant_is_not(workflow: Workflow) -> None:
    """No false alarms."""
    workflow.validate()
    workflow.start()


def test_a_workflow_is_refused_at_a_stage_that_none_of_its_steps_has() -> None:
    """An empty one is at home everywhere."""
    (problem,) = problems_of(W.then(Look()), "process_output_result")
    assert problem == "no step has process_output_result; the steps have process_input"
    W.validate("process_output_result")


def test_a_stage_that_does_not_exist_is_refused_with_the_one_that_may_be_meant() -> None:
    """An unknown stage is a slip, not a stage without steps."""
    with pytest.raises(UsageError, match="unknown stage proces_input; did you mean 'process_input'"):
        W.then(Look()).validate("proces_input")


def test_members_whose_ids_nobody_set_are_numbered() -> None:
    """And spoken of by the numbered ids; what somebody set stays a problem."""
    workflow = W.dag(member(Look()), member(Look()), member(Late(), after=["look", "look#2"]))
    workflow.validate()
    assert [given.id for given in workflow.root.nodes[0].members] == ["look", "look#2", "late"]  # type: ignore[union-attr]
    assert "'look'" in problems_of(W.dag(member(Look()), member(Late(), id="look")))[0]


def test_what_a_processor_declares_is_read_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each pair of a parallel."""
    workflow = W.parallel(*(Look() for _ in range(40)))
    counted = itertools.count()
    monkeypatch.setattr(
        "penstock.engine.graph.nodes.claims_of", lambda processor: (next(counted), claims_of(processor))[1]
    )
    workflow.validate()
    assert next(counted) <= 40 * 4  # ids, then paths and claims


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


@pytest.mark.parametrize("timeout", [True, 0, -1, float("nan"), float("inf"), "1"])
def test_a_timeout_is_a_finite_number_of_seconds(timeout: Any) -> None:
    """Not something that only compares like one."""
    with pytest.raises(DefinitionError, match="a finite number of seconds above 0"):
        Policy(timeout=timeout)


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
    with pytest.raises(UsageError, match="option timout; " + (f"did you mean '{meant}'" if meant else "use one of")):
        slip(timout=1)


def test_the_reference_systems_name_of_the_error_policy_leads_to_ours() -> None:
    """Its letters are nearer to other names."""
    with pytest.raises(UsageError, match="error_strategy; did you mean 'on_error'"):
        W.then(Look(), error_strategy="allow")  # type: ignore[call-arg]


class Broken(Look):
    """A step that fails."""

    def process_input(self, ctx: InputContext) -> None:
        """Fail."""
        raise ValueError


@pytest.mark.parametrize(
    ("role", "blocked"), [("guard", True), ("transform", False)], ids=["of a guard", "of what protects nothing"]
)
def test_a_fallback_fails_as_what_it_stands_in_for_would(role: Any, blocked: bool) -> None:
    """Where both fail, a guard's fallback that would allow lets nothing through."""
    workflow = W.then(Broken(role=role, on_error="block"), on_error=Broken(id="f", on_error="allow"))
    assert workflow.check_sync("hi").blocked is blocked


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301
def test_a_workflow_can_be_copied_and_pickled(copied: Any) -> None:
    """As name and graph, whether it was used before or not."""
    workflow = W.then(Look(), on_error="block").parallel(Late(), Look())
    workflow.check_sync("hi")
    made = copied(workflow)
    assert made == workflow
    assert made.check_sync("hi").text == "hi"
