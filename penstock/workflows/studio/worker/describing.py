"""A workflow or agent as data for the page: picture, graph, and every step with its documentation and options."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from penstock.engine.graph.nodes import steps_and_fallbacks
from penstock.engine.processor.processor import Processor
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import PenstockError
from penstock.tools.arguments import described
from penstock.workflows.studio.worker.agent_about import agent_about
from penstock.workflows.studio.worker.forms import form_of, policy_form

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Step
    from penstock.pictures.labels import Detail
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.loaded import Loaded


def description(loaded: Loaded, stage: str | None, detail: Detail) -> Json:
    """Return the data that the page shows. A graph with problems is shown, with its problems.

    Raises:
        OptionError: there is no such stage.
    """
    try:
        found = [*steps_and_fallbacks(loaded.root)]
        steps = [step_of(step) for step in found]
        graph_problem = _graph_problem(loaded)
    except PenstockError as error:
        found, steps, graph_problem = [], [], str(error)
    served = {name for step in found for name in step.claims.hooks}
    return {
        "name": loaded.name,
        "svg": loaded.draw("svg", stage, detail),
        "graph": json.loads(loaded.draw("json", stage) or "null"),
        "text": loaded.draw("text", stage, detail),
        "steps": steps,
        "stages": [name for name in STAGES if name in served],
        "graph_problem": graph_problem,
        "agent": None if loaded.agent is None else agent_about(loaded.agent),
        "coverage": None if graph_problem else _coverage(loaded),
    }


def _coverage(loaded: Loaded) -> Json | None:
    """Return which channel is read by which step; None of an agent whose lists depend on the request."""
    try:
        return loaded.target.coverage().to_json()
    except PenstockError:
        return None


def _graph_problem(loaded: Loaded) -> str | None:
    if loaded.workflow is None:
        dynamic = loaded.agent is not None and loaded.agent.plans is None
        return "a list of processors depends on the request, so it is not known before one" if dynamic else None
    try:
        loaded.workflow.validate()
    except PenstockError as error:
        return str(error)
    return None


def step_of(step: Step) -> dict[str, object]:
    """Return one step as data."""
    processor, claims, policy = step.processor, step.claims, step.policy
    kind = type(processor)
    source = vars(processor).get("__wrapped__", kind)
    about = described(inspect.cleandoc(source.__doc__ or "")).text
    options, why_not = form_of(processor)
    values = {one.name: getattr(policy, one.name) for one in fields(policy)}
    file, line = _place(source)
    return {
        "path": step.path,
        "id": step.id or claims.id,
        "processor": f"{kind.__module__}.{kind.__qualname__}",
        "role": claims.role,
        "edits": claims.edits,
        "declared_on_error": claims.on_error,
        "doc": about.split("\n\n", 1)[0].replace("\n", " "),
        "about": about,
        "stages": [name for name in STAGES if name in claims.hooks],
        "file": file,
        "line": line,
        "policy": {name: each.id if isinstance(each, Processor) else each for name, each in values.items()},
        "policy_form": policy_form(policy),
        "options": options,
        "why_not": why_not,
    }


def _place(source: Any) -> tuple[str | None, int | None]:
    try:
        file = inspect.getsourcefile(source)
        if isinstance(source, type):
            return file, None  # finding the line of a class reads its whole module
        return file, inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        return None, None
