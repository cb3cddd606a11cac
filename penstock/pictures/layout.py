"""Where everything of a picture stands: a workflow as shapes and wires with places and sizes, and no way to draw them.

A parallel parts and meets at a dot; a branch parts at a box, and each arm begins with its condition as a label; a
nested workflow is a frame. Shadow steps stand to the right of the flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.graph.condition_words import condition_words
from penstock.engine.graph.nodes import Branch, Dag, DagEdge, Parallel, Sequence, Step, children, steps_of
from penstock.engine.graph.plan import topological
from penstock.engine.tracing.display import columns, whole
from penstock.engine.values.frozen import EMPTY
from penstock.pictures.blocks import (
    HEADLINE,
    PAD,
    Shape,
    Wire,
    Words,
    attached,
    beside,
    fold,
    framed,
    looped,
    marked,
    single,
    spread,
    stack,
)
from penstock.pictures.labels import last, merge_words, policy_words, role_of, stage_words
from penstock.pictures.layers import layered
from penstock.pictures.scene import AgentLists, drawn_part, look_of
from penstock.pictures.wrapping import label_lines, note_lines, text_width, title_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.graph.nodes import Condition, DagMember, Node
    from penstock.pictures.blocks import Block
    from penstock.pictures.labels import Detail
    from penstock.pictures.layers import Edge
    from penstock.pictures.scene import Look, ProcessorList

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
    wires: tuple[Wire, ...]


def picture_of(
    name: str,
    root: Sequence,
    stage: str | None = None,
    detail: Detail = "short",
    *,
    badges: Mapping[str, tuple[str, ...]] = EMPTY,
) -> Picture:
    """Return the picture of a workflow, or of its steps for one stage.

    Args:
        name: the workflow's name.
        root: its graph.
        stage: the stage; None: all steps.
        detail: how much it says of each step.
        badges: further words in boxes, a line each, by path; in the list of an agent, by the path and ``@LIST``.
    """
    kept = drawn_part(root, stage)
    look = look_of(kept, stage, detail)
    made = _Layout(look, badges).whole(name, kept)
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


def _meeting(path: str, merge: object) -> Block:
    """Return where arms meet: a dot, or how their changes are merged."""
    words = merge_words(merge)
    return _label(f"join:{path}", words) if words else _dot(f"join:{path}")


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


def _any(node: Node) -> bool:
    return any(True for _ in steps_of(node))


def _unseen(node: Node) -> bool:
    """Return whether only what is in a node is drawn."""
    if isinstance(node, Sequence):
        return not (node.name or policy_words(node.policy))
    return isinstance(node, Parallel) and len(node.nodes) == 1


def _aside(block: Block, path: str, *, shadow: bool) -> Block:
    return beside(_dot(f"aside:{path}"), block) if shadow else block


# Graphs


class _Layout:
    """Makes blocks of the nodes of one picture."""

    def __init__(self, look: Look, badges: Mapping[str, tuple[str, ...]]) -> None:
        self.look = look
        self._badges = badges
        self._serves = ""

    def badges(self, path: str) -> tuple[str, ...]:
        """Return the further words of the box with this path."""
        return self._badges.get(f"{path}@{self._serves}" if self._serves else path, ())

    def whole(self, name: str, root: Sequence) -> Block:
        """Return the block of all, from start to end."""
        start = _box("start", "start", name, *self.look.notes)
        only = root.nodes[0] if len(root.nodes) == 1 else None
        if isinstance(root, AgentLists):
            inside = self._lists(root)
        elif isinstance(only, Dag) and only.merge is None:
            inside = [self._dag(only)]
        else:
            inside = self.chain(root.nodes)
        return fold([start, *inside, _box("end", "end", "end")])

    def _lists(self, root: AgentLists) -> list[Block]:
        """Return the lists of an agent before and behind its model; what serves its failures stands beside it."""
        made = {one.serves: self._list(one) for one in root.lists}
        if root.model:
            box = _box("model", "model", root.model, "model", path="model", badges=self.badges("model"))
            failing = made.pop("error", None)
            made["model"] = attached(box, _label("fails", "a call fails"), failing) if failing else box
        return [made[one] for one in ("input", "model", "error", "output") if one in made]

    def _list(self, node: ProcessorList) -> Block:
        self._serves = node.serves
        inside = fold(self.chain(node.nodes))
        self._serves = ""
        return marked(_frame("list", node.title, (f"at {stage_words(node.stages)}",), inside), node.serves)

    def chain(self, nodes: tuple[Node, ...]) -> list[Block]:
        """Return the blocks of nodes one after the other; what is in a sequence that nobody named is among them."""
        made: list[Block] = []
        for node in nodes:
            if not _any(node):
                continue
            if _unseen(node):
                made += self.chain(children(node))
            else:
                made.append(self._block(node))
        return made

    def _block(self, node: Node) -> Block:
        if isinstance(node, Step):
            return self._step(node)
        if isinstance(node, Sequence):
            return self._sequence(node)
        if isinstance(node, Parallel):
            return self._parallel(node)
        if isinstance(node, Branch):
            return self._branch(node)
        notes = (merge_words(node.merge),) if node.merge else ()
        badges = self.badges(node.path)
        return _frame(f"group:{node.path}", "dag", notes, self._dag(node), path=node.path, badges=badges)

    def _step(self, step: Step) -> Block:
        shadow = step.policy.mode == "shadow"
        notes = self.look.notes_of(step)
        id = f"step:{step.path}"
        badges = self.badges(step.path)
        box = _box(id, role_of(step), last(step.path), *notes, path=step.path, shadow=shadow, badges=badges)
        return _aside(box, step.path, shadow=shadow)

    def _sequence(self, node: Sequence) -> Block:
        shadow = node.policy.mode == "shadow"
        inside = fold(self.chain(node.nodes))
        path = node.path or inside.first
        title = last(node.path) or "steps"
        notes, badges = policy_words(node.policy), self.badges(node.path)
        frame = _frame(f"group:{path}", title, notes, inside, path=node.path, shadow=shadow, badges=badges)
        return _aside(frame, path, shadow=shadow)

    def _parallel(self, node: Parallel) -> Block:
        if node.merge == "sequence":
            inside = fold(self.chain(node.nodes))
            notes, badges = (merge_words(node.merge),), self.badges(node.path)
            return _frame(f"group:{node.path}", "one after the other", notes, inside, path=node.path, badges=badges)
        arms = [stack(self.chain((child,))) for child in node.nodes if _any(child)]
        return spread(_dot(f"fork:{node.path}"), arms, _meeting(node.path, node.merge))

    def _branch(self, node: Branch) -> Block:
        notes = ["first that holds" if node.match == "first" else "every one that holds"]
        if node.on_error == "block":
            notes.append("on_error=block")
        arms = [
            self._arm(f"{node.path}:{number}", condition_words(arm.condition), (arm.node,))
            for number, arm in enumerate(node.arms)
        ]
        rest = () if node.otherwise is None else (node.otherwise,)
        arms.append(self._arm(f"{node.path}:otherwise", "otherwise", rest))
        head = _box(f"branch:{node.path}", "branch", "branch", *notes, path=node.path, badges=self.badges(node.path))
        return spread(head, arms, _meeting(node.path, node.merge))

    def _arm(self, path: str, words: str, nodes: tuple[Node, ...]) -> Block:
        return stack([_label(f"arm:{path}", words, path), *self.chain(nodes)])

    def _dag(self, dag: Dag) -> Block:
        """Return the layers of a dag, also of one with problems: a picture may show them best."""
        ordered = topological(dag)
        members = [*ordered, *(member for member in dag.members if member not in ordered)]
        ids = {member.id for member in members}
        unknown = dict.fromkeys(edge.source for member in members for edge in member.after if edge.source not in ids)
        return _Network(self, dag, members, list(unknown)).block()


class _Network:
    """The blocks of a dag, in the order in which its edges lead onwards, and the edges between them."""

    def __init__(self, layout: _Layout, dag: Dag, members: list[DagMember], unknown: list[str]) -> None:
        self._layout = layout
        self._dag = dag
        self._members = members
        self._blocks = [_dot(f"fork:{dag.path}")]
        self._edges: list[Edge] = []
        self._at: dict[str, int] = {}
        for one in unknown:
            self._at[one] = self._add(_box(f"missing:{dag.path}:{one}", "missing", one, "no such member"))

    def _add(self, block: Block) -> int:
        self._blocks.append(block)
        return len(self._blocks) - 1

    def block(self) -> Block:
        waiting: list[tuple[DagEdge, DagMember, int]] = []
        for member in self._members:
            labels = self._labels(member)
            place = self._add(self._member(member))
            self._at[member.id] = place
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
            self._edges.append((source, self._at[member.id]))
        return self._closed()

    def _labels(self, member: DagMember) -> list[int]:
        """Add the conditions of the edges to a member, each below the member that it comes from."""
        places: list[int] = []
        for number, edge in enumerate(member.after):
            if edge.when is not None and edge.source in self._at:
                places.append(self._add(self._label(member, number, edge.when)))
                self._edges.append((self._at[edge.source], places[-1]))
        return places

    def _label(self, member: DagMember, number: int, condition: Condition) -> Block:
        path = f"{self._dag.path}:{member.id}:{number}"
        return _label(f"arm:{path}", condition_words(condition), path)

    def _member(self, member: DagMember) -> Block:
        inside = self._layout.chain((member.node,))
        block = stack(inside) if inside else _box(f"pass:{self._dag.path}:{member.id}", "pass", member.id)
        return looped(block) if any(edge == DagEdge(member.id) for edge in member.after) else block

    def _closed(self) -> Block:
        """Return the layers, from where the entries part to where the ends meet; one entry or end is that itself."""
        self._edges = [(source, target) for source, target in self._edges if source != target]  # drawn by `looped`
        followed = {source for source, _ in self._edges}
        reached = {target for _, target in self._edges}
        count = len(self._blocks)
        self._edges += [(0, one) for one in range(1, count) if one not in reached]
        ends = [one for one in range(1, count) if one not in followed]
        if len(ends) != 1 or self._dag.merge is not None or any(source > target for source, target in self._edges):
            end = self._add(_meeting(self._dag.path, self._dag.merge))
            self._edges += [(one, end) for one in ends]
        if sum(1 for source, _ in self._edges if not source) == 1:
            self._blocks.pop(0)
            self._edges = [(source - 1, target - 1) for source, target in self._edges if source]
        return layered(self._blocks, self._edges)
