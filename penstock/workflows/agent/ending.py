"""How a request ended, as its result. It reads runs and progress, and changes neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY
from penstock.processors.structure.facts import OBJECT
from penstock.workflows.agent.results import AgentResult, ModelResponse, calls_of, summed

if TYPE_CHECKING:
    from penstock.engine.run.run import Run
    from penstock.engine.values.messages import ToolPart
    from penstock.workflows.agent.progress import Progress
    from penstock.workflows.agent.results import Status, StepResult


def ended(run: Run, progress: Progress, status: Status | None) -> AgentResult:
    """Return what came of a request.

    Args:
        run: its run.
        progress: how far its loop came.
        status: how it stands, where the loop does not know: ``cancelled``.
    """
    steps = progress.now(run.message_list)
    pending = _pending(run, progress)
    how = status or _status(run, progress, pending)
    reasons = {"blocked": "other", "cancelled": "aborted", "failed": "error"}
    return AgentResult(
        run.message_list,
        "".join(step.text for step in steps),
        run.facts.get(OBJECT) if how == "success" else None,
        run.tripwire,
        how,
        reasons.get(how, progress.finish_reason),
        steps,
        summed(step.usage for step in steps),
        _response(run, steps),
        pending if how == "suspended" else (),
        run.facts,
        run.records,
        run.spent,
        run.run_id,
        progress.error,
    )


def _pending(run: Run, progress: Progress) -> tuple[ToolPart, ...]:
    """Return the calls that wait, as they stand in the conversation by now."""
    if not progress.pending:
        return ()
    waiting = {call.call_id for call in progress.pending}
    answer = run.message_list.get(progress.last_answer)
    return tuple(call for call in calls_of(answer) if call.state == "call" and call.call_id in waiting)


def _status(run: Run, progress: Progress, pending: tuple[ToolPart, ...]) -> Status:
    if run.tripwire is not None:
        return "blocked"
    if progress.error is not None:
        return "failed"
    return "suspended" if pending else "success"


def _response(run: Run, steps: tuple[StepResult, ...]) -> ModelResponse:
    said = next((step.metadata for step in reversed(steps) if step.metadata), EMPTY)
    return ModelResponse(said.get("id"), said.get("model"), said.get("created"), said, run.message_list.response)
