"""Read and write contents of Google's Gemini API.

Responses of functions, which stand in a user's content, become a ``tool`` message, as in `anthropic`. Calls often have
no id: they get one that says where the call stands, which is not written, and a response without an id answers the
first open call of its name. Keys are read in camelCase, as on the wire, and in snake_case, as Python's client has them.
"""

from __future__ import annotations

from collections import deque
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
from penstock.formats.parts import is_finished, media_type_of, split_data_url, steps, write_outcome
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    in_turns,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    refuse_without_content,
    respelled,
    spelled_back,
    split_results,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role


__all__ = ["FORMAT", "LEAVES_OUT", "PART_KEYS", "SPELLINGS", "read", "write"]

FORMAT = "google"
LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_ROLES: dict[str, Role] = {
    "user": "user",
    "model": "assistant",
    "system": "system",
    "function": "tool",
    "tool": "tool",
}
_WIRE_ROLES = {"user": "user", "assistant": "model", "system": "system", "tool": "user"}
_KEYS = frozenset({"role", "parts"})
_SYSTEM, _CONTENTS = "systemInstruction", "contents"

SPELLINGS = {
    "inline_data": "inlineData",
    "file_data": "fileData",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "thought_signature": "thoughtSignature",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "display_name": "displayName",
    "system_instruction": _SYSTEM,
}
"""The keys in camelCase by those in snake_case."""

PART_KEYS = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
)
"""The keys of a part, exactly one of which says what it holds."""

_SIGNATURE, _THOUGHT = "thoughtSignature", "thought"
_BLOB = frozenset({"mimeType", "data", "displayName"})
_FILE = frozenset({"mimeType", "fileUri", "displayName"})
_CALL = frozenset({"id", "name", "args"})
_RESULT = frozenset({"id", "name", "response"})
_CODE = frozenset({"id", "code", "language"})
_CODE_RESULT = frozenset({"id", "output", "outcome"})
_CODE_TOOL = "code_execution"
_FAILED = frozenset({"OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"})
_DONE, _BROKE = "OUTCOME_OK", "OUTCOME_FAILED"


# Parts


def read_part(value: Value, place: str) -> Part:
    """Return the part. Calls and responses without an id have an empty one.

    Raises:
        MessageError: it is malformed.
    """
    item = expect_object(value, place, "an object with text, or another kind of content")
    found, snake = respelled(item, SPELLINGS, place)
    kinds = [key for key in PART_KEYS if found.get(key) is not None]
    if len(kinds) != 1:
        return UnknownPart(item)
    (kind,) = kinds
    sealed = maybe_text(found, _SIGNATURE, place) if isinstance(found.get(_SIGNATURE), str) else None
    handled = {kind, *((_SIGNATURE,) if sealed is not None else ())}
    notes: Json = {
        _SIGNATURE: sealed,
        "snake": snake,
        "extra": {key: value for key, value in found.items() if key not in handled},
    }
    part = _READERS[kind](found, notes, place)
    return UnknownPart(item) if part is None else part


def _read_text(item: Json, notes: Json, place: str) -> Part | None:
    text = expect_text(item, "text", place)
    if item.get(_THOUGHT) is not True:
        return TextPart(text, with_notes(FORMAT, notes))
    notes["extra"].pop(_THOUGHT)
    return ReasoningPart(text, with_notes(FORMAT, notes))


def _inner(item: Json, kind: str, place: str, known: frozenset[str], notes: Json) -> Json:
    """Return the object under a part's key; what Penstock has no field for is noted."""
    inner, snake = respelled(expect_object(item[kind], f"{place}.{kind}"), SPELLINGS, f"{place}.{kind}")
    notes["inner"] = unknown_keys(inner, known)
    notes["inner_snake"] = snake
    return inner


def _read_blob(item: Json, notes: Json, place: str) -> Part | None:
    inner = _inner(item, "inlineData", place, _BLOB, notes)
    return _media(inner, "data", notes, f"{place}.inlineData")


def _read_file(item: Json, notes: Json, place: str) -> Part | None:
    inner = _inner(item, "fileData", place, _FILE, notes)
    return _media(inner, "fileUri", notes, f"{place}.fileData")


def _media(inner: Json, key: str, notes: Json, place: str) -> Part | None:
    """Return the part for data or a URI; None if it is no text (bytes)."""
    if inner.get(key) is not None and not isinstance(inner[key], str):
        return None
    content, media_type, name = (maybe_text(inner, found, place) for found in (key, "mimeType", "displayName"))
    data, url = (content, None) if key == "data" else (None, content)
    family = (media_type or "").partition("/")[0]
    if family in ("image", "audio"):
        notes["name"] = name
        metadata = with_notes(FORMAT, notes)
        return (
            ImagePart(url, data, media_type, metadata)
            if family == "image"
            else AudioPart(data, url, media_type, metadata=metadata)
        )
    notes["file"] = True
    return FilePart(data, url, None, media_type, name, with_notes(FORMAT, notes))


def _read_call(item: Json, notes: Json, place: str) -> Part | None:
    inner = _inner(item, "functionCall", place, _CALL, notes)
    call_id, name = (
        maybe_text(inner, "id", f"{place}.functionCall"),
        expect_text(inner, "name", f"{place}.functionCall"),
    )
    arguments = EMPTY if inner.get("args") is None else inner["args"]
    notes["args"] = "absent" if inner.get("args") is None else None if is_object(arguments) else "bare"
    return ToolPart(call_id or "", name, arguments, metadata=with_notes(FORMAT, notes))


def _read_result(item: Json, notes: Json, place: str) -> Part | None:
    inner = _inner(item, "functionResponse", place, _RESULT, notes)
    where = f"{place}.functionResponse"
    call_id, name = maybe_text(inner, "id", where), maybe_text(inner, "name", where)
    notes["response"] = None if inner.get("response") is not None else "absent"
    notes["named"] = True if name is not None else None
    metadata = with_notes(FORMAT, {"result": without_empty(notes)})
    return ToolPart(call_id or "", name or "", state="result", result=inner.get("response"), metadata=metadata)


def _read_code(item: Json, notes: Json, place: str) -> Part | None:
    inner = _inner(item, "executableCode", place, _CODE, notes)
    arguments = {key: inner[key] for key in ("code", "language") if inner.get(key) is not None}
    call_id = maybe_text(inner, "id", f"{place}.executableCode")
    notes["code"] = True
    return ToolPart(call_id or "", _CODE_TOOL, arguments, metadata=with_notes(FORMAT, notes))


def _read_code_result(item: Json, notes: Json, place: str) -> Part | None:
    where = f"{place}.codeExecutionResult"
    inner = _inner(item, "codeExecutionResult", place, _CODE_RESULT, notes)
    call_id, output, outcome = (maybe_text(inner, key, where) for key in ("id", "output", "outcome"))
    notes["outcome"] = outcome
    failed = outcome in _FAILED
    return ToolPart(
        call_id or "",
        _CODE_TOOL,
        EMPTY,
        "error" if failed else "result",
        None if failed else output,
        output if failed else None,
        with_notes(FORMAT, {"result": {"code": True, **without_empty(notes)}}),
    )


_READERS: dict[str, Callable[[Json, Json, str], Part | None]] = {
    "text": _read_text,
    "inlineData": _read_blob,
    "fileData": _read_file,
    "functionCall": _read_call,
    "functionResponse": _read_result,
    "executableCode": _read_code,
    "codeExecutionResult": _read_code_result,
}


def write_part(part: Part) -> Json:
    """Return the part on the wire; for a tool's part, that of its call."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, (TextPart, ReasoningPart)):
        thought: Json = {_THOUGHT: True} if isinstance(part, ReasoningPart) else {}
        return _framed({"text": part.text, **thought}, notes, "text")
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    if isinstance(part, ToolPart):
        return _write_call(part, notes)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _framed(body: Json, notes: Json, kind: str) -> Json:
    """Return a part with its signature and unknown keys, in the spelling in which it was read."""
    if isinstance(notes.get(_SIGNATURE), str):
        body[_SIGNATURE] = notes[_SIGNATURE]
    # What one part holds is one kind of content: no noted key may add another.
    others = PART_KEYS - {kind}
    known = {kind, _SIGNATURE, *others, *((_THOUGHT,) if _THOUGHT in body else ())}
    return spelled_back(with_unknown_keys(body, notes, known), SPELLINGS, notes.get("snake"))


def _within(body: Json, notes: Json, known: frozenset[str], kind: str) -> Json:
    inner = spelled_back(with_unknown_keys(body, notes, known, "inner"), SPELLINGS, notes.get("inner_snake"))
    return _framed({kind: inner}, notes, kind)


def _write_media(part: ImagePart | AudioPart | FilePart, notes: Json) -> Json:
    found = split_data_url(part.url) if part.url is not None and not notes else None
    data = part.data if found is None else found[1]
    name = part.name if isinstance(part, FilePart) else notes.get("name")
    media_type = media_type_of(part) or (None if notes else _USUAL_TYPE[type(part)])
    given = {"mimeType": media_type, "displayName": name}
    body = {key: value for key, value in given.items() if isinstance(value, str)}
    if data is None and part.url is not None:
        return _within({"fileUri": part.url, **body}, notes, _FILE, "fileData")
    if data is None and isinstance(part, FilePart) and part.file_id is not None:
        return _within({"fileUri": part.file_id, **body}, notes, _FILE, "fileData")
    return _within({**({} if data is None else {"data": data}), **body}, notes, _BLOB, "inlineData")


_USUAL_TYPE: dict[type[Part], str] = {
    ImagePart: "image/png",
    AudioPart: "audio/wav",
    FilePart: "application/octet-stream",
}


def _write_call(part: ToolPart, notes: Json) -> Json:
    own_id = {} if notes.get("id") == "absent" or not part.call_id else {"id": part.call_id}
    arguments = thaw(part.arguments)
    if notes.get("code") and is_object(arguments):
        return _within({**own_id, **arguments}, notes, _CODE, "executableCode")
    body: Json = {**own_id, "name": part.name}
    if notes.get("args") != "absent" or arguments != {}:
        body["args"] = arguments if notes or is_object(arguments) else {"input": arguments}
    return _within(body, notes, _CALL, "functionCall")


def write_result(part: ToolPart) -> Json:
    """Return the part for a result."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    said = write_outcome(part, own=bool(notes))
    body: Json = {} if notes.get("id") == "absent" or not part.call_id else {"id": part.call_id}
    if notes.get("code"):
        return _write_code_result(part, body, said, notes)
    if part.name and (notes.get("named") or not notes):
        body["name"] = part.name
    if said is not None or notes.get("response") != "absent":
        fits = is_object(said) or (bool(notes) and said is not None)
        body["response"] = said if fits else {"error" if part.state == "error" else "result": said}
    return _within(body, notes, _RESULT, "functionResponse")


def _write_code_result(part: ToolPart, body: Json, said: Value, notes: Json) -> Json:
    if said is not None:
        body["output"] = said
    outcome = notes.get("outcome")
    if isinstance(outcome, str):
        failed = part.state == "error"
        body["outcome"] = outcome if failed == (outcome in _FAILED) else _BROKE if failed else _DONE
    return _within(body, notes, _CODE_RESULT, "codeExecutionResult")


# Messages


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages. An item may be a request's body, of ``systemInstruction`` and ``contents``.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(_with_ids(read_each(items, place, start, _read_item), start))


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a content with parts")
    body, _ = respelled(item, SPELLINGS, place)
    if "parts" in item or "role" in item or not (_SYSTEM in body or _CONTENTS in body):
        yield from _read_message(item, place)
        return
    if not body.keys() <= {_SYSTEM, _CONTENTS}:
        raise MessageError(
            place, f"expected a content, or an object of {_SYSTEM} and {_CONTENTS} only; leave out other keys"
        )
    if body.get(_SYSTEM) is not None:
        yield _read_system(body[_SYSTEM], f"{place}.{_SYSTEM}")
    given = expect_array(body.get(_CONTENTS) or (), f"{place}.{_CONTENTS}")
    yield from read_each(given, f"{place}.{_CONTENTS}", 0, _read_item)


def _read_system(value: Value, place: str) -> Message:
    """Return the system message of an instruction: a str, or a content with any role."""
    if isinstance(value, str):
        return Message.system(value)
    item = expect_object(value, place, "a str or a content with parts")
    (message,) = _read_message({**item, "role": "system"}, place)
    return message


def _read_message(item: Json, place: str) -> list[Message]:
    said = expect_role(item, place, _ROLES) if item.get("role") is not None else "user"
    given = item.get("parts")
    items = () if given is None else expect_array(given, f"{place}.parts", "a list of parts")
    parts = [read_part(part, f"{place}.parts[{index}]") for index, part in enumerate(items)]
    notes: Json = {
        "role": said if _WIRE_ROLES[_ROLES[said]] != said else None if item.get("role") is not None else "absent",
        "parts": None if given is not None else "absent",
        "extra": unknown_keys(item, _KEYS, {"parts"} if given is not None else ()),
    }
    refuse_without_content({} if given is None else {"content": given}, place, parts, notes["extra"])
    role = _ROLES[said]
    if role == "assistant":
        parts = [_alone(part) for part in parts]
    message = Message("user" if role == "tool" else role, tuple(parts), metadata=with_notes(FORMAT, notes))
    made = split_results(message, FORMAT)
    if said in _WIRE_ROLES.values():
        return made
    return [_with_role(part, said) for part in made]


def _with_role(message: Message, said: str) -> Message:
    """Return a message with a note on the role that it had."""
    notes = {**notes_of(message, FORMAT), "role": said}
    return replace(message, metadata=with_notes(FORMAT, notes, message.metadata))


def _alone(part: Part) -> Part:
    """Return a part of the model's; the result of a tool that the provider ran is noted as such."""
    if not isinstance(part, ToolPart) or not is_finished(part):
        return part
    return replace(part, metadata=with_notes(FORMAT, {**notes_of(part, FORMAT), "alone": True}))


def _with_ids(messages: Iterable[Message], start: int) -> Iterator[Message]:
    """Yield the messages, each call without an id with one, and each response without an id with that of its call."""
    calls: dict[str, deque[str]] = {}
    for index, message in enumerate(messages, start):
        parts = [
            _with_id(part, calls, f"call-{index}-{place}") if isinstance(part, ToolPart) and not part.call_id else part
            for place, part in enumerate(message.parts)
        ]
        yield message.with_parts(parts)


def _with_id(part: ToolPart, calls: dict[str, deque[str]], made: str) -> ToolPart:
    """Return the part with an id; ``calls`` are the ids of the open calls that had none, by name."""
    own = notes_of(part, FORMAT)
    if not is_finished(part):
        calls.setdefault(part.name, deque()).append(made)
        return replace(part, call_id=made, metadata=with_notes(FORMAT, {**own, "id": "absent"}))
    waiting = calls.get(part.name)
    call_id = waiting.popleft() if waiting else made
    result = {**own.get("result", {}), "id": "absent"}
    return replace(part, call_id=call_id, metadata=with_notes(FORMAT, {**own, "result": result}))


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as contents; system messages, which a request wants apart, have the role ``system``.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return in_turns((pair for message in messages for pair in _write_message(message)), FORMAT, "parts")


_LEFT_OUT = (SourcePart, DataPart, StepStartPart)


def _write_message(message: Message) -> Iterator[tuple[Message, Json]]:
    notes = notes_of(message, FORMAT)
    cut = [list(message.parts)]
    if message.role == "assistant":
        cut = steps(message.parts, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart)), _is_answered)
    for step in cut:
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        if parts or (len(cut) == 1 and (notes or not step)):
            yield message, _write_step(message, parts, notes)
            notes = {}
        results = [write_result(part) for part in parts if isinstance(part, ToolPart) and _is_answered(part)]
        if results and message.role == "assistant":
            yield message, {"role": "user", "parts": results}


def _is_answered(part: Part) -> bool:
    """Return whether it is a call whose response stands in the user's next content."""
    notes = notes_of(part, FORMAT)
    return is_finished(part) and not notes.get("alone") and not notes.get("code")


def _write_step(message: Message, parts: Sequence[Part], notes: Json) -> Json:
    role, said = _WIRE_ROLES[message.role], notes.get("role")
    if isinstance(said, str) and said in ("function", "tool") and role == "user":
        role = said
    body: Json = {} if said == "absent" and message.role != "assistant" else {"role": role}
    items = [item for part in parts for item in _write_parts(part, message.role)]
    if items or notes.get("parts") != "absent":
        body["parts"] = items
    return with_unknown_keys(body, notes, _KEYS)


def _write_parts(part: Part, role: str) -> list[Json]:
    """Return what a part is on the wire: code that the provider ran is one part, and its result another one."""
    if not isinstance(part, ToolPart) or not is_finished(part):
        return [write_part(part)]
    if role != "assistant" or notes_of(part, FORMAT).get("alone"):
        return [write_result(part)]
    return [write_part(part)] if _is_answered(part) else [write_part(part), write_result(part)]
