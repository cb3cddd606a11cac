"""Which steps beside each other would not see each other's work: the check of parallels; it runs nothing.

An editor of anything beside a guard could bring in what the guard would have stopped, so one of them has to follow.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from penstock.engine.graph.conditions import exclusive
from penstock.engine.graph.nodes import Branch, Dag, Parallel, Sequence, Step, children, fallback_of, walk
from penstock.engine.graph.plan import topological

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.graph.nodes import DagEdge, Node


def unsafe_parallels(root: Node) -> Iterator[str]:
    """Yield a problem for each pair of steps that may run beside each other and must not."""
    for node in walk(root):
        if isinstance(node, Parallel) and node.merge is None:
            yield from _unsafe_pairs(itertools.combinations(node.nodes, 2))
        elif isinstance(node, Branch) and node.match == "all" and node.merge is None:
            yield from _unsafe_pairs(itertools.combinations([arm.node for arm in node.arms], 2))
        elif isinstance(node, Dag) and node.merge is None:
            yield from _unsafe_pairs(_unordered(node))


def _unordered(dag: Dag) -> Iterator[tuple[Node, Node]]:
    """Yield the members that may run beside each other: none follows the other, and no conditions exclude it."""
    known = _Together(dag)
    for one, other in itertools.combinations(dag.members, 2):
        follows = one.id in known.above[other.id] or other.id in known.above[one.id]
        if not follows and not known.never(one.id, other.id):
            yield one.node, other.node


class _Together:
    """Which members of a dag can both run in one request; conditions say the same about the same payload."""

    def __init__(self, dag: Dag) -> None:
        self.after = {member.id: member.after for member in dag.members}
        self.above: dict[str, frozenset[str]] = {}
        for member in topological(dag):
            sources = frozenset(edge.source for edge in member.after)
            self.above[member.id] = sources.union(*(self.above[source] for source in sources))
        self.known: dict[tuple[str, str], bool] = {}

    def never(self, one: str, other: str) -> bool:
        """Tell whether no request runs both: whichever edges would have to be taken, they cannot both be."""
        if (one, other) not in self.known:
            ways = itertools.product(self.after[one] or (None,), self.after[other] or (None,))
            self.known[one, other] = one != other and all(self._clash(one, way, other, its) for way, its in ways)
        return self.known[one, other]

    def _clash(self, one: str, way: DagEdge | None, other: str, its: DagEdge | None) -> bool:
        if (way is not None and self.never(way.source, other)) or (its is not None and self.never(one, its.source)):
            return True
        return way is not None and its is not None and exclusive(way.when, its.when) and self._see_the_same(one, other)

    def _see_the_same(self, one: str, other: str) -> bool:
        """Tell whether both, if both ran, would be asked about the same payload: what is above one only has not run."""
        above, its = self.above[one], self.above[other]
        return all(self.never(this, other) for this in above - its) and all(
            self.never(one, this) for this in its - above
        )


def _unsafe_pairs(pairs: Iterable[tuple[Node, Node]]) -> Iterator[str]:
    known: dict[int, list[Step]] = {}  # the same nodes come in many pairs
    for one, other in pairs:
        for node in (one, other):
            if id(node) not in known:
                known[id(node)] = _enforced(node)
        for step, beside in itertools.product(known[id(one)], known[id(other)]):
            for editor, witness in ((step, beside), (beside, step)):
                stages = _clash(editor, witness)
                if stages:
                    yield (
                        f"{editor.path!r} may edit anything in {stages[0]} in parallel with {witness.path!r}, "
                        "which would not see it; let one run after the other, declare edits='spans' or 'nothing', "
                        "or say merge="
                    )
                    break


def _clash(editor: Step, witness: Step) -> list[str]:
    if editor.claims.edits != "anything":
        return []
    if witness.claims.edits == "nothing" and witness.claims.role != "guard":
        return []
    return [name for name in editor.claims.hooks if name in witness.claims.hooks and name != "process_llm_response"]


def _enforced(node: Node) -> list[Step]:
    """Return the steps whose edits count, those that may stand in for others included."""
    if isinstance(node, (Step, Sequence)) and node.policy.mode == "shadow":
        return []
    found = [node] if isinstance(node, Step) else [step for child in children(node) for step in _enforced(child)]
    stands_in = fallback_of(node)
    return found if stands_in is None else [*found, stands_in]
