"""Read and write contents of Google's Gemini API.

Responses of functions, which stand in a user's content, become a ``tool`` message, as in `anthropic`. Calls often have
no id: they get one that says where the call stands, which is not written, and a response without an id answers the
first open call of its name. Keys are read in camelCase, as on the wire, and in snake_case, as Python's client has them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import FilePart, Message, ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.blocks import is_finished, with_unknown_keys
from penstock.formats.shape import foreign, notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

T = TypeVar("T", bound="Message | Part")

__all__ = ["FORMAT", "LEAVES_OUT", "PART_KEYS", "SPELLINGS", "read", "write", "write_part"]

FORMAT = "google"
LEAVES_OUT = frozenset({"source", "data", "step-start"})

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

_SIGNATURE, _THOUGHT = "thoughtSignature", "thought"
_INNER = {
    "inlineData": frozenset({"mimeType", "data", "displayName"}),
    "fileData": frozenset({"mimeType", "fileUri", "displayName"}),
    "functionCall": frozenset({"id", "name", "args"}),
    "functionResponse": frozenset({"id", "name", "response"}),
    "executableCode": frozenset({"id", "code", "language"}),
    "codeExecutionResult": frozenset({"id", "output", "outcome"}),
}
"""The keys of the object under a part's key."""

PART_KEYS = frozenset({"text", *_INNER})
"""The keys of a part, exactly one of which says what it holds."""

_CODE_TOOL = "code_execution"
_FAILED = frozenset({"OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"})
_DONE, _BROKE = "OUTCOME_OK", "OUTCOME_FAILED"


# Parts


def read_part(value: Value, place: str) -> Part:
    """Return the part. Calls and responses without an id have an empty one.

    Raises:
        MessageError: it is malformed.
    """
    item = wire.expect_object(value, place, "an object with text, or another kind of content")
    found, snake = wire.respelled(item, SPELLINGS, place)
    kinds = [key for key in PART_KEYS if found.get(key) is not None]
    if len(kinds) != 1:
        return UnknownPart(item)
    (kind,) = kinds
    sealed = found[_SIGNATURE] if isinstance(found.get(_SIGNATURE), str) else None
    is_thought = kind == "text" and found.get(_THOUGHT) is True
    handled = {kind, *((_SIGNATURE,) if sealed is not None else ()), *((_THOUGHT,) if is_thought else ())}
    rest = {key: value for key, value in found.items() if key not in handled}
    notes: Json = {_SIGNATURE: sealed, "snake": snake, "extra": rest}
    if kind == "text":
        make = ReasoningPart if is_thought else TextPart
        return make(wire.expect_text(found, kind, place), with_notes(FORMAT, notes))
    where = f"{place}.{kind}"
    inner, snake = wire.respelled(wire.expect_object(found[kind], where), SPELLINGS, where)
    notes |= {"inner": wire.unknown_keys(inner, _INNER[kind]), "inner_snake": snake}
    part = _READERS[kind](inner, notes, where)
    return UnknownPart(item) if part is None else part


def _read_media(inner: Json, notes: Json, place: str, key: str) -> Part | None:
    """Return the part for data or a URI; None if it is no text (bytes)."""
    if inner.get(key) is not None and not isinstance(inner[key], str):
        return None
    content, media_type, name = (wire.maybe_text(inner, found, place) for found in (key, "mimeType", "displayName"))
    is_file = (media_type or "").partition("/")[0] not in ("image", "audio")
    noted = with_notes(FORMAT, {**notes, "file": True} if is_file else {**notes, "name": name})
    data, url = (content, None) if key == "data" else (None, content)
    return shared.media(media_type=media_type, name=name, metadata=noted, data=data, url=url)


def _read_call(inner: Json, notes: Json, place: str) -> Part:
    call_id, name = wire.maybe_text(inner, "id", place) or "", wire.expect_text(inner, "name", place)
    arguments = EMPTY if inner.get("args") is None else inner["args"]
    notes["args"] = blocks.input_notes(wire.without_none(inner), "args")
    return ToolPart(call_id, name, arguments, metadata=with_notes(FORMAT, notes))


def _read_result(inner: Json, notes: Json, place: str) -> Part:
    call_id, name = wire.maybe_text(inner, "id", place) or "", wire.maybe_text(inner, "name", place)
    result = inner.get("response")
    notes |= {"response": None if result is not None else "absent", "named": True if name is not None else None}
    return ToolPart(call_id, name or "", state="result", result=result, metadata=with_result_notes(FORMAT, notes))


def _read_code(inner: Json, notes: Json, place: str) -> Part:
    arguments = {key: inner[key] for key in ("code", "language") if inner.get(key) is not None}
    call_id = wire.maybe_text(inner, "id", place) or ""
    return ToolPart(call_id, _CODE_TOOL, arguments, metadata=with_notes(FORMAT, {**notes, "code": True}))


def _read_code_result(inner: Json, notes: Json, place: str) -> Part:
    call_id, output, outcome = (wire.maybe_text(inner, key, place) for key in ("id", "output", "outcome"))
    metadata = with_result_notes(FORMAT, {"code": True, **notes, "outcome": outcome})
    if outcome in _FAILED:
        return ToolPart(call_id or "", _CODE_TOOL, state="error", error=output, metadata=metadata)
    return ToolPart(call_id or "", _CODE_TOOL, state="result", result=output, metadata=metadata)


_READERS: dict[str, Callable[[Json, Json, str], Part | None]] = {
    "inlineData": partial(_read_media, key="data"),
    "fileData": partial(_read_media, key="fileUri"),
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
        return _framed({"text": part.text, **thought}, notes)
    if isinstance(part, shared.MEDIA):
        return _write_media(part, notes)
    if isinstance(part, ToolPart):
        return _write_call(part, notes)
    return blocks.raw_of(part)


def _framed(body: Json, notes: WireShape) -> Json:
    """Return a part with its signature and unknown keys, in the spelling in which it was read."""
    if "thoughtSignature" in notes:
        body[_SIGNATURE] = notes["thoughtSignature"]
    # What one part holds is one kind of content: no noted key may add another.
    known = {*PART_KEYS, _SIGNATURE, *body}
    return wire.spelled_back(with_unknown_keys(body, notes, known), SPELLINGS, notes.get("snake"))


def _within(body: Json, notes: WireShape, kind: str) -> Json:
    inner = with_unknown_keys(body, notes, _INNER[kind], "inner")
    return _framed({kind: wire.spelled_back(inner, SPELLINGS, notes.get("inner_snake"))}, notes)


def _write_media(part: Media, notes: WireShape) -> Json:
    data, url = shared.content_of(part, own=bool(notes))
    name = part.name if isinstance(part, FilePart) else notes.get("name")
    media_type = shared.media_type_of(part) or (None if notes else shared.USUAL_TYPE[type(part)])
    body = wire.without_none({"mimeType": media_type, "displayName": name if isinstance(name, str) else None})
    if data is not None:
        return _within({"data": data, **body}, notes, "inlineData")
    uri = url if url is not None or not isinstance(part, FilePart) else part.file_id
    return _within(body, notes, "inlineData") if uri is None else _within({"fileUri": uri, **body}, notes, "fileData")


def _write_id(part: ToolPart, notes: WireShape) -> Json:
    return {} if notes.get("id") == "absent" or not part.call_id else {"id": part.call_id}


def _write_call(part: ToolPart, notes: WireShape) -> Json:
    body = _write_id(part, notes)
    if notes.get("code") and wire.is_object(arguments := thaw(part.arguments)):
        return _within({**body, **arguments}, notes, "executableCode")
    body |= {"name": part.name, **blocks.write_input(part, "args", notes.get("args"), own=bool(notes))}
    return _within(body, notes, "functionCall")


def write_result(part: ToolPart) -> Json:
    """Return the part for a result."""
    notes = result_notes(part, FORMAT)
    said = shared.write_outcome(part, own=bool(notes))
    body = _write_id(part, notes)
    failed = part.state == "error"
    if notes.get("code"):
        body |= wire.without_none({"output": said})
        if "outcome" in notes:
            outcome = notes["outcome"]
            body["outcome"] = outcome if failed == (outcome in _FAILED) else _BROKE if failed else _DONE
        return _within(body, notes, "codeExecutionResult")
    if part.name and (notes.get("named") or not notes):
        body["name"] = part.name
    if said is not None or notes.get("response") != "absent":
        fits = wire.is_object(said) or (bool(notes) and said is not None)
        body["response"] = said if fits else {"error" if failed else "result": said}
    return _within(body, notes, "functionResponse")


# Messages


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages. An item may be a request's body, of ``systemInstruction`` and ``contents``.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return wire.named(_with_ids(wire.read_each(items, place, start, _read_item), start))


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a content with parts")
    body, _ = wire.respelled(item, SPELLINGS, place)
    if "parts" in item or "role" in item or not (_SYSTEM in body or _CONTENTS in body):
        yield from _read_message(item, place)
        return
    if not body.keys() <= {_SYSTEM, _CONTENTS}:
        raise MessageError(
            place, f"expected a content, or an object of {_SYSTEM} and {_CONTENTS} only; leave out other keys"
        )
    if body.get(_SYSTEM) is not None:
        yield _read_system(body[_SYSTEM], f"{place}.{_SYSTEM}")
    given = wire.expect_array(body.get(_CONTENTS) or (), f"{place}.{_CONTENTS}")
    yield from wire.read_each(given, f"{place}.{_CONTENTS}", 0, _read_item)


def _read_system(value: Value, place: str) -> Message:
    """Return the system message of an instruction: a str, or a content with any role."""
    if isinstance(value, str):
        return Message.system(value)
    item = wire.expect_object(value, place, "a str or a content with parts")
    (message,) = _read_message({**item, "role": "system"}, place)
    return message


def _read_message(item: Json, place: str) -> list[Message]:
    said = wire.expect_role(item, place, _ROLES) if item.get("role") is not None else "user"
    given = item.get("parts")
    items = () if given is None else given
    parts = blocks.read_list(items, f"{place}.parts", read_part, "a list of parts")
    notes: Json = {
        "role": said if _WIRE_ROLES[_ROLES[said]] != said else None if item.get("role") is not None else "absent",
        "parts": None if given is not None else "absent",
        "extra": wire.unknown_keys(item, _KEYS, {"parts"} if given is not None else ()),
    }
    wire.refuse_without_content({} if given is None else {"content": given}, place, parts, notes["extra"])
    role = _ROLES[said]
    if role == "assistant":
        parts = [_noted(part, {"alone": True}) if is_finished(part) else part for part in parts]
    message = Message("user" if role == "tool" else role, tuple(parts), metadata=with_notes(FORMAT, notes))
    made = blocks.split_results(message, FORMAT)
    if said in _WIRE_ROLES.values():
        return made
    return [replace(_noted(message, {"role": said}), role=role) for message in made]


def _noted(value: T, notes: Json) -> T:
    """Return a part or a message with more noted about it."""
    noted = {**notes_of(value, FORMAT), **notes}
    return replace(value, metadata=with_notes(FORMAT, noted, foreign(value, FORMAT)))


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
    if not is_finished(part):
        calls.setdefault(part.name, deque()).append(made)
        return replace(_noted(part, {"id": "absent"}), call_id=made)
    waiting = calls.get(part.name)
    result = {**result_notes(part, FORMAT), "id": "absent"}
    return replace(_noted(part, {"result": result}), call_id=waiting.popleft() if waiting else made)


def _write_message(message: Message) -> Iterator[tuple[Message, Json]]:
    turns = blocks.written_turns(message, FORMAT, LEAVES_OUT, _is_answered, write_part, write_result)
    for items, results, notes in turns:
        role, said = _WIRE_ROLES[message.role], notes.get("role")
        if said in ("function", "tool") and role == "user":
            role = said
        body: Json = {} if said == "absent" and message.role != "assistant" else {"role": role}
        if items or notes.get("parts") != "absent":
            body["parts"] = items
        yield message, with_unknown_keys(body, notes, _KEYS)
        if results:
            yield message, {"role": "user", "parts": results}


write = blocks.turn_writer(_write_message, FORMAT, "parts")


def _is_answered(part: Part) -> bool:
    """Return whether it is a call whose response stands in the user's next content."""
    notes = notes_of(part, FORMAT)
    return is_finished(part) and not notes.get("alone") and not notes.get("code")
