"""Our messages as pydantic-ai's; it knows values of both, no model."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING

from pydantic_ai import messages as theirs

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import Value, is_mapping, thaw
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
from penstock.models.pydantic_ai.notes import notes_of, restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Message, Part

_FALLBACK = {AudioPart: "audio/wav", ImagePart: "image/png", FilePart: "application/octet-stream"}


def written(messages: Iterable[Message]) -> list[theirs.ModelMessage]:
    """Return a prompt as pydantic-ai's messages; what is not an assistant's and stands together becomes one request.

    Left out is what no provider takes: sources, an application's data, and unknown parts that are not this library's.

    Raises:
        MessageError: data that should be base64 are none.
    """
    made: list[theirs.ModelMessage] = []
    for message in messages:
        for piece in _answers(message) if message.role == "assistant" else [_request(message)]:
            last = made[-1] if made else None
            if isinstance(piece, theirs.ModelRequest) and isinstance(last, theirs.ModelRequest):
                made[-1] = theirs.ModelRequest(parts=[*last.parts, *piece.parts])
            elif piece.parts:
                made.append(piece)
    return made


def _request(message: Message) -> theirs.ModelRequest:
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
        return theirs.ImageUrl(url=url, media_type=part.media_type)
    if isinstance(part, AudioPart):
        return theirs.AudioUrl(url=url, media_type=part.media_type)
    return theirs.DocumentUrl(url=url, media_type=part.media_type)


def _binary(part: ImagePart | AudioPart | FilePart) -> theirs.BinaryContent:
    try:
        if part.url is not None:
            return theirs.BinaryContent.from_data_uri(part.url)
        data = b64decode(part.data or "", validate=True)
    except ValueError as error:
        raise MessageError("messages", f"the data of a part of type {part.type!r} are no base64") from error
    return theirs.BinaryContent(data, media_type=part.media_type or _FALLBACK[type(part)])


def _answers(message: Message) -> Iterator[theirs.ModelMessage]:
    """Give an assistant's message as its steps: what the model said, then the results of its calls."""
    for step in _steps(message.parts):
        parts = [made for part in step for made in _said(part)]
        yield theirs.ModelResponse(parts=parts, **notes_of(message))
        results = [part for part in step if isinstance(part, ToolPart) and _is_answered(part)]
        yield theirs.ModelRequest(parts=[_result(part) for part in results])


def _steps(parts: Sequence[Part]) -> list[list[Part]]:
    """Cut parts where a step starts, and where something is said behind a result."""
    steps: list[list[Part]] = [[]]
    for part in parts:
        spoken = isinstance(part, (TextPart, ReasoningPart))
        if isinstance(part, StepStartPart) or (spoken and any(_is_answered(before) for before in steps[-1])):
            steps.append([])
        steps[-1].append(part)
    return steps


def _is_answered(part: Part) -> bool:
    return isinstance(part, ToolPart) and part.state in ("result", "error")


def _said(part: Part) -> Iterator[theirs.ModelResponsePart]:
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
    """Return a call's arguments as one text, however they were written."""
    return json.dumps(arguments, sort_keys=True)


def _result(part: ToolPart) -> theirs.ToolReturnPart:
    if part.state == "error":
        return theirs.ToolReturnPart(part.name, part.error or "", part.call_id, outcome="failed")
    return theirs.ToolReturnPart(part.name, thaw(part.result), part.call_id)
