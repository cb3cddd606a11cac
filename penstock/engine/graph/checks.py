"""Check a graph before anything runs, and report all problems at once.

Every problem is one sentence that names the step it is about and says what to do.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.graph.conditions import exclusive
from penstock.engine.graph.nodes import (
    Branch,
    Dag,
    Parallel,
    Sequence,
    Step,
    children,
    fallback_of,
    resolve,
    steps_and_fallbacks,
    steps_of,
    too_deep,
    walk,
)
from penstock.engine.graph.plan import serving, topological
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.processor.stages import STAGES, STREAM
from penstock.engine.text_guards.text_guard import text_guard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.graph.nodes import DagEdge, Node, Policy
    from penstock.engine.graph.plan import Orders
    from penstock.engine.processor.stages import Stage
    from penstock.engine.values.facts import AnyKey


def unsafe_parallels(root: Node) -> Iterator[str]:
    """Yield a problem for each pair of steps that may run in parallel and must not."""
    for node in walk(root):
        if isinstance(node, Parallel) and node.merge is None:
            yield from _unsafe_pairs(itertools.combinations(node.nodes, 2))
        elif isinstance(node, Branch) and node.match == "all" and node.merge is None:
            yield from _unsafe_pairs(itertools.combinations([arm.node for arm in node.arms], 2))
        elif isinstance(node, Dag) and node.merge is None:
            yield from _unsafe_pairs(_unordered(node))


def _unordered(dag: Dag) -> Iterator[tuple[Node, Node]]:
    """Yield the pairs of members that may run in parallel: neither follows the other, and no conditions exclude it."""
    known = _MemberPairs(dag)
    for one, other in itertools.combinations(dag.members, 2):
        follows = one.id in known.above[other.id] or other.id in known.above[one.id]
        if not follows and not known.never(one.id, other.id):
            yield one.node, other.node


class _MemberPairs:
    """Which members of a dag can both run in one request, given that a condition has one result for one payload."""

    def __init__(self, dag: Dag) -> None:
        self.after = {member.id: member.after for member in dag.members}
        self.above: dict[str, frozenset[str]] = {}
        for member in topological(dag):
            sources = frozenset(edge.source for edge in member.after)
            self.above[member.id] = sources.union(*(self.above[source] for source in sources))
        self.known: dict[tuple[str, str], bool] = {}

    def never(self, one: str, other: str) -> bool:
        """Return whether no request runs both: whichever edges would have to be taken, they cannot both be."""
        if (one, other) not in self.known:
            pairs = itertools.product(self.after[one] or (None,), self.after[other] or (None,))
            self.known[one, other] = one != other and all(
                self._clash(one, edge, other, other_edge) for edge, other_edge in pairs
            )
        return self.known[one, other]

    def _clash(self, one: str, edge: DagEdge | None, other: str, other_edge: DagEdge | None) -> bool:
        if (edge is not None and self.never(edge.source, other)) or (
            other_edge is not None and self.never(one, other_edge.source)
        ):
            return True
        return (
            edge is not None
            and other_edge is not None
            and exclusive(edge.when, other_edge.when)
            and self._get_same_payload(one, other)
        )

    def _get_same_payload(self, one: str, other: str) -> bool:
        """Return whether both, if both ran, would get the same payload: the ancestors of only one of them never ran."""
        above, its = self.above[one], self.above[other]
        return all(self.never(this, other) for this in above - its) and all(
            self.never(one, this) for this in its - above
        )


def _unsafe_pairs(pairs: Iterable[tuple[Node, Node]]) -> Iterator[str]:
    known: dict[int, list[Step]] = {}  # a node is part of many pairs
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
    return [name for name in editor.claims.hooks if name in witness.claims.hooks and not STAGES[name].read_only]


def _enforced(node: Node) -> list[Step]:
    """Return the steps whose edits count, fallbacks included."""
    if isinstance(node, (Step, Sequence)) and node.policy.mode == "shadow":
        return []
    found = [node] if isinstance(node, Step) else [step for child in children(node) for step in _enforced(child)]
    stands_in = fallback_of(node)
    return found if stands_in is None else [*found, stands_in]


def opaque_parallels(root: Node) -> Iterator[str]:
    """Yield a problem for each hook that changes chunks in parallel with another step of the stream."""
    for node in walk(root):
        beside = [steps for inner in _parallel_nodes(node) if (steps := list(_streaming(inner)))]
        if len(beside) < _SEVERAL:
            continue
        for step in (step for steps in beside for step in steps):
            if text_guard_of(step.processor) is None and step.claims.edits != "nothing":
                yield (
                    f"{step.path!r} changes chunks in {STREAM.name} beside other steps, which cannot be merged; "
                    "make it a TextGuard, let one run after the other, or say merge='sequence'"
                )


_SEVERAL = 2


def _parallel_nodes(node: Node) -> tuple[Node, ...]:
    """Return the nodes inside a node that run in parallel."""
    if isinstance(node, Parallel) and node.merge == "sequence":
        return ()
    if isinstance(node, (Parallel, Dag)) or (isinstance(node, Branch) and node.match == "all"):
        return tuple(children(node))
    return ()


def _streaming(node: Node) -> Iterator[Step]:
    """Yield the steps of a node that judge streams and whose edits count, fallbacks included."""
    if isinstance(node, (Step, Sequence)) and node.policy.mode == "shadow":
        return
    if isinstance(node, Step):
        if STREAM.name in node.claims.hooks:
            yield node
    else:
        for child in children(node):
            yield from _streaming(child)
    stands_in = fallback_of(node)
    if stands_in is not None:
        yield from _streaming(stands_in)


@dataclass(slots=True)
class _FactPass:
    """One pass through the graph for one stage. ``in_time``: checks beside the model have not put their facts yet."""

    stage: Stage
    in_time: bool
    found: list[str] = field(default_factory=list[str])


def unmet_facts(root: Sequence, orders: Orders | None) -> list[str]:
    """Return a problem for each fact that a step requires and that may be missing."""
    found: list[str] = []
    in_time: frozenset[AnyKey] = frozenset()  # what is sure before the model call has ended
    in_all: frozenset[AnyKey] = frozenset()
    for stage in STAGES.values():
        if not stage.overlaps:
            in_time = in_all
        served = serving(root, stage, orders)
        timely = _FactPass(stage, in_time=True)
        timely_end = _flow(served, in_time, timely)
        ends = timely_end, _flow(served, in_all, _FactPass(stage, in_time=False)) if stage.overlaps else timely_end
        found.extend(timely.found)
        if stage.always:
            in_time, in_all = ends
    return found


def _flow(node: Node, have: frozenset[AnyKey], facts: _FactPass) -> frozenset[AnyKey]:
    """Return the facts that are surely present after a node; note a problem for each required one that may not be."""
    after = _inside(node, have, facts)
    if not isinstance(node, (Step, Sequence)):
        return after
    stands_in = fallback_of(node)
    if stands_in is not None and any(facts.stage.name in step.claims.hooks for step in steps_of(node)):
        after &= _inside(stands_in, have, facts)
    beside_model = node.policy.overlap is not None and facts.stage.overlaps and facts.in_time
    return have if beside_model or node.policy.mode == "shadow" else after


def _inside(node: Node, have: frozenset[AnyKey], facts: _FactPass) -> frozenset[AnyKey]:
    if isinstance(node, Step):
        return _step_flow(node, have, facts)
    if isinstance(node, Sequence) or (isinstance(node, Parallel) and node.merge == "sequence"):
        after = have
        for child in node.nodes:
            after = _flow(child, after, facts)
        return after
    if isinstance(node, Parallel):
        return have.union(*[_flow(child, have, facts) for child in node.nodes])
    if isinstance(node, Branch):
        ends = [_flow(child, have, facts) for child in children(node)]
        sure = node.otherwise is not None and bool(ends)
        return ends[0].intersection(*ends[1:]) if sure else have
    return _dag_flow(node, have, facts)


def _step_flow(step: Step, have: frozenset[AnyKey], facts: _FactPass) -> frozenset[AnyKey]:
    claims, stage = step.claims, facts.stage.name
    if stage not in claims.hooks:
        return have
    facts.found.extend(
        f"{step.path} requires the fact {key.name!r} in {stage}, but no step before it is sure to provide it"
        for key in sorted(claims.requires - have, key=lambda key: key.name)
    )
    return have | claims.provides


def _dag_flow(dag: Dag, have: frozenset[AnyKey], facts: _FactPass) -> frozenset[AnyKey]:
    ends: dict[str, frozenset[AnyKey]] = {}
    surely: dict[str, bool] = {}
    for member in topological(dag):
        sure_sources = [edge.source for edge in member.after if edge.when is None and surely[edge.source]]
        before = [ends[edge.source] for edge in member.after if surely[edge.source]]
        either = [ends[edge.source] for edge in member.after]  # it runs only behind one of them
        start = have.union(*before, either[0].intersection(*either) if either else ())
        surely[member.id] = not member.after or bool(sure_sources)
        ends[member.id] = _flow(member.node, start, facts)
    return have.union(*[end for one, end in ends.items() if surely[one]])


def problems(root: Sequence, stage: str | None = None, orders: Orders | None = None) -> tuple[str, ...]:
    """Return the problems of a graph.

    Args:
        root: the graph.
        stage: a stage that at least one step must have.
        orders: the indexes of its nodes in each of an agent's processor lists, if it comes from there.

    Raises:
        ProcessorError, OptionError: the claims of a processor are invalid by themselves.
    """
    deep = too_deep(root)
    if deep:
        return (deep,)
    resolved = resolve(root)
    found = [*id_problems(root)]
    if not found:  # these checks need valid paths
        found = [
            *_policy_problems(resolved),
            *_idle_picks(resolved),
            *unsafe_parallels(resolved),
            *opaque_parallels(resolved),
            *unmet_facts(resolved, orders),
        ]
    if not any(True for _ in steps_of(resolved)):
        return ()
    if stage is not None and not any(stage in step.claims.hooks for step in steps_of(resolved)):
        stages = sorted({name for step in steps_of(resolved) for name in step.claims.hooks})
        found.append(f"no step has {stage}; the steps have {', '.join(stages)}")
    return tuple(dict.fromkeys(found))


def id_problems(root: Sequence) -> Iterator[str]:
    """Yield the problems of ids alone: equal ones, members of a dag that do not exist, and cycles."""
    yield from _duplicate_ids(root, "")
    yield from _dag_problems(resolve(root))


def _duplicate_ids(node: Node, prefix: str) -> Iterator[str]:
    """Find equal ids of which one was set explicitly, within one workflow and its unnamed parts."""
    seen: dict[str, list[Step]] = {}
    nested: list[tuple[Node, str]] = []
    waiting: list[Node] = [node]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, Step):
            seen.setdefault(prefix + (current.id or current.claims.id), []).append(current)
        elif isinstance(current, Sequence) and current.name and current is not node:
            nested.append((current, f"{prefix}{current.name}/"))
        else:
            waiting.extend(children(current))
    for path, steps in seen.items():
        if len(steps) > 1 and any(step.named for step in steps):
            yield f"{len(steps)} steps have the id {path!r}, which was set explicitly; give each its own id"
    for inner, below in nested:
        yield from _duplicate_ids(inner, below)


def _dag_problems(root: Node) -> Iterator[str]:
    for dag in walk(root):
        if not isinstance(dag, Dag):
            continue
        ids = [member.id for member in dag.members]
        for double in sorted({one for one in ids if ids.count(one) > 1}):
            yield f"{dag.path}: two members have the id {double!r}; give each its own"
        missing = sorted({(m.id, e.source) for m in dag.members for e in m.after if e.source not in ids})
        for member, source in missing:
            known = ", ".join(ids)
            yield f"{dag.path}: {member!r} comes after {source!r}, which is not a member; the members are {known}"
        if not missing:
            yield from _cycles(dag)


def _cycles(dag: Dag) -> Iterator[str]:
    left = {member.id: {edge.source for edge in member.after} for member in dag.members}
    for member in topological(dag):
        left.pop(member.id, None)
    circle = {one for one in left if _reaches(one, one, left)}
    if circle:
        yield f"{dag.path}: {', '.join(sorted(circle))} wait for each other in a cycle; take one edge away"
    for behind in sorted(left.keys() - circle):
        yield f"{dag.path}: {behind!r} is unreachable, because it waits for a cycle"


def _reaches(start: str, goal: str, edges: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        current = waiting.pop()
        if current == goal:
            return True
        if current not in seen:
            seen.add(current)
            waiting.extend(edges.get(current, ()))
    return False


# Policies


def _policy_problems(root: Node) -> Iterator[str]:
    for node in walk(root):
        if not isinstance(node, (Step, Sequence)):
            continue
        yield from _step_policy(node) if isinstance(node, Step) else _sequence_policy(node)
        for step in steps_and_fallbacks(node):
            yield from _shadow_and_overlap(step, node.policy)


def _idle_picks(root: Node) -> Iterator[str]:
    """Find joins that pick a branch that they do not have."""
    for node in walk(root):
        if isinstance(node, (Parallel, Branch, Dag)) and isinstance(node.merge, Pick):
            names = [child.path.rsplit("/", 1)[-1] for child in children(node)]
            if node.merge.branch not in names:
                wanted = f"merge=pick({node.merge.branch!r})"
                yield f"{node.path}: {wanted} names no branch of it; the branches are {', '.join(names)}"


def _step_policy(step: Step) -> Iterator[str]:
    yield from _idle_retries(step)
    claims, policy = step.claims, step.policy
    awaits = [hook.awaits for hook in claims.hooks.values()]
    if policy.offload and all(awaits):
        yield f"{step.path}: offload='thread' is for sync hooks, and all of its hooks are async; leave it out"
    if isinstance(policy.on_error, Processor):
        fallback = claims_of(policy.on_error)
        for name in claims.hooks:
            if name not in fallback.hooks:
                yield f"{step.path}: its fallback {fallback.id!r} has no {name}, so it could not stand in there"


def _idle_retries(node: Step | Sequence) -> Iterator[str]:
    """Find retries of steps that run in streams only."""
    stages = {stage for step in steps_of(node) for stage in step.claims.hooks}
    if node.policy.retries and stages == {STREAM.name}:
        yield (
            f"{node.path}: retries={node.policy.retries} has no effect in {STREAM.name}, its only stage: text may have "
            "been released already; leave it out, or retry in the hook"
        )


def _sequence_policy(node: Sequence) -> Iterator[str]:
    yield from _idle_retries(node)
    steps = list(steps_of(node))
    if node.policy.offload:
        yield f"{node.path}: offload='thread' is for a step, not for a workflow; place the sync steps in it so"
    guard = next((step for step in steps if step.claims.role == "guard"), None)
    if node.policy.on_error == "allow" and node.policy.mode != "shadow" and guard is not None:
        yield (
            f"{node.path}: on_error='allow' would undo or leave out what the guard {guard.path!r} in it does, "
            "whichever step fails; say it on the steps that may fail"
        )


def _shadow_and_overlap(step: Step, policy: Policy) -> Iterator[str]:
    """Find problems of a step that runs in shadow or beside the model, by its own policy or that of its workflow."""
    claims = step.claims
    if policy.mode == "shadow" and claims.stores:
        yield f"{step.path}: it writes to a store, so it cannot run in shadow"
    if policy.overlap:
        if claims.edits != "nothing":
            yield f"{step.path}: overlap='model' is for checks with edits='nothing', and it declares {claims.edits!r}"
        if not any(STAGES[name].processor_list == "input" for name in claims.hooks):
            yield f"{step.path}: overlap='model' is for input checks, and it has no input stage"
