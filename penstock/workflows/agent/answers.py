"""Which answer of a model or a tool belongs to which step of a request, by their ids, for its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value
    from penstock.workflows.agent.progress import RequestProgress


def answers_of(run: Run, progress: RequestProgress) -> list[dict[str, Value]]:
    """Return the answers so far, in order: whose they are, their step and id, and whether the client may have them."""
    found: list[dict[str, Value]] = []
    held = set(run.held_answers)
    for step in progress.steps:
        id = step.message_id
        released = bool(id) and step.tripwire is None and id not in held
        made = {"by": "model", "step": step.number, "id": id, "name": step.model, "state": step.finish_reason}
        found.append({**made, "released": released})
        message = run.message_list.get(id) if id else None
        for part in () if message is None else message.parts:
            if isinstance(part, ToolPart) and part.state in ("result", "error"):
                made = {"by": "tool", "step": step.number, "id": part.call_id, "name": part.name, "state": part.state}
                found.append({**made, "released": released})
    return found
