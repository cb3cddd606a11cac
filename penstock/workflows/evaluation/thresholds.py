"""The thresholds that the steps of a workflow have, to be shown beside those that it could have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import resolve, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.workflow import Workflow


def limits_of(workflow: Workflow) -> Mapping[str, Mapping[str, float]]:
    """Return the score from which each category is flagged, by the path of the step and by category.

    A processor of the user says it with a number as its attribute ``threshold``; then the category is empty. Steps that
    say nothing are left out.
    """
    from penstock.processors.guards.score_search import ScoreSearch  # only if an evaluation asks for it

    found: dict[str, Mapping[str, float]] = {}
    for step in steps_of(resolve(workflow.root)):
        search = getattr(step.processor, "search", None)
        if isinstance(search, ScoreSearch):
            found[step.path] = search.limits_in_force
        elif isinstance(own := getattr(step.processor, "threshold", None), (int, float)):
            found[step.path] = {"": float(own)}
    return found
