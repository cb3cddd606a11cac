"""The chart of a scene: boxes, groups of boxes and arrows, which Mermaid, dot and JSON draw.

A parallel is a fork box and a join box; a branch is a box with an arrow for each arm; a nested workflow and a dag are
groups. Shadow steps stand beside the flow: an arrow leads there, none leads back. Ids are made of paths, so that a
changed workflow changes few lines of a diagram.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.engine.graph.condition_words import condition_words
from penstock.pictures.labels import role_of, stage_words

if TYPE_CHECKING:
    from penstock.pictures.scene import Part, Scene

BoxKind = Literal["start", "end", "step", "fork", "join", "branch", "pass", "missing", "model", "tools", "folded"]
GroupKind = Literal["workflow", "dag", "sequence", "list", "memory"]


@dataclass(frozen=True, slots=True)
class Box:
    """One box: its title, the lines below it, and the part that it stands for."""

    id: str
    kind: BoxKind
    title: str
    notes: tuple[str, ...] = ()
    group: str = ""
    shadow: bool = False
    part: Part | None = None

    @property
    def tone(self) -> str:
        """The kind of a box; of a step, its role."""
        return role_of(self.part.step) if self.kind == "step" and self.part and self.part.step else self.kind


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes in a frame.

    Attributes:
        id: a name that no other group or box has.
        kind: its kind.
        title: its title.
        notes: the words beside the title.
        parent: the id of the group around it, empty for none.
        part: the part that it stands for.
        at: how many boxes were declared before it.
    """

    id: str
    kind: GroupKind
    title: str
    notes: tuple[str, ...]
    parent: str
    part: Part
    at: int

    @property
    def shadow(self) -> bool:
        """Whether it runs beside the flow."""
        return self.part.shadow


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from box to box.

    Attributes:
        source: the id of the box that it leaves.
        target: the id of the box that it reaches; empty while that is not drawn yet.
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
class Chart:
    """A whole diagram; boxes and groups stand in declared order, and the arrows of an arm before those of the next.

    ``sides`` are the arms of the parallels and branches of which one holds a group.
    """

    boxes: tuple[Box, ...]
    groups: tuple[Group, ...]
    arrows: tuple[Arrow, ...]
    sides: tuple[Side, ...]

    def inside(self, group: str) -> list[tuple[int, Box | Group]]:
        """Return the boxes and groups directly in a group (``""``: in none), in declared order, with their places."""
        placed: list[tuple[int, int, Box | Group]] = [
            (place, 1, box) for place, box in enumerate(self.boxes) if box.group == group
        ]
        placed += [(one.at, 0, one) for one in self.groups if one.parent == group]
        return [(place, one) for place, _, one in sorted(placed, key=lambda each: each[:2])]


def chart_of(scene: Scene) -> Chart:
    """Return the chart of a scene."""
    painter = _Painter(scene)
    painter.whole()
    arrows = tuple(dict.fromkeys(sorted(painter.arrows, key=lambda arrow: arrow.opened)))
    return Chart(tuple(painter.boxes), tuple(painter.groups), arrows, tuple(painter.sides))


class _Painter:
    """Draws one chart. Its methods take the arrows that lead to a part, and return those that lead on."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.lines = scene.lines()
        self.boxes: list[Box] = []
        self.groups: list[Group] = []
        self.arrows: list[Arrow] = []
        self.inside = ""
        self.ids: set[str] = set()
        self.sides: list[Side] = []
        self.opened = 0

    def whole(self) -> None:
        root = self.scene.root
        arriving = self.box("start", self.scene.name, [], *self.scene.notes, id="start")
        if self.scene.model is not None:
            arriving = self.lists(self.scene.model, arriving)
        elif (members := root.bare_dag) is not None:
            arriving = self.members(members, arriving)
        else:
            arriving = self.chain(root.chain(), arriving)
        self.box("end", "end", arriving, id="stop")  # a box called `end` would end something in Mermaid

    def open(self, source: str, label: str = "") -> Arrow:
        self.opened += 1
        return Arrow(source, "", label, opened=self.opened)

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
        arriving: list[Arrow],
        *notes: str,
        id: str,
        part: Part | None = None,
    ) -> list[Arrow]:
        shadow = part is not None and kind == "step" and part.shadow
        made = Box(self.own(id), kind, title, notes, self.inside, shadow, part)
        self.boxes.append(made)
        self.arrows += [replace(arrow, target=made.id, beside=arrow.beside or shadow) for arrow in arriving]
        return [self.open(made.id)]

    def lists(self, model: str, arriving: list[Arrow]) -> list[Arrow]:
        """Draw the lists of an agent, before and behind its model; what serves its failures stands beside it."""
        lists = {one.serves: one for one in self.scene.root.inside}
        arriving = self.processor_list(lists.get("input"), arriving)
        if model:
            arriving = self.box("model", model, arriving, "model", id="model")
            self.tools(arriving)
        failing = [replace(arrow, label="a call fails") for arrow in arriving if model]
        self.processor_list(lists.get("error"), failing)
        return self.processor_list(lists.get("output"), arriving)

    def tools(self, calling: list[Arrow]) -> None:
        """Draw the tools that the model calls, with the arrows there and back."""
        if not self.scene.tools:
            return
        calls = [self.open(arrow.source, "tool calls") for arrow in calling]
        (answers,) = self.box("tools", "tools", calls, *self.scene.named_tools, id="tools")
        self.arrows += [replace(answers, target=arrow.source, label="results") for arrow in calling]

    def processor_list(self, part: Part | None, arriving: list[Arrow]) -> list[Arrow]:
        if part is None:
            return arriving
        return self.frame("list", part.title, part, arriving, f"at {stage_words(part.stages)}")

    def paint(self, part: Part, arriving: list[Arrow]) -> list[Arrow]:
        if part.kind == "step":
            id = f"step_{_slug(part.path)}"
            after = self.box("step", part.id, arriving, *self.lines[part], id=id, part=part)
            return arriving if part.shadow else after
        if part.kind == "folded":
            return self.box("folded", part.title, arriving, *part.notes, id=f"memory_{_slug(part.path)}", part=part)
        if part.kind == "parallel":
            if part.merge == "sequence":
                return self.frame("sequence", "one after the other", part, arriving, *part.merging)
            return self.parallel(part, arriving)
        if part.kind == "branch":
            return self.branch(part, arriving)
        if part.kind == "dag":
            return self.frame("dag", "dag", part, arriving, *part.merging)
        kind: GroupKind = part.kind if part.kind in ("workflow", "memory") else "sequence"
        beside = [replace(arrow, beside=True) for arrow in arriving] if part.shadow else arriving
        after = self.frame(kind, part.title, part, beside, *part.notes)
        return arriving if part.shadow else after

    def chain(self, parts: list[Part], arriving: list[Arrow]) -> list[Arrow]:
        for part in parts:
            arriving = self.paint(part, arriving)
        return arriving

    def frame(self, kind: GroupKind, title: str, part: Part, arriving: list[Arrow], *notes: str) -> list[Arrow]:
        """Draw a part in a group."""
        outside = self.inside
        self.inside = self.own(f"in_{_slug(part.path or title)}")
        self.groups.append(Group(self.inside, kind, title, notes, outside, part, len(self.boxes)))
        after = self.members(part, arriving) if kind == "dag" else self.chain(part.chain(), arriving)
        self.inside = outside
        return after

    def parallel(self, part: Part, arriving: list[Arrow]) -> list[Arrow]:
        fork = self.box("fork", "parallel", arriving, id=f"fork_{_slug(part.path)}", part=part)
        ends: list[Arrow] = []
        sides: list[Side] = []
        for child in part.inside:
            ends += [arrow for arrow in self.side(child.drawn(), fork, sides) if arrow not in fork]
        self.keep(sides)
        return self.join(part, ends) if ends else fork

    def side(self, parts: list[Part], arriving: list[Arrow], sides: list[Side]) -> list[Arrow]:
        """Draw one of several arms, and add its range of boxes to the others'."""
        start = len(self.boxes)
        after = self.chain(parts, arriving)
        if len(self.boxes) > start:
            sides.append(Side(self.inside, start, len(self.boxes)))
        return after

    def keep(self, sides: list[Side]) -> None:
        if any(one.start <= group.at < one.end for one in sides for group in self.groups):
            self.sides += sides

    def join(self, part: Part, ends: list[Arrow]) -> list[Arrow]:
        return self.box("join", "join", ends, *part.merging, id=f"join_{_slug(part.path)}", part=part)

    def branch(self, part: Part, arriving: list[Arrow]) -> list[Arrow]:
        (source,) = self.box("branch", "branch", arriving, *part.notes, id=f"choose_{_slug(part.path)}", part=part)
        ends: list[Arrow] = []
        sides: list[Side] = []
        for arm in part.inside:
            ends += self.side(arm.chain(), [self.open(source.source, arm.title)], sides)
        if not part.inside[-1].otherwise:
            ends.append(self.open(source.source, "otherwise"))
        self.keep(sides)
        conditions = sum(1 for arm in part.inside if not arm.otherwise)
        return ends if part.match == "first" or conditions == 1 else self.join(part, ends)

    def members(self, dag: Part, arriving: list[Arrow]) -> list[Arrow]:
        """Draw the members of a dag, also of one with problems: a diagram may show them best."""
        ends = {
            one: self.box("missing", one, [], "no such member", id=f"missing_{_slug(dag.path)}_{_slug(one)}")
            for one in dag.unknown()
        }
        later = f"{dag.path}:"
        for member in dag.in_order():
            ends[member.member] = self.member(member, ends, arriving, dag.path)
        self.arrows = [arrow for known in self.arrows for arrow in _traced(known, later, ends)]
        followed = {edge.source for member in dag.inside for edge in member.after}
        leaving = [arrow for one in dag.inside if one.member not in followed for arrow in ends[one.member]]
        return [arrow for known in leaving for arrow in _traced(known, later, ends)]

    def member(self, part: Part, ends: dict[str, list[Arrow]], arriving: list[Arrow], path: str) -> list[Arrow]:
        if part.after:
            arriving = [
                arrow if edge.when is None else replace(arrow, label=_both(arrow.label, condition_words(edge.when)))
                for edge in part.after
                for arrow in ends.get(edge.source, [self.open(f"{path}:{edge.source}")])
            ]
        if not part.empty:
            return self.chain(part.drawn(), arriving)
        return self.box("pass", part.member, arriving, id=f"pass_{_slug(path)}_{_slug(part.member)}", part=part)


def _traced(arrow: Arrow, later: str, ends: dict[str, list[Arrow]]) -> list[Arrow]:
    """Return the arrow from the boxes of its source, where that is a member that was drawn later (in a cycle)."""
    if not arrow.source.startswith(later):
        return [arrow]
    sources = ends.get(arrow.source.removeprefix(later), [])
    return [replace(arrow, source=each.source) for each in sources if not each.source.startswith(later)]


def _slug(path: str) -> str:
    """Return a path in letters, digits and ``_`` only, which no format takes for anything but a name."""
    made = re.sub(
        r"[\W_]", lambda at: "_" if (sign := at.group()).isascii() else f"u{ord(sign):x}", path, flags=re.ASCII
    )
    return made.replace("style", "sty_le").replace("classDef", "class_Def")  # Mermaid looks for them in any line


def _both(label: str, condition: str) -> str:
    return f"{label} and {condition}" if label else condition
