"""Draw a workflow as a tree for a terminal, in box-drawing characters without colour.

Single lines are steps one after another, double lines are steps in parallel, dotted lines are shadow steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.tracing.display import columns, short
from penstock.pictures.labels import stage_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.scene import Part, Scene


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the tree, and the lines below it. ``notes`` stand in a column of their own."""

    head: str
    notes: tuple[str, ...] = ()
    below: tuple[_Line, ...] = ()
    line: str = "─"


_CORNERS = {"─": ("├─ ", "└─ ", "│  "), "═": ("╠═ ", "╚═ ", "║  "), "┄": ("├┄ ", "└┄ ", "│  ")}


def as_text(scene: Scene) -> str:
    """Return the tree."""
    title = short(scene.name) if scene.stage is None else f"{short(scene.name)} at {scene.stage}"
    below = _Tree(scene).lines(scene.root.inside) or (_Line("(nothing)"),)
    rows = [(title, ()), *_rows(below, "")]
    width = max((columns(head) for head, notes in rows if notes), default=0)
    return "\n".join(
        f"{head}{' ' * (width - columns(head))}  {' · '.join(notes)}" if notes else head for head, notes in rows
    )


def _rows(lines: tuple[_Line, ...], indent: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, line in enumerate(lines, 1):
        middle, end, trunk = _CORNERS[line.line]
        ends = number == len(lines)
        yield f"{indent}{end if ends else middle}{line.head}", line.notes
        yield from _rows(line.below, indent + ("   " if ends else trunk))


_NOTHING = (_Line("(passes through)"),)


class _Tree:
    """Makes lines of the parts of one scene."""

    def __init__(self, scene: Scene) -> None:
        self._words = partial(scene.words, stages=scene.stage is None and scene.detail == "full")

    def lines(self, parts: list[Part], line: str = "─") -> tuple[_Line, ...]:
        return tuple(self._line(one, line) for one in parts)

    def _line(self, part: Part, line: str) -> _Line:
        beside = "┄" if part.shadow else line
        if part.kind == "step":
            return _Line(short(part.id), self._words(part), (), beside)
        if part.kind == "folded":
            return _Line(part.title, (", ".join(map(short, part.notes)),))
        if part.kind == "list":
            return _Line(f"{part.title}: {stage_words(part.stages)}", (), self.lines(part.inside))
        if part.kind == "branch":
            how, *rest = part.notes
            inner = "─" if part.match == "first" else "═"
            arms = [
                _Line(arm.label, (), self.lines(arm.inside) or _NOTHING, "─" if arm.otherwise else inner)
                for arm in part.inside
            ]
            return _Line(f"branch: {how}{_in_brackets(*part.merging, *rest)}", (), tuple(arms), line)
        if part.kind == "dag":
            return _Line(f"dag{_in_brackets(*part.merging)}", (), tuple(map(self._member, part.inside)), line)
        if part.kind == "parallel":
            inner = "─" if part.merge == "sequence" else "═"
            return _Line(f"parallel{_in_brackets(*part.merging)}", (), self.lines(part.inside, inner), line)
        title = f"workflow {short(part.id)}" if part.kind == "workflow" else part.kind
        return _Line(f"{title}{_in_brackets(*part.notes)}", (), self.lines(part.inside) or _NOTHING, beside)

    def _member(self, part: Part) -> _Line:
        line = _NOTHING[0] if part.empty else self._line(part, "─")
        name = short(part.member)
        head = line.head if line.head == name else f"{name}: {line.head}"
        after = ", ".join(
            short(edge.source) + ("" if edge.when is None else f" if {condition_label(edge.when)}")
            for edge in part.after
        )
        return _Line(head, (*([f"after {after}"] if after else []), *line.notes), line.below, line.line)


def _in_brackets(*words: str) -> str:
    return f" ({', '.join(words)})" if words else ""
