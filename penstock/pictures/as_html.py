"""Write a workflow as a page in one HTML file: its picture to pan, zoom and search, its steps, and a run of it."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.nodes import Sequence, resolve, steps_of
from penstock.engine.processor.processor import Processor
from penstock.pictures.as_json import as_json
from penstock.pictures.as_svg import as_svg
from penstock.pictures.page_marks import PageMarks
from penstock.pictures.scene import scene_of
from penstock.pictures.self_contained import page_of, shared_modules

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Step
    from penstock.engine.tracing.trace import Trace
    from penstock.pictures.labels import Detail


def as_html(
    name: str,
    root: Sequence,
    stage: str | None = None,
    *,
    detail: Detail = "short",
    trace: Trace | None = None,
) -> str:
    """Return the HTML text.

    Args:
        name: the workflow's name.
        root: its graph.
        stage: show only the steps that have this stage; None: all of them.
        detail: how much each box of the picture says.
        trace: a run of it, to be shown on the picture, as a timeline, and step by step.
    """
    told = {**page_data(name, root, stage), "trace": None, "marks": None}
    if trace is not None:
        told |= {"trace": trace.to_json(), "marks": PageMarks(root, stage, detail).of(trace)}
    return page_of(name, shared_modules(), "penstock/viewer.js", told, as_svg(name, root, stage, detail=detail))


def page_data(name: str, root: Sequence, stage: str | None = None) -> dict[str, object]:
    """Return what a page says of a workflow beside its picture: the name, and all that has a path, each once."""
    drawn = cast("dict[str, list[dict[str, object]]]", json.loads(as_json(scene_of(name, root, stage))))
    docs = {step.path: doc_of(step) for step in steps_of(resolve(root))}
    found = [one for one in (*drawn["nodes"], *drawn["groups"]) if one.get("path")]
    steps = {str(one["path"]): {**one, "doc": docs.get(str(one["path"]), "")} for one in reversed(found)}
    return {"name": name, "stage": stage, "steps": list(reversed(steps.values()))}


def doc_of(step: Step) -> str:
    """Return the docstring of a step's processor, or of the function that it was made of; empty if it has none."""
    own = [vars(step.processor).get("__doc__")]
    classes = [kind for kind in type(step.processor).__mro__ if kind.__module__ not in _OURS]
    return inspect.cleandoc(next((doc for doc in [*own, *(vars(kind).get("__doc__") for kind in classes)] if doc), ""))


_OURS = {Processor.__module__, "typing", "builtins"}
"""The modules whose classes say nothing of what one processor does."""
