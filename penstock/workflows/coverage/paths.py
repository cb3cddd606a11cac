"""Paths through a graph: under which conditions a step runs, and whether some step reads something on every path."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.condition_words import condition_words
from penstock.engine.graph.conditions import alternatives_of, terms_of
from penstock.engine.graph.nodes import Branch, Dag, Sequence, Step, children, fallback_of
from penstock.engine.processor.processor import Processor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.graph.nodes import Condition, DagMember, Node
    from penstock.engine.processor.processor import AnyProcessor

_MOST_CONDITIONS = 10
"""With more conditions in a dag, only members that always run count: each one doubles the paths."""


@dataclass(frozen=True, slots=True)
class PlacedStep:
    """A step with what its place in the graph says about it.

    Attributes:
        step: the step.
        conditions: under which conditions it runs, in words: ``only if is_long``.
        shadow: whether it runs in shadow, itself or a workflow around it.
        fallbacks: the processors in its place if it fails, or a workflow around it; None: it is left out.
    """

    step: Step
    conditions: tuple[str, ...] = ()
    shadow: bool = False
    fallbacks: tuple[AnyProcessor | None, ...] = ()


def placed_steps(root: Node) -> Iterator[PlacedStep]:
    """Yield the steps of a graph in declared order, each fallback behind the step or the workflow that it is for."""
    return _placed(root, PlacedStep(Step(cast("AnyProcessor", None))))


def _placed(node: Node, around: PlacedStep) -> Iterator[PlacedStep]:
    within = _within(node, around)
    if isinstance(node, Step):
        yield replace(within, step=node)
    elif isinstance(node, Branch):
        for words, child in _arms(node):
            yield from _placed(child, replace(within, conditions=(*within.conditions, words)))
    elif isinstance(node, Dag):
        for member in node.members:
            conditions = (*within.conditions, *_member_words(member, node))
            yield from _placed(member.node, replace(within, conditions=conditions))
    else:
        for child in children(node):
            yield from _placed(child, within)
    fallback = fallback_of(node)
    if fallback is not None:
        failed = f"only if {node.path} fails"
        yield replace(around, step=fallback, conditions=(*around.conditions, failed))


def _within(node: Node, around: PlacedStep) -> PlacedStep:
    """Return the place of a node's steps, with the node's own policy."""
    if not isinstance(node, (Step, Sequence)):
        return around
    given = node.policy.on_error
    declared = given if given is not None or not isinstance(node, Step) else node.claims.on_error
    shadow = around.shadow or node.policy.mode == "shadow"
    if declared != "allow" and not isinstance(declared, Processor):
        return replace(around, shadow=shadow)
    instead = declared if isinstance(declared, Processor) else None
    return replace(around, shadow=shadow, fallbacks=(*around.fallbacks, instead))


def _arms(branch: Branch) -> Iterator[tuple[str, Node]]:
    """Yield the arms of a branch, each with the condition under which it runs, in words."""
    for number, arm in enumerate(branch.arms, 1):
        words = condition_words(arm.condition)
        first = branch.match == "all" or number == 1
        yield f"only in arm {number} (if {words})" if first else f"only in arm {number} (else if {words})", arm.node
    if branch.otherwise is not None:
        yield "only where no arm is taken", branch.otherwise


def _member_words(member: DagMember, dag: Dag) -> tuple[str, ...]:
    """Return the condition under which a member of a dag runs, in words; empty if it always does."""
    if member.id in _always(dag):
        return ()
    conditions = [edge.when for edge in member.after if edge.when is not None]
    if not conditions:
        return (f"only after {' or '.join(edge.source for edge in member.after)}",)
    return (f"only if {' or '.join(map(condition_words, conditions))}",)


def _always(dag: Dag) -> set[str]:
    """Return the ids of the members of a dag that run whatever the conditions say."""
    runs: set[str] = set()
    while True:
        more = {
            member.id
            for member in dag.members
            if not member.after or any(edge.when is None and edge.source in runs for edge in member.after)
        }
        if more <= runs:
            return runs
        runs |= more


# On every path


def on_every_path(node: Node, reads: Callable[[Step], bool]) -> bool:
    """Return whether every path through a node has a step that reads.

    Args:
        node: the node, with paths on it.
        reads: whether a step reads, if it runs.
    """
    if isinstance(node, Step):
        return reads(node)
    if isinstance(node, Branch):
        inside = [child for _, child in _arms(node)]
        return node.otherwise is not None and all(on_every_path(child, reads) for child in inside)
    if isinstance(node, Dag):
        return _on_every_way(node, {member.id for member in node.members if on_every_path(member.node, reads)})
    return any(on_every_path(child, reads) for child in children(node))


def _on_every_way(dag: Dag, reading: set[str]) -> bool:
    """Return whether every run of a dag has one of these members, whatever its conditions say."""
    if reading & _always(dag):
        return True
    atoms = _atoms(dag)
    if not reading or len(atoms) > _MOST_CONDITIONS:
        return False
    return all(
        reading & _running(dag, list(zip(atoms, held, strict=True)))
        for held in itertools.product((True, False), repeat=len(atoms))
    )


def _atoms(dag: Dag) -> list[Condition]:
    """Return the conditions that the conditions of a dag are built of, each once."""
    found: list[Condition] = []
    for when in (edge.when for member in dag.members for edge in member.after if edge.when is not None):
        for one in alternatives_of(when):
            found.extend(atom for atom, _ in terms_of(one) if atom not in found)
    return found


def _running(dag: Dag, held: list[tuple[Condition, bool]]) -> set[str]:
    """Return the members that run where each condition holds or not."""

    def holds(when: Condition | None) -> bool:
        if when is None:
            return True
        known = [[_value(atom, held) is wanted for atom, wanted in terms_of(one)] for one in alternatives_of(when)]
        return any(map(all, known))

    runs: set[str] = set()
    while True:
        more = {
            member.id
            for member in dag.members
            if not member.after or any(edge.source in runs and holds(edge.when) for edge in member.after)
        }
        if more <= runs:
            return runs
        runs |= more


def _value(atom: Condition, held: list[tuple[Condition, bool]]) -> bool:
    return next(value for known, value in held if known == atom)
