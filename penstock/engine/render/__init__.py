"""Workflows as diagrams: `render` draws one in a format; each format is a module.

Mermaid, dot and JSON draw the same `scene`; text is a tree of its own. None of them needs networkx or graphviz.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.processor import one_of
from penstock.engine.processor.stages import STAGES, full_name

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Sequence

FORMATS = ("mermaid", "dot", "text", "json")


def render(name: str, root: Sequence, format: str = "mermaid", stage: str | None = None) -> str:  # noqa: A002
    """Return a workflow as a diagram, without a newline at its end.

    Args:
        name: the workflow's name.
        root: its graph.
        format: ``mermaid``, ``dot``, ``text`` or ``json``.
        stage: draw only the steps that have this stage; None: all of them.

    Raises:
        OptionError: there is no such format or stage.
    """
    one_of("draw", "format", format, FORMATS)
    stage = None if stage is None else one_of("draw", "stage", full_name(stage), STAGES)
    if format == "text":
        from penstock.engine.render.as_text import as_text

        return as_text(name, root, stage)
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
