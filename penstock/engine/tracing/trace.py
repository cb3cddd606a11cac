"""`Trace`: a run as data. Each stage, step, branch, model call and tool call is a `Span`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.tracing.span import (
    Span,
    SpanArm,
    SpanChunk,
    SpanEdit,
    SpanText,
    freeze_mappings,
    json_mapping,
    tripwire_json,
)
from penstock.engine.values.errors import MessageError, TraceError
from penstock.engine.values.tripwire import Tripwire
from penstock.lazy import by_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.tracing.trace_json import SpanJson, TraceJson
    from penstock.engine.values.frozen import Value, Values
    from penstock.pictures.diff.trace_diff import TraceDiff

__all__ = ["Span", "SpanArm", "SpanChunk", "SpanEdit", "SpanText", "Trace", "TraceStatus"]

TraceStatus = Literal["passed", "edited", "blocked", "failed"]
"""How a run ended."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A run as data: every stage, step, branch, model call and tool call, with its time and its result.

    It quotes no text that was hidden from the client, unless ``texts`` says so.

    Attributes:
        run_id: the id of the run.
        workflow: the name of the workflow, or of the agent.
        status: how the run ended.
        spans: the parts of the run in the order of their start; a parent comes before its children.
        started: when it started, in seconds since 1970.
        seconds: how long it took, by the monotonic clock.
        thread_id: the thread of the request, or None.
        texts: whether the texts are in it, including everything that was hidden.
        tripwire: the verdict that stopped the run, or None.
        usage: the tokens of all of its models by name, or None if there are none.
    """

    run_id: str
    workflow: str
    status: TraceStatus
    spans: tuple[Span, ...] = ()
    started: float = 0.0
    seconds: float = 0.0
    thread_id: str | None = None
    texts: bool = False
    tripwire: Tripwire | None = None
    usage: Values | None = None

    def __post_init__(self) -> None:
        """Freeze the usage."""
        freeze_mappings(self, "usage")

    def __str__(self) -> str:
        """Return a timeline for people: the tree of spans with their times. Use `to_json` for programs."""
        as_text: Callable[[Trace], str] = by_name("penstock.pictures.timeline", "as_text")
        return as_text(self)

    def compare(self, other: Trace) -> TraceDiff:
        """Return the differences between this run and another of the same input; the diff is true if there are any.

        Texts are compared if both traces have them. Times are listed, but do not make runs differ, and neither do the
        ids of runs and messages.

        Args:
            other: the trace of the other run, for example of a newer version of the workflow.
        """
        diff: type[TraceDiff] = by_name("penstock.pictures.diff.trace_diff", "TraceDiff")
        return diff(self, other)

    def to_json(self) -> TraceJson:
        """Return it as a mapping of JSON values, for ``json.dumps``."""
        return {
            "version": 1,
            "run_id": self.run_id,
            "thread_id": self.thread_id,
            "workflow": self.workflow,
            "started": self.started,
            "seconds": self.seconds,
            "status": self.status,
            "texts": self.texts,
            "tripwire": None if self.tripwire is None else tripwire_json(self.tripwire),
            "usage": None if self.usage is None else json_mapping(self.usage),
            "spans": [span.to_json() for span in self.spans],
        }

    @classmethod
    def from_json(cls, data: object) -> Trace:
        """Return a trace from the JSON of `to_json`, parsed by ``json.loads``.

        Fields that it does not know are ignored.

        Args:
            data: the mapping. Nothing in it is converted: ``"1"`` is no number.

        Raises:
            TraceError: a field is missing or has a wrong value, or the version is another one.
        """
        from penstock.engine.tracing.trace_json import read

        fields = read(data)
        known: dict[str, Value] = {name: value for name, value in fields.items() if name != "version"}
        try:
            known["spans"] = tuple(map(_span, fields["spans"]))
            known["tripwire"] = None if fields["tripwire"] is None else Tripwire(**fields["tripwire"])
            return cls(**known)
        except MessageError as error:  # of `freeze`
            raise TraceError(error.place, error.problem) from None

    @staticmethod
    def json_schema() -> dict[str, object]:
        """Return the JSON Schema of the JSON of `to_json`, in the draft 2020-12."""
        from penstock.engine.tracing.trace_json import schema

        return schema()


def _span(fields: SpanJson) -> Span:
    known: dict[str, Value] = {**fields}
    for name, shape in _SHAPES.items():
        if name in known:
            known[name] = tuple([shape(**one) for one in known[name]])
    if "tripwire" in fields:
        known["tripwire"] = Tripwire(**fields["tripwire"])
    if "flagged" in fields:
        known["flagged"] = tuple(fields["flagged"])
    if "chunks" in fields:
        known["chunks"] = tuple([SpanChunk(one["at"], one["in"], one["held"], one["out"]) for one in fields["chunks"]])
    return Span(**known)


_SHAPES = {"edits": SpanEdit, "texts": SpanText, "arms": SpanArm}
