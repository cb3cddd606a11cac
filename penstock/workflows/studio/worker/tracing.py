"""The trace of a run or of an agent's result, as data, and the options of a run that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from penstock.engine.values.trace import Trace
    from penstock.workflows.studio.protocol import Json


class Traced(TypedDict):
    """The options of a run whose trace has everything."""

    records: bool
    texts: bool


TRACED = Traced(records=True, texts=True)


class HasTrace(Protocol):
    """A run, or the result of an agent."""

    @property
    def trace(self) -> Trace:
        """What it did."""
        ...


def trace_json(ran: HasTrace) -> Json | None:
    """Return the trace of what ran; None if it has none, since it ended before anything ran."""
    try:
        return cast("Json", ran.trace.to_json())
    except UsageError:
        return None
