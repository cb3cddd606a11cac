"""Write a `ModelRequest` as the body of a chat completions request, with each provider's differences."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, is_items, is_mapping, thaw
from penstock.engine.values.messages import ImagePart, ReasoningPart, ToolPart, UnknownPart
from penstock.formats import openai_chat
from penstock.models.openai.wire import FORMAT, checksum, object_of, objects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.model import ModelRequest, ResponseFormat, ToolSpec
    from penstock.models.openai.providers import Provider, ReasoningReturn
    from penstock.models.openai.wire import Json

KNOWN_KEYS = frozenset(
    {"cache_control", "detail", "extra_content", "format", "index", "prefix", "signature", "thought_signature"}
)
"""Keys beyond the protocol that providers define for messages and their parts."""

SystemRole: TypeAlias = Literal["system", "developer"]
"""The role of system messages in requests. OpenAI's newer models call it ``developer``."""

_ELSEWHERE = frozenset({"extra_headers", "timeout", "max_tokens", "max_output_tokens", "stop_sequences"})
_SCHEMA = "Answer with one JSON object that fits this JSON Schema, and with nothing else:\n"


def body_of(
    request: ModelRequest,
    model: str,
    provider: Provider,
    *,
    stream: bool = True,
    client_keys: frozenset[str] = KNOWN_KEYS,
    system_role: SystemRole = "system",
) -> Json:
    """Return the body. The request's ``provider_options`` replace its fields, except tools, which are added.

    Args:
        request: the request.
        model: the name of the model.
        provider: the provider.
        stream: whether the answer is requested as a stream.
        client_keys: the keys beyond the protocol that a client's messages and parts may have; others are left out.

    Raises:
        MessageError: the arguments or the result of a tool call are not JSON values.
        UsageError: ``tool_choice`` names a tool that is not among the tools, or ``n`` asks for several answers.
    """
    known = [_noted(_with_known_keys(message, client_keys)) for message in request.messages]
    messages = openai_chat.write(_with_reasoning(known, provider.reasoning))
    body: Json = {"model": model, "messages": messages, "stream": stream}
    if stream and provider.stream_options:
        body["stream_options"] = {"include_usage": True}
    body |= _settings(request.settings, provider)
    body |= _tools(request, provider)
    if request.response_format is not None:
        _form(body, request.response_format, provider)
    options: Json = thaw(dict(request.provider_options))
    if "tools" in body and is_items(options.get("tools")):
        options["tools"] = [*body["tools"], *options["tools"]]
    if system_role != "system":
        body["messages"] = [
            item | {"role": system_role} if item["role"] == "system" else item for item in body["messages"]
        ]
    body |= options
    if isinstance(body.get("n"), int) and body["n"] > 1:
        raise UsageError(f"n={body['n']} asks for several answers, of which one is read; send several requests instead")
    return body


def _noted(message: Message) -> Message:
    """Return the message with notes that the protocol has a place for: ``detail`` of images, results in parts."""
    parts = [_with_detail(_as_parts(part)) for part in message.parts]
    return message.with_parts(parts) if any(map(is_not, parts, message.parts)) else message


def _with_detail(part: Part) -> Part:
    """Return an image with the ``detail`` of its metadata (``low``, ``high``, ``auto``) where the protocol has it."""
    detail = part.metadata.get("detail") if isinstance(part, ImagePart) else None
    if not isinstance(part, ImagePart) or not isinstance(detail, str):
        return part
    notes = _notes(part)
    inner = {**object_of(notes.get("inner")), "detail": detail}
    return replace(part, metadata={**part.metadata, FORMAT: {**notes, "inner": inner}})


def _as_parts(part: Part) -> Part:
    """Return a tool's result that is a list of text parts with the note that it is sent as that list."""
    if not isinstance(part, ToolPart) or FORMAT in part.metadata or not _is_texts(part.result):
        return part
    return replace(part, metadata={**part.metadata, FORMAT: {"result": {"content": "parts"}}})


def _is_texts(result: Value) -> bool:
    texts = objects_of(result)
    plain = all(item.keys() == {"type", "text"} and item["type"] == "text" for item in texts)
    return bool(texts) and len(texts) == len(result) and plain and all(isinstance(item["text"], str) for item in texts)


def _settings(settings: Values, provider: Provider) -> Json:
    """Return the settings by the protocol's names; unknown ones are sent under their own names."""
    made: Json = {key: thaw(value) for key, value in settings.items() if key not in _ELSEWHERE and value is not None}
    limit = next((settings[key] for key in ("max_tokens", "max_output_tokens") if settings.get(key) is not None), None)
    if limit is not None:
        made[provider.limit] = limit
    if settings.get("stop_sequences") is not None:
        made.setdefault("stop", thaw(settings["stop_sequences"]))
    return made


# Tools


def _tools(request: ModelRequest, provider: Provider) -> Json:
    """Return the tools and the tool choice. If the choice names several tools, only these are sent."""
    tools, choice = request.tools, request.tool_choice
    if not isinstance(choice, str):
        return _some(tools, choice, provider)
    body: Json = {"tools": [_tool(tool) for tool in tools]} if tools else {}
    if choice != "auto" and (tools or request.provider_options.get("tools")):
        body["tool_choice"] = "none" if choice == "none" else provider.required
    return body


def _some(tools: Iterable[ToolSpec], names: tuple[str, ...], provider: Provider) -> Json:
    chosen = _chosen(tools, names)
    if len(names) > 1:
        return {"tools": [_tool(tool) for tool in chosen], "tool_choice": provider.required}
    choice = {"type": "function", "function": {"name": chosen[0].name}}
    return {"tools": [_tool(tool) for tool in tools], "tool_choice": choice}


def _chosen(tools: Iterable[ToolSpec], names: tuple[str, ...]) -> list[ToolSpec]:
    known = {tool.name: tool for tool in tools}
    missing = [name for name in names if name not in known]
    if missing or not names:
        told = ", ".join(map(repr, missing)) or "no tool"
        there = f"the tools are {', '.join(map(repr, known))}" if known else "there are no tools"
        raise UsageError(f"tool_choice names {told}, but {there}")
    return [tool for tool in tools if tool.name in names]


def _tool(tool: ToolSpec) -> Json:
    function: Json = {"name": tool.name, "parameters": thaw(dict(tool.parameters))}
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


# Response format


def _form(body: Json, form: ResponseFormat, provider: Provider) -> None:
    """Request a response format; if the provider does not enforce schemas, write the schema into the prompt."""
    if form.schema is None or not provider.schemas:
        body["response_format"] = {"type": "json_object"}
        if form.schema is not None:
            told = _SCHEMA + json.dumps(thaw(dict(form.schema)), ensure_ascii=False)
            body["messages"] = _told(body["messages"], told)
        return
    schema: Json = {"name": form.name, "schema": thaw(dict(form.schema)), "strict": form.strict}
    if form.description:
        schema["description"] = form.description
    body["response_format"] = {"type": "json_schema", "json_schema": schema}


def _told(messages: list[Json], text: str) -> list[Json]:
    """Return the messages with a further system message after those at the beginning."""
    place = next((i for i, item in enumerate(messages) if item["role"] not in ("system", "developer")), len(messages))
    return [*messages[:place], {"role": "system", "content": text}, *messages[place:]]


# What a client wrote beyond the protocol


def _with_known_keys(message: Message, known: frozenset[str]) -> Message:
    """Return a message without keys that only its client knows; one of the application itself stays as it is."""
    if not message.from_client or (not message.metadata and not any(part.metadata for part in message.parts)):
        return message
    parts = [replace(part, metadata=_known(part.metadata, known)) if part.metadata else part for part in message.parts]
    return replace(message, parts=tuple(parts), metadata=_known(message.metadata, known))


def _known(metadata: Values, known: frozenset[str]) -> Values:
    notes = metadata.get(FORMAT)
    return {FORMAT: _known_notes(notes, known)} if is_mapping(notes) else EMPTY


def _known_notes(notes: Value, known: frozenset[str]) -> Value:
    if notes.get("field") in openai_chat.DETAIL_KEYS:
        known |= _OF_REASONING
    made: dict[str, Value] = {}
    for name, value in notes.items():
        if name in ("extra", "inner") and is_mapping(value):
            made[name] = {key: item for key, item in value.items() if key in known or _is_form(key, item)}
        elif name == "result" and is_mapping(value):
            made[name] = _known_notes(value, known)
        elif name == "pieces" and is_items(value):
            made[name] = [_piece(piece, known) for piece in value]
        else:
            made[name] = value
    return made


def _piece(piece: Value, known: frozenset[str]) -> Value:
    return {key: item for key, item in piece.items() if key in known or key == "type"} if is_mapping(piece) else {}


_OF_REASONING = frozenset({"type", "id"})
_EMPTY_FORMS = frozenset(
    {"content", "refusal", "audio", "tool_calls", "function_call", "reasoning_content", *openai_chat.DETAIL_KEYS}
    | {"reasoning", "name", "id", "tool_call_id", "url", "data", "file_id", "file_data", "file_url", "filename"}
)


def _is_form(key: str, value: Value) -> bool:
    """Return whether it is a key of the protocol with an empty value, which says how the message was written."""
    return key in _EMPTY_FORMS and (value is None or value in ("", (), {}))


# Reasoning


def _with_reasoning(messages: Iterable[Message], reasoning: ReasoningReturn) -> Iterator[Message]:
    """Yield the messages with their reasoning where the provider wants it."""
    for message in messages:
        edited = any(_is_edited(part) for part in message.parts)
        if not edited and (reasoning == "as received" or not any(_is_reasoning(part) for part in message.parts)):
            yield message
            continue
        kept = [_placed(part, reasoning, edited=edited) if _is_reasoning(part) else (part,) for part in message.parts]
        parts = [part for placed in kept for part in placed]
        if parts:
            yield message.with_parts(parts)


def _is_edited(part: Part) -> bool:
    """Whether it is signed reasoning that was edited after the provider sent it."""
    return isinstance(part, ReasoningPart) and _notes(part).get("of", checksum(part.text)) != checksum(part.text)


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, ReasoningPart) or (
        isinstance(part, UnknownPart) and _notes(part).get("field") in openai_chat.DETAIL_KEYS
    )


def _placed(part: Part, reasoning: ReasoningReturn, *, edited: bool) -> tuple[Part, ...]:
    """Return reasoning with the notes that put it into the right field; nothing if the provider has no field for it.

    If reasoning of a message was edited, its signatures and encrypted reasoning are not sent back: the provider would
    refuse the signature, and could read the removed text from the encrypted form.
    """
    notes = _notes(part)
    detailed = notes.get("field") in openai_chat.DETAIL_KEYS
    wanted = {"as received": notes.get("field"), "details": "reasoning_details"}.get(reasoning)
    if detailed and not edited and notes.get("field") == wanted:
        return (part,)
    if reasoning == "left out" or not isinstance(part, ReasoningPart) or not part.text:
        return ()
    if reasoning == "thinking":
        return (part,) if notes.get("type") == "thinking" else (replace(part, metadata={FORMAT: {"type": "thinking"}}),)
    if reasoning == "as received" and not detailed:
        return (part,)
    field = "reasoning" if reasoning in ("details", "as received") else reasoning
    return (replace(part, metadata={FORMAT: {"field": field}}),)


def _notes(part: Part) -> Value:
    return object_of(part.metadata.get(FORMAT))
