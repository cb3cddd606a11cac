"""Workflows as diagrams: `render` draws one in a format; each format is a module.

All draw one `scene`: Mermaid, dot and JSON as a `chart` of boxes and arrows, text as a tree, SVG with a `layout`; HTML
is a page around the SVG. None of them needs networkx, graphviz or a browser to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.processor.processor import one_of
from penstock.engine.processor.stages import STAGES, full_name
from penstock.engine.values.errors import UsageError
from penstock.lazy import by_name
from penstock.pictures.agent_parts import NO_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.graph.nodes import Sequence
    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.tracing.trace import Trace
    from penstock.pictures.agent_parts import AgentParts
    from penstock.pictures.labels import Detail

Format: TypeAlias = Literal["mermaid", "dot", "text", "json", "svg", "html"]
FORMATS: tuple[Format, ...] = ("mermaid", "dot", "text", "json", "svg", "html")
DETAILS: tuple[Detail, ...] = ("short", "full")


def render(
    name: str,
    graph: Sequence | Plans,
    format: str = "mermaid",  # noqa: A002
    stage: str | None = None,
    detail: Detail | None = None,
    *,
    model: str = "model",
    parts: AgentParts = NO_PARTS,
    trace: Trace | None = None,
) -> str:
    """Return a workflow or an agent as a diagram, without a newline at its end.

    Args:
        name: the name of the workflow or the agent.
        graph: the workflow's graph, or the plans of the agent's processor lists. Each list is drawn with the steps
            that run at its stages.
        format: ``mermaid``, ``dot``, ``text``, ``json``, ``svg`` or ``html``.
        stage: draw only the steps that have this stage; None: all of them.
        detail: ``short``: names, roles, conditions and policies, and each memory as one box; ``full``: stages, facts
            and edits, too. None: short in pictures, full in text. JSON has everything; pages and pictures of a run have
            each step of a memory.
        model: the name of the model between the lists of an agent.
        parts: what the agent has beside its lists: its tools and the processors of its memory.
        trace: a run to lay over the picture; only for ``svg`` and ``html``.

    Raises:
        OptionError: there is no such format, stage or detail.
        UsageError: there is a trace, and the format does not show it.
    """
    one_of("draw", "format", format, FORMATS)
    if trace is not None and format not in ("svg", "html"):
        raise UsageError(f"a trace is laid over a picture: draw('svg', trace=...), not {format!r}; as text: str(trace)")
    stage = None if stage is None else one_of("draw", "stage", full_name(stage), STAGES)
    if detail is None:
        detail = "full" if format == "text" else "short"
    one_of("draw", "detail", detail, DETAILS)
    from penstock.engine.graph.plan_cache import Plans
    from penstock.pictures.scene import scene_of, scene_of_lists

    if isinstance(graph, Plans):
        scene = scene_of_lists(name, graph, stage, detail, model, parts)
    else:
        scene = scene_of(name, graph, stage, detail)
    if detail == "short" and trace is None and format not in ("json", "html"):
        scene = scene.folded()
    draw: Callable[..., str] = by_name(f"penstock.pictures.as_{format}", f"as_{format}")
    if format == "svg" and trace is not None:
        from penstock.pictures.overlay import marks_of

        return draw(scene, marks_of(trace, stage))
    return draw(scene, trace) if format == "html" else draw(scene)
