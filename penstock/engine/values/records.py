"""Records: what each step of a run did, for people and programs; this module knows values only.

A record never holds the text that was there before: edits carry positions and the new text, failures the kind of error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Tripwire

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
