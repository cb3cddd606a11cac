"""Convert workflows to networkx graphs (`to_graph`) and back (`dag_from`).

Every node of a graph is a member of a `Dag`, with the workflow's node as the attribute ``step``. An edge may carry a
condition as ``when``, which is evaluated for the payload that the edge's target would get. Sequences, parallels and
branches are flattened. What steps and edges alone cannot express stays one node: a nested workflow, a join with a merge
policy, and a branch that blocks when a condition raises.
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
"""A networkx graph, for annotations in modules that do not import networkx."""

# To a graph


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
        return _NetworkLayout().dag(root)
    dag = root.nodes[0]
    ids = {member.id for member in dag.members}
    if len(ids) < len(dag.members) or any(edge.source not in ids for member in dag.members for edge in member.after):
        raise WorkflowError(name, problems(root))
    return dag


def _one_a_source(edges: tuple[DagEdge, ...]) -> dict[str, Condition | None]:
    """Return one condition for each source: a graph has no two edges between the same nodes."""
    conditions: dict[str, list[Condition | None]] = {}
    for edge in edges:
        conditions.setdefault(edge.source, []).append(edge.when)
    return {source: found[0] if len(found) == 1 else either(found) for source, found in conditions.items()}


@dataclass(frozen=True, slots=True)
class _OpenEdge:
    """An edge whose target is not laid out yet: its source, and the terms on which it is taken."""

    source: str
    terms: tuple[Term, ...] = ()

    def on(self, *terms: Term) -> _OpenEdge:
        return _OpenEdge(self.source, self.terms + terms)


_START = ""
"""The source of an open edge that comes before any node."""


class _NetworkLayout:
    """Flattens one workflow.

    Invariant: if a node runs, at least one of its open edges is taken; if it does not, none is.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.arrivals: dict[str, list[_OpenEdge]] = {}

    def dag(self, root: Sequence) -> Dag:
        """Return the workflow as one dag."""
        self.lay_in_order(root.nodes, children(resolve(root)), [_OpenEdge(_START)])
        start = _unique("start", self.nodes)
        members = [DagMember(one, node, _edges(self.arrivals[one], start)) for one, node in self.nodes.items()]
        if any(edge.source == start for member in members for edge in member.after):
            members.insert(0, DagMember(start, Sequence()))
        return Dag(tuple(members))

    def lay(self, node: Node, named: Node, arriving: list[_OpenEdge]) -> list[_OpenEdge]:
        """Lay out a node, and return its open edges.

        Args:
            node: the node.
            named: the same node with its path.
            arriving: the open edges that lead to it.
        """
        if isinstance(node, Sequence) and not node.name and node.policy == DEFAULT:
            return self.lay_in_order(node.nodes, children(named), arriving)
        if isinstance(node, Parallel) and node.merge is None:
            pairs = zip(node.nodes, children(named), strict=True)
            return [way_out for child, its in pairs for way_out in self.lay(child, its, arriving)]
        if isinstance(node, Branch) and node.merge is None and node.on_error == "raise":
            return self.lay_branch(node, children(named), arriving)
        if isinstance(node, Dag) and node.merge is None and len(topological(node)) == len(node.members):
            return self.lay_dag(node, children(named), arriving)
        name = _unique(named.path or type(node).__name__.lower(), self.nodes)
        self.nodes[name] = node
        self.arrivals[name] = arriving
        return [_OpenEdge(name)]

    def lay_in_order(
        self, nodes: tuple[Node, ...], named: tuple[Node, ...], arriving: list[_OpenEdge]
    ) -> list[_OpenEdge]:
        for node, its in zip(nodes, named, strict=True):
            arriving = self.lay(node, its, arriving)
        return arriving

    def lay_branch(self, branch: Branch, named: tuple[Node, ...], arriving: list[_OpenEdge]) -> list[_OpenEdge]:
        ends: list[_OpenEdge] = []
        failed: tuple[Term, ...] = ()
        for arm, its in zip(branch.arms, named, strict=False):
            terms = (*(failed if branch.match == "first" else ()), (arm.condition, True))
            ends += self.lay(arm.node, its, [one.on(*terms) for one in arriving])
            failed = (*failed, (arm.condition, False))
        rest = [one.on(*failed) for one in arriving]
        return ends + (rest if branch.otherwise is None else self.lay(branch.otherwise, named[-1], rest))

    def lay_dag(self, dag: Dag, named: tuple[Node, ...], arriving: list[_OpenEdge]) -> list[_OpenEdge]:
        """Lay out a dag. Its open edges are those of its last members and, since these may be skipped, of its first."""
        paths = {member.id: its for member, its in zip(dag.members, named, strict=True)}
        ends: dict[str, list[_OpenEdge]] = {}
        laid: dict[str, list[str]] = {}
        before = list(self.nodes)
        for member in topological(dag):
            known = set(self.nodes)
            arrived = [one.on(*_term(edge)) for edge in member.after for one in ends[edge.source]]
            ends[member.id] = self.lay(member.node, paths[member.id], arrived if member.after else arriving)
            laid[member.id] = [name for name in self.nodes if name not in known]
        declared = [*before, *(name for member in dag.members for name in laid[member.id])]
        self.nodes = {name: self.nodes[name] for name in declared}  # ids that repeat are numbered in this order
        followed = {edge.source for member in dag.members for edge in member.after}
        leaving = [member.id for member in dag.members if member.id not in followed or not member.after]
        return [way_out for one in leaving for way_out in ends[one]]


def _term(edge: DagEdge) -> tuple[Term, ...]:
    return () if edge.when is None else ((edge.when, True),)


def _edges(arriving: list[_OpenEdge], start: str) -> tuple[DagEdge, ...]:
    """Return the edges to a node, one for each source, unconditional ones first; none if all come from the start."""
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


# From a graph


class MakeMember(Protocol):
    """Makes a member from a processor or a workflow, as `penstock.member` does."""

    def __call__(self, item: Value, *, id: str | None = None, **policy: Unpack[PolicyOptions]) -> DagMember: ...


def dag_from(graph: object, name: str | None, make_member: MakeMember) -> tuple[str, Dag]:
    """Return the name and the dag of the workflow that a graph describes.

    Args:
        graph: a `networkx.DiGraph`; see `members_from`.
        name: the name; None for the graph's own, or ``workflow``.
        make_member: makes a member from a processor or a workflow.

    Raises:
        WorkflowError: it is not a `networkx.DiGraph`, a node has nothing to run, or a ``when`` is not a condition.
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
            returned by `to_graph`. A node with one of the first two may have the keywords of a policy as further
            attributes. An edge's ``when`` is its condition.
        make_member: makes a member from a processor or a workflow.
        name: the name of the graph in errors.

    Raises:
        WorkflowError: the graph has problems; all of them at once.
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
        cure = "convert it with networkx.relabel_nodes(graph, str)"
        raise ProcessorError(repr(name), f"a node's name must be a non-empty str; {cure}")
    given = [attributes[word] for word in ("step", "processor") if attributes.get(word) is not None]
    policy = cast("PolicyOptions", {word: attributes[word] for word in Policy.__slots__ if word in attributes})
    if len(given) != 1:
        has = "both attributes, 'step' and 'processor'; keep one" if given else "no attribute 'step' (or 'processor')"
        raise ProcessorError(name, f"it has {has}")
    item = given[0]
    if not isinstance(item, NODES):
        if "/" in name:
            raise ProcessorError(name, "its name becomes the step's id, which must not contain '/'")
        made = make_member(item, **policy)
        return made.node if made.id == name else make_member(item, id=name, **policy).node
    if policy:
        raise ProcessorError(name, f"its step already has a policy; remove {', '.join(policy)} from the node")
    return item


def _edges_to(name: str, graph: nx.DiGraph[str], found: list[str]) -> Iterator[DagEdge]:
    """Yield the edges that lead to a node, and add their problems to ``found``."""
    for source, attributes in graph.pred[name].items():
        when: object = attributes.get("when")
        if when is not None and (is_processor(when) or not callable(when)):
            found.append(f"edge {source!r} → {name!r}: 'when' must be a condition (ctx) -> bool, not {_kind(when)}")
        yield DagEdge(source, cast("Condition | None", when))


def _kind(value: object) -> str:
    return type(value).__name__
