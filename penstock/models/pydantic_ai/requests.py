"""Write a `ModelRequest` for pydantic-ai: messages, settings, tools and response format; and metadata that goes back.

A provider needs some ids, signatures and details back with a part. They are kept in the part's metadata, with a
checksum of the text that they belong to. Once a guard has edited the text they are left out, since some providers would
use their own copy of it. No text is kept in metadata.
"""

from __future__ import annotations

import json
from base64 import b64decode
from functools import cache
from typing import TYPE_CHECKING, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import ToolDefinition, messages as theirs
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_core import to_json

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, Value, is_mapping, thaw
from penstock.engine.values.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.terms import TOKEN_KEYS
from penstock.formats.pydantic_ai import FORMAT, OF_ANSWERS, OF_PARTS
from penstock.models.openai.wire import checksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_ai.output import OutputMode
    from pydantic_ai.settings import ModelSettings

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.model import ModelRequest, ResponseFormat, ToolSpec


_LEFT_OUT = TOKEN_KEYS | {"citations", "refusal", "finish_reason", "timestamp", "headers", "response_headers", "url"}
"""Details that repeat the answer, are kept elsewhere, or describe the connection."""

_SENT_BACK = ("thinking", "builtin-tool-call", "builtin-tool-return", "compaction")


@cache
def _parts() -> TypeAdapter[theirs.ModelResponsePart]:
    return TypeAdapter(theirs.ModelResponsePart)


def dumped(part: theirs.ModelResponsePart) -> Values:
    """Return a part as JSON, to be sent back unchanged."""
    made: Values = json.loads(_parts().dump_json(part, exclude_none=True))
    return made


def part_notes(part: theirs.ModelResponsePart, text: str) -> Values:
    """Return the metadata of the part that pydantic-ai's part becomes, with a checksum of its text."""
    notes = _noted(part, OF_PARTS)
    return {FORMAT: {**notes, "of": checksum(text)}} if notes else EMPTY


def answer_notes(answer: theirs.ModelResponse) -> Values:
    """Return the metadata of the message that an answer becomes; without the address, which is not the provider's."""
    notes = _noted(answer, tuple(name for name in OF_ANSWERS if name != "provider_url"))
    return {FORMAT: notes} if notes else EMPTY


def _noted(value: theirs.ModelResponsePart | theirs.ModelResponse, names: tuple[str, ...]) -> dict[str, Value]:
    found = {name: _plain(getattr(value, name, None)) for name in names}
    return {name: item for name, item in found.items() if item is not None}


def _plain(value: Value) -> Value:
    """Return a detail as a JSON value; None if it holds nothing."""
    if not is_mapping(value):
        return value
    kept = {key: item for key, item in value.items() if key not in _LEFT_OUT}
    return json.loads(to_json(kept, fallback=str)) or None


def notes_of(value: Message | Part, text: str | None = None) -> dict[str, Value]:
    """Return the keywords for pydantic-ai's class that a part or a message has kept; none if its text was edited.

    Metadata may come from outside: values of a wrong type are left out.
    """
    notes = value.metadata.get(FORMAT)
    if not is_mapping(notes) or (text is not None and notes.get("of") != checksum(text)):
        return {}
    names = OF_ANSWERS if text is None else OF_PARTS
    given = {name: thaw(notes[name]) for name in names if notes.get(name) is not None}
    return {name: item for name, item in given.items() if is_mapping(item) == (name == "provider_details")}


def restored(raw: Value) -> theirs.ModelResponsePart | None:
    """Return a part that was kept as JSON; None if it is invalid, or of a kind that is shown to people."""
    found = thaw(raw)
    if not is_mapping(found) or found.get("part_kind") not in _SENT_BACK:
        return None
    try:
        return _parts().validate_python(found)
    except ValidationError:
        return None


_FALLBACK = {AudioPart: "audio/wav", ImagePart: "image/png", FilePart: "application/octet-stream"}


def written(messages: Iterable[Message]) -> list[theirs.ModelMessage]:
    """Return a prompt as pydantic-ai's messages. Consecutive messages of other roles than assistant become one request.

    Parts that no provider accepts are left out: sources, data of an application, and unknown parts of other libraries.

    Raises:
        MessageError: data that should be base64 are not.
    """
    made: list[theirs.ModelMessage] = []
    for message in messages:
        for piece in _answer_steps(message) if message.role == "assistant" else [_model_request(message)]:
            last = made[-1] if made else None
            if isinstance(piece, theirs.ModelRequest) and isinstance(last, theirs.ModelRequest):
                made[-1] = theirs.ModelRequest(parts=[*last.parts, *piece.parts])
            elif piece.parts:
                made.append(piece)
    return made


def _model_request(message: Message) -> theirs.ModelRequest:
    returns: list[theirs.ModelRequestPart] = [_result(part) for part in message.parts if isinstance(part, ToolPart)]
    content = [item for part in message.parts for item in _content(part)]
    if message.role == "system":
        texts = [item for item in content if isinstance(item, str)]
        return theirs.ModelRequest(parts=[theirs.SystemPromptPart(text) for text in texts])
    if content:
        only = content[0] if len(content) == 1 else None
        returns.append(theirs.UserPromptPart(only if isinstance(only, str) else content))
    return theirs.ModelRequest(parts=returns)


def _content(part: Part) -> Iterator[theirs.UserContent]:
    if isinstance(part, TextPart):
        yield part.text
    elif isinstance(part, (ImagePart, AudioPart, FilePart)):
        if part.url is not None and not part.url.startswith("data:"):
            yield _linked(part, part.url)
        elif part.url is not None or part.data is not None:
            yield _binary(part)


def _linked(part: ImagePart | AudioPart | FilePart, url: str) -> theirs.ImageUrl | theirs.AudioUrl | theirs.DocumentUrl:
    if isinstance(part, ImagePart):
        return theirs.ImageUrl(url=url, media_type=part.media_type, vendor_metadata=_detail(part))
    if isinstance(part, AudioPart):
        return theirs.AudioUrl(url=url, media_type=part.media_type)
    return theirs.DocumentUrl(url=url, media_type=part.media_type)


def _binary(part: ImagePart | AudioPart | FilePart) -> theirs.BinaryContent:
    try:
        if part.url is not None:
            return theirs.BinaryContent.from_data_uri(part.url)
        data = b64decode(part.data or "", validate=True)
    except ValueError as error:
        raise MessageError("messages", f"the data of a part of type {part.type!r} are not base64") from error
    kind = part.media_type or _FALLBACK[type(part)]
    return theirs.BinaryContent(data, media_type=kind, vendor_metadata=_detail(part))


def _detail(part: Part) -> dict[str, Value] | None:
    """Return the ``detail`` in an image's metadata (``low``, ``high``, ``auto``), as pydantic-ai wants it."""
    detail = part.metadata.get("detail") if isinstance(part, ImagePart) else None
    return {"detail": detail} if isinstance(detail, str) else None


def _answer_steps(message: Message) -> Iterator[theirs.ModelMessage]:
    """Yield an assistant message as steps: the model's words, then the results of its calls."""
    for step in _steps(message.parts):
        parts = [made for part in step for made in _answer_parts(part)]
        yield theirs.ModelResponse(parts=parts, **notes_of(message))
        results = [part for part in step if isinstance(part, ToolPart) and _is_answered(part)]
        yield theirs.ModelRequest(parts=[_result(part) for part in results])


def _steps(parts: Sequence[Part]) -> list[list[Part]]:
    """Split parts where a step starts, and where text follows a result."""
    steps: list[list[Part]] = [[]]
    for part in parts:
        spoken = isinstance(part, (TextPart, ReasoningPart))
        if isinstance(part, StepStartPart) or (spoken and any(_is_answered(before) for before in steps[-1])):
            steps.append([])
        steps[-1].append(part)
    return steps


def _is_answered(part: Part) -> bool:
    return isinstance(part, ToolPart) and part.state in ("result", "error")


def _answer_parts(part: Part) -> Iterator[theirs.ModelResponsePart]:
    if isinstance(part, TextPart):
        yield theirs.TextPart(part.text, **_without_signature(notes_of(part, part.text)))
    elif isinstance(part, ReasoningPart):
        yield theirs.ThinkingPart(part.text, **notes_of(part, part.text))
    elif isinstance(part, ToolPart):
        arguments = thaw(part.arguments)
        written = arguments if is_mapping(arguments) or isinstance(arguments, str) else json.dumps(arguments)
        notes = _without_signature(notes_of(part, arguments_text(arguments)))
        yield theirs.ToolCallPart(part.name, written, part.call_id, **notes)
    elif isinstance(part, AudioPart) and part.transcript:
        yield theirs.TextPart(part.transcript)
    elif isinstance(part, (ImagePart, FilePart)) and part.data is not None:
        yield theirs.FilePart(_binary(part), **_without_signature(notes_of(part, "")))
    elif isinstance(part, UnknownPart):
        kept = restored(part.raw)
        if kept is not None:
            yield kept


def _without_signature(notes: dict[str, Value]) -> dict[str, Value]:
    return {name: item for name, item in notes.items() if name != "signature"}


def arguments_text(arguments: object) -> str:
    """Return a call's arguments as one text, in whichever way they were written."""
    return json.dumps(arguments, sort_keys=True)


def _result(part: ToolPart) -> theirs.ToolReturnPart:
    if part.state == "error":
        return theirs.ToolReturnPart(part.name, part.error or "", part.call_id, outcome="failed")
    return theirs.ToolReturnPart(part.name, thaw(part.result), part.call_id)


_SETTING_NAMES = {"stop": "stop_sequences", "reasoning_effort": "thinking"}


def settings(request: ModelRequest) -> ModelSettings:
    """Return the settings by pydantic-ai's names; settings that it does not know are passed on for the provider."""
    made: dict[str, Value] = {_SETTING_NAMES.get(name, name): thaw(item) for name, item in request.settings.items()}
    if isinstance(made.get("stop_sequences"), str):
        made["stop_sequences"] = [made["stop_sequences"]]
    if request.tools and request.tool_choice != "auto":
        choice = request.tool_choice
        made["tool_choice"] = list(choice) if isinstance(choice, tuple) else choice
    if request.provider_options:
        made["extra_body"] = {**made.get("extra_body", {}), **thaw(dict(request.provider_options))}
    return cast("ModelSettings", made)


def parameters(request: ModelRequest, *, native: bool) -> ModelRequestParameters:
    """Return tools and response format.

    Args:
        request: the request.
        native: whether the provider enforces schemas; if not, the schema is written into the prompt.
    """
    tools = [tool_definition(tool) for tool in request.tools]
    form = request.response_format
    if form is None:
        return ModelRequestParameters(function_tools=tools)
    mode: OutputMode = "native" if native and form.schema is not None else "prompted"
    return ModelRequestParameters(function_tools=tools, output_mode=mode, output_object=_output_object(form))


def tool_definition(tool: ToolSpec) -> ToolDefinition:
    """Return a tool as pydantic-ai's."""
    schema: dict[str, Value] = thaw(dict(tool.parameters))
    return ToolDefinition(
        name=tool.name, parameters_json_schema=schema, description=tool.description or None, strict=tool.strict
    )


def _output_object(form: ResponseFormat) -> OutputObjectDefinition:
    schema: dict[str, Value] = {"type": "object"} if form.schema is None else thaw(dict(form.schema))
    return OutputObjectDefinition(schema, form.name, form.description or None, strict=form.strict)
