"""Workflows as diagrams: `render` draws one in a format; each format is a module.

Mermaid, dot and JSON draw the same `scene`; text is a tree of its own, and SVG has a `layout`; HTML is a page around
the SVG. None of them needs networkx, graphviz or a browser to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.processor.processor import one_of
from penstock.engine.processor.stages import STAGES, full_name
from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Sequence
    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.tracing.trace import Trace
    from penstock.pictures.labels import Detail
    from penstock.pictures.scene import AgentLists

Format: TypeAlias = Literal["mermaid", "dot", "text", "json", "svg", "html"]
FORMATS: tuple[Format, ...] = ("mermaid", "dot", "text", "json", "svg", "html")
DETAILS: tuple[Detail, ...] = ("short", "full")


def render(
    name: str,
    root: Sequence,
    format: str = "mermaid",  # noqa: A002
    stage: str | None = None,
    detail: Detail | None = None,
    trace: Trace | None = None,
) -> str:
    """Return a workflow as a diagram, without a newline at its end.

    Args:
        name: the workflow's name.
        root: its graph.
        format: ``mermaid``, ``dot``, ``text``, ``json``, ``svg`` or ``html``.
        stage: draw only the steps that have this stage; None: all of them.
        detail: ``short``: names, roles, conditions and policies; ``full``: stages, facts and edits, too. None: short
            in pictures, full in text. JSON has everything.
        trace: a run to lay over the picture; only for ``svg`` and ``html``.

    Raises:
        OptionError: there is no such format, stage or detail.
        UsageError: there is a trace, and the format does not show it.
    """
    one_of("draw", "format", format, FORMATS)
    if trace is not None and format not in ("svg", "html"):
        raise UsageError(f"a trace is laid over a picture: draw('svg', trace=...), not {format!r}; as text: str(trace)")
    stage = None if stage is None else one_of("draw", "stage", full_name(stage), STAGES)
    shown: Detail = "full" if format == "text" else "short"
    if detail is not None:
        one_of("draw", "detail", detail, DETAILS)
        shown = detail
    if format == "text":
        from penstock.pictures.as_text import as_text

        return as_text(name, root, stage, shown)
    if format == "svg":
        from penstock.pictures.as_svg import as_svg
        from penstock.pictures.overlay import marks_of

        marks = None if trace is None else marks_of(trace, stage)
        return as_svg(name, root, stage, detail=shown, marks=marks)
    if format == "html":
        from penstock.pictures.as_html import as_html

        return as_html(name, root, stage, detail=shown, trace=trace)
    from penstock.pictures.scene import scene_of

    scene = scene_of(name, root, stage, shown)
    if format == "json":
        from penstock.pictures.as_json import as_json

        return as_json(scene)
    if format == "dot":
        from penstock.pictures.as_dot import as_dot

        return as_dot(scene)
    from penstock.pictures.as_mermaid import as_mermaid

    return as_mermaid(scene)


def render_lists(
    name: str,
    plans: Plans,
    format: str = "mermaid",  # noqa: A002
    stage: str | None = None,
    detail: Detail | None = None,
    *,
    model: str = "model",
    trace: Trace | None = None,
) -> str:
    """Return the processor lists of an agent as a diagram: each with what runs at its stages, and nothing else.

    Args:
        name: the name of the agent.
        plans: the plans of the lists.
        format: as in `render`.
        stage: draw what runs at this stage, in the order in which it does; None: all lists.
        detail: as in `render`.
        model: the name of the model between the lists.
        trace: as in `render`.

    Raises:
        OptionError: there is no such format, stage or detail.
        UsageError: there is a trace, and the format does not show it.
    """
    stage = None if stage is None else one_of("draw", "stage", full_name(stage), STAGES)
    return render(name, lists_of(plans, stage, model), format, stage, detail, trace)


def lists_of(plans: Plans, stage: str | None, model: str) -> AgentLists:
    """Return the processor lists of an agent as a graph to draw.

    Args:
        plans: the plans of the lists.
        stage: only what runs at this stage; None: all lists.
        model: the name of the model between them.
    """
    from penstock.engine.graph.nodes import steps_of
    from penstock.pictures.scene import AgentLists, ProcessorList, at_stages

    wanted = STAGES.values() if stage is None else (STAGES[stage],)
    made: list[ProcessorList] = []
    for serves, order in (plans.orders or {}).items():
        runs = {one.name for one in wanted if one.processor_list == serves}
        nodes = [at_stages(plans.resolved.nodes[index], runs) for index in order]
        kept = tuple(node for node in nodes if any(True for _ in steps_of(node)))
        found = {one for node in kept for step in steps_of(node) for one in step.claims.hooks}
        if kept:
            stages = tuple(one for one in STAGES if one in found)
            made.append(ProcessorList(kept, serves=serves, stages=stages))
    return AgentLists(tuple(made), model=model if stage is None else "")
