"""The verdict that stops a run, as a value, and the signal that carries it out of a hook; it knows no step.

A hook that calls ``ctx.abort`` is left by `TripwireSignal`, a BaseException, so that no ``except Exception`` in the
hook's own code swallows a verdict. It is caught in one place, the step boundary of the executor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze

if TYPE_CHECKING:
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.texts import TextPlace


@dataclass(frozen=True, slots=True)
class Tripwire:
    """Why a run was stopped, by whom and where.

    Attributes:
        reason: a sentence for people; it never holds the text that was judged, unless the processor put it there.
        processor_id: the id of the processor that stopped it.
        stage: the stage in which it did.
        retry: whether the processor asked for another attempt of the model.
        metadata: details for programs, read-only; a mapping where the processor says nothing else.
    """

    reason: str
    processor_id: str
    stage: str
    retry: bool = False
    metadata: Values = EMPTY

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        if type(self.metadata) is not FrozenDict:
            object.__setattr__(self, "metadata", freeze(self.metadata))


class TripwireSignal(BaseException):
    """Leaves a hook with a verdict. Not for users: call ``ctx.abort``; do not catch it."""

    def __init__(self, tripwire: Tripwire) -> None:
        self.tripwire = tripwire
        super().__init__(tripwire.reason)


Status = Literal["passed", "edited", "tripped", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Record:
    """What one step did in one stage.

    Attributes:
        step: the step's path in the workflow, ids joined by ``/``.
        processor_id: the processor's id.
        stage: the stage it ran in.
        status: how it ended. ``skipped``: an arm not taken, or cut off by a sibling's tripwire.
        shadow: it ran beside and changed nothing; ``tripped`` then means *would have tripped*.
        seconds: how long it took, by the monotonic clock.
        edits: what it changed in texts: where, and the edit.
        tripwire: the verdict, if it tripped, or if its failure blocks.
        error: the name of the error's type, if it failed.
        details: what the processor chose to tell (``ctx.note``), read-only.
    """

    step: str
    processor_id: str
    stage: str
    status: Status
    shadow: bool = False
    seconds: float = 0.0
    edits: tuple[tuple[TextPlace, Edit], ...] = ()
    tripwire: Tripwire | None = None
    error: str | None = None
    details: Values = EMPTY

    @property
    def status_text(self) -> str:
        """The status in words for people: a shadow's is what it would have done."""
        if not self.shadow:
            return self.status
        return {"tripped": "would trip", "edited": "would edit", "failed": "failed (shadow)"}.get(
            self.status, f"{self.status} (shadow)"
        )
