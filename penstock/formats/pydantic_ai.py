"""Read and write the history of pydantic-ai, as its ``ModelMessagesTypeAdapter`` dumps it.

Each part of a request becomes a message with the role that it has: ``system``, ``user`` or ``tool``; so do the
request's instructions, first of all. They are written as one request again. A response becomes one assistant message.
Calls and results of tools that a provider ran, and what else only pydantic-ai knows, stay as they are, in unknown
parts, which guards read; `PydanticAIModel` sends them back in the same form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats.parts import (
    Media,
    is_finished,
    media_type_of,
    read_arguments,
    read_outcome,
    split_data_url,
    steps,
    with_answers,
    write_arguments,
    write_outcome,
)
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_text,
    is_array,
    is_empty,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role


__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "pydantic-ai"
LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_KINDS = ("request", "response")
_REQUEST = frozenset({"kind", "parts", "instructions"})
_RESPONSE = frozenset({"kind", "parts"})
_PROMPT = frozenset({"part_kind", "content"})
_RETURN = frozenset({"part_kind", "tool_name", "tool_call_id", "content", "outcome"})
_RETRY = frozenset({"part_kind", "tool_name", "tool_call_id", "content"})
_CALL = frozenset({"part_kind", "tool_name", "tool_call_id", "args"})
_SUCCESS, _FAILED = "success", "failed"
_OF_PART = ("id", "signature", "provider_name", "provider_details")
"""The keys of a part that are noted under their own names, as `PydanticAIModel` does."""

_LINKS = {"image-url": ImagePart, "audio-url": AudioPart, "document-url": FilePart, "video-url": FilePart}
_TEXT_CONTENT = frozenset({"kind", "content"})
_LINK = frozenset({"kind", "url", "media_type"})
_BINARY = frozenset({"kind", "data", "media_type"})
_UPLOAD = frozenset({"kind", "file_id", "media_type"})


# What a user says


def _read_content(value: Value, place: str) -> list[Part]:
    if isinstance(value, str):
        return [TextPart(value)] if value else []
    items = expect_array(value, place, "a str or a list of contents")
    return [_read_item_of_content(item, f"{place}[{index}]") for index, item in enumerate(items)]


def _read_item_of_content(value: Value, place: str) -> Part:
    if isinstance(value, str):
        return TextPart(value)
    item = expect_object(value, place, "a str, or an object with a kind")
    kind = maybe_text(item, "kind", place)
    if kind == "text-content" and isinstance(item.get("content"), str):
        notes: Json = {"kind": kind, "extra": unknown_keys(item, _TEXT_CONTENT, _TEXT_CONTENT)}
        return TextPart(item["content"], with_notes(FORMAT, notes))
    if kind in _LINKS:
        notes = {"kind": kind, "extra": unknown_keys(item, _LINK)}
        return _media(item, place, notes, url=maybe_text(item, "url", place))
    if kind == "binary" and isinstance(item.get("data"), str):
        return _media(item, place, {"kind": kind, "extra": unknown_keys(item, _BINARY, {"data"})}, data=item["data"])
    if kind == "uploaded-file" and isinstance(item.get("file_id"), str):
        notes = {"kind": kind, "extra": unknown_keys(item, _UPLOAD, {"file_id"})}
        return _media(item, place, notes, file_id=item["file_id"])
    return UnknownPart(item)


def _media(
    item: Json, place: str, notes: Json, *, url: str | None = None, data: str | None = None, file_id: str | None = None
) -> Part:
    media_type = maybe_text(item, "media_type", place)
    family = (media_type or "").partition("/")[0]
    kind = _LINKS.get(item["kind"]) or {"image": ImagePart, "audio": AudioPart}.get(family, FilePart)
    metadata = with_notes(FORMAT, notes)
    if file_id is not None or kind is FilePart:
        return FilePart(data, url, file_id, media_type, None, metadata)
    if kind is ImagePart:
        return ImagePart(url, data, media_type, metadata)
    return AudioPart(data, url, media_type, metadata=metadata)


def _write_item_of_content(part: Part) -> Value:
    notes = notes_of(part, FORMAT)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    if isinstance(part, UnknownPart):
        return thaw(part.raw)
    text = part.text if isinstance(part, (TextPart, ReasoningPart)) else ""
    if notes.get("kind") == "text-content":
        return with_unknown_keys({"kind": "text-content", "content": text}, notes, _TEXT_CONTENT)
    return text


def _write_media(part: Media, notes: Json) -> Json:
    found = split_data_url(part.url) if part.url is not None and "kind" not in notes else None
    data, url = (part.data, part.url) if found is None else (found[1], None)
    media_type = media_type_of(part) or None
    file_id = part.file_id if isinstance(part, FilePart) else None
    if data is not None:
        usual = None if "kind" in notes else _USUAL_TYPE[type(part)]
        body = {"kind": "binary", "data": data, "media_type": media_type or usual}
        return with_unknown_keys(_present(body), notes, _BINARY)
    if url is None and file_id is not None:
        body = {"kind": "uploaded-file", "file_id": file_id, "media_type": media_type}
        return with_unknown_keys(_present(body), notes, _UPLOAD)
    kind = notes.get("kind") if notes.get("kind") in _LINKS else _LINK_OF[type(part)]
    return with_unknown_keys(_present({"kind": kind, "url": url, "media_type": media_type}), notes, _LINK)


_LINK_OF: dict[type[Part], str] = {ImagePart: "image-url", AudioPart: "audio-url", FilePart: "document-url"}
_USUAL_TYPE: dict[type[Part], str] = {
    ImagePart: "image/png",
    AudioPart: "audio/wav",
    FilePart: "application/octet-stream",
}


def _present(given: Json) -> Json:
    return {key: value for key, value in given.items() if value is not None}


# Parts of a request, each a message


def _read_request_part(value: Value, place: str) -> Message:
    item = expect_object(value, place, "an object with a part_kind")
    kind = expect_text(item, "part_kind", place)
    if kind in _PROMPTS and (kind != "retry-prompt" or item.get("tool_name") is None):
        return _read_prompt(item, kind, place)
    if kind in ("tool-return", "retry-prompt"):
        return _read_return(item, kind, place)
    return Message("user", (UnknownPart(item),), metadata=with_notes(FORMAT, {"part": {"kind": kind}}))


_PROMPTS: dict[str, Role] = {
    "system-prompt": "system",
    "user-prompt": "user",
    "retry-prompt": "user",
    "retry-feedback": "user",
}


def _read_prompt(item: Json, kind: str, place: str) -> Message:
    content = item.get("content")
    if kind != "user-prompt" and is_array(content):
        # The errors of a validation: JSON, of which every string is read.
        return Message("user", (UnknownPart(item),), metadata=with_notes(FORMAT, {"part": {"kind": kind}}))
    if kind != "user-prompt":
        expect_text(item, "content", place)
    parts = _read_content(content, f"{place}.content")
    notes: Json = {
        "kind": kind,
        "list": True if is_array(content) else None,
        "extra": unknown_keys(item, _PROMPT, _PROMPT),
    }
    return Message(_PROMPTS[kind], tuple(parts), metadata=with_notes(FORMAT, {"part": without_empty(notes)}))


def _read_return(item: Json, kind: str, place: str) -> Message:
    content = item.get("content")
    outcome = maybe_text(item, "outcome", place)
    state, result, error = read_outcome(content, failed=kind == "retry-prompt" or outcome not in (None, _SUCCESS))
    notes: Json = {
        "kind": kind if kind != "tool-return" else None,
        "outcome": outcome,
        "content": "absent" if "content" not in item else None,
        "extra": unknown_keys(item, _RETURN if kind == "tool-return" else _RETRY),
    }
    call_id, name = maybe_text(item, "tool_call_id", place), maybe_text(item, "tool_name", place)
    metadata = with_notes(FORMAT, {"result": without_empty(notes)})
    part = ToolPart(call_id or "", name or "", EMPTY, state, result, error, metadata)
    return Message("tool", (part,))


def write_return(part: ToolPart) -> Json:
    """Return the part of a request for a result."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    retry = notes.get("kind") == "retry-prompt" and part.state == "error"
    body: Json = {"part_kind": "retry-prompt" if retry else "tool-return"}
    given = {"tool_name": part.name or None, "tool_call_id": part.call_id or None}
    body |= _present(given)
    said = write_outcome(part, own=bool(notes))
    if said is not None or not notes:
        body["content"] = said
    if not retry:
        outcome = notes.get("outcome")
        failed = part.state == "error"
        fits = isinstance(outcome, str) and failed == (outcome != _SUCCESS)
        if fits or failed:
            body["outcome"] = outcome if fits else _FAILED
    return with_unknown_keys(body, notes, _RETRY if retry else _RETURN)


def _write_request_parts(message: Message) -> list[Value]:
    notes = notes_of(message, FORMAT).get("part")
    notes = notes if is_object(notes) else {}
    parts = [part for part in message.parts if not isinstance(part, _LEFT_OUT)]
    returns: list[Value] = [write_return(part) for part in parts if isinstance(part, ToolPart) and is_finished(part)]
    said = [part for part in parts if not (isinstance(part, ToolPart) and is_finished(part))]
    if message.role == "system":
        return [*returns, *_write_system(said, notes)]
    if notes and len(said) == 1 and isinstance(said[0], UnknownPart) and "list" not in notes:
        return [*returns, thaw(said[0].raw)]
    if not said and (not notes or returns):
        return returns
    kind = notes.get("kind") if _PROMPTS.get(notes.get("kind", "")) == "user" else "user-prompt"
    items = [_write_item_of_content(part) for part in said]
    plain = len(items) == 1 and isinstance(items[0], str) and not notes.get("list")
    content: Value = items[0] if plain else "" if not items and not notes.get("list") else items
    return [*returns, with_unknown_keys({"part_kind": kind, "content": content}, notes, _PROMPT)]


def _write_system(parts: Sequence[Part], notes: Json) -> Iterator[Json]:
    texts = [part.text for part in parts if isinstance(part, (TextPart, ReasoningPart))]
    yield from (thaw(part.raw) for part in parts if isinstance(part, UnknownPart))
    for text in texts or ([""] if notes and not parts else []):
        yield with_unknown_keys({"part_kind": "system-prompt", "content": text}, notes, _PROMPT)
        notes = {}


# Parts of a response


def _read_response_part(value: Value, place: str) -> Part:
    item = expect_object(value, place, "an object with a part_kind")
    kind = expect_text(item, "part_kind", place)
    reader = _READERS.get(kind)
    part = reader(item, place) if reader is not None else None
    return UnknownPart(item) if part is None else part


def _own(item: Json, known: frozenset[str], handled: Iterable[str]) -> Json:
    """Return notes on a part: what is sent back with it, under its own name, and its unknown keys."""
    own = {key: item[key] for key in _OF_PART if not is_empty(item.get(key))}
    return {**own, "extra": unknown_keys(item, known | own.keys(), {*handled, *own})}


def _read_text(item: Json, place: str) -> Part | None:
    return TextPart(expect_text(item, "content", place), with_notes(FORMAT, _own(item, _PROMPT, _PROMPT)))


def _read_thinking(item: Json, place: str) -> Part | None:
    return ReasoningPart(expect_text(item, "content", place), with_notes(FORMAT, _own(item, _PROMPT, _PROMPT)))


def _read_call(item: Json, place: str) -> Part | None:
    given = item.get("args")
    arguments, style = read_arguments(given) if isinstance(given, str) else (given, None)
    notes = _own(item, _CALL, {"part_kind"})
    notes["arguments"] = {"style": style or "compact"} if isinstance(given, str) else None
    notes["args"] = None if given is not None else "null" if "args" in item else "absent"
    notes["odd"] = True if given is not None and not isinstance(given, (str, dict)) else None
    call_id, name = maybe_text(item, "tool_call_id", place), expect_text(item, "tool_name", place)
    arguments = EMPTY if arguments is None else arguments
    return ToolPart(call_id or "", name, arguments, metadata=with_notes(FORMAT, notes))


def _read_file(item: Json, place: str) -> Part | None:
    content: Value = item.get("content")
    if not is_object(content):
        return None
    part = _read_item_of_content(content, f"{place}.content")
    if not isinstance(part, (ImagePart, AudioPart, FilePart)):
        return None
    notes = {**notes_of(part, FORMAT), "file": _own(item, _PROMPT, _PROMPT)}
    return replace(part, metadata=with_notes(FORMAT, notes))


_READERS: dict[str, Callable[[Json, str], Part | None]] = {
    "text": _read_text,
    "thinking": _read_thinking,
    "tool-call": _read_call,
    "file": _read_file,
}


def _write_response_part(part: Part) -> Json:
    notes = notes_of(part, FORMAT)
    if isinstance(part, (TextPart, ReasoningPart)):
        kind = "text" if isinstance(part, TextPart) else "thinking"
        return _with_own({"part_kind": kind, "content": part.text}, notes, _PROMPT)
    if isinstance(part, ToolPart):
        return _write_call(part, notes)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        own: Value = notes.get("file")
        content = _write_media(part, {key: note for key, note in notes.items() if key != "file"})
        return _with_own({"part_kind": "file", "content": content}, own if is_object(own) else {}, _PROMPT)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _with_own(body: Json, notes: Json, known: frozenset[str]) -> Json:
    own = {key: notes[key] for key in _OF_PART if notes.get(key) is not None}
    return with_unknown_keys({**own, **body}, notes, known | own.keys())


def _write_call(part: ToolPart, notes: Json) -> Json:
    body: Json = {"part_kind": "tool-call", "tool_name": part.name}
    if part.call_id:
        body["tool_call_id"] = part.call_id
    written: Value = notes.get("arguments")
    arguments = thaw(part.arguments)
    if is_object(written):
        body["args"] = write_arguments(part.arguments, written.get("style"))
    elif arguments != {} or notes.get("args") not in ("null", "absent"):
        plain = isinstance(arguments, str) or is_object(arguments) or notes.get("odd")
        body["args"] = arguments if plain else write_arguments(arguments, None)
    return _with_own(body, notes, _CALL)


# Messages


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a history.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, _read_item))


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a request or a response")
    kind = expect_text(item, "kind", place)
    if kind not in _KINDS:
        raise MessageError(f"{place}.kind", f"expected one of {', '.join(_KINDS)}, not another str")
    items = expect_array(item.get("parts"), f"{place}.parts", "a list of parts")
    where = f"{place}.parts"
    if kind == "response":
        parts = [_read_response_part(part, f"{where}[{index}]") for index, part in enumerate(items)]
        notes = _of_message(item, _RESPONSE)
        return [Message("assistant", tuple(parts), metadata=with_notes(FORMAT, notes))]
    return _read_request(item, items, place)


_OF_ANSWERS = ("provider_name", "provider_url", "canonical_system", "provider_response_id", "provider_details")
"""The keys of a response that are noted under their own names, as `PydanticAIModel` does."""


def _of_message(item: Json, known: frozenset[str]) -> Json:
    own = {key: item[key] for key in _OF_ANSWERS if not is_empty(item.get(key))}
    return {**own, "extra": unknown_keys(item, known | own.keys(), {"kind", "parts", *own})}


def _read_request(item: Json, items: Sequence[Value], place: str) -> list[Message]:
    instructions = maybe_text(item, "instructions", place)
    made: list[Message] = []
    if instructions:
        made.append(Message.system(instructions, metadata=with_notes(FORMAT, {"instructions": True})))
    made += [_read_request_part(part, f"{place}.parts[{index}]") for index, part in enumerate(items)]
    made = made or [Message("user", metadata=with_notes(FORMAT, {"empty": True}))]
    own = with_notes(FORMAT, {"extra": unknown_keys(item, _REQUEST, {"kind", "parts"})}).get(FORMAT, {})
    return [_in_request(message, index, own) for index, message in enumerate(made)]


def _in_request(message: Message, index: int, own: Json) -> Message:
    """Return a message with the note that it goes on with a request, or that it begins one, with its unknown keys."""
    notes = {**notes_of(message, FORMAT), **({"joined": True} if index else {"request": own})}
    return replace(message, metadata={**message.metadata, FORMAT: notes})


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a history.

    What follows one another is put into one request, unless it was read from several.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    made: list[Json] = []
    for message in messages:
        if message.role == "assistant":
            made += _write_response(message)
            continue
        notes = notes_of(message, FORMAT)
        if "request" in notes or not made or made[-1]["kind"] != "request":
            made.append(_new_request(notes))
        _add_to_request(made[-1], message, notes)
    return made


def _new_request(notes: Json) -> Json:
    own = notes.get("request")
    return with_unknown_keys({"kind": "request", "parts": []}, own if is_object(own) else {}, _REQUEST)


def _add_to_request(request: Json, message: Message, notes: Json) -> None:
    if notes.get("instructions") and message.role == "system":
        request["instructions"] = message.text
        return
    if not notes.get("empty") or message.parts:
        request["parts"].extend(_write_request_parts(message))


_LEFT_OUT = (SourcePart, DataPart, StepStartPart)


def _write_response(message: Message) -> Iterator[Json]:
    notes = notes_of(message, FORMAT)
    own = {key: notes[key] for key in _OF_ANSWERS if notes.get(key) is not None}
    whole = with_answers(message.parts, FORMAT)
    cut = steps(whole, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)))
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            body: Json = {**own, "kind": "response", "parts": [_write_response_part(part) for part in parts]}
            yield with_unknown_keys(body, notes, _RESPONSE | own.keys())
            notes, own = {}, {}
        results = [write_return(part) for part in parts if isinstance(part, ToolPart) and is_finished(part)]
        if results:
            yield {"kind": "request", "parts": results}
