"""Workflows as diagrams: `render` draws one in a format; each format is a module.

Mermaid, dot and JSON draw the same `scene`; text is a tree of its own, and SVG has a `layout`. None of them needs
networkx, graphviz or a browser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.processor import one_of
from penstock.engine.processor.stages import STAGES, full_name

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Node, Sequence
    from penstock.engine.graph.plan_cache import Plans

FORMATS = ("mermaid", "dot", "text", "json", "svg")


def render(name: str, root: Sequence, format: str = "mermaid", stage: str | None = None) -> str:  # noqa: A002
    """Return a workflow as a diagram, without a newline at its end.

    Args:
        name: the workflow's name.
        root: its graph.
        format: ``mermaid``, ``dot``, ``text``, ``json`` or ``svg``.
        stage: draw only the steps that have this stage; None: all of them.

    Raises:
        OptionError: there is no such format or stage.
    """
    one_of("draw", "format", format, FORMATS)
    stage = None if stage is None else one_of("draw", "stage", full_name(stage), STAGES)
    if format == "text":
        from penstock.engine.render.as_text import as_text

        return as_text(name, root, stage)
    if format == "svg":
        from penstock.engine.render.as_svg import as_svg

        return as_svg(name, root, stage)
    from penstock.engine.render.scene import scene_of

    scene = scene_of(name, root, stage)
    if format == "json":
        from penstock.engine.render.as_json import as_json

        return as_json(scene)
    if format == "dot":
        from penstock.engine.render.as_dot import as_dot

        return as_dot(scene)
    from penstock.engine.render.as_mermaid import as_mermaid

    return as_mermaid(scene)


def render_lists(name: str, plans: Plans, format: str = "mermaid", stage: str | None = None) -> str:  # noqa: A002
    """Return processor lists as a diagram: each step with the stages at which it runs, and no others.

    Args:
        name: the name of their owner.
        plans: the plans of the lists.
        format: as in `render`.
        stage: draw what runs at this stage, in the order in which it does; None: everything.

    Raises:
        OptionError: there is no such format or stage.
    """
    from penstock.engine.graph.nodes import Sequence
    from penstock.engine.render.scene import at_stages

    if stage is not None:
        one_of("draw", "stage", stage, STAGES)
    root, orders = plans.resolved, plans.orders or {}
    wanted = STAGES.values() if stage is None else (STAGES[stage],)
    order = range(len(root.nodes)) if stage is None else orders[STAGES[stage].processor_list]
    nodes: list[Node] = []
    for index in order:
        runs = {one.name for one in wanted if index in orders[one.processor_list]}
        nodes.append(at_stages(root.nodes[index], runs))
    kept = tuple(node for node in nodes if not (isinstance(node, Sequence) and not node.nodes))
    return render(name, Sequence(kept), format, stage)
