"""Verdicts that stop a run (`Tripwire`, `BlockedError`), and records of what steps did (`Record`).

``ctx.abort`` leaves a hook with `TripwireSignal`, a BaseException, so that no ``except Exception`` in the hook's own
code swallows the verdict. It is caught in one place, the step boundary of the executor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze

if TYPE_CHECKING:
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.texts import TextPlace


@dataclass(frozen=True, slots=True)
class Tripwire:
    """The verdict that stopped a run.

    Attributes:
        reason: a sentence for people. It does not quote the judged text, unless the processor wrote it so.
        processor_id: the id of the processor that stopped the run.
        stage: the stage in which it did.
        retry: whether the processor asked for another attempt of the model.
        metadata: details for programs, read-only; an empty mapping if the processor gave none.
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
    """Carries a verdict out of a hook. Do not raise or catch it: call ``ctx.abort``."""

    def __init__(self, tripwire: Tripwire) -> None:
        self.tripwire = tripwire
        super().__init__(tripwire.reason)


class BlockedError(PenstockError):
    """Raised by `Outcome.unwrap()` if the outcome is blocked.

    Attributes:
        tripwire: the verdict.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        self.tripwire = tripwire
        super().__init__(f"blocked by {tripwire.processor_id!r} in {tripwire.stage}: {tripwire.reason}")


def verdict_in(error: BaseException) -> Tripwire | None:
    """Return the verdict of a run inside the hook that the error carries, alone or in a group; None if it has none."""
    if isinstance(error, (TripwireSignal, BlockedError)):
        return error.tripwire
    if isinstance(error, BaseExceptionGroup):
        found = (verdict_in(inner) for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions)
        return next((verdict for verdict in found if verdict is not None), None)
    return None


Status = Literal["passed", "edited", "tripped", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Record:
    """The report of one step in one stage.

    Attributes:
        step: the step's path in the workflow, ids joined by ``/``.
        processor_id: the processor's id.
        stage: the stage it ran in.
        status: how it ended. ``skipped``: it is in an arm that was not taken, or a sibling's tripwire cancelled it.
        shadow: whether it ran in shadow and so changed nothing; ``tripped`` then means *would have tripped*.
        seconds: how long it took, by the monotonic clock.
        edits: its edits of texts, each with the place of its text.
        tripwire: the verdict, if it tripped, or if its failure blocks; else None.
        error: the name of the error's type, if the step failed; else None.
        details: facts that the processor added with ``ctx.note``, read-only.
        flagged: the names of findings that it let pass (``ctx.flag``), for example those of a guard with
            ``strategy="warn"``.
        run_id: the id of the run.
        thread_id: the thread of the request (``thread_id`` of its request context), or None.
        started: when the step started, in seconds since 1970. This field and the two before are not compared by ``==``.
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
    flagged: tuple[str, ...] = ()
    run_id: str = field(default="", compare=False)
    thread_id: str | None = field(default=None, compare=False)
    started: float = field(default=0.0, compare=False)

    @property
    def parent(self) -> str:
        """The path of the workflow around the step; empty if it stands in none."""
        return self.step.rpartition("/")[0]

    @property
    def status_text(self) -> str:
        """The status in words for people; for a shadow, its effect if it were enforced."""
        if not self.shadow:
            return self.status
        return {"tripped": "would trip", "edited": "would edit", "failed": "failed (shadow)"}.get(
            self.status, f"{self.status} (shadow)"
        )
