"""The shape of a trace as JSON, its JSON Schema, and how a trace is read. Imported on use: pydantic takes its time."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypeVar

from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from penstock.engine.values.errors import TraceError
from penstock.engine.values.frozen import Values  # noqa: TC001 - pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


def _strict(shape: type[T]) -> type[T]:
    """Let pydantic convert nothing, and describe each field by the text below it."""
    shape.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]  # pydantic's name for it
        strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
    return shape


@_strict
class TripwireJson(TypedDict):
    """A verdict."""

    reason: str
    """A sentence for people."""
    processor_id: str
    """The id of the processor that tripped."""
    stage: str
    """The stage in which it did."""
    retry: bool
    """Whether it asked for another attempt of the model."""
    metadata: Values
    """Details for programs."""


@_strict
class EditJson(TypedDict):
    """An edit of a text. Positions are code points of the text before the edit."""

    message: str
    """The id of the message; empty for a text in a field of the stage, such as a tool's arguments."""
    part: NonNegativeInt
    """The index of the message's part."""
    field: str
    """The path within the part, joined by dots."""
    start: NonNegativeInt
    """Where the replaced text begins."""
    end: NonNegativeInt
    """Where it ends."""
    kind: Literal["redact", "replace", "insert"]
    """What the edit is for: to hide, to reword, or to add."""
    replacement: str
    """The new text. Without `texts`, dots stand for it, unless the edit is a redaction."""


@_strict
class TextJson(TypedDict):
    """A text before and after a stage or a step."""

    message: str
    """The id of the message; empty for a field of the stage."""
    part: NonNegativeInt
    """The index of the message's part."""
    role: str
    """The role of the message."""
    before: str
    """The text as it was given."""
    after: str
    """The text as it was left."""


# In this form, because `in` is a keyword of Python.
ChunkJson = TypedDict(
    "ChunkJson",
    {
        "at": Annotated[float, Field(description="When it came, in seconds since the start of the run.")],
        "in": Annotated[str, Field(description="The text that came in.")],
        "held": Annotated[int, Field(ge=0, description="How many characters were held afterwards.")],
        "out": Annotated[str, Field(description="The text that left then.")],
    },
)
ChunkJson.__doc__ = "A chunk of a stream."
_strict(ChunkJson)


@_strict
class ArmJson(TypedDict):
    """An arm of a branch."""

    label: str
    """Its condition."""
    taken: bool
    """Whether it was taken."""


@_strict
class SpanJson(TypedDict):
    """One part of a run."""

    id: int
    """Its number, unique in the trace."""
    parent: int | None
    """The number of the span around it, which stands before it; null for the outermost."""
    kind: Literal["run", "model_step", "stage", "step", "branch", "attempt", "model", "tool"]
    """What it is about."""
    name: str
    """The stage, the last id of the step's path, the model or the tool."""
    path: str
    """The path of the step or branch in the workflow, else empty."""
    stage: str
    """The stage of a stage, step or branch, else empty."""
    at: float
    """When it started, in seconds since the start of the run."""
    seconds: NonNegativeFloat
    """How long it took."""
    status: Literal["passed", "edited", "tripped", "failed", "skipped"]
    """How it ended. A step is skipped in an arm that was not taken, or when a sibling's tripwire cancels it."""
    processor: NotRequired[str]
    """The id of the step's processor."""
    shadow: NotRequired[bool]
    """Whether the step ran in shadow, and so changed nothing."""
    edits: NotRequired[list[EditJson]]
    """What the step changed in texts."""
    tripwire: NotRequired[TripwireJson]
    """The verdict, if it tripped or its failure blocks."""
    error: NotRequired[str]
    """The name of the error's type, if it failed."""
    details: NotRequired[Values]
    """What the processor noted."""
    flagged: NotRequired[list[str]]
    """The names of what the step found and let pass."""
    arms: NotRequired[list[ArmJson]]
    """The arms of a branch, in order."""
    number: NotRequired[int]
    """The number of a model step or an attempt."""
    finish_reason: NotRequired[str]
    """Why the model's answer ended."""
    usage: NotRequired[Values]
    """The tokens, by name."""
    texts: NotRequired[list[TextJson]]
    """The texts that a step changed; for a stage all that it was given. Only in traces with `texts`."""
    chunks: NotRequired[list[ChunkJson]]
    """The chunks of a stream. Only in traces with `texts`."""


@_strict
class TraceJson(TypedDict):
    """The trace of a run of a Penstock workflow or agent."""

    version: Literal[1]
    """The version of this format. Fields may be added to it; other changes get a new number."""
    run_id: str
    """The id of the run."""
    thread_id: str | None
    """The thread of the request."""
    workflow: str
    """The name of the workflow or agent."""
    started: float
    """When the run started, in seconds since 1970."""
    seconds: NonNegativeFloat
    """How long it took."""
    status: Literal["passed", "edited", "blocked", "failed"]
    """How it ended."""
    texts: bool
    """Whether the texts of the request are in the trace, including everything that was hidden."""
    tripwire: TripwireJson | None
    """The verdict that stopped the run."""
    usage: Values | None
    """The tokens of all models, by name."""
    spans: list[SpanJson]
    """The parts of the run in the order of their start; a parent stands before its children."""


@cache
def _adapter() -> TypeAdapter[TraceJson]:
    return TypeAdapter(TraceJson)


class _WithoutTitles(GenerateJsonSchema):
    """Pydantic's schema without a title for each field, which would repeat its name."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False."""
        del schema
        return False


def schema() -> dict[str, object]:
    """Return the JSON Schema of a trace."""
    made = _adapter().json_schema(schema_generator=_WithoutTitles)
    plain: dict[str, object] = json.loads(json.dumps(made).replace('Json"', '"'))  # the names of our types
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **plain}


def read(data: object) -> TraceJson:
    """Return the fields of a trace, checked.

    Raises:
        TraceError: a field is missing or has a wrong value.
    """
    if isinstance(data, (str, bytes)):
        raise TraceError("", "expected an object, not a text; parse it with json.loads first")
    try:
        fields = _adapter().validate_python(data)
    except ValidationError as error:
        raise _explained(error) from None
    _check_tree(fields["spans"])
    return fields


def _check_tree(spans: Sequence[SpanJson]) -> None:
    """Refuse duplicate ids, and parents that come after their children."""
    known: set[int] = set()
    for index, span in enumerate(spans):
        if span["id"] in known:
            raise TraceError(f"spans[{index}].id", f"{span['id']} is the id of an earlier span, too")
        if span["parent"] is not None and span["parent"] not in known:
            raise TraceError(f"spans[{index}].parent", f"no earlier span has the id {span['parent']}")
        known.add(span["id"])


def _explained(error: ValidationError) -> TraceError:
    """Return the first of pydantic's errors as ours, with its place and the expected type, and no text of the trace."""
    first = error.errors(include_url=False)[0]
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"]).removeprefix(".")
    if first["type"] == "missing":
        return TraceError(place, "it is missing")
    if place == "version" and isinstance(first["input"], int):
        return TraceError(place, f"this release reads version 1, not {first['input']}")
    if first["type"] == "greater_than_equal":
        return TraceError(place, "expected a number of at least 0")
    expected = first["msg"].removeprefix("Input should be ").replace("dictionary", "object").replace("a valid ", "")
    found = f", not {type(first['input']).__name__}" if first["type"].endswith("_type") else ""
    return TraceError(place, f"expected {expected}{found}")
