"""`RunEvent`: the start or the end of a run, or of a part of it, for observers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Values

EventKind = Literal["run", "step", "model", "tool", "stage", "branch", "attempt"]
"""What an event is about: a run, a model step, a model call, a tool call, a stage, a branch, or an attempt at a step
that is tried again when it fails."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """The start or the end of a run, or of a part of it. It quotes no text.

    Attributes:
        what: ``run``, ``step`` (a model step of an agent), ``model``, ``tool``, ``stage``, ``branch`` or ``attempt``.
        phase: ``start`` or ``end``.
        path: which part of the run it is: empty for the run, else for example ``step-0``, ``step-0/model``,
            ``step-0/tool-<id of the call>``, ``process_input``, ``process_input/branch``. The start and the end have
            the same, and no other part of the run has it.
        run_id: the id of the run.
        thread_id: the thread of the request, or None.
        at: when it happened, in seconds since 1970.
        seconds: how long the part took, by the monotonic clock; 0 at a start.
        name: the name of the model, the tool or the stage; the path of the branch, or of what is attempted, in the
            workflow; else empty.
        details: at an end, where known: ``status``, ``finish_reason``, ``usage``, ``error`` (the name of the
            exception's type, or the kind of the tool's error), ``processor`` (the id of the one that tripped),
            ``taken`` (the numbers of a branch's arms that were taken, from 0; after the last arm comes
            ``otherwise``), ``held`` (the most characters that a stream held at one time); if an observer encloses
            calls, also ``first_chunk`` (the seconds until a model's first chunk), ``response_id``, ``response_model``.
    """

    what: EventKind
    phase: Literal["start", "end"]
    path: str
    run_id: str
    thread_id: str | None
    at: float
    seconds: float = 0.0
    name: str = ""
    details: Values = EMPTY

    @property
    def parent(self) -> str | None:
        """The path of the part that it belongs to; None for the request."""
        return self.path.rpartition("/")[0] if self.path else None
