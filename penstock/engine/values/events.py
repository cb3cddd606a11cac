"""`RunEvent`: the start or the end of a request, a model step, a model call or a tool call, for observers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Values

Span = Literal["run", "step", "model", "tool"]
"""What an event is about: a request, a model step, a model call, or a tool call."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """The start or the end of a part of a request. It quotes no text.

    Attributes:
        what: ``run``, ``step``, ``model`` or ``tool``.
        phase: ``start`` or ``end``.
        path: which part of the request it is: empty for the request, else ``step-0``, ``step-0/model``,
            ``step-0/tool-<id of the call>``. The start and the end have the same.
        run_id: the id of the run.
        thread_id: the thread of the request, or None.
        at: when it happened, in seconds since 1970.
        seconds: how long the part took, by the monotonic clock; 0 at a start.
        name: the name of the model or the tool; else empty.
        details: at an end what is known: ``status`` of the run, ``finish_reason``, ``usage``, ``error`` (the name of
            the exception's type, or the kind of the tool's error).
    """

    what: Span
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
