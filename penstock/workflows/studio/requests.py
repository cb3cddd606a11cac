"""Bodies of requests, checked: what to run, on what, with which changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.engine.processor.stages import STAGES, full_name
from penstock.workflows.rows.reading import is_object
from penstock.workflows.studio.errors import StudioError

if TYPE_CHECKING:
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.uploads import Upload

_TITLE = 120  # characters
_NAME = 200  # characters of the name of a person


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LabelBody(_RequestBody):
    """The label of a row; null takes it away."""

    number: int = Field(ge=0)
    id: Any = None
    label: bool | None


class ApproveBody(_RequestBody):
    """The approval of a call, or of the only one that is undecided."""

    call: str | None = None
    arguments: object = None
    by: str | None = Field(default=None, max_length=_NAME)


class RejectBody(_RequestBody):
    """The refusal of a call, with a reason for the model."""

    call: str | None = None
    reason: str = ""
    by: str | None = Field(default=None, max_length=_NAME)


class AnswerBody(_RequestBody):
    """The answer to a question, or the result of a call that the application runs."""

    call: str
    value: object
    by: str | None = Field(default=None, max_length=_NAME)


class ResumeBody(_RequestBody):
    """Which agent goes on with a request; null: the one with its name."""

    workflow: str | None = None


class TextInput(_RequestBody):
    """A text; for a stream, cut into pieces."""

    kind: Literal["text"]
    text: str
    size: int = Field(default=12, ge=1, le=10_000)
    delay: float = Field(default=0, ge=0, le=10)


class ConversationInput(_RequestBody):
    """Messages in any format that penstock reads."""

    kind: Literal["conversation"]
    messages: list[Any] = Field(min_length=1)


class ValueInput(_RequestBody):
    """Arguments or the result of a tool."""

    kind: Literal["value"]
    value: Any
    tool_name: str = "tool"
    call_id: str = ""


class ErrorInput(_RequestBody):
    """The error of a model call."""

    kind: Literal["error"]
    message: str
    status: int | None = None
    retryable: bool = False


class ChunksInput(_RequestBody):
    """Pieces of a streamed text."""

    kind: Literal["chunks"]
    chunks: list[str] = Field(min_length=1)
    delay: float = Field(default=0, ge=0, le=10)


class FileInput(_RequestBody):
    """An uploaded file, or one row of it."""

    kind: Literal["file"]
    file: str
    line: int | None = Field(default=None, ge=1)


class Change(_RequestBody):
    """Changed options and policy of one step."""

    options: dict[str, Any] = Field(default_factory=dict)
    policy: dict[str, Any] = Field(default_factory=dict)


BodyT = TypeVar("BodyT", bound=_RequestBody)
Input: TypeAlias = TextInput | ConversationInput | ValueInput | ErrorInput | ChunksInput | FileInput
Changes: TypeAlias = dict[str, Change]


class StudioSide(_RequestBody):
    """What to run: a workflow, in a version, with changed options."""

    workflow: str
    version: int | None = None
    changes: Changes = Field(default_factory=dict)


class RunBody(StudioSide):
    """The body of a run."""

    stage: str | None = None
    input: Input = Field(discriminator="kind")
    context: dict[str, Any] = Field(default_factory=dict)
    seconds: float | None = Field(default=None, gt=0)
    jobs: int = Field(default=8, ge=1, le=256)


class CompareBody(_RequestBody):
    """The body of a comparison: two sides and their input, or two runs that have ended."""

    left: StudioSide | None = None
    right: StudioSide | None = None
    runs: list[str] | None = Field(default=None, min_length=2, max_length=2)
    stage: str | None = None
    input: Input | None = Field(default=None, discriminator="kind")
    context: dict[str, Any] = Field(default_factory=dict)
    seconds: float | None = Field(default=None, gt=0)


class PreviewBody(_RequestBody):
    """The body of a preview."""

    version: int | None = None
    stage: str | None = None
    detail: Literal["short", "full"] = "short"
    changes: Changes = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run that is asked for.

    Attributes:
        workflow: the id of the workflow.
        version: its version; None for the newest.
        stage: the full name of the stage.
        changes: changed options by the path of the step.
        input: the input, as it came.
        context: the request context.
        seconds: how long it may take; None for the studio's own limit.
        jobs: how many rows run at once.
        file: the id of an uploaded file, or None.
        line: the row of the file; None for all.
    """

    workflow: str
    version: int | None
    stage: str
    changes: Json
    input: Json
    context: Json
    seconds: float | None = None
    jobs: int = 8
    file: str | None = None
    line: int | None = None


def run_request(body: bytes) -> RunRequest:
    """Return the run that a body asks for.

    Raises:
        StudioError: the body is malformed.
    """
    read = read_body(RunBody, body)
    return request_of(read, read.input, read.stage, read.context, read.seconds, read.jobs)


def request_of(
    side: StudioSide, given: Input, stage: str | None, context: Json, seconds: float | None, jobs: int = 8
) -> RunRequest:
    """Return the run of one side.

    Raises:
        StudioError: there is no such stage, or it takes no file.
    """
    full = stage_of(stage) or "process_input"
    file = given if isinstance(given, FileInput) else None
    if file is not None and file.line is None and (STAGES[full].streams or full == "process_api_error"):
        raise StudioError("bad_request", f"{full} runs on one input, not on a file", field="stage")
    if seconds is not None and not math.isfinite(seconds):
        raise StudioError("bad_request", "seconds must be a finite number", field="seconds")
    return RunRequest(
        workflow=side.workflow,
        version=side.version,
        stage=full,
        changes=changes_json(side.changes),
        input=given.model_dump(),
        context=context,
        seconds=seconds,
        jobs=jobs,
        file=None if file is None else file.file,
        line=None if file is None else file.line,
    )


def compare_body(body: bytes) -> CompareBody:
    """Return a comparison that is asked for.

    Raises:
        StudioError: the body is malformed, or neither two sides with an input nor two runs are given.
    """
    read = read_body(CompareBody, body)
    sides = read.left is not None and read.right is not None and read.input is not None
    if sides == (read.runs is not None):
        raise StudioError("bad_request", "give left, right and input, or runs", field="")
    return read


def stage_of(given: str | None) -> str | None:
    """Return the full name of a stage.

    Raises:
        StudioError: there is no such stage.
    """
    if not given:
        return None
    full = full_name(given)
    if full not in STAGES:
        raise StudioError(
            "bad_request", f"unknown stage {given[:100]!r}; the stages are {', '.join(STAGES)}", field="stage"
        )
    return full


def changes_json(changes: Changes) -> Json:
    """Return changes as JSON."""
    return {path: change.model_dump() for path, change in changes.items()}


def read_body(kind: type[BodyT], body: bytes) -> BodyT:
    """Return the body of a request.

    Raises:
        StudioError: it is malformed.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = f"{place}: {first['msg']}" if place else first["msg"]
        raise StudioError("bad_request", message, field=place) from error


def title_of(request: RunRequest, upload: Upload | None) -> str:
    """Return a short text by which people recognise a run."""
    given: dict[str, Any] = dict(request.input)
    if upload is not None:
        return upload.name if request.line is None else f"{upload.name}, line {request.line}"
    kind = given["kind"]
    if kind == "conversation":
        last: object = given["messages"][-1]
        content = (last.get("content") or last.get("parts") or "") if is_object(last) else last
        text = content if isinstance(content, str) else f"{len(given['messages'])} messages"
    elif kind == "value":
        text = f"{given['tool_name']}: {given['value']}"
    else:
        text = given.get("text") or given.get("message") or "".join(given.get("chunks") or ())
    line = " ".join(str(text)[: _TITLE * 4].split())
    return f"{line[:_TITLE]}…" if len(line) > _TITLE else line
