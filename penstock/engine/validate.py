"""What is wrong with a graph, all of it at once, before anything runs; it knows nodes and stages, not how to run.

Every problem is one sentence that names the step it is about and says what to do.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from penstock.engine.conditions import exclusive
from penstock.engine.merge import Pick
from penstock.engine.nodes import Branch, Dag, Parallel, Sequence, Step, children, resolve, steps_of
from penstock.engine.plan import topological
from penstock.engine.processor import Processor, claims_of
from penstock.engine.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.facts import AnyKey
    from penstock.engine.nodes import DagEdge, Node
    from penstock.engine.stages import Stage

_SURE = ("process_input", "process_input_step", "process_llm_request", "process_output_step")
"""Stages that every run passes, so that what is put there is there later."""


def problems(root: Node, stage: str | None = None) -> tuple[str, ...]:
    """Return what is wrong with a graph; with ``stage``, also if nothing in it has that stage.

    Raises:
        ProcessorError, OptionError: a processor in it declares what cannot be (this is known before any graph).
    """
    resolved = resolve(root)
    found = [
        *_duplicate_ids(root, ""),
        *_dag_problems(resolved),
    ]
    if not found:  # what follows needs paths that mean something
        found = [
            *_policy_problems(resolved),
            *_idle_picks(resolved),
            *_unsafe_parallels(resolved),
            *_unmet_facts(resolved),
        ]
    if not any(True for _ in steps_of(resolved)):
        return ()
    if stage is not None and not any(stage in step.claims.hooks for step in steps_of(resolved)):
        stages = sorted({name for step in steps_of(resolved) for name in step.claims.hooks})
        found.append(f"no step has {stage}; the steps have {', '.join(stages)}")
    return tuple(dict.fromkeys(found))


def _duplicate_ids(node: Node, prefix: str) -> Iterator[str]:
    """Find equal ids that somebody set, within one workflow and its unnamed parts."""
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
            yield f"{len(steps)} steps have the id {path!r}, which somebody set; give each its own id"
    for inner, below in nested:
        yield from _duplicate_ids(inner, below)


def _dag_problems(root: Node) -> Iterator[str]:
    for dag in _walk(root):
        if not isinstance(dag, Dag):
            continue
        ids = [member.id for member in dag.members]
        for double in sorted({one for one in ids if ids.count(one) > 1}):
            yield f"{dag.path}: two members have the id {double!r}; give each its own"
        missing = sorted({(m.id, e.source) for m in dag.members for e in m.after if e.source not in ids})
        for member, source in missing:
            yield f"{dag.path}: {member!r} comes after {source!r}, which is no member; the members are {', '.join(ids)}"
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
    for node in _walk(root):
        if isinstance(node, Step):
            yield from _step_policy(node)
        elif isinstance(node, Sequence) and node.policy.timeout is not None:
            hooks = [hook for step in steps_of(node) for hook in step.claims.hooks.values()]
            if hooks and not any(hook.awaits for hook in hooks):
                yield f"{node.path}: timeout= cannot stop sync steps; place them with offload='thread'"


def _idle_picks(root: Node) -> Iterator[str]:
    """Find joins that pick a branch which they do not have."""
    for node in _walk(root):
        if isinstance(node, (Parallel, Branch, Dag)) and isinstance(node.merge, Pick):
            names = [child.path.rsplit("/", 1)[-1] for child in children(node)]
            if node.merge.branch not in names:
                wanted = f"merge=pick({node.merge.branch!r})"
                yield f"{node.path}: {wanted} names no branch of it; the branches are {', '.join(names)}"


def _step_policy(step: Step) -> Iterator[str]:
    claims, policy = step.claims, step.policy
    awaits = [hook.awaits for hook in claims.hooks.values()]
    if policy.timeout is not None and not all(awaits) and not policy.offload:
        yield f"{step.path}: timeout= cannot stop a sync hook; add offload='thread', or make the hook async"
    if policy.offload and all(awaits):
        yield f"{step.path}: offload='thread' is for sync hooks, and all of its hooks are async; leave it out"
    if policy.mode == "shadow" and claims.stores:
        yield f"{step.path}: it writes to a store, so it cannot run in shadow"
    if policy.overlap:
        if claims.edits != "nothing":
            yield f"{step.path}: overlap='model' is for checks with edits='nothing', and it declares {claims.edits!r}"
        if not any(STAGES[name].array == "input" for name in claims.hooks):
            yield f"{step.path}: overlap='model' is for input checks, and it has no input stage"
    if isinstance(policy.on_error, Processor):
        fallback = claims_of(policy.on_error)
        for name in claims.hooks:
            if name not in fallback.hooks:
                yield f"{step.path}: its fallback {fallback.id!r} has no {name}, so it could not stand in there"


# Parallels


def _unsafe_parallels(root: Node) -> Iterator[str]:
    for node in _walk(root):
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
    for one, other in pairs:
        for step, beside in itertools.product(_enforced(one), _enforced(other)):
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
    """Return the steps whose edits count."""
    if isinstance(node, (Step, Sequence)) and node.policy.mode == "shadow":
        return []
    if isinstance(node, Step):
        return [node]
    return [step for child in children(node) for step in _enforced(child)]


# Facts


def _unmet_facts(root: Node) -> Iterator[str]:
    sure: frozenset[AnyKey] = frozenset()
    for stage in STAGES.values():
        found: list[str] = []
        after = _flow(root, sure, stage, found)
        yield from found
        if stage.name in _SURE:
            sure = after


def _flow(node: Node, have: frozenset[AnyKey], stage: Stage, found: list[str]) -> frozenset[AnyKey]:
    """Return the facts that are sure to be there after a node, and note those that it needs and may not find."""
    if isinstance(node, Step):
        return _step_flow(node, have, stage, found)
    if isinstance(node, Sequence):
        after = have
        for child in node.nodes:
            after = _flow(child, after, stage, found)
        return have if node.policy.mode == "shadow" else after
    if isinstance(node, Parallel):
        if node.merge == "sequence":
            return _flow(Sequence(node.nodes), have, stage, found)
        return have.union(*[_flow(child, have, stage, found) for child in node.nodes])
    if isinstance(node, Branch):
        ends = [_flow(child, have, stage, found) for child in children(node)]
        sure = node.otherwise is not None and bool(ends)
        return ends[0].intersection(*ends[1:]) if sure else have
    return _dag_flow(node, have, stage, found)


def _step_flow(step: Step, have: frozenset[AnyKey], stage: Stage, found: list[str]) -> frozenset[AnyKey]:
    claims = step.claims
    if stage.name not in claims.hooks:
        return have
    found.extend(
        f"{step.path} requires the fact {key.name!r} in {stage.name}, but no step before it is sure to provide it"
        for key in sorted(claims.requires - have, key=lambda key: key.name)
    )
    return have if step.policy.mode == "shadow" else have | claims.provides


def _dag_flow(dag: Dag, have: frozenset[AnyKey], stage: Stage, found: list[str]) -> frozenset[AnyKey]:
    ends: dict[str, frozenset[AnyKey]] = {}
    surely: dict[str, bool] = {}
    for member in topological(dag):
        sure_sources = [edge.source for edge in member.after if edge.when is None and surely[edge.source]]
        before = [ends[edge.source] for edge in member.after if surely[edge.source]]
        either = [ends[edge.source] for edge in member.after]  # it runs only behind one of them
        start = have.union(*before, either[0].intersection(*either) if either else ())
        surely[member.id] = not member.after or bool(sure_sources)
        ends[member.id] = _flow(member.node, start, stage, found)
    return have.union(*[end for one, end in ends.items() if surely[one]])


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _walk(child)
