"""Where everything of a picture stands: a workflow as shapes and wires with places and sizes, and no way to draw them.

A parallel parts and meets at a dot; a branch parts at a box, and each arm begins with its condition as a label; a
nested workflow is a frame. Shadow steps stand to the right of the flow.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.nodes import Branch, Dag, Parallel, Sequence, Step, children, resolve, steps_of
from penstock.engine.graph.plan import topological
from penstock.engine.render.blocks import PAD, Shape, Wire, beside, fold, framed, single, spread, stack
from penstock.engine.render.layers import layered
from penstock.engine.render.scene import at_stage, condition_label, last, merge_words, policy_words, short

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import DagMember, Node
    from penstock.engine.render.blocks import Block
    from penstock.engine.render.layers import Edge

TITLE = 13.0
NOTE = 11.0
"""The sizes of the letters of titles and of all other words."""

_MARGIN = 12.0
_NOTE_LINE = 15.0
_LINE_CHARS = 44
_DOT = 8.0
_WIDE = 0x3000
"""Where the wide scripts begin in Unicode."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole picture; the place of everything counts from its upper left corner."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    wires: tuple[Wire, ...]


def picture_of(name: str, root: Sequence, stage: str | None = None) -> Picture:
    """Return the picture of a workflow, or of its steps for one stage."""
    resolved = resolve(root)
    kept = resolved if stage is None else at_stage(resolved, stage)
    nodes = kept.nodes if isinstance(kept, Sequence) else ()
    only = nodes[0] if len(nodes) == 1 else None
    inside = [_dag(only)] if isinstance(only, Dag) and only.merge is None else _chain(nodes)
    made = fold([_box("start", "start", name), *inside, _box("end", "end", "end")])
    block = made.moved(made.left + PAD, PAD)
    return Picture(made.left + made.right + 2 * PAD, made.height + 2 * PAD, block.shapes, block.wires)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the most that a text is likely to take; no font is read."""
    return sum(map(_ems, text)) * size * (1.08 if bold else 1.0)


def _ems(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF" or ord(char) >= _WIDE:
        return 1.05
    return 0.85 if char in "mwMW@%…—⟨⟩" else 0.6


def _box(
    id: str,
    kind: str,
    title: str,
    *notes: str,
    shadow: bool = False,
) -> Block:
    words = short(title)
    widest = max([text_width(words, TITLE, bold=True), *(text_width(note, NOTE) for note in notes)])
    return single(
        Shape(id, kind, words, notes, 0, 0, widest + 2 * _MARGIN, 30 + _NOTE_LINE * len(notes), shadow=shadow)
    )


def _dot(id: str) -> Block:
    return single(Shape(id, "dot", "", (), 0, 0, _DOT, _DOT))


def _label(id: str, words: str) -> Block:
    return single(Shape(id, "label", words, (), 0, 0, text_width(words, NOTE) + 10, 18))


def _meeting(path: str, merge: object) -> Block:
    """Return where arms meet: a dot, or how their changes are merged."""
    words = merge_words(merge)
    return _label(f"join:{path}", words) if words else _dot(f"join:{path}")


def _wrapped(words: tuple[str, ...]) -> list[str]:
    """Return words as lines of a box."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < _LINE_CHARS:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return lines


def role_of(step: Step) -> str:
    """Return the role of a step; ``undeclared`` where neither it nor a class of Penstock says one."""
    kinds = cast("tuple[type[object], ...]", type(step.processor).__mro__)
    said = "role" in getattr(step.processor, "__dict__", ()) or any(
        "role" in vars(one) or one.__module__.startswith("penstock.")
        for one in kinds
        if one.__qualname__ not in ("Processor", "FunctionProcessor")
    )
    return step.claims.role if said else "undeclared"


def _any(node: Node) -> bool:
    return any(True for _ in steps_of(node))


def _chain(nodes: tuple[Node, ...]) -> list[Block]:
    """Return the blocks of nodes one after the other; steps of a sequence that nobody named are among them."""
    made: list[Block] = []
    for node in nodes:
        if not _any(node):
            continue
        if _unseen(node):
            made += _chain(children(node))
        else:
            made.append(_block(node))
    return made


def _unseen(node: Node) -> bool:
    """Return whether only what is in a node is drawn."""
    if isinstance(node, Sequence):
        return not (node.name or policy_words(node.policy))
    return isinstance(node, Parallel) and len(node.nodes) == 1


def _block(node: Node) -> Block:
    if isinstance(node, Step):
        shadow = node.policy.mode == "shadow"
        role = role_of(node)
        return _aside(
            _box(f"step:{node.path}", role, last(node.path), role, *_policy(node), shadow=shadow),
            node.path,
            shadow=shadow,
        )
    if isinstance(node, Sequence):
        shadow = node.policy.mode == "shadow"
        inside = fold(_chain(node.nodes))
        id = f"group:{node.path or inside.first}"
        words = policy_words(node.policy)
        return _aside(
            _frame(id, last(node.path) or "steps", words, inside, shadow=shadow), node.path or id, shadow=shadow
        )
    if isinstance(node, Parallel):
        return _parallel(node)
    if isinstance(node, Branch):
        return _branch(node)
    return _frame(f"group:{node.path}", "dag", (), _dag(node))


def _policy(step: Step) -> list[str]:
    words = policy_words(step.policy)
    if step.policy.on_error is None and step.claims.on_error == "allow":
        words = (*words, "on_error=allow")
    return _wrapped(words)


def _aside(block: Block, path: str, *, shadow: bool) -> Block:
    return beside(_dot(f"aside:{path}"), block) if shadow else block


def _frame(
    id: str,
    title: str,
    words: tuple[str, ...],
    inside: Block,
    *,
    shadow: bool = False,
) -> Block:
    notes = (", ".join(words),) if words else ()
    width = text_width(short(title), TITLE, bold=True) + sum(text_width(note, NOTE) + PAD for note in notes)
    return framed(Shape(id, "group", short(title), notes, 0, 0, width, 0, shadow=shadow), inside)


def _parallel(node: Parallel) -> Block:
    if node.merge == "sequence":
        return _frame(f"group:{node.path}", "one after the other", (merge_words(node.merge),), fold(_chain(node.nodes)))
    arms = [stack(_chain((child,))) for child in node.nodes if _any(child)]
    return spread(_dot(f"fork:{node.path}"), arms, _meeting(node.path, node.merge))


def _branch(node: Branch) -> Block:
    notes = ["first that holds" if node.match == "first" else "every one that holds"]
    if node.on_error == "block":
        notes.append("on_error=block")
    arms: list[Block] = []
    for number, arm in enumerate(node.arms):
        label = _label(f"arm:{node.path}:{number}", condition_label(arm.condition))
        arms.append(stack([label, *_chain((arm.node,))]))
    rest = () if node.otherwise is None else (node.otherwise,)
    arms.append(stack([_label(f"arm:{node.path}:otherwise", "otherwise"), *_chain(rest)]))
    return spread(_box(f"branch:{node.path}", "branch", "branch", *notes), arms, _meeting(node.path, node.merge))


def _dag(dag: Dag) -> Block:
    """Return the layers of a dag, also of one with problems: a picture may show them best."""
    ordered = topological(dag)
    members = [*ordered, *(member for member in dag.members if member not in ordered)]
    ids = {member.id for member in members}
    unknown = dict.fromkeys(edge.source for member in members for edge in member.after if edge.source not in ids)
    return _Network(dag, members, list(unknown)).block()


class _Network:
    """The blocks of a dag, in the order in which its edges lead onwards, and the edges between them."""

    def __init__(self, dag: Dag, members: list[DagMember], unknown: list[str]) -> None:
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
        waiting: list[tuple[str, int]] = []
        for member in self._members:
            labels = self._labels(member)
            place = self._add(self._member(member))
            self._at[member.id] = place
            self._edges += [(label, place) for label in labels]
            waiting += [
                (edge.source, place)
                for edge in member.after
                if edge.when is None or edge.source not in self._at or self._at[edge.source] >= place
            ]
            if not member.after:
                self._edges.append((0, place))
        self._edges += [(self._at[source], place) for source, place in waiting]
        return self._closed()

    def _labels(self, member: DagMember) -> list[int]:
        """Add the conditions of the edges to a member, each below the member that it comes from."""
        places: list[int] = []
        for number, edge in enumerate(member.after):
            if edge.when is not None and edge.source in self._at:
                words = condition_label(edge.when)
                places.append(self._add(_label(f"arm:{self._dag.path}:{member.id}:{number}", words)))
                self._edges.append((self._at[edge.source], places[-1]))
        return places

    def _member(self, member: DagMember) -> Block:
        inside = _chain((member.node,))
        return stack(inside) if inside else _box(f"pass:{self._dag.path}:{member.id}", "pass", member.id)

    def _closed(self) -> Block:
        """Return the layers, from where the entries part to where the ends meet."""
        followed = {source for source, _ in self._edges}
        reached = {target for _, target in self._edges}
        end = self._add(_meeting(self._dag.path, self._dag.merge))
        self._edges += [(0, one) for one in range(1, end) if one not in reached]
        self._edges += [(one, end) for one in range(end) if one not in followed]
        return layered(self._blocks, self._edges)
