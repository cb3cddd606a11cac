"""Read and write items of OpenAI's responses.

Each item becomes one message; none are merged. A tool that the provider has built in becomes a tool part with what it
was asked and what it gave, and is written as the same item again. Items of unknown types pass through as `UnknownPart`.
When an assistant message is written, it becomes as many items as it needs, with the outputs of each step after its
calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
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
    AUDIO_KEYS,
    FILE_KEYS,
    Media,
    detail_elsewhere,
    image_url,
    is_finished,
    read_arguments,
    read_audio,
    read_file,
    read_image,
    result_text,
    shown_as,
    steps,
    system_role,
    with_answers,
    write_arguments,
    write_audio,
    write_file,
)
from penstock.formats.wire import (
    SPOKEN_PARTS,
    Json,
    Value,
    expect_array,
    expect_object,
    expect_role,
    expect_text,
    is_array,
    is_empty,
    is_object,
    maybe_text,
    named,
    notes_of,
    read_each,
    refuse_without_content,
    type_error,
    unknown_keys,
    with_notes,
    with_unknown_keys,
    without_empty,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.values.messages import Part, Role, ToolState


__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "openai-responses"
LEAVES_OUT = frozenset({"source", "data", "step-start"})
"""The kinds of parts for which the format has no place."""

_TEXTS = ("input_text", "output_text", "text", "refusal")
_IMAGE = frozenset({"type", "image_url"})
_FILE = FILE_KEYS | {"type"}
_AUDIO = frozenset({"type", "input_audio"})


def usual_text(role: str) -> str:
    """Return the type of a text in a message of that role."""
    return "output_text" if role == "assistant" else "input_text"


def read_content(value: Value, role: str, place: str) -> list[Part]:
    """Return the parts of an item's content: a str, a list of content parts, or null.

    Raises:
        MessageError: it is something else, or a part is malformed.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    items = expect_array(value, place, "a str or a list of content parts")
    return [_read_part(item, role, f"{place}[{index}]") for index, item in enumerate(items)]


def _read_part(value: Value, role: str, place: str) -> Part:
    item = expect_object(value, place, "an object with a type")
    kind = expect_text(item, "type", place)
    if kind in _TEXTS:
        key = "refusal" if kind == "refusal" else "text"
        notes: Json = {"type": kind if kind != usual_text(role) else None}
        notes["extra"] = unknown_keys(item, {"type", key}, {"type", key})
        return TextPart(expect_text(item, key, place), with_notes(FORMAT, notes))
    reader = _MEDIA.get(kind)
    return UnknownPart(item) if reader is None else reader(item, place)


def _read_image(item: Json, place: str) -> Part:
    file_id = maybe_text(item, "file_id", place)
    if file_id and not item.get("image_url"):
        notes: Json = {"type": "image", "extra": unknown_keys(item, _IMAGE | {"file_id"}, {"type", "file_id"})}
        return FilePart(file_id=file_id, metadata=with_notes(FORMAT, notes))
    rest = unknown_keys(item, _IMAGE, {"type"})
    return read_image(maybe_text(item, "image_url", place) or None, with_notes(FORMAT, {"extra": rest}))


def _read_file(item: Json, place: str) -> Part:
    return read_file(item, place, FORMAT, {"extra": unknown_keys(item, _FILE, {"type"})})


def _read_audio(item: Json, place: str) -> Part:
    return read_audio(item.get("input_audio"), f"{place}.input_audio", FORMAT, unknown_keys(item, _AUDIO, _AUDIO))


_MEDIA: dict[str, Callable[[Json, str], Part]] = {
    "input_image": _read_image,
    "input_file": _read_file,
    "input_audio": _read_audio,
}


def write_part(part: Part, role: str) -> Json:
    """Return the content part for a text, an image, a sound, a file or an unknown part."""
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        kind = notes["type"] if notes.get("type") in _TEXTS else usual_text(role)
        key = "refusal" if kind == "refusal" else "text"
        return with_unknown_keys({"type": kind, key: part.text}, notes, {"type", key})
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        return _write_media(part, notes)
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def _write_media(part: Media, notes: Json) -> Json:
    shown = shown_as(part, notes)
    if isinstance(part, FilePart) and notes.get("type") == "image" and part.file_id is not None:
        return with_unknown_keys({"type": "input_image", "file_id": part.file_id}, notes, _IMAGE | {"file_id"})
    if shown == "file" and isinstance(part, FilePart):
        return with_unknown_keys({"type": "input_file", **write_file(part, notes, "file_url")}, notes, _FILE)
    if shown == "audio":
        inner = with_unknown_keys(write_audio(part, notes), notes, AUDIO_KEYS, "inner")
        return with_unknown_keys({"type": "input_audio", "input_audio": inner}, notes, _AUDIO)
    url = image_url(part)
    given = {} if url is None else {"image_url": url, **detail_elsewhere(part, FORMAT)}
    return with_unknown_keys({"type": "input_image", **given}, notes, _IMAGE)


_CALL_KEYS = frozenset({"type", "call_id", "name", "arguments", "id"})
_CUSTOM_KEYS = frozenset({"type", "call_id", "name", "input", "id"})
_OUTPUT_KEYS = frozenset({"type", "call_id", "output", "id"})
_REASONING_KEYS = frozenset({"type", "summary", "content", "id"})
_REASONING_FIELDS = {"summary": "summary_text", "content": "reasoning_text"}


def read_call(item: Json, place: str) -> Message:
    """Return the assistant's message for a ``function_call`` or ``custom_tool_call``.

    Raises:
        MessageError: it is malformed.
    """
    custom = item["type"] == "custom_tool_call"
    call_id, name = expect_text(item, "call_id", place), expect_text(item, "name", place)
    notes: Json = {"id": item.get("id") or None}
    if custom:
        arguments: Value = expect_text(item, "input", place)
        notes["extra"] = unknown_keys(item, _CUSTOM_KEYS, _CUSTOM_KEYS - {"id"})
        notes["custom"] = True
    else:
        arguments, style = read_arguments(item.get("arguments", ""))
        notes["arguments"] = style if "arguments" in item else "absent"
        notes["extra"] = unknown_keys(item, _CALL_KEYS, _CALL_KEYS - {"id"})
    part = ToolPart(call_id, name, arguments, metadata=with_notes(FORMAT, notes))
    return Message("assistant", (part,), id=maybe_text(item, "id", place) or "")


def write_call(part: ToolPart) -> Json:
    """Return the item of a call."""
    notes = notes_of(part, FORMAT)
    body: Json = {"call_id": part.call_id, "name": part.name, **item_id(notes)}
    if notes.get("custom") and isinstance(part.arguments, str):
        return with_unknown_keys({**body, "type": "custom_tool_call", "input": part.arguments}, notes, _CUSTOM_KEYS)
    style = notes.get("arguments")
    if style != "absent" or part.arguments != {}:
        body["arguments"] = write_arguments(part.arguments, style)
    return with_unknown_keys({**body, "type": "function_call"}, notes, _CALL_KEYS)


def item_id(notes: Json) -> Json:
    """Return the id with which an item was received. The provider would refuse ids from elsewhere."""
    return {"id": notes["id"]} if isinstance(notes.get("id"), str) else {}


def read_output(item: Json, place: str) -> Message:
    """Return the tool's message for a ``function_call_output`` or ``custom_tool_call_output``.

    Raises:
        MessageError: it is malformed.
    """
    output = item.get("output")
    if output is not None and not isinstance(output, str) and not is_array(output):
        raise type_error(output, f"{place}.output", "a str or a list of content parts")
    notes: Json = {
        "custom": True if item["type"] == "custom_tool_call_output" else None,
        "id": item.get("id") or None,
        "output": "parts" if is_array(output) else None if "output" in item else "absent",
        "extra": unknown_keys(item, _OUTPUT_KEYS, {"type", "call_id"} if output is None else _OUTPUT_KEYS - {"id"}),
    }
    metadata = with_notes(FORMAT, {"result": without_empty(notes)})
    part = ToolPart(expect_text(item, "call_id", place), "", state="result", result=output, metadata=metadata)
    return Message("tool", (part,), id=maybe_text(item, "id", place) or "")


def write_output(part: ToolPart) -> Json:
    """Return the item of a call's output."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    custom = notes.get("custom") or own.get("custom")
    kind = "custom_tool_call_output" if custom else "function_call_output"
    body: Json = {"type": kind, "call_id": part.call_id, **item_id(notes)}
    if notes.get("output") == "parts" and is_array(part.result):
        body["output"] = thaw(part.result)
    elif part.state == "error" or part.result is not None or not _is_open(notes):
        body["output"] = result_text(part)
    return with_unknown_keys(body, notes, _OUTPUT_KEYS)


def _is_open(notes: Json) -> bool:
    """Return whether the item's output was null or missing."""
    extra = notes.get("extra")
    return notes.get("output") == "absent" or (is_object(extra) and "output" in extra)


# Tools that the provider has built in


@dataclass(frozen=True)
class BuiltIn:
    """How an item of a tool that the provider has built in is laid out.

    Attributes:
        asked: the keys of what the tool is asked, which become the arguments of its part.
        result: the key of what it gave; empty for a call that is answered by an item of its own.
        is_output: whether the item is such an answer.
    """

    asked: tuple[str, ...] = ()
    result: str = ""
    is_output: bool = False

    @property
    def keys(self) -> frozenset[str]:
        """The keys that have a meaning in the item."""
        return frozenset({"type", "id", "call_id", *self.asked, *([self.result] if self.result else [])})


BUILT_IN: dict[str, BuiltIn] = {
    "web_search_call": BuiltIn(("action",), "results"),
    "file_search_call": BuiltIn(("queries",), "results"),
    "code_interpreter_call": BuiltIn(("code", "container_id"), "outputs"),
    "mcp_call": BuiltIn(("arguments",), "output"),
    "mcp_list_tools": BuiltIn(("server_label",), "tools"),
    "mcp_approval_request": BuiltIn(("arguments",)),
    "mcp_approval_response": BuiltIn((), "reason", is_output=True),
    "computer_call": BuiltIn(("action", "actions", "pending_safety_checks")),
    "computer_call_output": BuiltIn((), "output", is_output=True),
    "local_shell_call": BuiltIn(("action",)),
    "local_shell_call_output": BuiltIn((), "output", is_output=True),
    "shell_call": BuiltIn(("action", "environment")),
    "shell_call_output": BuiltIn((), "output", is_output=True),
    "apply_patch_call": BuiltIn(("operation",)),
    "apply_patch_call_output": BuiltIn((), "output", is_output=True),
    "tool_search_call": BuiltIn(("arguments",)),
    "tool_search_output": BuiltIn((), "tools", is_output=True),
    "program": BuiltIn(("code",)),
    "program_output": BuiltIn((), "result", is_output=True),
}
"""The layout of each item, by its type."""

_NAMED = ("mcp_call", "mcp_approval_request")
"""The items that name their tool; their arguments are JSON text, as those of a function."""

_CALL_OF = {"mcp_approval_response": "approval_request_id"}
"""The key of the call that an item answers, where it is not ``call_id``."""

_UNDER_WAY = frozenset({"in_progress", "searching", "interpreting", "calling", "generating"})


def read_built_in(item: Json, place: str) -> Message:
    """Return the message of an item of a tool that the provider has built in.

    Raises:
        MessageError: it is malformed.
    """
    kind = item["type"]
    layout = BUILT_IN[kind]
    item_id, call_id = maybe_text(item, "id", place), maybe_text(item, _CALL_OF.get(kind, "call_id"), place)
    name, style = kind.removesuffix("_output").removesuffix("_response").removesuffix("_call"), None
    arguments: Value = {key: item[key] for key in layout.asked if item.get(key) is not None}
    if kind in _NAMED:
        name = expect_text(item, "name", place)
        arguments, style = read_arguments(item.get("arguments", ""))
    state, result, error = _read_given(item, layout)
    given = {
        "type": kind,
        "id": item_id,
        _CALL_OF.get(kind, "call_id"): call_id,
        layout.result: result,
        "error": error,
        **({"name": name, "arguments": True} if kind in _NAMED else arguments),
    }
    notes: Json = {
        "item": kind,
        "id": item_id or None,
        "call_id": call_id or None,
        "arguments": "absent" if kind in _NAMED and "arguments" not in item else style,
        "extra": {key: value for key, value in item.items() if given.get(key) in (None, "")},
    }
    own = with_notes(FORMAT, {"result": without_empty(notes)} if layout.is_output else notes)
    part = ToolPart(call_id or item_id or "", name, arguments, state, result, error, own)
    return Message("tool" if layout.is_output else "assistant", (part,), id=item_id or "")


def _read_given(item: Json, layout: BuiltIn) -> tuple[ToolState, Value, str | None]:
    """Return state, result and error of an item. An error that is no text stays in the notes."""
    result, error = item.get(layout.result) if layout.result else None, item.get("error")
    if not is_empty(error) and not layout.is_output:
        return "error", result, error if isinstance(error, str) else None
    status = item.get("status")
    is_done = layout.is_output or (bool(layout.result) and not (isinstance(status, str) and status in _UNDER_WAY))
    return "result" if is_done or result is not None else "call", result, None


def write_built_in(part: ToolPart, notes: Json) -> Json:
    """Return the item that was noted on a part."""
    kind = notes["item"]
    layout = BUILT_IN[kind]
    body: Json = {"type": kind, **item_id(notes)}
    if isinstance(notes.get("call_id"), str):
        body[_CALL_OF.get(kind, "call_id")] = part.call_id
    arguments = thaw(part.arguments)
    if kind in _NAMED:
        body["name"] = part.name
        if notes.get("arguments") != "absent" or arguments != {}:
            body["arguments"] = write_arguments(part.arguments, notes.get("arguments"))
    elif is_object(arguments):
        body |= {key: arguments[key] for key in layout.asked if key in arguments}
    if part.result is not None and layout.result:
        body[layout.result] = thaw(part.result)
    if part.error is not None and not layout.is_output:
        body["error"] = part.error
    return with_unknown_keys(body, notes, layout.keys)


def built_in(part: Part) -> Json | None:
    """Return the notes on a part that was an item of a tool that the provider has built in; None for others."""
    own = notes_of(part, FORMAT) if isinstance(part, ToolPart) else {}
    for notes in (own, own.get("result")):
        if is_object(notes) and isinstance(notes.get("item"), str) and notes["item"] in BUILT_IN:
            return notes
    return None


def read_reasoning(item: Json, place: str) -> Message:
    """Return the assistant's message for a ``reasoning`` item; encrypted content stays in its metadata.

    Raises:
        MessageError: it is malformed.
    """
    parts: list[Part] = []
    for field, kind in _REASONING_FIELDS.items():
        for index, entry in enumerate(expect_array(item.get(field) or [], f"{place}.{field}")):
            parts.append(_read_reasoning_entry(entry, field, kind, f"{place}.{field}[{index}]"))
    notes: Json = {
        "item": "reasoning",
        "id": item.get("id") or None,
        "summary": None if "summary" in item else "absent",
        "extra": unknown_keys(item, _REASONING_KEYS, {"type"}),
    }
    return Message(
        "assistant", tuple(parts), id=maybe_text(item, "id", place) or "", metadata=with_notes(FORMAT, notes)
    )


def _read_reasoning_entry(value: Value, field: str, kind: str, place: str) -> Part:
    entry = expect_object(value, place)
    notes: Json = {"reasoning": field}
    if entry.get("type") != kind:
        return UnknownPart(entry, with_notes(FORMAT, notes))
    notes["extra"] = unknown_keys(entry, {"type", "text"}, {"type", "text"})
    return ReasoningPart(expect_text(entry, "text", place), with_notes(FORMAT, notes))


def write_reasoning(parts: Sequence[Part], notes: Json) -> Json:
    """Return the ``reasoning`` item with those parts."""
    body: Json = {"type": "reasoning", **item_id(notes)}
    for field, kind in _REASONING_FIELDS.items():
        entries = [_write_reasoning_entry(part, kind) for part in parts if reasoning_field(part) == field]
        if entries:
            body[field] = entries
    extra = notes.get("extra")
    said = notes.get("summary") == "absent" or (is_object(extra) and "summary" in extra)
    if "summary" not in body and not said:
        body["summary"] = []
    return with_unknown_keys(body, notes, _REASONING_KEYS)


def _write_reasoning_entry(part: Part, kind: str) -> Json:
    if isinstance(part, ReasoningPart):
        return with_unknown_keys({"type": kind, "text": part.text}, notes_of(part, FORMAT), {"type", "text"})
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


def reasoning_field(part: Part) -> str:
    """Return the field of a ``reasoning`` item for a part; empty if there is none."""
    field = notes_of(part, FORMAT).get("reasoning")
    if field in _REASONING_FIELDS and isinstance(part, (ReasoningPart, UnknownPart)):
        return str(field)
    return "summary" if isinstance(part, ReasoningPart) else ""


_LEFT_OUT = (SourcePart, DataPart, StepStartPart)
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_KEYS = frozenset({"type", "role", "id", "content"})

_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_audio", "text", "refusal"})
"""The types of parts of a message, which are no items."""

_READERS: dict[str, Callable[[Json, str], Message]] = {
    "function_call": read_call,
    "custom_tool_call": read_call,
    "function_call_output": read_output,
    "custom_tool_call_output": read_output,
    "reasoning": read_reasoning,
    **dict.fromkeys(BUILT_IN, read_built_in),
}


def read(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
    """Return the messages of a responses request's input, or of an answer's output.

    Raises:
        MessageError: one is malformed; its place is named.
    """
    return named(read_each(items, place, start, lambda item, where: [_read_item(item, where)]))


def _read_item(value: Value, place: str) -> Message:
    item = expect_object(value, place, "a responses item")
    if item.get("type", "message") == "message":
        if "role" not in item and "type" not in item:
            raise MessageError(place, "expected a type or a role; neither is there")
        return _read_message(item, place)
    kind = expect_text(item, "type", place)
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(item, place)
    if kind in _PARTS:
        raise MessageError(f"{place}.type", "expected an item, not a part of one; put it into the content of a message")
    role: Role = "tool" if kind.endswith(("_output", "_response")) else "assistant"
    given = item.get("id")
    part = UnknownPart(item, with_notes(FORMAT, {"item": True}))
    return Message(role, (part,), id=given if isinstance(given, str) else "")


def _read_message(item: Json, place: str) -> Message:
    role = _ROLES[expect_role(item, place, _ROLES)]
    given = item.get("content")
    content = read_content(given, role, f"{place}.content")
    notes: Json = {
        "type": None if "type" in item else "absent",
        "role": "developer" if item["role"] == "developer" else None,
        "id": item.get("id") or None,
        "content": "absent" if "content" not in item else "parts" if content and is_array(given) else None,
        "extra": unknown_keys(item, _KEYS, {"role", "type"}),
    }
    refuse_without_content(item, place, content, notes["extra"])
    return Message(role, tuple(content), id=maybe_text(item, "id", place) or "", metadata=with_notes(FORMAT, notes))


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a responses request's input.

    Raises:
        MessageError: a tool's arguments or result are not JSON values.
    """
    return [item for message in messages for item in _write_message(message)]


def _write_message(message: Message) -> list[Json]:
    notes = notes_of(message, FORMAT)
    role = system_role(message) if message.role == "system" else message.role
    if not any(not isinstance(part, _LEFT_OUT) for part in message.parts):
        if notes.get("item") == "reasoning":
            return [write_reasoning((), notes)]
        return [] if message.parts and not notes else [_write_content(role, (), notes)]
    made: list[Json] = []
    whole = with_answers(message.parts, FORMAT)
    for step in steps(whole, lambda part: isinstance(part, (*SPOKEN_PARTS, UnknownPart))):
        parts = [part for part in step if not isinstance(part, _LEFT_OUT)]
        for kind, group in groupby(parts, _kind):
            # The notes are about one item of the message: the first of its kind.
            is_noted = kind == ("reasoning" if notes.get("item") == "reasoning" else "message")
            made += _write_group(role, kind, list(group), notes if is_noted else {})
            notes = {} if is_noted else notes
        made += [write_output(part) for part in parts if isinstance(part, ToolPart) and _has_output(part)]
    return made


def _has_output(part: Part) -> bool:
    """Return whether a part's result is an item of its own."""
    return is_finished(part) and built_in(part) is None


def _kind(part: Part) -> str:
    """Return the kind of item in which a part stands."""
    if isinstance(part, ToolPart):
        return "call" if built_in(part) is None else "built-in"
    if reasoning_field(part):
        return "reasoning"
    return "item" if isinstance(part, UnknownPart) and notes_of(part, FORMAT).get("item") else "message"


def _write_group(role: str, kind: str, parts: Sequence[Part], notes: Json) -> list[Json]:
    if kind == "call":
        return [write_call(part) for part in parts if isinstance(part, ToolPart) and role != "tool"]
    if kind == "built-in":
        return [write_built_in(part, built_in(part) or {}) for part in parts if isinstance(part, ToolPart)]
    if kind == "reasoning":
        return [write_reasoning(parts, notes)]
    if kind == "item":
        return [thaw(part.raw) for part in parts if isinstance(part, UnknownPart)]
    return [_write_content("assistant" if role == "tool" else role, parts, notes)]


def _write_content(role: str, parts: Sequence[Part], notes: Json) -> Json:
    body: Json = {"role": role}
    if notes.get("type") != "absent":
        body["type"] = "message"
    body.update(item_id(notes))
    items: list[Value] = [write_part(part, role) for part in parts]
    extra = notes.get("extra")
    said = notes.get("content") == "absent" or (is_object(extra) and "content" in extra)
    plain = (
        len(items) == 1
        and is_object(items[0])
        and items[0].keys() == {"type", "text"}
        and notes.get("content") != "parts"
    )
    if items or not said:
        body["content"] = "" if not items else items[0]["text"] if plain else items
    return with_unknown_keys(body, notes, _KEYS)
