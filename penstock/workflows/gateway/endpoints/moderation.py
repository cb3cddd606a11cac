"""A verdict as OpenAI's ``moderation`` object: which categories were found, in the request or in the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_mapping

if TYPE_CHECKING:
    from penstock.formats.wire import Json
    from penstock.workflows.gateway.endpoints.endpoint import Refusal


def moderation_of(refusal: Refusal) -> Json:
    """Return the ``moderation`` object of a verdict; it holds no text, and no reason.

    The categories are those that the guard found, with their scores; the name of the guard if it has none.
    """
    verdict = refusal.tripwire
    guard = "penstock" if verdict is None else verdict.processor_id
    found = None if verdict is None else verdict.metadata.get("categories")
    scores: dict[str, float] = {
        str(name): float(score) if isinstance(score, (int, float)) else 1.0
        for name, score in (found.items() if is_mapping(found) else [(guard, 1.0)])
    }
    result = {
        "type": "moderation_result",
        "model": guard,
        "flagged": True,
        "categories": dict.fromkeys(scores, True),
        "category_scores": scores,
        "category_applied_input_types": {name: ["text"] for name in scores},
    }
    flagged = {"type": "moderation_results", "model": guard, "results": [result]}
    nothing: Json = {"type": "moderation_results", "model": guard, "results": []}
    in_request = verdict is not None and verdict.stage in _OF_REQUESTS
    return {"input": flagged if in_request else nothing, "output": nothing if in_request else flagged}


_OF_REQUESTS = frozenset({"process_input", "process_input_step", "process_llm_request", "process_tool_result"})
