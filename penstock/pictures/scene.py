"""The scene: a workflow as boxes, groups of boxes and arrows, which Mermaid, dot and JSON draw.

A parallel is a fork box and a join box; a branch is a box with an arrow for each arm; a nested workflow and a dag are
groups. Shadow steps stand beside the flow: an arrow leads there, none leads back. Ids are made of paths, so that a
changed workflow changes few lines of a diagram.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from penstock.engine.graph.condition_words import condition_words
from penstock.engine.graph.nodes import Arm, Branch, Dag, Parallel, Sequence, Step, resolve, steps_of
from penstock.engine.graph.plan import topological
from penstock.engine.processor.stages import STAGES
from penstock.pictures.labels import last, merge_words, policy_words, role_of, stage_words, step_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.engine.graph.nodes import DagMember, Node
    from penstock.pictures.labels import Detail


@dataclass(frozen=True, slots=True)
class Look:
    """How much a picture says: of each step, and once of all.

    Attributes:
        detail: ``short`` or ``full``.
        apart: whether each step says its stages; not where all have the same.
        notes: what the first box says of all steps.
    """

    detail: Detail
    apart: bool
    notes: tuple[str, ...]

    def notes_of(self, step: Step) -> tuple[str, ...]:
        """Return the lines below the title of a step."""
        words = step_words(step, self.detail)
        return (*words, stage_words(step.claims.hooks)) if self.apart else words


def look_of(root: Node, stage: str | None, detail: Detail) -> Look:
    """Return how much a picture of a graph says, or of its steps for one stage."""
    if stage is not None:
        return Look(detail, apart=False, notes=(f"at {stage_words((stage,))}",))
    if detail == "short":
        return Look(detail, apart=False, notes=())
    common = {tuple(step.claims.hooks) for step in steps_of(root)}
    if len(common) > 1:
        return Look(detail, apart=True, notes=())
    return Look(detail, apart=False, notes=tuple(f"at {stage_words(stages)}" for stages in common))


def tone_of(box: Box) -> str:
    """Return the kind of a box; of a step, its role."""
    return role_of(box.node) if isinstance(box.node, Step) and box.kind == "step" else box.kind


BoxKind = Literal["start", "end", "step", "fork", "join", "branch", "pass", "missing", "model"]
GroupKind = Literal["workflow", "dag", "sequence", "list"]


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
    """Boxes in a frame.

    Attributes:
        id: a name that no other group or box has.
        kind: what the frame stands for.
        title: its title.
        notes: what is said beside the title.
        parent: the id of the group around it, empty for none.
        shadow: whether it runs beside the flow.
        node: the node that it stands for.
        at: how many boxes were declared before it.
    """

    id: str
    kind: GroupKind
    title: str
    notes: tuple[str, ...] = ()
    parent: str = ""
    shadow: bool = False
    node: Node | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box.

    Attributes:
        source: the id of the box that it leaves.
        target: the id of the box that it reaches.
        label: its condition in words.
        beside: whether it leads to a shadow step.
        opened: when its source was reached, of all ways through the workflow, each followed to its end.
    """

    source: str
    target: str
    label: str = ""
    beside: bool = False
    opened: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    """The boxes of one of several arms side by side, as a range of places; ``group`` is the id of the frame around."""

    group: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole diagram; boxes and groups stand in declared order, and the arrows of an arm before those of the next.

    ``sides`` are the arms of the parallels and branches of which one holds a group.
    """

    name: str
    stage: str | None
    stages: tuple[str, ...]
    boxes: tuple[Box, ...]
    groups: tuple[Group, ...]
    arrows: tuple[Arrow, ...]
    sides: tuple[Side, ...] = ()

    def inside(self, group: str) -> list[tuple[int, Box | Group]]:
        """Return what stands directly in a group (``""``: in none), in declared order, each with its place."""
        placed: list[tuple[int, int, Box | Group]] = [
            (place, 1, box) for place, box in enumerate(self.boxes) if box.group == group
        ]
        placed += [(one.at, 0, one) for one in self.groups if one.parent == group]
        return [(place, one) for place, _, one in sorted(placed, key=lambda each: each[:2])]


@dataclass(frozen=True, slots=True)
class ProcessorList(Sequence):
    """A processor list of an agent: its nodes, each with only those stages at which this list serves it.

    Attributes:
        serves: ``input``, ``output`` or ``error``.
        stages: the stages at which something in it runs.
    """

    serves: str = ""
    stages: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name of the list, as its reader knows it."""
        return f"{self.serves} processors"


@dataclass(frozen=True, slots=True)
class AgentLists(Sequence):
    """The processor lists of an agent, with the paths that their steps have in a run.

    Attributes:
        model: the name of the model between them; empty in a picture of one stage.
    """

    model: str = ""

    @property
    def lists(self) -> tuple[ProcessorList, ...]:
        """The lists that are not empty, in the order in which they are reached."""
        return tuple(node for node in self.nodes if isinstance(node, ProcessorList))


class Resolved(Sequence):
    """A graph whose nodes have the paths already with which they are to be drawn."""


def drawn_part(root: Sequence, stage: str | None) -> Sequence:
    """Return what is drawn of a graph, with paths."""
    if isinstance(root, (AgentLists, Resolved)):
        return root
    resolved = resolve(root)
    kept = resolved if stage is None else at_stage(resolved, stage)
    return kept if isinstance(kept, Sequence) else Sequence((kept,))


def scene_of(name: str, root: Sequence, stage: str | None = None, detail: Detail = "short") -> Scene:
    """Return the scene of a workflow, or of its steps for one stage."""
    kept = drawn_part(root, stage)
    painter = _Painter(look_of(kept, stage, detail))
    painter.whole(name, kept)
    found = {one for step in steps_of(kept) for one in step.claims.hooks}
    stages = tuple(one for one in STAGES if one in found)
    sides = tuple(painter.sides)
    return Scene(name, stage, stages, tuple(painter.boxes), tuple(painter.groups), painter.in_order(), sides)


def at_stage(node: Node, stage: str) -> Node:
    """Return the part of a graph that has a stage; nodes without it become empty sequences."""
    return _with_steps(node, lambda step: step if stage in step.claims.hooks else Sequence())


def at_stages(node: Node, stages: Collection[str]) -> Node:
    """Return the part of a resolved graph that has any of these stages, and no others."""

    def restricted(step: Step) -> Node:
        hooks = {stage: hook for stage, hook in step.claims.hooks.items() if stage in stages}
        declared = replace(step.claims, hooks=hooks)
        return replace(step, declared=declared) if hooks else Sequence()

    return _with_steps(node, restricted)


def _with_steps(node: Node, change: Callable[[Step], Node]) -> Node:
    """Return a graph with changed steps, without the nodes that are empty then.

    Args:
        node: the graph.
        change: returns what stands in a step's place; an empty sequence for nothing.
    """
    if isinstance(node, Step):
        return change(node)
    if isinstance(node, Branch):
        arms = tuple(Arm(arm.condition, _with_steps(arm.node, change)) for arm in node.arms)
        otherwise = None if node.otherwise is None else _with_steps(node.otherwise, change)
        rest = () if otherwise is None else (otherwise,)
        return replace(node, arms=arms, otherwise=otherwise) if _any(*(arm.node for arm in arms), *rest) else Sequence()
    if isinstance(node, Dag):
        members = tuple(replace(one, node=_with_steps(one.node, change)) for one in node.members)
        return replace(node, members=members) if _any(*(member.node for member in members)) else Sequence()
    nodes = tuple(kept for child in node.nodes if _any(kept := _with_steps(child, change)))
    if isinstance(node, Parallel) and len(nodes) == 1:  # a parallel of one is that one
        return nodes[0]
    return replace(node, nodes=nodes) if nodes else Sequence()


def _any(*nodes: Node) -> bool:
    return any(True for node in nodes for _ in steps_of(node))


@dataclass(frozen=True, slots=True)
class _OpenArrow:
    """An arrow whose target is not drawn yet: its source, and its condition in words."""

    source: str
    label: str = ""
    beside: bool = False
    opened: int = 0


_AnyArrow = TypeVar("_AnyArrow", Arrow, _OpenArrow)


class _Painter:
    """Draws one scene. Every method takes the arrows that lead to a node, and returns those that lead on."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.boxes: list[Box] = []
        self.groups: list[Group] = []
        self.arrows: list[Arrow] = []
        self.inside = ""
        self.ids: set[str] = set()
        self.sides: list[Side] = []
        self.opened = 0

    def whole(self, name: str, root: Sequence) -> None:
        arriving = self.box("start", name, [], *self.look.notes, id="start")
        if isinstance(root, AgentLists):
            arriving = self.lists(root, arriving)
        elif len(root.nodes) == 1 and isinstance(root.nodes[0], Dag) and root.nodes[0].merge is None:
            arriving = self.members(root.nodes[0], arriving)
        else:
            arriving = self.chain(root.nodes, arriving)
        self.box("end", "end", arriving, id="stop")  # a box called `end` would end something in Mermaid

    def in_order(self) -> tuple[Arrow, ...]:
        """Return the arrows in the order in which their sources were reached; each once."""
        return tuple(dict.fromkeys(sorted(self.arrows, key=lambda arrow: arrow.opened)))

    def open(self, source: str, label: str = "") -> _OpenArrow:
        self.opened += 1
        return _OpenArrow(source, label, opened=self.opened)

    def own(self, id: str) -> str:
        """Return an id that nothing else has; a number is added where the signs of two paths look alike."""
        count = 1
        made = id
        while made in self.ids:
            count += 1
            made = f"{id}_{count}"
        self.ids.add(made)
        return made

    def box(
        self,
        kind: BoxKind,
        title: str,
        arriving: list[_OpenArrow],
        *notes: str,
        id: str,
        node: Node | None = None,
        shadow: bool = False,
    ) -> list[_OpenArrow]:
        made = Box(self.own(id), kind, title, notes, self.inside, shadow, node)
        self.boxes.append(made)
        self.arrows += [
            Arrow(arrow.source, made.id, arrow.label, arrow.beside or shadow, arrow.opened) for arrow in arriving
        ]
        return [self.open(made.id)]

    def lists(self, root: AgentLists, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        """Draw the lists of an agent, before and behind its model; what serves its failures stands beside it."""
        lists = {one.serves: one for one in root.lists}
        arriving = self.processor_list(lists.get("input"), arriving)
        if root.model:
            arriving = self.box("model", root.model, arriving, "model", id="model")
        if "error" in lists:
            self.processor_list(
                lists["error"], [replace(arrow, label="a call fails") for arrow in arriving if root.model]
            )
        return self.processor_list(lists.get("output"), arriving)

    def processor_list(self, node: ProcessorList | None, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        if node is None:
            return arriving
        outside = self.frame("list", node.title, node, f"at {stage_words(node.stages)}")
        after = self.chain(node.nodes, arriving)
        self.inside = outside
        return after

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
        notes = self.look.notes_of(step)
        id = f"step_{_slug(step.path)}"
        after = self.box("step", last(step.path), arriving, *notes, id=id, node=step, shadow=shadow)
        return arriving if shadow else after

    def chain(self, nodes: tuple[Node, ...], arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        for node in nodes:
            arriving = self.paint(node, arriving)
        return arriving

    def frame(self, kind: GroupKind, title: str, node: Node, *notes: str, shadow: bool = False) -> str:
        """Open a group, and return the id of the group around it."""
        outside = self.inside
        self.inside = self.own(f"in_{_slug(node.path or title)}")
        self.groups.append(Group(self.inside, kind, title, notes, outside, shadow, node, len(self.boxes)))
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
        fork = self.box("fork", "parallel", arriving, id=f"fork_{_slug(node.path)}", node=node)
        ends: list[_OpenArrow] = []
        sides: list[Side] = []
        for child in node.nodes:
            ends += [arrow for arrow in self.side(child, fork, sides) if arrow not in fork]
        self.keep(sides)
        return self.join(node, ends) if ends else fork

    def side(self, node: Node, arriving: list[_OpenArrow], sides: list[Side]) -> list[_OpenArrow]:
        """Draw one of several arms, and add its range of boxes to the others'."""
        start = len(self.boxes)
        after = self.paint(node, arriving)
        if len(self.boxes) > start:
            sides.append(Side(self.inside, start, len(self.boxes)))
        return after

    def keep(self, sides: list[Side]) -> None:
        if any(one.start <= group.at < one.end for one in sides for group in self.groups):
            self.sides += sides

    def join(self, node: Parallel | Branch, ends: list[_OpenArrow]) -> list[_OpenArrow]:
        notes = _said(merge_words(node.merge))
        return self.box("join", "join", ends, *notes, id=f"join_{_slug(node.path)}", node=node)

    def branch(self, node: Branch, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        notes = ["first that holds" if node.match == "first" else "every one that holds"]
        if node.on_error == "block":
            notes.append("on_error=block")
        (source,) = self.box("branch", "branch", arriving, *notes, id=f"choose_{_slug(node.path)}", node=node)
        ends: list[_OpenArrow] = []
        sides: list[Side] = []
        for arm in node.arms:
            ends += self.side(arm.node, [self.open(source.source, condition_words(arm.condition))], sides)
        rest = [self.open(source.source, "otherwise")]
        ends += rest if node.otherwise is None else self.side(node.otherwise, rest, sides)
        self.keep(sides)
        return ends if node.match == "first" or len(node.arms) == 1 else self.join(node, ends)

    def members(self, dag: Dag, arriving: list[_OpenArrow]) -> list[_OpenArrow]:
        """Draw the members of a dag, also of one with problems: a diagram may show them best."""
        ids = {member.id for member in dag.members}
        unknown = dict.fromkeys(
            edge.source for member in dag.members for edge in member.after if edge.source not in ids
        )
        ends = {
            one: self.box("missing", one, [], "no such member", id=f"missing_{_slug(dag.path)}_{_slug(one)}")
            for one in unknown
        }
        ordered = topological(dag)
        later = f"{dag.path}:"
        for member in (*ordered, *(member for member in dag.members if member not in ordered)):
            ends[member.id] = self.member(member, ends, arriving, dag.path)
        self.arrows = [arrow for known in self.arrows for arrow in _traced(known, later, ends)]
        followed = {edge.source for member in dag.members for edge in member.after}
        leaving = [arrow for member in dag.members if member.id not in followed for arrow in ends[member.id]]
        return [arrow for known in leaving for arrow in _traced(known, later, ends)]

    def member(
        self, member: DagMember, ends: dict[str, list[_OpenArrow]], arriving: list[_OpenArrow], path: str
    ) -> list[_OpenArrow]:
        if member.after:
            arriving = [
                arrow if edge.when is None else replace(arrow, label=_both(arrow.label, condition_words(edge.when)))
                for edge in member.after
                for arrow in ends.get(edge.source, [self.open(f"{path}:{edge.source}")])
            ]
        if _any(member.node):
            return self.paint(member.node, arriving)
        id = f"pass_{_slug(path)}_{_slug(member.id)}"
        return self.box("pass", member.id, arriving, id=id, node=member.node)


def _traced(arrow: _AnyArrow, later: str, ends: dict[str, list[_OpenArrow]]) -> list[_AnyArrow]:
    """Return the arrow from the boxes of its source, where that is a member that was drawn later (in a cycle)."""
    if not arrow.source.startswith(later):
        return [arrow]
    sources = ends.get(arrow.source.removeprefix(later), [])
    return [replace(arrow, source=each.source) for each in sources if not each.source.startswith(later)]


def _slug(path: str) -> str:
    """Return a path in letters, digits and ``_`` only, which no format takes for anything but a name."""
    made = re.sub(r"[\W_]", _plain, path, flags=re.ASCII)
    return made.replace("style", "sty_le").replace("classDef", "class_Def")  # Mermaid looks for them in any line


def _plain(found: re.Match[str]) -> str:
    return "_" if found.group().isascii() else f"u{ord(found.group()):x}"


def _said(words: str) -> tuple[str, ...]:
    return (words,) if words else ()


def _both(label: str, condition: str) -> str:
    return f"{label} and {condition}" if label else condition
