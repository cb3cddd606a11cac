"""A workflow or agent as data for the page: picture, graph, and every step with its documentation and options."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

from penstock.engine.graph.nodes import steps_and_fallbacks
from penstock.engine.processor.processor import Processor
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import PenstockError
from penstock.tools.arguments import described
from penstock.workflows.studio.worker.forms import described_class, form_of, policy_form

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Step
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.loaded import Loaded


def description(loaded: Loaded, stage: str | None, detail: str) -> Json:
    """Return what the page shows of it. A graph with problems is shown, with its problems.

    Raises:
        OptionError: there is no such stage.
    """
    try:
        steps = [step_of(step) for step in steps_and_fallbacks(loaded.root)]
        graph_problem = _graph_problem(loaded)
    except PenstockError as error:
        steps, graph_problem = [], str(error)
    served = {name for step in steps for name in step["stages"]}
    return {
        "name": loaded.name,
        "svg": _drawn(loaded, "svg", stage, detail),
        "graph": json.loads(_drawn(loaded, "json", stage, detail) or "null"),
        "text": _drawn(loaded, "text", stage, detail),
        "steps": steps,
        "stages": [name for name in STAGES if name in served],
        "graph_problem": graph_problem,
    }


def _graph_problem(loaded: Loaded) -> str | None:
    if loaded.workflow is None:
        dynamic = loaded.agent is not None and loaded.agent.plans is None
        return "a list of processors depends on the request, so it is not known before one" if dynamic else None
    try:
        loaded.workflow.validate()
    except PenstockError as error:
        return str(error)
    return None


def _drawn(loaded: Loaded, form: str, stage: str | None, detail: str) -> str | None:
    if loaded.agent is not None and loaded.agent.plans is None:
        return None
    return loaded.draw(form, stage, detail=detail)


def step_of(step: Step) -> dict[str, Any]:
    """Return one step as data."""
    processor, claims, policy = step.processor, step.claims, step.policy
    kind = type(processor)
    doc, about = _docs(processor)
    fields, why_not = form_of(processor)
    file, line = _place(processor)
    return {
        "path": step.path,
        "id": step.id or claims.id,
        "processor": f"{kind.__module__}.{kind.__qualname__}",
        "role": claims.role,
        "edits": claims.edits,
        "declared_on_error": claims.on_error,
        "doc": doc,
        "about": about,
        "stages": [name for name in STAGES if name in claims.hooks],
        "file": file,
        "line": line,
        "policy": {
            "timeout": policy.timeout,
            "on_error": policy.on_error.id if isinstance(policy.on_error, Processor) else policy.on_error,
            "mode": policy.mode,
            "retries": policy.retries,
            "retry_delay": policy.retry_delay,
            "overlap": policy.overlap,
            "offload": policy.offload,
        },
        "policy_form": policy_form(policy),
        "options": fields,
        "why_not": why_not,
    }


def _is_function(processor: AnyProcessor) -> bool:
    return "__wrapped__" in vars(processor)


def _docs(processor: AnyProcessor) -> tuple[str, str]:
    """Return the first paragraph and the whole of the documentation of a processor's class or function."""
    if not _is_function(processor):
        return described_class(type(processor))
    text = described(inspect.cleandoc(vars(processor)["__wrapped__"].__doc__ or "")).text
    return text.split("\n\n", 1)[0].replace("\n", " "), text


def _place(processor: AnyProcessor) -> tuple[str | None, int | None]:
    source = vars(processor).get("__wrapped__", type(processor))
    try:
        file = inspect.getsourcefile(source)
        if isinstance(source, type):
            return file, None  # finding the line of a class reads its whole module
        return file, inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        return None, None
