"""Which steps cannot run beside each other in a stream: the check of parallels for chunk hooks; it runs nothing.

Guards of texts work on positions, so what they do beside each other can be merged. A hook that takes chunks and gives
others cannot say which text it changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Branch, Dag, Parallel, Sequence, Step, children, fallback_of, walk
from penstock.engine.text_guards.guard import text_guard_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.graph.nodes import Node

_STAGE = "process_output_stream"


def opaque_parallels(root: Node) -> Iterator[str]:
    """Yield a problem for each hook that changes chunks beside another step of the stream."""
    for node in walk(root):
        ways = _ways(node)
        beside = [steps for way in ways if (steps := list(_streaming(way)))]
        if len(beside) < _SEVERAL:
            continue
        for step in (step for steps in beside for step in steps):
            if text_guard_of(step.processor) is None and step.claims.edits != "nothing":
                yield (
                    f"{step.path!r} changes chunks in {_STAGE} beside other steps, and nobody can merge that; "
                    "make it a TextGuard, let one run after the other, or say merge='sequence'"
                )


_SEVERAL = 2


def _ways(node: Node) -> tuple[Node, ...]:
    """Return what of a node runs beside each other."""
    if isinstance(node, Parallel) and node.merge == "sequence":
        return ()
    if isinstance(node, (Parallel, Dag)) or (isinstance(node, Branch) and node.match == "all"):
        return tuple(children(node))
    return ()


def _streaming(node: Node) -> Iterator[Step]:
    """Yield the steps of a node that judge streams and whose edits count, those that may stand in included."""
    if isinstance(node, (Step, Sequence)) and node.policy.mode == "shadow":
        return
    if isinstance(node, Step):
        if _STAGE in node.claims.hooks:
            yield node
    else:
        for child in children(node):
            yield from _streaming(child)
    stands_in = fallback_of(node)
    if stands_in is not None:
        yield from _streaming(stands_in)
