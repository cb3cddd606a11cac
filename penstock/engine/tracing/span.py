"""`Span`: one part of a run with its time and its result; and the edits, texts, arms and chunks that it has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, is_items, is_mapping
from penstock.engine.values.tripwire import Tripwire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.tracing.trace_json import ArmJson, ChunkJson, EditJson, SpanJson, TextJson, TripwireJson
    from penstock.engine.values.edits import EditKind
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Status

SpanKind = Literal["run", "model_step", "stage", "step", "branch", "attempt", "model", "tool"]
"""What a span is about."""


@dataclass(frozen=True, slots=True)
class SpanEdit:
    """An edit of a text, with the place of the text.

    Attributes:
        message: the id of the message; empty for a text in a field of the stage (a tool's arguments or result).
        part: the index of the message's part; 0 for a field.
        field: the path within the part or the field, joined by ``.``; ``text`` for the text of a text part.
        start: where the span begins, in code points of the text before the edit.
        end: where it ends.
        kind: ``redact``, ``replace`` or ``insert``.
        replacement: the new text. Dots stand for that of an edit that is no redaction, unless the trace has texts.
    """

    message: str
    part: int
    field: str
    start: int
    end: int
    kind: EditKind
    replacement: str

    def to_json(self) -> EditJson:
        """Return it as a mapping of JSON values."""
        return cast("EditJson", as_json(self))


@dataclass(frozen=True, slots=True)
class SpanText:
    """A text before and after a stage or step. Only in traces with ``texts``.

    Attributes:
        message: the id of the message.
        part: the index of the message's part.
        role: the message's role.
        before: the text as it was given.
        after: the text as it was left; the same if nothing changed it.
    """

    message: str
    part: int
    role: str
    before: str
    after: str

    def to_json(self) -> TextJson:
        """Return it as a mapping of JSON values."""
        return cast("TextJson", as_json(self))


@dataclass(frozen=True, slots=True)
class SpanChunk:
    """A chunk of a stream. Only in traces with ``texts``.

    Attributes:
        at: when it came, in seconds since the run's start.
        came_in: the text that the model sent.
        held: how many characters were held afterwards.
        went_out: the text that was passed on then.
    """

    at: float
    came_in: str
    held: int
    went_out: str

    def to_json(self) -> ChunkJson:
        """Return it as a mapping of JSON values."""
        return cast("ChunkJson", as_json(self))


@dataclass(frozen=True, slots=True)
class SpanArm:
    """An arm of a branch.

    Attributes:
        label: its condition, as the diagram shows it.
        taken: whether it was taken.
    """

    label: str
    taken: bool

    def to_json(self) -> ArmJson:
        """Return it as a mapping of JSON values."""
        return cast("ArmJson", as_json(self))


@dataclass(frozen=True, slots=True)
class Span:
    """One part of a run: a stage, a step, a branch, an attempt, a model step, a model call or a tool call.

    Attributes:
        id: its number, unique in the trace.
        parent: the number of the span around it; None for the outermost.
        kind: whether it is the run, a stage, a step …
        name: the stage, the last id of the step's path, the model or the tool.
        path: the path of the step or branch in the workflow; else empty.
        stage: the stage, for a stage, a step, a branch, or a model that a step asked; else empty.
        at: when it started, in seconds since the run's start.
        seconds: how long it took, by the monotonic clock.
        status: how it ended. ``skipped``: it is in an arm that was not taken, or a sibling's tripwire cancelled it.
        processor: the id of the step's processor; empty for other kinds.
        shadow: whether the step ran in shadow and so changed nothing; ``tripped`` then means *would have tripped*.
        edits: the step's edits of texts.
        tripwire: the verdict, if it tripped or its failure blocks; else None.
        error: the name of the error's type, if it failed; else None.
        details: the notes that the processor added with ``ctx.note``, read-only.
        flagged: the names of the findings that the step let pass.
        arms: the arms of a branch, in order.
        number: the number of a model step or an attempt; else None.
        finish_reason: why the model's answer ended, for a model step or a model call; else None.
        usage: the tokens by name, for a model step or a model call; else None.
        texts: the texts that a step changed; for a stage all that it was given. Only in traces with ``texts``.
        chunks: the chunks of ``process_output_stream``. Only in traces with ``texts``.
    """

    id: int
    parent: int | None
    kind: SpanKind
    name: str
    path: str = ""
    stage: str = ""
    at: float = 0.0
    seconds: float = 0.0
    status: Status = "passed"
    processor: str = ""
    shadow: bool = False
    edits: tuple[SpanEdit, ...] = ()
    tripwire: Tripwire | None = None
    error: str | None = None
    details: Values = EMPTY
    flagged: tuple[str, ...] = ()
    arms: tuple[SpanArm, ...] = ()
    number: int | None = None
    finish_reason: str | None = None
    usage: Values | None = None
    texts: tuple[SpanText, ...] = ()
    chunks: tuple[SpanChunk, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the mappings."""
        freeze_mappings(self, "details", "usage")

    def to_json(self) -> SpanJson:
        """Return it as a mapping of JSON values, without the fields that do not apply to it."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        found = {
            name: as_json(value) for name, (value, default) in values.items() if name in _ALWAYS or value != default
        }
        return cast("SpanJson", found)


_ALWAYS = frozenset({"id", "parent", "kind", "name", "path", "stage", "at", "seconds", "status"})
"""The fields of a span that its JSON always has."""

_JSON_NAMES = {"came_in": "in", "went_out": "out"}
"""The names in JSON of fields that have another one here."""


def freeze_mappings(holder: object, *names: str) -> None:
    """Replace the mappings in these fields of a frozen dataclass by read-only ones."""
    for name in names:
        value = getattr(holder, name)
        if value is not None and type(value) is not FrozenDict:
            object.__setattr__(holder, name, freeze(value))


def as_json(value: object) -> object:
    """Return the value of a field as JSON; of a verdict, an edit, a text, a chunk or an arm all of its fields."""
    if isinstance(value, tuple):
        return [as_json(one) for one in cast("tuple[object, ...]", value)]
    if isinstance(value, (Tripwire, SpanEdit, SpanText, SpanChunk, SpanArm)):
        names = [field.name for field in fields(value)]
        return {_JSON_NAMES.get(name, name): as_json(getattr(value, name)) for name in names}
    return _json(value)


def tripwire_json(tripwire: Tripwire) -> TripwireJson:
    """Return a tripwire as a mapping of JSON values."""
    return cast("TripwireJson", as_json(tripwire))


def json_mapping(values: Values) -> dict[str, object]:
    """Return a mapping as JSON has it: of values that JSON does not have only the names of their types.

    Their text could be a hidden one. Keys that are no strings are left out; infinite numbers and NaN become strings.
    """
    found = cast("Mapping[object, object]", values)  # those of users have any keys
    return {key: _json(value) for key, value in found.items() if isinstance(key, str)}


def _json(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if is_mapping(value):
        return json_mapping(value)
    if is_items(value):
        return [_json(item) for item in value]
    return type(value).__name__
