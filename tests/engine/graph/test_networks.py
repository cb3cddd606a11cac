"""Workflows as networkx graphs and back: what a graph says, that nothing is lost, and that it runs the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from penstock import Edit, Key, OptionError, Processor, Workflow, WorkflowError, member
from penstock.engine import DagEdge, StepFailedError, UsageError, pick
from penstock.engine.graph.conditions import either, every
from penstock.engine.graph.nodes import Arm, Branch, Dag, DagMember, Parallel, Policy, Sequence, Step, steps_of
from tests.laws import examples

WORDS = ("ada", "bob", "cyd", "dan")
SEEN = {word: Key[str](f"seen-{word}") for word in WORDS}


class Redact(Processor[Any]):
    """Redacts a word, and tells in a fact that it saw it."""

    edits = "spans"
    provides = tuple(SEEN.values())

    def __init__(self, word: str, mask: str = "***", id: str = "") -> None:
        self.word = word
        self.mask = mask
        if id:
            self.id = id

    def process_input(self, ctx: Any) -> Any:
        """Redact it."""
        if self.word not in ctx.text:
            return None
        ctx.put(SEEN[self.word], self.word)
        edits = {
            place: [Edit(text.index(self.word), text.index(self.word) + len(self.word), self.mask)]
            for place, text in ctx.message_list.texts(ctx.messages, ("text",))
            if self.word in text
        }
        return ctx.message_list.edit_text(edits)


class Forbid(Processor[Any]):
    """Blocks a word."""

    edits = "nothing"

    def __init__(self, word: str, id: str = "") -> None:
        self.word = word
        if id:
            self.id = id

    def process_input(self, ctx: Any) -> None:
        """Look."""
        if self.word in ctx.text:
            ctx.abort(f"{self.word} is forbidden")


class Shout(Processor[Any]):
    """Rewrites the text as a whole."""

    edits = "anything"
    role = "transform"

    def process_input(self, ctx: Any) -> Any:
        """Rewrite."""
        return ctx.message_list.map_text(str.swapcase, ctx.messages)


class Gate(Processor[Any]):
    """A step of another stage."""

    edits = "nothing"

    def process_output_step(self, ctx: Any) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Has:
    """A condition, compared by value: the word stands in the text."""

    word: str

    def __call__(self, ctx: Any) -> bool:
        """Look."""
        return self.word in ctx.text


@dataclass(frozen=True)
class Saw:
    """A condition on a fact."""

    word: str

    def __call__(self, ctx: Any) -> bool:
        """Look."""
        return ctx.get(SEEN[self.word]) is not None


async def has_ada(ctx: Any) -> bool:
    """An async condition."""
    return "ada" in ctx.text


def has_bob(ctx: Any) -> bool:
    """A sync condition."""
    return "bob" in ctx.text


def edges(workflow: Workflow) -> dict[tuple[str, str], Any]:
    """The edges of a workflow's graph, with their conditions."""
    return {(source, target): when for source, target, when in workflow.graph.edges(data="when")}


def ended(workflow: Workflow, text: str) -> Any:
    """How a run ended: what may be compared of it."""
    try:
        outcome = workflow.start_sync().process_input(text)
    except StepFailedError as error:
        return type(error).__name__
    return (outcome.text, outcome.tripwire and outcome.tripwire.processor_id, dict(outcome.facts))


# What a graph says


def test_a_sequence_is_a_chain_of_its_steps() -> None:
    """One node a step, under its id, with an edge to the next."""
    workflow = Workflow("w").then(Redact("ada", id="a"), timeout=1).then(Redact("bob", id="b"))
    assert dict(workflow.graph.nodes(data="step")) == {step.processor.id: step for step in steps_of(workflow.root)}
    assert edges(workflow) == {("a", "b"): None}
    assert workflow.graph.graph == {"name": "w"}


def test_a_parallel_is_a_fork_and_a_join() -> None:
    """Every step beside another has the edges of both ends."""
    a, b, c, d = (Redact(word, id=word) for word in WORDS)
    assert edges(Workflow("w").then(a).parallel(b, c).then(d)) == {
        ("ada", "bob"): None,
        ("ada", "cyd"): None,
        ("bob", "dan"): None,
        ("cyd", "dan"): None,
    }


def test_an_arm_of_a_branch_excludes_those_before_it_and_otherwise_excludes_all() -> None:
    """The edges say in conditions what the branch says by its order."""
    a, b, c, d = (Redact(word, id=word) for word in WORDS)
    has, saw = Has("ada"), Saw("bob")
    assert edges(Workflow("w").then(a).branch((has, b), (saw, c), otherwise=d)) == {
        ("ada", "bob"): has,
        ("ada", "cyd"): every([(has, False), (saw, True)]),
        ("ada", "dan"): every([(has, False), (saw, False)]),
    }


def test_an_arm_of_a_branch_for_all_excludes_none() -> None:
    """With match="all" each arm has its own condition, and otherwise none of them."""
    a, b, c, d = (Redact(word, id=word) for word in WORDS)
    has, saw = Has("ada"), Saw("bob")
    assert edges(Workflow("w").then(a).branch((has, b), (saw, c), otherwise=d, match="all")) == {
        ("ada", "bob"): has,
        ("ada", "cyd"): saw,
        ("ada", "dan"): every([(has, False), (saw, False)]),
    }


def test_a_branch_that_passes_through_has_an_edge_around_it() -> None:
    """Where no arm holds, the flow goes from before the branch to behind it."""
    a, b, c = (Redact(word, id=word) for word in WORDS[:3])
    has = Has("ada")
    assert edges(Workflow("w").then(a).branch((has, b)).then(c)) == {
        ("ada", "bob"): has,
        ("ada", "cyd"): every([(has, False)]),
        ("bob", "cyd"): None,
    }


def test_a_branch_at_the_beginning_gets_a_start_to_come_from() -> None:
    """An edge needs a source, so there is a node that does nothing; it is called otherwise if a step has its name."""
    workflow = Workflow("w").branch((Has("ada"), Redact("ada", id="start")))
    assert next(iter(workflow.graph.nodes(data="step"))) == ("start#2", Sequence())
    assert edges(workflow) == {("start#2", "start"): Has("ada")}


def test_two_ways_between_the_same_nodes_are_one_edge_that_holds_where_either_does() -> None:
    """Past an inner branch or past the outer one."""
    a, b, c = (Redact(word, id=word) for word in WORDS[:3])
    outer, inner = Has("ada"), Has("bob")
    inside = Sequence((Branch((_arm(inner, b),)),))
    workflow = Workflow("w", Sequence((Step(a), Branch((_arm(outer, inside),)), Step(c))))
    around = either([every([(outer, True), (inner, False)]), every([(outer, False)])])
    assert edges(workflow)["ada", "cyd"] == around


def _arm(condition: Any, item: Any) -> Any:
    return Arm(condition, item if isinstance(item, Sequence) else Step(item))


def test_what_edges_cannot_say_stays_one_node() -> None:
    """A nested workflow, a join with a merge policy, a branch that blocks when its condition breaks."""
    inner = Workflow("inner").then(Redact("ada"))
    workflow = (
        Workflow("w")
        .then(inner, timeout=1)
        .parallel(Redact("bob"), Redact("cyd"), merge="first")
        .branch((Has("dan"), Redact("dan")), on_error="block")
    )
    steps = dict(workflow.graph.nodes(data="step"))
    assert list(steps) == ["inner", "parallel", "branch"]
    assert [type(step) for step in steps.values()] == [Sequence, Parallel, Branch]
    assert tuple(steps.values()) == workflow.root.nodes


def test_a_dag_within_a_workflow_is_laid_out_with_the_rest() -> None:
    """Its first members follow what was before it; it is left by its last and its first."""
    a, b, c, d = (Redact(word, id=word) for word in WORDS)
    workflow = Workflow("w").then(a).dag(member(b), member(c, after={"bob": Has("ada")})).then(d)
    assert edges(workflow) == {
        ("ada", "bob"): None,
        ("bob", "cyd"): Has("ada"),
        ("bob", "dan"): None,
        ("cyd", "dan"): None,
    }


def test_nodes_stand_in_declared_order_whatever_runs_first() -> None:
    """Ids that repeat are numbered in that order, so a step keeps its name."""
    later, earlier = member(Redact("ada"), id="", after="b"), member(Redact("bob"), id="b")
    late, early = (DagMember(one.id, Step(one.node.processor), one.after) for one in (later, earlier))
    workflow = Workflow("w", Sequence((Step(Gate()), Dag((late, early)))))
    assert dict(workflow.graph.nodes(data="step"))["redact"].processor == Redact("ada")
    assert edges(workflow) == {("gate", "redact#2"): None, ("redact#2", "redact"): None}
    assert list(workflow.graph) == ["gate", "redact", "redact#2"]


def test_a_dag_within_a_workflow_that_has_a_cycle_stays_one_node() -> None:
    """It cannot be laid out; validate says what is wrong with it."""
    workflow = Workflow("w").then(Gate()).dag(member(Redact("ada", id="a"), after="a"))
    assert list(workflow.graph) == ["gate", "dag"]


def test_a_dag_with_unknown_members_has_no_graph() -> None:
    """An edge from nowhere cannot be drawn; the error is the one of validate."""
    with pytest.raises(WorkflowError, match="'a' comes after 'nobody', which is not a member"):
        _ = Workflow("w").dag(member(Redact("ada", id="a"), after="nobody")).graph
    with pytest.raises(WorkflowError, match="two members have the id 'a'"):
        _ = Workflow("w").dag(member(Redact("ada", id="a")), member(Redact("bob", id="a"))).graph


def test_an_empty_workflow_is_an_empty_graph() -> None:
    """And back."""
    assert len(Workflow("w").graph) == 0
    assert Workflow.from_graph(Workflow("w").graph) == Workflow("w")


def test_steps_without_an_id_are_numbered_as_in_the_run() -> None:
    """The node's name is the step's path."""
    assert list(Workflow("w").then(Redact("ada")).then(Redact("bob")).graph) == ["redact", "redact#2"]


# What is read from a graph


def test_a_node_may_carry_a_processor_a_workflow_or_a_placed_step() -> None:
    """As `step` or as `processor`; the node's name becomes the id."""
    graph: Any = nx.DiGraph(name="g")
    graph.add_node("a", processor=Redact("ada"))
    graph.add_node("b", step=Redact("bob"))
    graph.add_node("c", step=Workflow("inner").then(Redact("cyd")))
    graph.add_node("d", step=Step(Redact("dan"), Policy(on_error="allow")))
    graph.add_node("redact", step=Redact("ada"))
    nx.add_path(graph, ["a", "b", "c", "d", "redact"])
    assert Workflow.from_graph(graph) == Workflow("g").dag(
        member(Redact("ada"), id="a"),
        member(Redact("bob"), id="b", after="a"),
        member(Workflow("inner").then(Redact("cyd")), id="c", after="b"),
        _placed("d", Step(Redact("dan"), Policy(on_error="allow")), "c"),
        member(Redact("ada"), after="d"),
    )


def _placed(id: str, node: Any, after: str) -> Any:
    return DagMember(id, node, (DagEdge(after),))


def test_the_words_of_a_policy_may_stand_beside_a_processor() -> None:
    """A networkx user's way to say what `.then` says with keywords."""
    graph: Any = nx.DiGraph()
    graph.add_node("a", processor=Redact("ada"), mode="shadow", on_error="allow", colour="blue")
    assert Workflow.from_graph(graph, name="g") == Workflow("g").dag(
        member(Redact("ada"), id="a", mode="shadow", on_error="allow")
    )


def test_a_step_runs_if_any_of_its_incoming_edges_was_taken() -> None:
    """Edges are asked about what their target would see."""
    graph: Any = nx.DiGraph()
    for word in WORDS[:3]:
        graph.add_node(word, processor=Redact(word))
    graph.add_edge("ada", "cyd", when=Saw("ada"))
    graph.add_edge("bob", "cyd", when=Saw("bob"))
    workflow = Workflow.from_graph(graph)
    assert [workflow.check_sync(text).text for text in ("cyd", "ada cyd", "bob cyd", "ada bob cyd")] == [
        "cyd",
        "*** ***",
        "*** ***",
        "*** *** ***",
    ]


def test_everything_wrong_with_a_graph_is_told_at_once() -> None:
    """Which node or edge, what, and what to do."""
    graph: Any = nx.DiGraph()
    graph.add_node("bare")
    graph.add_node("both", step=Redact("ada"), processor=Redact("ada"))
    graph.add_node("class", processor=Redact)
    graph.add_node("text", processor="redact")
    graph.add_node("twice", step=Step(Redact("ada")), mode="shadow")
    graph.add_node("policy", processor=Redact("ada"), timeout=-1)
    graph.add_node(7, processor=Redact("ada"))
    graph.add_node("a/b", processor=Redact("ada"))
    graph.add_node("a", processor=Redact("ada"))
    graph.add_node("b", processor=Redact("bob"))
    graph.add_edge("a", "b", when="always")
    graph.add_edge("b", "a", when=Gate())
    with pytest.raises(WorkflowError) as caught:
        Workflow.from_graph(graph, name="g")
    assert caught.value.workflow == "g"
    assert caught.value.problems == (
        "node 'bare': bare: it has no attribute 'step' (or 'processor')",
        "node 'both': both: it has both attributes, 'step' and 'processor'; keep one",
        "node 'class': Redact: it is a class; place an instance: Redact(...)",
        "node 'text': str: it is neither a processor nor a workflow",
        "node 'twice': twice: its step already has a policy; remove mode from the node",
        "node 'policy': policy: option 'timeout' is -1, but must be a finite number of seconds above 0",
        "node 7: 7: a node's name must be a non-empty str; convert it with networkx.relabel_nodes(graph, str)",
        "node 'a/b': a/b: its name becomes the step's id, which must not contain '/'",
        "edge 'b' → 'a': 'when' must be a condition (ctx) -> bool, not Gate",
        "edge 'a' → 'b': 'when' must be a condition (ctx) -> bool, not str",
    )


@pytest.mark.parametrize("given", [nx.Graph(), nx.MultiDiGraph(), {"a": ["b"]}, None], ids=lambda it: type(it).__name__)
def test_only_a_directed_graph_with_single_edges_is_one(given: Any) -> None:
    """An undirected one has no order, and of two edges one would be lost."""
    with pytest.raises(WorkflowError, match=rf"takes a networkx.DiGraph, not a {type(given).__name__}"):
        Workflow.from_graph(given)


def test_a_merge_policy_of_the_graph_is_that_of_the_dag() -> None:
    """And a wrong one is refused as in `.dag`."""
    graph: Any = nx.DiGraph(name="g", merge=pick("a"))
    graph.add_node("a", processor=Redact("ada"))
    workflow = Workflow.from_graph(graph)
    assert workflow == Workflow("g").dag(member(Redact("ada"), id="a"), merge=pick("a"))
    assert workflow.graph.graph == {"name": "g", "merge": pick("a")}
    graph.graph["merge"] = "best"
    with pytest.raises(OptionError, match="merge"):
        Workflow.from_graph(graph)


def test_a_name_given_wins_over_the_graphs_own() -> None:
    """Without either it is called workflow; what is no name is refused as ever."""
    graph: Any = nx.DiGraph()
    assert Workflow.from_graph(graph).name == "workflow"
    graph.graph["name"] = "g"
    assert (Workflow.from_graph(graph).name, Workflow.from_graph(graph, name="h").name) == ("g", "h")
    with pytest.raises(UsageError):
        Workflow.from_graph(graph, name="a/b")


async def test_an_async_condition_stays_async_however_it_is_combined() -> None:
    """The sync form refuses in a loop what would have to wait, and the async form runs it."""
    arms = ((has_bob, Redact("bob", id="b")), (has_ada, Redact("ada", id="a")))
    workflow = Workflow.from_graph(Workflow("w").branch(*arms, otherwise=Redact("cyd", id="c")).graph)
    with pytest.raises(UsageError, match="async"):
        workflow.check_sync("ada")


async def test_combined_async_conditions_decide_as_the_branch_does() -> None:
    """First that holds, and none of them."""
    arms = ((has_bob, Redact("bob", id="b")), (has_ada, Redact("ada", id="a")))
    original = Workflow("w").branch(*arms).then(Redact("cyd", id="c"))
    inner = Workflow("w", Sequence((Branch((_arm(has_ada, original.root),)), Step(Redact("dan", id="d")))))
    for workflow, words in itertools.product((original, inner), itertools.product(("", *WORDS), repeat=2)):
        text = " ".join(words)
        again = Workflow.from_graph(workflow.graph)
        assert (await again.check(text)).text == (await workflow.check(text)).text


# Laws

conditions = st.one_of(st.builds(Has, st.sampled_from(WORDS)), st.builds(Saw, st.sampled_from(WORDS)))
policies = st.sampled_from(
    [Policy(), Policy(), Policy(), Policy(on_error="block"), Policy(mode="shadow"), Policy(retries=1)]
)
processors = st.one_of(st.builds(Redact, st.sampled_from(WORDS)), st.builds(Forbid, st.just("dan")), st.builds(Gate))


@st.composite
def trees(draw: Any, depth: int = 3) -> Any:
    """A node of a random tree; its steps do not know their ids."""
    kinds = ["step", "step", "sequence", "parallel", "branch", "nested", "dag"]
    kind = draw(st.sampled_from(kinds if depth else kinds[:1]))
    below = trees(depth=depth - 1)
    if kind == "step":
        return Step(draw(processors), draw(policies))
    if kind == "sequence":
        return Sequence(tuple(draw(st.lists(below, max_size=3))))
    if kind == "nested":
        return Sequence(tuple(draw(st.lists(below, max_size=3))), draw(st.sampled_from(["in", "out"])), draw(policies))
    if kind == "parallel":
        nodes = tuple(draw(st.lists(below, min_size=1, max_size=3)))
        return Parallel(nodes, draw(st.sampled_from([None, None, "first"])))
    if kind == "dag":
        return Dag(tuple(draw(dag_members(below))), draw(st.sampled_from([None, None, "last"])))
    arms = tuple(Arm(draw(conditions), draw(below)) for _ in range(draw(st.integers(1, 3))))
    on_error = draw(st.sampled_from(["raise", "raise", "block"]))
    return Branch(arms, draw(st.none() | below), draw(st.sampled_from(["first", "all"])), None, on_error)


@st.composite
def dag_members(draw: Any, nodes: Any) -> Any:
    """Members in a random order, each after some of those that are made before it."""
    made: list[Any] = []
    for number in range(draw(st.integers(1, 4))):
        sources = draw(st.lists(st.sampled_from(made), max_size=2, unique_by=lambda m: m.id)) if made else []
        after = tuple(DagEdge(source.id, draw(st.none() | conditions)) for source in sources)
        made.append(DagMember(f"m{number}", draw(nodes), after))
    return draw(st.permutations(made))


workflows = st.lists(trees(), max_size=3).map(lambda nodes: Workflow("w", Sequence(tuple(nodes))))
dags = dag_members(trees(depth=1)).map(lambda members: Workflow("w").dag(*members))
texts = st.lists(st.sampled_from(WORDS[:3]), max_size=3).map(" ".join)
texts = st.one_of(texts, texts, texts, st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join))


@given(workflows)
def test_a_graph_of_a_graph_is_the_same_graph(workflow: Workflow) -> None:
    """Nodes, steps, edges, conditions and their order: nothing is lost on the way back and forth."""
    graph = workflow.graph
    again = Workflow.from_graph(graph).graph
    assert nx.utils.graphs_equal(again, graph)
    assert list(again) == list(graph)
    assert [list(again.pred[one]) for one in graph] == [list(graph.pred[one]) for one in graph]


@given(workflows)
def test_every_step_is_in_the_graph_once_with_its_policy(workflow: Workflow) -> None:
    """In declared order, where it stands or inside the node it belongs to."""
    held = [step for _, node in workflow.graph.nodes(data="step") for step in steps_of(node)]
    assert sorted(map(repr, held)) == sorted(map(repr, steps_of(workflow.root)))


@given(dags)
def test_a_dag_is_equal_after_the_round_trip(workflow: Workflow) -> None:
    """As values: what `from_graph` and `dag` make is what a graph says."""
    assert Workflow.from_graph(workflow.graph) == workflow


@settings(max_examples=examples(300))
@given(st.one_of(workflows, dags), st.lists(texts, min_size=1, max_size=3))
def test_a_graph_runs_as_the_workflow_it_was_made_of(workflow: Workflow, given_texts: list[str]) -> None:
    """The same text, verdict and facts, or the same failure."""
    again = Workflow.from_graph(workflow.graph)
    for text in given_texts:
        assert ended(again, text) == ended(workflow, text)


# What validate does not see yet


class Needs(Processor[Any]):
    """Requires the fact that `Finds` provides."""

    edits = "nothing"
    requires = (SEEN["ada"],)

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Finds(Redact):
    """Provides one fact."""

    provides = (SEEN["ada"],)


def test_a_graph_of_arms_that_edit_anything_is_no_unsafe_parallel() -> None:
    """Their conditions exclude each other, so only one of them runs."""
    workflow = Workflow("w").branch((Has("ada"), Shout()), otherwise=Redact("bob"))
    again = Workflow.from_graph(workflow.graph)
    assert [ended(again, text) for text in ("ada", "bob")] == [ended(workflow, text) for text in ("ada", "bob")]


@pytest.mark.parametrize(
    "workflow",
    [
        Workflow("w").branch((Has("bob"), Finds("ada", id="a")), otherwise=Finds("ada", id="b")).then(Needs()),
        Workflow("w").then(Gate()).branch((Has("bob"), Redact("bob"))).then(Finds("ada", id="a")).then(Needs()),
    ],
    ids=["both arms provide", "behind a branch"],
)
def test_a_graph_knows_the_facts_that_every_way_provides(workflow: Workflow) -> None:
    """Whichever arm ran, the fact is there."""
    assert ended(Workflow.from_graph(workflow.graph), "ada") == ended(workflow, "ada")


@pytest.mark.parametrize("name", ["parallel", "branch", "dag"])
def test_a_step_keeps_its_name_whatever_it_is_called(name: str) -> None:
    """A verdict names the step as the user did."""
    workflow = Workflow("w").parallel(Gate(), Redact("bob")).branch((Has("x"), Redact("x", id="x")))
    workflow = workflow.then(Forbid("ada", id=name))
    for one in (workflow, Workflow.from_graph(workflow.graph)):
        tripwire = one.check_sync("ada").tripwire
        assert tripwire is not None
        assert tripwire.processor_id == name
