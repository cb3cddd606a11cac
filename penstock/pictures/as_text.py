"""Draw a workflow as a tree for a terminal, in box-drawing characters without colour.

Single lines are steps one after another, double lines are steps in parallel, dotted lines are shadow steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.graph.nodes import Branch, Parallel, Sequence, Step, steps_of
from penstock.engine.tracing.display import columns, short
from penstock.pictures.labels import last, merge_words, policy_words, stage_words
from penstock.pictures.scene import Look, ProcessorList, drawn_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.graph.nodes import DagMember, Node
    from penstock.pictures.labels import Detail


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the tree, and the lines below it. ``notes`` stand in a column of their own."""

    head: str
    notes: tuple[str, ...] = ()
    below: tuple[_Line, ...] = ()
    line: str = "─"


_CORNERS = {"─": ("├─ ", "└─ ", "│  "), "═": ("╠═ ", "╚═ ", "║  "), "┄": ("├┄ ", "└┄ ", "│  ")}


def as_text(name: str, root: Sequence, stage: str | None = None, detail: Detail = "full") -> str:
    """Return the tree."""
    kept = drawn_part(root, stage)
    look = Look(detail, apart=stage is None and detail == "full", notes=())
    title = short(name) if stage is None else f"{short(name)} at {stage}"
    rows = [(title, ()), *_rows(tuple(_line(node, look) for node in kept.nodes), "")]
    if not kept.nodes:
        rows.append(("└─ (nothing)", ()))
    return "\n".join(_in_columns(rows))


def _rows(lines: tuple[_Line, ...], indent: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, line in enumerate(lines, 1):
        middle, end, trunk = _CORNERS[line.line]
        ends = number == len(lines)
        yield f"{indent}{end if ends else middle}{line.head}", line.notes
        yield from _rows(line.below, indent + ("   " if ends else trunk))


def _in_columns(rows: list[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    width = max((columns(head) for head, notes in rows if notes), default=0)
    for head, notes in rows:
        yield f"{head}{' ' * (width - columns(head))}  {' · '.join(notes)}" if notes else head


def _line(node: Node, look: Look, line: str = "─") -> _Line:
    if isinstance(node, Step):
        return _step(node, look, line)
    if isinstance(node, ProcessorList):
        below = tuple(_line(child, look) for child in node.nodes)
        return _Line(f"{node.title}: {stage_words(node.stages)}", (), below)
    if isinstance(node, Sequence):
        return _sequence(node, look, line)
    if isinstance(node, Parallel):
        words = _in_brackets(merge_words(node.merge))
        inner = "─" if node.merge == "sequence" else "═"
        return _Line(f"parallel{words}", (), tuple(_line(child, look, inner) for child in node.nodes), line)
    if isinstance(node, Branch):
        return _branch(node, look, line)
    below = tuple(_member(member, look) for member in node.members)
    return _Line(f"dag{_in_brackets(merge_words(node.merge))}", (), below, line)


def _step(step: Step, look: Look, line: str) -> _Line:
    beside = "┄" if step.policy.mode == "shadow" else line
    return _Line(short(last(step.path)), look.notes_of(step), (), beside)


def _sequence(node: Sequence, look: Look, line: str) -> _Line:
    title = f"workflow {short(last(node.path))}" if node.name else "steps"
    beside = "┄" if node.policy.mode == "shadow" else line
    below = tuple(_line(child, look) for child in node.nodes) or (_Line("(passes through)"),)
    return _Line(f"{title}{_in_brackets(*policy_words(node.policy))}", (), below, beside)


def _branch(node: Branch, look: Look, line: str) -> _Line:
    how = "first that holds" if node.match == "first" else "every one that holds"
    said = [merge_words(node.merge), "on_error=block" if node.on_error == "block" else ""]
    inner = "─" if node.match == "first" else "═"
    arms = [_arm(f"if {condition_label(arm.condition)}", arm.node, look, inner) for arm in node.arms]
    if node.otherwise is not None:
        arms.append(_arm("otherwise", node.otherwise, look, "─"))
    return _Line(f"branch: {how}{_in_brackets(*said)}", (), tuple(arms), line)


def _arm(title: str, node: Node, look: Look, line: str) -> _Line:
    unnamed = isinstance(node, Sequence) and not node.name and not policy_words(node.policy)
    nodes = node.nodes if unnamed and isinstance(node, Sequence) else (node,)
    below = tuple(_line(child, look) for child in nodes) or (_Line("(passes through)"),)
    return _Line(title, (), below, line)


def _member(member: DagMember, look: Look) -> _Line:
    line = _line(member.node, look) if any(True for _ in steps_of(member.node)) else _Line("(passes through)")
    name = short(member.id)
    head = line.head if line.head == name else f"{name}: {line.head}"
    after = ", ".join(
        short(edge.source) + ("" if edge.when is None else f" if {condition_label(edge.when)}") for edge in member.after
    )
    return _Line(head, (*([f"after {after}"] if after else []), *line.notes), line.below, line.line)


def _in_brackets(*words: str) -> str:
    said = ", ".join(word for word in words if word)
    return f" ({said})" if said else ""
