"""Workflows as networkx graphs, there and back: `to_graph` and `dag_from`; this module knows nodes, not how to run.

In a graph every node is a member of a `Dag`, with its placed node as the attribute ``step``; every edge may carry a
condition as ``when``, which is asked about the payload that the edge's target would see. Sequences, parallels and
branches are laid out flat. What plain steps and edges cannot say stays one node: a nested workflow, a join with a merge
policy, a branch that blocks when a condition breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from penstock.engine.graph.checks import problems
from penstock.engine.graph.conditions import either, every
from penstock.engine.graph.nodes import (
    DEFAULT,
    NODES,
    Branch,
    Dag,
    DagEdge,
    DagMember,
    Parallel,
    Policy,
    Sequence,
    children,
    resolve,
)
from penstock.engine.graph.plan import topological
from penstock.engine.processor.processor import is_processor
from penstock.engine.values.errors import DefinitionError, ProcessorError, WorkflowError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Unpack

    import networkx as nx

    from penstock.engine.graph.builder import PolicyOptions
    from penstock.engine.graph.conditions import Term
    from penstock.engine.graph.nodes import Condition, Node
    from penstock.engine.values.frozen import Value

Graph: TypeAlias = "nx.DiGraph[Any]"
"""A networkx graph, for those who pass one on."""

# There


def to_graph(name: str, root: Sequence) -> nx.DiGraph[str]:
    """Return a workflow as a graph: nodes with the attribute ``step``, edges with ``when`` where there is a condition.

    The graph's own attributes are ``name`` and, if the workflow is one dag that has it, ``merge``.

    Raises:
        WorkflowError: a dag in it has two members of one id, or one that comes after nothing known.
    """
    import networkx as nx

    dag = _as_dag(name, root)
    graph: nx.DiGraph[str] = nx.DiGraph(name=name)
    if dag.merge is not None:
        graph.graph["merge"] = dag.merge
    for member in dag.members:
        graph.add_node(member.id, step=member.node)
    for member in dag.members:
        for source, when in _one_a_source(member.after).items():
            graph.add_edge(source, member.id, **({} if when is None else {"when": when}))
    return graph


def _as_dag(name: str, root: Sequence) -> Dag:
    if len(root.nodes) != 1 or not isinstance(root.nodes[0], Dag):
        return _Layout().dag(root)
    dag = root.nodes[0]
    ids = {member.id for member in dag.members}
    if len(ids) < len(dag.members) or any(edge.source not in ids for member in dag.members for edge in member.after):
        raise WorkflowError(name, problems(root))
    return dag


def _one_a_source(edges: tuple[DagEdge, ...]) -> dict[str, Condition | None]:
    """Return the edges with those from one source made one, since a graph has no two."""
    ways: dict[str, list[Condition | None]] = {}
    for edge in edges:
        ways.setdefault(edge.source, []).append(edge.when)
    return {source: found[0] if len(found) == 1 else either(found) for source, found in ways.items()}


@dataclass(frozen=True, slots=True)
class _Exit:
    """A way out of what is laid out so far: behind which node, and on what terms. All that arrive may be taken."""

    source: str
    terms: tuple[Term, ...] = ()

    def on(self, *terms: Term) -> _Exit:
        return _Exit(self.source, self.terms + terms)


_START = ""
"""The source of what comes before any node."""


class _Layout:
    """One workflow being laid out flat.

    What holds all the time: where a node is reached, at least one of its exits is taken; where it is not, none is.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.arrivals: dict[str, list[_Exit]] = {}

    def dag(self, root: Sequence) -> Dag:
        """Return the whole workflow as one dag."""
        self.chain(root.nodes, children(resolve(root)), [_Exit(_START)])
        start = _unique("start", self.nodes)
        members = [DagMember(one, node, _edges(self.arrivals[one], start)) for one, node in self.nodes.items()]
        if any(edge.source == start for member in members for edge in member.after):
            members.insert(0, DagMember(start, Sequence()))
        return Dag(tuple(members))

    def lay(self, node: Node, named: Node, arriving: list[_Exit]) -> list[_Exit]:
        """Lay out a node (``named``: the same one with its path), and return its exits."""
        if isinstance(node, Sequence) and not node.name and node.policy == DEFAULT:
            return self.chain(node.nodes, children(named), arriving)
        if isinstance(node, Parallel) and node.merge is None:
            pairs = zip(node.nodes, children(named), strict=True)
            return [way_out for child, its in pairs for way_out in self.lay(child, its, arriving)]
        if isinstance(node, Branch) and node.merge is None and node.on_error == "raise":
            return self.branch(node, children(named), arriving)
        if isinstance(node, Dag) and node.merge is None and len(topological(node)) == len(node.members):
            return self.mesh(node, children(named), arriving)
        name = _unique(named.path or type(node).__name__.lower(), self.nodes)
        self.nodes[name] = node
        self.arrivals[name] = arriving
        return [_Exit(name)]

    def chain(self, nodes: tuple[Node, ...], named: tuple[Node, ...], arriving: list[_Exit]) -> list[_Exit]:
        for node, its in zip(nodes, named, strict=True):
            arriving = self.lay(node, its, arriving)
        return arriving

    def branch(self, branch: Branch, named: tuple[Node, ...], arriving: list[_Exit]) -> list[_Exit]:
        ends: list[_Exit] = []
        failed: tuple[Term, ...] = ()
        for arm, its in zip(branch.arms, named, strict=False):
            terms = (*(failed if branch.match == "first" else ()), (arm.condition, True))
            ends += self.lay(arm.node, its, [one.on(*terms) for one in arriving])
            failed = (*failed, (arm.condition, False))
        rest = [one.on(*failed) for one in arriving]
        return ends + (rest if branch.otherwise is None else self.lay(branch.otherwise, named[-1], rest))

    def mesh(self, dag: Dag, named: tuple[Node, ...], arriving: list[_Exit]) -> list[_Exit]:
        """Lay out a dag within a graph. It is left by its last members, and, as those may be skipped, by its first."""
        paths = {member.id: its for member, its in zip(dag.members, named, strict=True)}
        ends: dict[str, list[_Exit]] = {}
        laid: dict[str, list[str]] = {}
        before = list(self.nodes)
        for member in topological(dag):
            known = set(self.nodes)
            arrived = [one.on(*_term(edge)) for edge in member.after for one in ends[edge.source]]
            ends[member.id] = self.lay(member.node, paths[member.id], arrived if member.after else arriving)
            laid[member.id] = [name for name in self.nodes if name not in known]
        declared = [*before, *(name for member in dag.members for name in laid[member.id])]
        self.nodes = {name: self.nodes[name] for name in declared}  # since that is how ids that repeat are numbered
        followed = {edge.source for member in dag.members for edge in member.after}
        leaving = [member.id for member in dag.members if member.id not in followed or not member.after]
        return [way_out for one in leaving for way_out in ends[one]]


def _term(edge: DagEdge) -> tuple[Term, ...]:
    return () if edge.when is None else ((edge.when, True),)


def _edges(arriving: list[_Exit], start: str) -> tuple[DagEdge, ...]:
    """Return the edges that lead to a node, one a source, unconditional ones first; none from the very start."""
    edges = tuple(DagEdge(one.source or start, every(one.terms)) for one in arriving)
    if edges == (DagEdge(start),):
        return ()
    made = [DagEdge(source, when) for source, when in _one_a_source(edges).items()]
    return tuple(sorted(made, key=lambda edge: edge.when is not None))


def _unique(name: str, taken: dict[str, Node]) -> str:
    count = 1
    made = name
    while made in taken:
        count += 1
        made = f"{name}#{count}"
    return made


# And back


class MakeMember(Protocol):
    """Makes a member of a processor or a workflow; `penstock.member` is one."""

    def __call__(self, item: Value, *, id: str | None = None, **policy: Unpack[PolicyOptions]) -> DagMember: ...


def dag_from(graph: object, name: str | None, make_member: MakeMember) -> tuple[str, Dag]:
    """Return what a graph says: the workflow's name, unless one is given, and its dag.

    Raises:
        WorkflowError: it is no directed graph, a node does not say what to run, or an edge's ``when`` is no condition.
    """
    import networkx as nx

    kind = _kind(graph)
    if not isinstance(graph, nx.DiGraph) or isinstance(graph, nx.MultiDiGraph):
        problem = f"from_graph() takes a networkx.DiGraph, not a {kind}"
        raise WorkflowError(name or "workflow", [problem])
    given = cast("nx.DiGraph[str]", graph)
    made = name or str(given.graph.get("name") or "workflow")
    return made, Dag(members_from(given, make_member, made), given.graph.get("merge"))


def members_from(graph: nx.DiGraph[str], make_member: MakeMember, name: str = "workflow") -> tuple[DagMember, ...]:
    """Return the nodes of a graph as the members of a dag, in the graph's order.

    Args:
        graph: a node's attribute ``step`` or ``processor`` is what to run: a processor, a workflow, or a node as
            `to_graph` gives it; beside the first two the keywords of a policy may stand. An edge's ``when`` is its
            condition.
        make_member: makes a member of a processor or a workflow.
        name: what an error calls the graph.

    Raises:
        WorkflowError: all that is wrong, at once.
    """
    found: list[str] = []
    members: list[DagMember] = []
    for one, attributes in graph.nodes(data=True):
        try:
            node = _node_of(one, attributes, make_member)
        except DefinitionError as error:
            found.append(f"node {one!r}: {error}")
        else:
            members.append(DagMember(one, node, tuple(_edges_to(one, graph, found))))
    if found:
        raise WorkflowError(name, found)
    return tuple(members)


def _node_of(name: object, attributes: Mapping[str, Value], make_member: MakeMember) -> Node:
    if not isinstance(name, str) or not name.strip():
        cure = "networkx.relabel_nodes(graph, str) makes one of it"
        raise ProcessorError(repr(name), f"a node's name is a non-empty str; {cure}")
    given = [attributes[word] for word in ("step", "processor") if attributes.get(word) is not None]
    policy = cast("PolicyOptions", {word: attributes[word] for word in Policy.__slots__ if word in attributes})
    if len(given) != 1:
        has = "both attributes, 'step' and 'processor'; keep one" if given else "no attribute 'step' (or 'processor')"
        raise ProcessorError(name, f"it has {has}")
    item = given[0]
    if not isinstance(item, NODES):
        if "/" in name:
            raise ProcessorError(name, "its name becomes the step's id, in which no '/' can be")
        made = make_member(item, **policy)
        return made.node if made.id == name else make_member(item, id=name, **policy).node
    if policy:
        raise ProcessorError(name, f"its step has a policy of its own, so {', '.join(policy)} cannot stand beside it")
    return item


def _edges_to(name: str, graph: nx.DiGraph[str], found: list[str]) -> Iterator[DagEdge]:
    """Yield the edges that lead to a node, and note what is wrong with them."""
    for source, attributes in graph.pred[name].items():
        when: object = attributes.get("when")
        if when is not None and (is_processor(when) or not callable(when)):
            found.append(f"edge {source!r} → {name!r}: 'when' is no condition (ctx) -> bool, but {_kind(when)}")
        yield DagEdge(source, cast("Condition | None", when))


def _kind(value: object) -> str:
    return type(value).__name__
