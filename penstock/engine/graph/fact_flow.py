"""Which facts are sure to be there when a step needs them: the check of ``requires``; it runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Branch, Parallel, Sequence, Step, children, fallback_of, steps_of
from penstock.engine.graph.plan import serving, topological
from penstock.engine.processor.stages import STAGES

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Dag, Node
    from penstock.engine.graph.plan import Orders
    from penstock.engine.processor.stages import Stage
    from penstock.engine.values.facts import AnyKey

_SURE = ("process_input", "process_input_step", "process_llm_request", "process_output_step")
"""Stages that every run passes, so that what is put there is there later."""


@dataclass(slots=True)
class _Pass:
    """One way through the graph at one stage. ``in_time``: what runs beside the model has not put its facts yet."""

    stage: Stage
    in_time: bool
    found: list[str] = field(default_factory=list[str])


def unmet_facts(root: Sequence, orders: Orders | None) -> list[str]:
    """Return a problem for each fact that a step requires and may not find."""
    found: list[str] = []
    in_time: frozenset[AnyKey] = frozenset()  # what is sure before the model call has ended
    in_all: frozenset[AnyKey] = frozenset()
    for stage in STAGES.values():
        if not stage.overlaps:
            in_time = in_all
        served = serving(root, stage, orders)
        timely = _Pass(stage, in_time=True)
        timely_end = _flow(served, in_time, timely)
        ends = timely_end, _flow(served, in_all, _Pass(stage, in_time=False)) if stage.overlaps else timely_end
        found.extend(timely.found)
        if stage.name in _SURE:
            in_time, in_all = ends
    return found


def _flow(node: Node, have: frozenset[AnyKey], way: _Pass) -> frozenset[AnyKey]:
    """Return the facts that are sure to be there after a node, and note those that it needs and may not find."""
    after = _inside(node, have, way)
    if not isinstance(node, (Step, Sequence)):
        return after
    stands_in = fallback_of(node)
    if stands_in is not None and any(way.stage.name in step.claims.hooks for step in steps_of(node)):
        after &= _inside(stands_in, have, way)
    beside_model = node.policy.overlap is not None and way.stage.overlaps and way.in_time
    return have if beside_model or node.policy.mode == "shadow" else after


def _inside(node: Node, have: frozenset[AnyKey], way: _Pass) -> frozenset[AnyKey]:
    if isinstance(node, Step):
        return _step_flow(node, have, way)
    if isinstance(node, Sequence) or (isinstance(node, Parallel) and node.merge == "sequence"):
        after = have
        for child in node.nodes:
            after = _flow(child, after, way)
        return after
    if isinstance(node, Parallel):
        return have.union(*[_flow(child, have, way) for child in node.nodes])
    if isinstance(node, Branch):
        ends = [_flow(child, have, way) for child in children(node)]
        sure = node.otherwise is not None and bool(ends)
        return ends[0].intersection(*ends[1:]) if sure else have
    return _dag_flow(node, have, way)


def _step_flow(step: Step, have: frozenset[AnyKey], way: _Pass) -> frozenset[AnyKey]:
    claims, stage = step.claims, way.stage.name
    if stage not in claims.hooks:
        return have
    way.found.extend(
        f"{step.path} requires the fact {key.name!r} in {stage}, but no step before it is sure to provide it"
        for key in sorted(claims.requires - have, key=lambda key: key.name)
    )
    return have | claims.provides


def _dag_flow(dag: Dag, have: frozenset[AnyKey], way: _Pass) -> frozenset[AnyKey]:
    ends: dict[str, frozenset[AnyKey]] = {}
    surely: dict[str, bool] = {}
    for member in topological(dag):
        sure_sources = [edge.source for edge in member.after if edge.when is None and surely[edge.source]]
        before = [ends[edge.source] for edge in member.after if surely[edge.source]]
        either = [ends[edge.source] for edge in member.after]  # it runs only behind one of them
        start = have.union(*before, either[0].intersection(*either) if either else ())
        surely[member.id] = not member.after or bool(sure_sources)
        ends[member.id] = _flow(member.node, start, way)
    return have.union(*[end for one, end in ends.items() if surely[one]])
