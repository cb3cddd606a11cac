"""The layout of a scene: shapes and wires with their places and sizes. `as_svg` draws them.

A parallel parts and meets at a dot; a branch parts at a box, and each arm begins with its condition as a label; a
nested workflow is a frame. Shadow steps stand to the right of the flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.graph.condition_words import condition_words
from penstock.engine.graph.nodes import DagEdge
from penstock.engine.tracing.display import columns, whole
from penstock.engine.values.frozen import EMPTY
from penstock.pictures.blocks import (
    HEADLINE,
    PAD,
    BlockWire,
    Shape,
    Words,
    attached,
    beside,
    calling,
    fold,
    framed,
    looped,
    marked,
    single,
    spread,
    stack,
)
from penstock.pictures.labels import role_of, stage_words
from penstock.pictures.layers import layered
from penstock.pictures.wrapping import label_lines, note_lines, text_width, title_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.graph.nodes import Condition
    from penstock.pictures.blocks import Block
    from penstock.pictures.layers import Edge
    from penstock.pictures.scene import Part, Scene

TITLE = 13.0
NOTE = 11.0
"""The sizes of the letters of titles and of all other words."""

_MARGIN = 12.0
_TITLE_LINE = 16.0
_NOTE_LINE = 15.0
_LABEL_LINE = 14.0
_DOT = 8.0
_NARROWEST = 104.0
_GRID = 16.0
"""The width of the narrowest box, and the steps in which boxes are wider, so that many are of one width."""

_HEAD_COLUMNS = 56
"""The most columns of a frame's title."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole picture; the place of everything counts from its upper left corner."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    wires: tuple[BlockWire, ...]


def picture_of(scene: Scene, *, badges: Mapping[str, tuple[str, ...]] = EMPTY) -> Picture:
    """Return the picture of a scene.

    Args:
        scene: the scene.
        badges: further words in boxes, a line each, by path; in the list of an agent, by the path and ``@LIST``.
    """
    made = _Layout(scene, badges).whole()
    block = made.moved(made.left + PAD, PAD)
    return Picture(made.left + made.right + 2 * PAD, made.height + 2 * PAD, block.shapes, block.wires)


# Shapes


def _box(
    id: str,
    kind: str,
    title: str,
    *notes: str,
    path: str = "",
    shadow: bool = False,
    badges: tuple[str, ...] = (),
) -> Block:
    named = whole(title)
    heads, notes_below, added = title_lines(named), note_lines(notes), note_lines(badges)
    below = [("note", line) for line in notes_below] + [("badge", line) for line in added]
    widest = max(
        *(text_width(line, TITLE, bold=True) for line in heads),
        *(text_width(line, NOTE, bold=tone == "badge") for tone, line in below),
        0.0,
    )
    width = max(_NARROWEST, widest + 2 * _MARGIN)
    if kind not in ("start", "end"):
        width = -(-width // _GRID) * _GRID
    words = [Words("title", line, width / 2, 19.5 + _TITLE_LINE * at, middle=True) for at, line in enumerate(heads)]
    top = 30 + _TITLE_LINE * (len(heads) - 1)
    words += [
        Words(tone, line, width / 2, top + 6 + _NOTE_LINE * at, middle=True) for at, (tone, line) in enumerate(below)
    ]
    height = top + _NOTE_LINE * len(below)
    return single(Shape(id, kind, named, notes, 0, 0, width, height, shadow=shadow, words=tuple(words), path=path))


def _dot(id: str) -> Block:
    return single(Shape(id, "dot", "", (), 0, 0, _DOT, _DOT))


def _label(id: str, title: str, path: str = "") -> Block:
    lines = label_lines(title)
    width = max(text_width(line, NOTE) for line in lines) + 10
    words = tuple(Words("note", line, width / 2, 13 + _LABEL_LINE * at, middle=True) for at, line in enumerate(lines))
    height = 4 + _LABEL_LINE * len(lines)
    return single(Shape(id, "label", title, (), 0, 0, width, height, words=words, path=path))


def _meeting(part: Part) -> Block:
    """Return where arms meet: a dot, or how their changes are merged."""
    id = f"join:{part.path}"
    return _label(id, *part.merging) if part.merging else _dot(id)


def _frame(
    id: str,
    title: str,
    notes: tuple[str, ...],
    inside: Block,
    *,
    path: str = "",
    shadow: bool = False,
    badges: tuple[str, ...] = (),
) -> Block:
    """Return a block in a frame; its notes stand beside its title if there is room, else below it."""
    named = whole(title)
    heads = wrapped(named, _HEAD_COLUMNS, 2)
    said = ", ".join(notes)
    first = _MARGIN + text_width(heads[-1], TITLE, bold=True) + _MARGIN
    words = [Words("title", line, _MARGIN, 20 + _TITLE_LINE * at) for at, line in enumerate(heads)]
    x, y, below = first, words[-1].y, wrapped(said, _HEAD_COLUMNS, 3)
    if columns(heads[-1] + said) >= _HEAD_COLUMNS:
        x, y = _MARGIN, y + _NOTE_LINE
    words += [Words("note", line, x, y + _NOTE_LINE * at) for at, line in enumerate(below) if line]
    low = words[-1].y
    for at, line in enumerate(note_lines(badges)):
        words.append(Words("badge", line, _MARGIN, low + _NOTE_LINE * (at + 1)))
    head = HEADLINE + words[-1].y - 20
    width = max(one.x + text_width(one.text, TITLE, bold=one.tone != "note") for one in words)
    shape = Shape(id, "group", named, notes, 0, 0, width, 0, shadow=shadow, words=tuple(words), path=path, head=head)
    return framed(shape, inside)


def _aside(block: Block, path: str, *, shadow: bool) -> Block:
    return beside(_dot(f"aside:{path}"), block) if shadow else block


# Graphs


class _Layout:
    """Makes blocks of the parts of one scene."""

    def __init__(self, scene: Scene, badges: Mapping[str, tuple[str, ...]]) -> None:
        self.scene = scene
        self.lines = scene.lines()
        self._badges = badges
        self._serves = ""

    def badges(self, path: str) -> tuple[str, ...]:
        """Return the further words of the box with this path."""
        return self._badges.get(f"{path}@{self._serves}" if self._serves else path, ())

    def whole(self) -> Block:
        """Return the block of all, from start to end."""
        root = self.scene.root
        start = _box("start", "start", self.scene.name, *self.scene.notes)
        if self.scene.model is not None:
            inside = self._lists(self.scene.model)
        else:
            inside = [self._dag(root.bare_dag)] if root.bare_dag else self._chain(root)
        return fold([start, *inside, _box("end", "end", "end")])

    def _lists(self, model: str) -> list[Block]:
        """Return the lists of an agent before and behind its model; what serves its failures stands beside it."""
        made = {one.serves: self._list(one) for one in self.scene.root.inside}
        if model:
            box = _box("model", "model", model, "model", path="model", badges=self.badges("model"))
            if self.scene.tools:
                badges = self.badges("tools")
                box = calling(
                    box, _box("tools", "tools", "tools", *self.scene.named_tools, path="tools", badges=badges)
                )
            failing = made.pop("error", None)
            made["model"] = attached(box, _label("fails", "a call fails"), failing) if failing else box
        return [made[one] for one in ("input", "model", "error", "output") if one in made]

    def _list(self, part: Part) -> Block:
        self._serves = part.serves
        inside = fold(self._chain(part))
        self._serves = ""
        return marked(_frame("list", part.title, (f"at {stage_words(part.stages)}",), inside), part.serves)

    def _chain(self, part: Part) -> list[Block]:
        return [self._block(one) for one in part.chain()]

    def arm(self, part: Part) -> list[Block]:
        """Return the blocks of a part that is unseen, or its own; none if it is empty."""
        return [self._block(one) for one in part.drawn()]

    def _block(self, part: Part) -> Block:
        if part.kind == "step" and part.step:
            tone, notes, badges = role_of(part.step), self.lines[part], self.badges(part.path)
            id = f"step:{part.path}"
            box = _box(id, tone, part.id, *notes, path=part.path, shadow=part.shadow, badges=badges)
            return _aside(box, part.path, shadow=part.shadow)
        if part.kind == "folded":
            return _box(f"memory:{part.path}", "folded", part.title, *part.notes)
        if part.kind == "branch":
            return self._branch(part)
        if part.kind == "parallel" and part.merge != "sequence":
            arms = [stack(blocks) for one in part.inside if (blocks := self.arm(one))]
            return spread(_dot(f"fork:{part.path}"), arms, _meeting(part))
        return self._framed(part)

    def _framed(self, part: Part) -> Block:
        inside = self._dag(part) if part.kind == "dag" else fold(self._chain(part))
        title = {"parallel": "one after the other", "dag": "dag"}.get(part.kind, part.title)
        path, notes, badges = part.path or inside.first, (*part.notes, *part.merging), self.badges(part.path)
        frame = _frame(f"group:{path}", title, notes, inside, path=part.path, shadow=part.shadow, badges=badges)
        return _aside(frame, path, shadow=part.shadow)

    def _branch(self, part: Part) -> Block:
        path = part.path
        arms = [stack([_label(f"arm:{arm.path}", arm.title, arm.path), *self._chain(arm)]) for arm in part.inside]
        if not part.inside[-1].otherwise:
            arms.append(_label(f"arm:{path}:otherwise", "otherwise", f"{path}:otherwise"))
        head = _box(f"branch:{path}", "branch", "branch", *part.notes, path=path, badges=self.badges(path))
        return spread(head, arms, _meeting(part))

    def _dag(self, dag: Part) -> Block:
        """Return the layers of a dag, also of one with problems: a picture may show them best."""
        return _Network(self, dag).block()


class _Network:
    """The blocks of a dag, in the order in which its edges lead onwards, and the edges between them."""

    def __init__(self, layout: _Layout, dag: Part) -> None:
        self._layout = layout
        self._dag = dag
        self._blocks = [_dot(f"fork:{dag.path}")]
        self._edges: list[Edge] = []
        self._at: dict[str, int] = {}
        for one in dag.unknown():
            self._at[one] = self._add(_box(f"missing:{dag.path}:{one}", "missing", one, "no such member"))

    def _add(self, block: Block) -> int:
        self._blocks.append(block)
        return len(self._blocks) - 1

    def block(self) -> Block:
        waiting: list[tuple[DagEdge, Part, int]] = []
        for member in self._dag.in_order():
            labels: list[int] = []  # the conditions of its edges, each below the member that it comes from
            for number, edge in enumerate(member.after):
                if edge.when is not None and edge.source in self._at:
                    labels.append(self._add(self._label(member, number, edge.when)))
                    self._edges.append((self._at[edge.source], labels[-1]))
            inside = self._layout.arm(member)
            made = stack(inside) if inside else _box(f"pass:{self._dag.path}:{member.member}", "pass", member.member)
            to_itself = any(edge == DagEdge(member.member) for edge in member.after)
            place = self._add(looped(made) if to_itself else made)
            self._at[member.member] = place
            self._edges += [(label, place) for label in labels]
            waiting += [
                (edge, member, number)
                for number, edge in enumerate(member.after)
                if edge.when is None or self._at.get(edge.source, place) >= place
            ]
            if not member.after:
                self._edges.append((0, place))
        for edge, member, number in waiting:
            source = self._at[edge.source]
            if edge.when is not None:  # it leads back: in a cycle
                label = self._add(self._label(member, number, edge.when))
                self._edges.append((source, label))
                source = label
            self._edges.append((source, self._at[member.member]))
        return self._closed()

    def _label(self, member: Part, number: int, condition: Condition) -> Block:
        path = f"{self._dag.path}:{member.member}:{number}"
        return _label(f"arm:{path}", condition_words(condition), path)

    def _closed(self) -> Block:
        """Return the layers, from where the entries part to where the ends meet; one entry or end is that itself."""
        self._edges = [(source, target) for source, target in self._edges if source != target]  # drawn by `looped`
        followed = {source for source, _ in self._edges}
        reached = {target for _, target in self._edges}
        count = len(self._blocks)
        self._edges += [(0, one) for one in range(1, count) if one not in reached]
        ends = [one for one in range(1, count) if one not in followed]
        if len(ends) != 1 or self._dag.merge is not None or any(source > target for source, target in self._edges):
            end = self._add(_meeting(self._dag))
            self._edges += [(one, end) for one in ends]
        if sum(1 for source, _ in self._edges if not source) == 1:
            self._blocks.pop(0)
            self._edges = [(source - 1, target - 1) for source, target in self._edges if source]
        return layered(self._blocks, self._edges)
