"""A diff as one picture: the scene of both workflows, and the marks of added, removed and changed parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.graph.nodes import DagEdge
from penstock.pictures.as_svg import as_svg
from penstock.pictures.diff.matching import path_of
from penstock.pictures.diff.text import changed_words, summary
from penstock.pictures.marks import GONE, Mark, Marks
from penstock.pictures.scene import Part, Scene

if TYPE_CHECKING:
    from penstock.engine.processor.context import View
    from penstock.pictures.diff.union import DiffLine
    from penstock.pictures.marks import MarkKind


def picture_text(names: tuple[str, str], tree: DiffLine) -> str:
    """Return the SVG of a diff."""
    drawn = _Drawn()
    root = drawn.part(tree)
    title = names[1] if names[0] == names[1] else f"{names[0]} → {names[1]}"
    marks = Marks("diff", drawn.marks, lines=(summary(tree) or "no differences",))
    return as_svg(Scene(title, root), marks)


_MOST = 4
"""How many differences a box shows; all of them are shown under the pointer."""


@dataclass(frozen=True, slots=True)
class Says:
    """A condition that is only drawn."""

    words: str

    def __call__(self, _view: View) -> bool:
        """Refuse to be run."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the words."""
        return self.words


class _Drawn:
    """Makes the parts of both workflows into one scene, and collects its marks."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}

    def part(self, line: DiffLine, path: str | None = None) -> Part:
        """Return a part of the scene; the path of a removed part begins with `GONE`."""
        part = line.part
        if path is None:
            path = f"{GONE}{path_of(part)}" if line.what == "removed" else path_of(part)
        if line.what != "same":
            lines = tuple(changed_words(line)) if line.what == "changed" else ()
            self.marks[path] = Mark(line.what, _badge(line), lines=lines)
        if part.kind == "branch":
            return replace(part, path=path, inside=self._arms(line.inside, path))
        if part.kind == "dag":
            return replace(part, path=path, inside=self._members(line.inside, path))
        return replace(part, path=path, inside=[self.part(one) for one in line.inside])

    def _arms(self, lines: list[DiffLine], path: str) -> list[Part]:
        """Return the arms of both workflows; of two without a condition, one is drawn with that word as its own."""
        arms: list[Part] = []
        last: list[Part] = []
        for one in lines:
            if one.part.otherwise and not last:
                last.append(self.part(one, f"{path}:otherwise"))
            else:
                now, was = (part.label.removeprefix("if ") for part in (one.part, one.old or one.part))
                says = Says(now if was == now else f"{was} → {now}")
                arms.append(replace(self.part(one, f"{path}:{len(arms)}"), condition=says))
        return arms + last

    def _members(self, lines: list[DiffLine], path: str) -> list[Part]:
        ids = {one: f"{GONE}{one.part.member}" if one.what == "removed" else one.part.member for one in lines}
        by_old = {one.old.member: ids[one] for one in lines if one.old}
        by_new = {one.new.member: ids[one] for one in lines if one.new}
        return [
            replace(self.part(one), member=ids[one], after=self._edges(one, f"{path}:{ids[one]}", by_old, by_new))
            for one in lines
        ]

    def _edges(self, line: DiffLine, path: str, by_old: dict[str, str], by_new: dict[str, str]) -> tuple[DagEdge, ...]:
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


def _after(part: Part | None, ids: dict[str, str]) -> dict[str, str]:
    """Return the sources of the edges to a member, each with its condition in words; empty for none."""
    return {
        ids.get(edge.source, edge.source): "" if edge.when is None else condition_label(edge.when)
        for edge in (part.after if part else ())
    }


def _badge(line: DiffLine) -> str:
    """Return what differs, a line each; the edges of a dag have labels of their own."""
    if line.what != "changed":
        return line.what
    words = ["other edges" if one.startswith("after: ") else one for one in changed_words(line)]
    shown = words if len(words) <= _MOST else [*words[: _MOST - 1], f"and {len(words) - _MOST + 1} more"]
    return "\n".join(shown)
