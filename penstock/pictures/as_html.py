"""Write a workflow as a page in one HTML file: its picture to pan, zoom and search, its steps, and a run of it."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.processor import Processor
from penstock.pictures.as_json import as_json
from penstock.pictures.as_svg import as_svg
from penstock.pictures.page_marks import PageMarks
from penstock.pictures.self_contained import page_of, shared_modules

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Step
    from penstock.engine.tracing.trace import Trace
    from penstock.pictures.scene import Scene


def as_html(scene: Scene, trace: Trace | None = None) -> str:
    """Return the HTML text.

    Args:
        scene: the scene.
        trace: a run to show on the picture, as a timeline, and step by step.
    """
    told = {**page_data(scene), "trace": None, "marks": None}
    if trace is not None:
        told |= {"trace": trace.to_json(), "marks": PageMarks(scene).of(trace)}
    return page_of(scene.name, shared_modules(), "penstock/viewer.js", told, as_svg(scene))


def page_data(scene: Scene) -> dict[str, object]:
    """Return the data of a page beside the picture: the name, and each part that has a path, once."""
    drawn = cast("dict[str, list[dict[str, object]]]", json.loads(as_json(scene)))
    docs = {step.path: doc_of(step) for step in scene.root.steps()}
    found = [one for one in (*drawn["nodes"], *drawn["groups"]) if one.get("path")]
    steps = {str(one["path"]): {**one, "doc": docs.get(str(one["path"]), "")} for one in reversed(found)}
    return {"name": scene.name, "stage": scene.stage, "steps": list(reversed(steps.values()))}


def doc_of(step: Step) -> str:
    """Return the docstring of a step's processor, or of the function that it was made of; empty if it has none."""
    own = [vars(step.processor).get("__doc__")]
    classes = [kind for kind in type(step.processor).__mro__ if kind.__module__ not in _OURS]
    return inspect.cleandoc(next((doc for doc in [*own, *(vars(kind).get("__doc__") for kind in classes)] if doc), ""))


_OURS = {Processor.__module__, "typing", "builtins"}
"""The modules whose docstrings do not describe one processor."""
