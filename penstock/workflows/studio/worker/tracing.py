"""The trace of a run or of an agent's result as data, its marks in pictures, and the options of such a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from penstock.engine.tracing.trace import Trace
from penstock.engine.values.errors import UsageError
from penstock.pictures.page_marks import PageMarks

if TYPE_CHECKING:
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.loaded import Loaded


class Traced(TypedDict):
    """The options of a run whose trace has everything."""

    records: bool
    texts: bool


TRACED = Traced(records=True, texts=True)


class HasTrace(Protocol):
    """A run, or the result of an agent."""

    @property
    def trace(self) -> Trace:
        """Its trace."""
        ...


def trace_json(ran: HasTrace) -> Json | None:
    """Return the trace of a run or result; None if it ended before any step ran."""
    try:
        return cast("Json", ran.trace.to_json())
    except UsageError:
        return None


def with_marks(made: Json, loaded: Loaded) -> Json:
    """Return the result of a run with its marks in each picture.

    ``marks`` has those of the picture of all stages under an empty name, and those of each stage that ran under its
    name.
    """
    if made["trace"] is None:
        return made
    trace = Trace.from_json(made["trace"])
    stages = dict.fromkeys(span.stage for span in trace.spans if span.kind == "stage")
    marks: Json = {}
    for stage in (None, *stages):
        scene = loaded.scene(stage)
        if scene is not None:
            marks[stage or ""] = PageMarks(scene).of(trace)
    return {**made, "marks": marks}
