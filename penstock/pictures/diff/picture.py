"""A diff as one picture: the graph of both workflows, and the marks of what was added, removed and changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.graph.nodes import Arm, Branch, Dag, DagEdge, DagMember, Parallel, Sequence, Step
from penstock.pictures.as_svg import as_svg
from penstock.pictures.diff.text import changed_words, summary
from penstock.pictures.marks import GONE, Mark, Marks
from penstock.pictures.scene import Resolved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.graph.nodes import Node
    from penstock.engine.processor.context import View
    from penstock.pictures.diff.entries import Entry
    from penstock.pictures.diff.union import Line
    from penstock.pictures.marks import MarkKind


def picture_text(names: tuple[str, str], tree: Line) -> str:
    """Return the SVG of a diff."""
    drawn = _Drawn()
    drawn.mark(tree, "")
    root = Resolved(drawn.nodes(tree.inside))
    title = names[1] if names[0] == names[1] else f"{names[0]} → {names[1]}"
    return as_svg(title, root, marks=Marks("diff", drawn.marks, lines=(summary(tree) or "no differences",)))


def path_of(line: Line) -> str:
    """Return the path of a line in the picture; that of what was removed is marked as such."""
    if line.what != "removed":
        return line.entry.path
    path = line.entry.path
    return f"{GONE}{path}"


_MOST = 4
"""How many differences a box shows; all of them are shown under the pointer."""


class Says:
    """A condition that is only drawn."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __call__(self, _view: View) -> bool:
        """Refuse to be run."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the words."""
        return self._words


class _Drawn:
    """Makes the graph of both workflows, and collects its marks."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}

    def nodes(self, lines: Iterable[Line]) -> tuple[Node, ...]:
        return tuple(self._node(line) for line in lines)

    def _node(self, line: Line) -> Node:
        node, path = line.entry.node, path_of(line)
        self.mark(line, path)
        if isinstance(node, Step):
            return replace(node, path=path)
        if isinstance(node, Sequence):
            return replace(node, path=path, nodes=self.nodes(line.inside))
        if isinstance(node, Parallel):
            return replace(node, path=path, nodes=self.nodes(line.inside))
        return self._branch(node, line, path) if isinstance(node, Branch) else self._dag(node, line, path)

    def mark(self, line: Line, path: str) -> None:
        if line.what != "same":
            lines = tuple(changed_words(line)) if line.what == "changed" else ()
            self.marks[path] = Mark(line.what, _badge(line), lines=lines)

    def _branch(self, node: Branch, line: Line, path: str) -> Branch:
        arms: list[Arm] = []
        otherwise: Node | None = None
        for one in line.inside:
            inside = Sequence(self.nodes(one.inside))
            if one.entry.otherwise and otherwise is None:
                otherwise = inside
                self.mark(one, f"{path}:otherwise")
            else:
                self.mark(one, f"{path}:{len(arms)}")
                arms.append(Arm(_condition(one), inside))
        return replace(node, path=path, arms=tuple(arms), otherwise=otherwise)

    def _dag(self, node: Dag, line: Line, path: str) -> Dag:
        ids = {one.entry: _member_id(one) for one in line.inside}
        by_old = {_id(one.old): ids[one.entry] for one in line.inside if one.old}
        by_new = {_id(one.new): ids[one.entry] for one in line.inside if one.new}
        members = [
            DagMember(ids[one.entry], self._node(one), self._edges(one, f"{path}:{ids[one.entry]}", by_old, by_new))
            for one in line.inside
        ]
        return replace(node, path=path, members=tuple(members))

    def _edges(self, line: Line, path: str, by_old: dict[str, str], by_new: dict[str, str]) -> tuple[DagEdge, ...]:
        """Return the edges of both workflows to a member; one that only one of them has gets a label."""
        old, new = _after(line.old, by_old), _after(line.new, by_new)
        edges: list[DagEdge] = []
        for source in dict.fromkeys((*new, *old)):
            before, after = old.get(source), new.get(source)
            kind: MarkKind | None = None
            if line.what in ("added", "removed") or before == after:
                words = after or before or ""
            elif before is None:
                kind, words = "added", after or "new edge"
            elif after is None:
                kind, words = "removed", before or "edge"
            else:
                kind, words = "changed", f"{before or 'always'} → {after or 'always'}"
            if kind is not None:
                self.marks[f"{path}:{len(edges)}"] = Mark(kind)
            edges.append(DagEdge(source, Says(words) if words else None))
        return tuple(edges)


def _id(entry: Entry | None) -> str:
    return entry.member.id if entry and entry.member else ""


def _member_id(line: Line) -> str:
    return f"{GONE}{_id(line.old)}" if line.what == "removed" else _id(line.entry)


def _after(entry: Entry | None, ids: dict[str, str]) -> dict[str, str]:
    """Return the sources of the edges to a member, each with its condition in words; empty for none."""
    member = entry.member if entry else None
    return {
        ids.get(edge.source, edge.source): "" if edge.when is None else condition_label(edge.when)
        for edge in (member.after if member else ())
    }


def _condition(line: Line) -> Says:
    now = condition_label(line.entry.arm.condition) if line.entry.arm else "otherwise"
    was = condition_label(line.old.arm.condition) if line.old and line.old.arm else now
    return Says(now if was == now else f"{was} → {now}")


def _badge(line: Line) -> str:
    """Return what differs, a line each; the edges of a dag have labels of their own."""
    if line.what != "changed":
        return line.what
    words = [_edges(one) for one in changed_words(line)]
    shown = words if len(words) <= _MOST else [*words[: _MOST - 1], f"and {len(words) - _MOST + 1} more"]
    return "\n".join(shown)


def _edges(words: str) -> str:
    return "other edges" if words.startswith("after: ") else words
