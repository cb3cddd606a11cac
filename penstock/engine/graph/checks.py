"""What is wrong with a graph, all of it at once, before anything runs; it knows nodes and stages, not how to run.

Every problem is one sentence that names the step it is about and says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.graph.clashes import unsafe_parallels
from penstock.engine.graph.fact_flow import unmet_facts
from penstock.engine.graph.nodes import (
    Branch,
    Dag,
    Parallel,
    Sequence,
    Step,
    children,
    fallback_of,
    resolve,
    steps_of,
    too_deep,
    walk,
)
from penstock.engine.graph.plan import topological
from penstock.engine.graph.stream_parallels import opaque_parallels
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.processor.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.graph.nodes import Node, Policy
    from penstock.engine.graph.plan import Orders


def problems(root: Sequence, stage: str | None = None, orders: Orders | None = None) -> tuple[str, ...]:
    """Return what is wrong with a graph; with ``stage``, also if nothing in it has that stage.

    ``orders``: which of its nodes stand in which of an agent's arrays.

    Raises:
        ProcessorError, OptionError: a processor in it declares what cannot be (this is known before any graph).
    """
    deep = too_deep(root)
    if deep:
        return (deep,)
    resolved = resolve(root)
    found = [
        *_duplicate_ids(root, ""),
        *_dag_problems(resolved),
    ]
    if not found:  # what follows needs paths that mean something
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
    for dag in walk(root):
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
    for node in walk(root):
        if not isinstance(node, (Step, Sequence)):
            continue
        yield from _step_policy(node) if isinstance(node, Step) else _sequence_policy(node)
        for step in _that_may_run(node):
            yield from _beside_policy(step, node.policy)


def _idle_picks(root: Node) -> Iterator[str]:
    """Find joins that pick a branch which they do not have."""
    for node in walk(root):
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
    if isinstance(policy.on_error, Processor):
        fallback = claims_of(policy.on_error)
        for name in claims.hooks:
            if name not in fallback.hooks:
                yield f"{step.path}: its fallback {fallback.id!r} has no {name}, so it could not stand in there"


def _sequence_policy(node: Sequence) -> Iterator[str]:
    steps = list(steps_of(node))
    hooks = [hook for step in steps for hook in step.claims.hooks.values()]
    if node.policy.timeout is not None and hooks and not any(hook.awaits for hook in hooks):
        yield f"{node.path}: timeout= cannot stop sync steps; place them with offload='thread'"
    if node.policy.offload:
        yield f"{node.path}: offload='thread' is for a step, not for a workflow; place the sync steps in it so"
    guard = next((step for step in steps if step.claims.role == "guard"), None)
    if node.policy.on_error == "allow" and node.policy.mode != "shadow" and guard is not None:
        yield (
            f"{node.path}: on_error='allow' would undo or leave out what the guard {guard.path!r} in it does, "
            "whichever step fails; say it on the steps that may fail"
        )


def _that_may_run(node: Node) -> Iterator[Step]:
    """Yield the steps of a node, and those that stand in for them."""
    for inner in walk(node):
        if isinstance(inner, Step):
            yield inner
        stands_in = fallback_of(inner)
        if stands_in is not None:
            yield stands_in


def _beside_policy(step: Step, policy: Policy) -> Iterator[str]:
    """Find what a step may not do beside the run or the model, whether it or a workflow around it is placed there."""
    claims = step.claims
    if policy.mode == "shadow" and claims.stores:
        yield f"{step.path}: it writes to a store, so it cannot run in shadow"
    if policy.overlap:
        if claims.edits != "nothing":
            yield f"{step.path}: overlap='model' is for checks with edits='nothing', and it declares {claims.edits!r}"
        if not any(STAGES[name].array == "input" for name in claims.hooks):
            yield f"{step.path}: overlap='model' is for input checks, and it has no input stage"
