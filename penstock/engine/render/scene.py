"""The scene: a workflow as boxes, groups of boxes and arrows, which Mermaid, dot and JSON draw.

A parallel is a fork box and a join box; a branch is a box with an arrow for each arm; a nested workflow and a dag are
groups. Shadow steps stand beside the flow: an arrow leads there, none leads back.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.engine.graph.conditions import Either, Every
from penstock.engine.graph.nodes import Arm, Branch, Dag, Parallel, Sequence, Step, resolve, steps_of
from penstock.engine.graph.plan import topological
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.processor.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from types import CodeType

    from penstock.engine.graph.nodes import DagMember, Node, OnError, Policy
    from penstock.engine.processor.processor import Claims


LIMIT = 60
"""The length of a label, in characters; longer ones are cut."""

_PICTURES = 0x2400
"""The code point of the first of Unicode's control pictures, which stand in the order of the control characters."""


def visible(text: str) -> str:
    """Return the text with a visible sign for each character that is not printable: ``␊``, ``␛``, ``⟨U+202E⟩``."""
    return "".join(one if one.isprintable() else _sign(ord(one)) for one in text)


def _sign(code: int) -> str:
    return chr(_PICTURES + code) if code < ord(" ") else f"⟨U+{code:04X}⟩"


def short(text: str, limit: int = LIMIT) -> str:
    """Return the visible text, cut to the length of a label."""
    seen = visible(text).strip() or "?"
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def last(path: str) -> str:
    """Return the last part of a path: the id of the step or workflow."""
    return path.rsplit("/", 1)[-1]


# Conditions


def condition_label(condition: object) -> str:
    """Return a condition in words: the name of a function, the expression of a lambda, or the repr of an object."""
    return short(_in_words(condition))


def _in_words(condition: object) -> str:
    if isinstance(condition, Every):
        return " and ".join(_inside(one) if wanted else f"not {_inside(one)}" for one, wanted in condition.terms)
    if isinstance(condition, Either):
        return " or ".join(_inside(one) for one in condition.alternatives)
    if isinstance(condition, functools.partial):
        given = [*map(_repr, condition.args), *(f"{name}={_repr(value)}" for name, value in condition.keywords.items())]
        return f"{_in_words(condition.func)}({', '.join(['…', *given])})"
    code = getattr(condition, "__code__", None)
    if code is not None and code.co_name == "<lambda>":
        return _expression(code) or "lambda"
    name = getattr(condition, "__name__", None)
    if not isinstance(name, str) or isinstance(condition, type):
        return _repr(condition)
    if not inspect.ismethod(condition):
        return name
    owner = condition.__self__
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}"


def _inside(condition: object) -> str:
    words = _in_words(condition)
    return f"({words})" if " " in words else words


def _repr(value: object) -> str:
    """Return the repr of an object; the name of its class where the repr is an address, or raises."""
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    if type(value).__repr__ is object.__repr__:
        return type(value).__name__
    try:
        said = repr(value)
    except Exception:  # noqa: BLE001 - a diagram must not break over a foreign repr
        return type(value).__name__
    return type(value).__name__ if " at 0x" in said else said


def _expression(code: CodeType) -> str | None:
    """Return the source of a lambda's expression; None where the source is missing or ambiguous."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    places = [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end
    ]
    bodies = [
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _is_of(node.body, code, places)
    ]
    return ast.unparse(bodies[0]) if len(bodies) == 1 else None


def _is_of(body: ast.expr, code: CodeType, places: list[tuple[int, int]]) -> bool:
    """Return whether an expression has the names and the position of a lambda's code."""
    names = {one.id for one in ast.walk(body) if isinstance(one, ast.Name)}
    names |= {one.attr for one in ast.walk(body) if isinstance(one, ast.Attribute)}
    end = (body.end_lineno or body.lineno, body.end_col_offset or 0)
    return names.issuperset(code.co_names) and all((body.lineno, body.col_offset) <= one < end for one in places)


# Policies and claims


def policy_words(policy: Policy) -> tuple[str, ...]:
    """Return the options of a policy, as they would be written."""
    words: list[str] = []
    if policy.timeout is not None:
        words.append(f"timeout={policy.timeout:g} s")
    if policy.on_error is not None:
        words.append(f"on_error={_on_error(policy.on_error)}")
    if policy.mode == "shadow":
        words.append("shadow")
    words += [f"{word}={value}" for word in ("overlap", "offload") if (value := getattr(policy, word)) is not None]
    if policy.retries:
        words.append(f"retries={policy.retries}")
    if policy.retry_delay is not None:
        words.append(f"retry_delay={policy.retry_delay:g} s")
    return tuple(words)


def _on_error(on_error: OnError) -> str:
    return short(claims_of(on_error).id) if isinstance(on_error, Processor) else str(on_error)


def claim_words(claims: Claims) -> tuple[str, ...]:
    """Return the role of a processor, and what it may do."""
    words: list[str] = [claims.role]
    if claims.role != "observer":
        words.append(f"edits {claims.edits}")
    return (*words, "stores") if claims.stores else tuple(words)


def fact_words(claims: Claims) -> tuple[str, ...]:
    """Return the facts that a processor requires and provides."""
    said = (("needs", claims.requires), ("puts", claims.provides))
    return tuple(f"{word} {', '.join(sorted(short(key.name) for key in keys))}" for word, keys in said if keys)


def stage_words(stages: Iterable[str]) -> str:
    """Return the names of stages, without their common prefix."""
    return ", ".join(stage.removeprefix("process_") for stage in stages)


def merge_words(merge: object) -> str:
    """Return the merge policy of a join; empty if it has none."""
    if merge is None:
        return ""
    if isinstance(merge, Pick):
        return f"merge=pick {short(merge.branch)}"
    return f"merge={merge if isinstance(merge, str) else condition_label(merge)}"


def notes_of(box: Box, stage: str | None) -> tuple[str, ...]:
    """Return the lines below the title of a box; in a picture of one stage, without the stages of a step."""
    if not isinstance(box.node, Step) or box.kind != "step":
        return box.notes
    words = step_words(box.node)
    return words if stage is not None else (*words, stage_words(box.node.claims.hooks))


def step_words(step: Step) -> tuple[str, ...]:
    """Return the claims, the facts and the policy of a step, a line each."""
    claims = step.claims
    policy = list(policy_words(step.policy))
    if step.policy.on_error is None and claims.on_error == "allow":
        policy.append("on_error=allow")  # a failure of it lets the run go on, which readers should know
    lines = (", ".join(claim_words(claims)), "; ".join(fact_words(claims)), ", ".join(policy))
    return tuple(line for line in lines if line)


def tone_of(box: Box) -> str:
    """Return the kind of a box; of a step, its role."""
    return box.node.claims.role if isinstance(box.node, Step) and box.kind == "step" else box.kind


BoxKind = Literal["start", "end", "step", "fork", "join", "branch", "pass", "missing"]
GroupKind = Literal["workflow", "dag", "sequence"]


@dataclass(frozen=True, slots=True)
class Box:
    """One box: its title, the lines below it, and the node that it stands for."""

    id: str
    kind: BoxKind
    title: str
    notes: tuple[str, ...] = ()
    group: str = ""
    shadow: bool = False
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes in a frame; ``parent`` is the id of the group around it, empty for none."""

    id: str
    kind: GroupKind
    title: str
    notes: tuple[str, ...] = ()
    parent: str = ""
    shadow: bool = False
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box; ``label``: its condition in words; ``beside``: it leads to a shadow step."""

    source: str
    target: str
    label: str = ""
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole diagram; boxes, groups and arrows stand in declared order."""

    name: str
    stage: str | None
    stages: tuple[str, ...]
    boxes: tuple[Box, ...]
    groups: tuple[Group, ...]
    arrows: tuple[Arrow, ...]


def scene_of(name: str, root: Sequence, stage: str | None = None) -> Scene:
    """Return the scene of a workflow, or of its steps for one stage."""
    resolved = resolve(root)
    kept = resolved if stage is None else at_stage(resolved, stage)
    painter = _Painter()
    painter.whole(name, kept)
    found = {one for step in steps_of(kept) for one in step.claims.hooks}
    stages = tuple(one for one in STAGES if one in found)
    arrows = tuple(dict.fromkeys(painter.arrows))
    return Scene(name, stage, stages, tuple(painter.boxes), tuple(painter.groups), arrows)


def at_stage(node: Node, stage: str) -> Node:
    """Return the part of a graph that has a stage; nodes without it become empty sequences."""
    return _with_steps(node, lambda step: step if stage in step.claims.hooks else Sequence())


def at_stages(node: Node, stages: Collection[str]) -> Node:
    """Return the part of a resolved graph that has any of these stages, and no others. Ids are those of the paths."""

    def restricted(step: Step) -> Node:
        hooks = {stage: hook for stage, hook in step.claims.hooks.items() if stage in stages}
        declared = replace(step.claims, hooks=hooks)
        return replace(step, id=last(step.path), declared=declared) if hooks else Sequence()

    return _with_steps(node, restricted, named=True)


def _with_steps(node: Node, change: Callable[[Step], Node], *, named: bool = False) -> Node:
    """Return a graph with changed steps, without the nodes that are empty then.

    Args:
        node: the graph.
        change: returns what stands in a step's place; an empty sequence for nothing.
        named: whether nested workflows get the names of their paths.
    """
    if isinstance(node, Step):
        return change(node)
    if isinstance(node, Branch):
        arms = tuple(Arm(arm.condition, _with_steps(arm.node, change, named=named)) for arm in node.arms)
        otherwise = None if node.otherwise is None else _with_steps(node.otherwise, change, named=named)
        rest = () if otherwise is None else (otherwise,)
        return replace(node, arms=arms, otherwise=otherwise) if _any(*(arm.node for arm in arms), *rest) else Sequence()
    if isinstance(node, Dag):
        members = tuple(replace(one, node=_with_steps(one.node, change, named=named)) for one in node.members)
        return replace(node, members=members) if _any(*(member.node for member in members)) else Sequence()
    nodes = tuple(kept for child in node.nodes if _any(kept := _with_steps(child, change, named=named)))
    if isinstance(node, Parallel) and len(nodes) == 1:  # a parallel of one is that one
        return nodes[0]
    if named and isinstance(node, Sequence) and node.name:
        node = replace(node, name=last(node.path))
    return replace(node, nodes=nodes) if nodes else Sequence()


def _any(*nodes: Node) -> bool:
    return any(True for node in nodes for _ in steps_of(node))


@dataclass(frozen=True, slots=True)
class _OpenArrow:
    """An arrow whose target is not drawn yet: its source, and its condition in words."""

    source: str
    label: str = ""
    beside: bool = False


class _Painter:
    """Draws one scene. Every method takes the arrows that lead to a node, and returns those that lead on."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.groups: list[Group] = []
        self.arrows: list[Arrow] = []
        self.inside = ""

    def whole(self, name: str, root: Node) -> None:
        arriving = self.box("start", name, [])
        nodes = root.nodes if isinstance(root, Sequence) else ()
        if len(nodes) == 1 and isinstance(nodes[0], Dag) and nodes[0].merge is None:
            arriving = self.members(nodes[0], arriving)
        else:
            arriving = self.chain(nodes, arriving)
        self.box("end", "end", arriving)

    def box(
        self,
        kind: BoxKind,
        title: str,
        arriving: list[_OpenArrow],
        *notes: str,
        node: Node | None = None,
        shadow: bool = False,
    ) -> list[_OpenArrow]:
        made = Box(f"n{len(self.boxes)}", kind, title, notes, self.inside, shadow, node)
        self.boxes.append(made)
        self.arrows += [Arrow(arrow.source, made.id, arrow.label, arrow.beside or shadow) for arrow in arriving]
        return [_OpenArrow(made.id)]

    def paint(self, node: Node, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        if isinstance(node, Step):
            return self.step(node, arriving)
        if isinstance(node, Sequence):
            return self.sequence(node, arriving)
        if isinstance(node, Parallel):
            return self.parallel(node, arriving)
        if isinstance(node, Branch):
            return self.branch(node, arriving)
        outside = self.frame("dag", "dag", node, *_said(merge_words(node.merge)))
        arriving = self.members(node, arriving)
        self.inside = outside
        return arriving

    def step(self, step: Step, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        shadow = step.policy.mode == "shadow"
        after = self.box("step", last(step.path), arriving, node=step, shadow=shadow)
        return arriving if shadow else after

    def chain(self, nodes: tuple[Node, ...], arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        for node in nodes:
            arriving = self.paint(node, arriving)
        return arriving

    def frame(self, kind: GroupKind, title: str, node: Node, *notes: str, shadow: bool = False) -> str:
        """Open a group, and return the id of the group around it."""
        outside = self.inside
        self.inside = f"g{len(self.groups)}"
        self.groups.append(Group(self.inside, kind, title, notes, outside, shadow, node))
        return outside

    def sequence(self, node: Sequence, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        notes = policy_words(node.policy)
        if not _any(node) or not (node.name or notes):
            return self.chain(node.nodes, arriving)
        shadow = node.policy.mode == "shadow"
        kind: GroupKind = "workflow" if node.name else "sequence"
        outside = self.frame(kind, last(node.path) or "steps", node, *notes, shadow=shadow)
        after = self.chain(node.nodes, [replace(arrow, beside=True) for arrow in arriving] if shadow else arriving)
        self.inside = outside
        return arriving if shadow else after

    def parallel(self, node: Parallel, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        if node.merge == "sequence":
            outside = self.frame("sequence", "one after the other", node, merge_words(node.merge))
            arriving = self.chain(node.nodes, arriving)
            self.inside = outside
            return arriving
        if len(node.nodes) == 1:  # a parallel of one is that one
            return self.paint(node.nodes[0], arriving)
        fork = self.box("fork", "parallel", arriving, node=node)
        ends = [arrow for child in node.nodes for arrow in self.paint(child, fork) if arrow not in fork]
        return self.box("join", "join", ends, *_said(merge_words(node.merge)), node=node) if ends else fork

    def branch(self, node: Branch, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        notes = ["first that holds" if node.match == "first" else "every one that holds"]
        if node.on_error == "block":
            notes.append("on_error=block")
        (source,) = self.box("branch", "branch", arriving, *notes, node=node)
        ends: list[_OpenArrow] = []
        for arm in node.arms:
            ends += self.paint(arm.node, [replace(source, label=condition_label(arm.condition))])
        rest = [replace(source, label="otherwise")]
        ends += rest if node.otherwise is None else self.paint(node.otherwise, rest)
        if node.match == "first" or len(node.arms) == 1:
            return ends
        return self.box("join", "join", ends, *_said(merge_words(node.merge)), node=node)

    def members(self, dag: Dag, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        """Draw the members of a dag, also of one with problems: a diagram may show them best."""
        ids = {member.id for member in dag.members}
        unknown = dict.fromkeys(
            edge.source for member in dag.members for edge in member.after if edge.source not in ids
        )
        ends = {one: self.box("missing", one, [], "no such member") for one in unknown}
        ordered = topological(dag)
        later = f"{dag.path}:"
        for member in (*ordered, *(member for member in dag.members if member not in ordered)):
            ends[member.id] = self.member(member, ends, arriving, later)
        self.arrows = [arrow for known in self.arrows for arrow in _traced(known, later, ends)]
        followed = {edge.source for member in dag.members for edge in member.after}
        return [arrow for member in dag.members if member.id not in followed for arrow in ends[member.id]]

    def member(
        self, member: DagMember, ends: dict[str, list[_OpenArrow]], arriving: list[_OpenArrow], later: str
    ) -> list[_OpenArrow]:
        if member.after:
            arriving = [
                arrow if edge.when is None else replace(arrow, label=_both(arrow.label, condition_label(edge.when)))
                for edge in member.after
                for arrow in ends.get(edge.source, [_OpenArrow(f"{later}{edge.source}")])
            ]
        if _any(member.node):
            return self.paint(member.node, arriving)
        return self.box("pass", member.id, arriving, node=member.node)


def _traced(arrow: Arrow, later: str, ends: dict[str, list[_OpenArrow]]) -> list[Arrow]:
    """Return the arrow from the boxes of its source, where that is a member that was drawn later (in a cycle)."""
    if not arrow.source.startswith(later):
        return [arrow]
    sources = ends.get(arrow.source.removeprefix(later), [])
    return [replace(arrow, source=each.source) for each in sources if not each.source.startswith(later)]


def _said(words: str) -> tuple[str, ...]:
    return (words,) if words else ()


def _both(label: str, condition: str) -> str:
    return f"{label} and {condition}" if label else condition
