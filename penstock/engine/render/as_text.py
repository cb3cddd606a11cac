"""Draw a workflow as a tree for a terminal, in box-drawing characters without colour.

Single lines are steps one after another, double lines are steps in parallel, dotted lines are shadow steps.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Branch, Parallel, Sequence, Step, resolve, steps_of
from penstock.engine.render.scene import (
    at_stage,
    condition_label,
    last,
    merge_words,
    policy_words,
    short,
    stage_words,
    step_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.graph.nodes import DagMember, Node


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the tree, and the lines below it. ``notes`` stand in a column of their own."""

    head: str
    notes: tuple[str, ...] = ()
    below: tuple[_Line, ...] = ()
    line: str = "─"


_CORNERS = {"─": ("├─ ", "└─ ", "│  "), "═": ("╠═ ", "╚═ ", "║  "), "┄": ("├┄ ", "└┄ ", "│  ")}


def as_text(name: str, root: Sequence, stage: str | None = None) -> str:
    """Return the tree."""
    resolved = resolve(root)
    kept = resolved if stage is None else at_stage(resolved, stage)
    nodes = kept.nodes if isinstance(kept, Sequence) else ()
    title = short(name) if stage is None else f"{short(name)} at {stage}"
    rows = [(title, ()), *_rows(tuple(_line(node, stage) for node in nodes), "")]
    if not nodes:
        rows.append(("└─ (nothing)", ()))
    return "\n".join(_in_columns(rows))


def _rows(lines: tuple[_Line, ...], indent: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, line in enumerate(lines, 1):
        middle, end, trunk = _CORNERS[line.line]
        ends = number == len(lines)
        yield f"{indent}{end if ends else middle}{line.head}", line.notes
        yield from _rows(line.below, indent + ("   " if ends else trunk))


def _in_columns(rows: list[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    width = max((_width(head) for head, notes in rows if notes), default=0)
    for head, notes in rows:
        yield f"{head}{' ' * (width - _width(head))}  {' · '.join(notes)}" if notes else head


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def _line(node: Node, stage: str | None, line: str = "─") -> _Line:
    if isinstance(node, Step):
        return _step(node, stage, line)
    if isinstance(node, Sequence):
        return _sequence(node, stage, line)
    if isinstance(node, Parallel):
        words = _in_brackets(merge_words(node.merge))
        inner = "─" if node.merge == "sequence" else "═"
        return _Line(f"parallel{words}", (), tuple(_line(child, stage, inner) for child in node.nodes), line)
    if isinstance(node, Branch):
        return _branch(node, stage, line)
    below = tuple(_member(member, stage) for member in node.members)
    return _Line(f"dag{_in_brackets(merge_words(node.merge))}", (), below, line)


def _step(step: Step, stage: str | None, line: str) -> _Line:
    stages = () if stage is not None else (stage_words(step.claims.hooks),)
    beside = "┄" if step.policy.mode == "shadow" else line
    return _Line(short(last(step.path)), (*step_words(step), *stages), (), beside)


def _sequence(node: Sequence, stage: str | None, line: str) -> _Line:
    title = f"workflow {short(last(node.path))}" if node.name else "steps"
    beside = "┄" if node.policy.mode == "shadow" else line
    below = tuple(_line(child, stage) for child in node.nodes) or (_Line("(passes through)"),)
    return _Line(f"{title}{_in_brackets(*policy_words(node.policy))}", (), below, beside)


def _branch(node: Branch, stage: str | None, line: str) -> _Line:
    how = "first that holds" if node.match == "first" else "every one that holds"
    said = [merge_words(node.merge), "on_error=block" if node.on_error == "block" else ""]
    inner = "─" if node.match == "first" else "═"
    arms = [_arm(f"if {condition_label(arm.condition)}", arm.node, stage, inner) for arm in node.arms]
    if node.otherwise is not None:
        arms.append(_arm("otherwise", node.otherwise, stage, "─"))
    return _Line(f"branch: {how}{_in_brackets(*said)}", (), tuple(arms), line)


def _arm(title: str, node: Node, stage: str | None, line: str) -> _Line:
    unnamed = isinstance(node, Sequence) and not node.name and not policy_words(node.policy)
    nodes = node.nodes if unnamed and isinstance(node, Sequence) else (node,)
    below = tuple(_line(child, stage) for child in nodes) or (_Line("(passes through)"),)
    return _Line(title, (), below, line)


def _member(member: DagMember, stage: str | None) -> _Line:
    line = _line(member.node, stage) if any(True for _ in steps_of(member.node)) else _Line("(passes through)")
    name = short(member.id)
    head = line.head if line.head == name else f"{name}: {line.head}"
    after = ", ".join(
        short(edge.source) + ("" if edge.when is None else f" if {condition_label(edge.when)}") for edge in member.after
    )
    return _Line(head, (*([f"after {after}"] if after else []), *line.notes), line.below, line.line)


def _in_brackets(*words: str) -> str:
    said = ", ".join(word for word in words if word)
    return f" ({said})" if said else ""
