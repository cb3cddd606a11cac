"""Read and write items of OpenAI's responses.

Each item becomes one message; none are merged. A tool that the provider has built in becomes a tool part with what it
was asked and what it gave, and is written as the same item again. Items of unknown types pass through as `UnknownPart`.
When an assistant message is written, it becomes as many items as it needs, with the outputs of each step after its
calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.formats import blocks, parts as shared, wire
from penstock.formats.blocks import WireBlock, was_empty, with_unknown_keys
from penstock.formats.shape import notes_of, result_notes, with_result_notes
from penstock.formats.wire import with_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.values.messages import Part, Role, ToolState
    from penstock.formats.blocks import Reader
    from penstock.formats.parts import Media
    from penstock.formats.shape import WireShape
    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "TERMS", "read", "write"]

FORMAT = "openai-responses"
LEAVES_OUT = frozenset({"source", "data", "step-start"})


# Content

_TEXTS = {
    kind: WireBlock(FORMAT, TextPart, {"refusal" if kind == "refusal" else "text": "text"}, head={"type": kind})
    for kind in ("input_text", "output_text", "text", "refusal")
}
_IMAGE = frozenset({"type", "image_url"})
_FILE = shared.FILE_KEYS | {"type"}
_AUDIO = frozenset({"type", "input_audio"})


def _usual_text(role: str) -> str:
    """Return the type of a text in a message of that role."""
    return "output_text" if role == "assistant" else "input_text"


def _read_part(value: Value, place: str, role: str) -> Part:
    return blocks.read_block(value, place, _READERS[_usual_text(role)])


def _read_image(item: Json, place: str) -> Part:
    if wire.maybe_text(item, "file_id", place) and not item.get("image_url"):
        notes: Json = {"type": "image", "extra": wire.unknown_keys(item, _IMAGE | {"file_id"}, {"type", "file_id"})}
        return FilePart(file_id=item["file_id"], metadata=with_notes(FORMAT, notes))
    rest = wire.unknown_keys(item, _IMAGE, {"type"})
    return shared.read_image(wire.maybe_text(item, "image_url", place) or None, with_notes(FORMAT, {"extra": rest}))


def _read_file(item: Json, place: str) -> Part:
    return shared.read_file(item, place, FORMAT, {"extra": wire.unknown_keys(item, _FILE, {"type"})})


def _read_audio(item: Json, place: str) -> Part:
    extra = wire.unknown_keys(item, _AUDIO, _AUDIO)
    return shared.read_audio(item.get("input_audio"), f"{place}.input_audio", FORMAT, extra)


def _readers(usual: str) -> dict[str, Reader]:
    """Return the readers of content parts; the type of a text is noted if it is not the usual one."""
    noted = {kind: {} if kind == usual else {"type": kind} for kind in _TEXTS}
    texts = {kind: replace(block, notes=noted[kind]).read for kind, block in _TEXTS.items()}
    return {**texts, "input_image": _read_image, "input_file": _read_file, "input_audio": _read_audio}


_READERS = {usual: _readers(usual) for usual in ("input_text", "output_text")}


def _write_part(part: Part, role: str) -> Json:
    notes = notes_of(part, FORMAT)
    if isinstance(part, TextPart):
        return _TEXTS.get(notes.get("type", ""), _TEXTS[_usual_text(role)]).write(part, notes)
    if isinstance(part, shared.MEDIA):
        return _write_media(part, notes)
    return blocks.raw_of(part)


def _write_media(part: Media, notes: WireShape) -> Json:
    shown = shared.shown_as(part, notes)
    if isinstance(part, FilePart) and notes.get("type") == "image" and part.file_id is not None:
        return with_unknown_keys({"type": "input_image", "file_id": part.file_id}, notes, _IMAGE | {"file_id"})
    if shown == "file" and isinstance(part, FilePart):
        return with_unknown_keys({"type": "input_file", **shared.write_file(part, notes, "file_url")}, notes, _FILE)
    if shown == "audio":
        return with_unknown_keys({"type": "input_audio", "input_audio": shared.write_audio(part, notes)}, notes, _AUDIO)
    url = shared.as_url(part, shared.USUAL_TYPE[ImagePart])
    given = {} if url is None else {"image_url": url, **shared.detail_elsewhere(part, FORMAT)}
    return with_unknown_keys({"type": "input_image", **given}, notes, _IMAGE)


# Calls and their outputs

_CALL_KEYS = frozenset({"type", "call_id", "name", "arguments", "id"})
_CUSTOM_KEYS = frozenset({"type", "call_id", "name", "input", "id"})
_OUTPUT_KEYS = frozenset({"type", "call_id", "output", "id"})


def _read_call(item: Json, place: str) -> Message:
    call_id, name = wire.expect_text(item, "call_id", place), wire.expect_text(item, "name", place)
    notes: Json = {"id": item.get("id") or None}
    known = _CALL_KEYS
    if item["type"] == "custom_tool_call":
        arguments: Value = wire.expect_text(item, "input", place)
        known, notes["custom"] = _CUSTOM_KEYS, True
    else:
        arguments, notes["arguments"] = shared.read_call_arguments(item)
    notes["extra"] = wire.unknown_keys(item, known, known - {"id"})
    part = ToolPart(call_id, name, arguments, metadata=with_notes(FORMAT, notes))
    return Message("assistant", (part,), id=wire.maybe_text(item, "id", place) or "")


def _write_call(part: ToolPart) -> Json:
    notes = notes_of(part, FORMAT)
    body: Json = {"call_id": part.call_id, "name": part.name, **blocks.own_id(notes)}
    if notes.get("custom") and isinstance(part.arguments, str):
        return with_unknown_keys({**body, "type": "custom_tool_call", "input": part.arguments}, notes, _CUSTOM_KEYS)
    body |= {"type": "function_call", **shared.write_call_arguments(part, notes)}
    return with_unknown_keys(body, notes, _CALL_KEYS)


def _read_output(item: Json, place: str) -> Message:
    output = item.get("output")
    if output is not None and not isinstance(output, str) and not wire.is_array(output):
        raise wire.type_error(output, f"{place}.output", "a str or a list of content parts")
    handled = {"type", "call_id"} if output is None else _OUTPUT_KEYS - {"id"}
    notes: Json = {
        "custom": True if item["type"] == "custom_tool_call_output" else None,
        "id": item.get("id") or None,
        "output": "parts" if wire.is_array(output) else None if "output" in item else "absent",
        "extra": wire.unknown_keys(item, _OUTPUT_KEYS, handled),
    }
    call_id, metadata = wire.expect_text(item, "call_id", place), with_result_notes(FORMAT, notes)
    part = ToolPart(call_id, "", state="result", result=output, metadata=metadata)
    return Message("tool", (part,), id=wire.maybe_text(item, "id", place) or "")


def _write_output(part: ToolPart) -> Json:
    notes = result_notes(part, FORMAT)
    custom = notes.get("custom") or notes_of(part, FORMAT).get("custom")
    kind = "custom_tool_call_output" if custom else "function_call_output"
    body: Json = {"type": kind, "call_id": part.call_id, **blocks.own_id(notes)}
    return with_unknown_keys({**body, **shared.write_output(part, notes, "output")}, notes, _OUTPUT_KEYS)


# Tools that the provider has built in


@dataclass(frozen=True)
class BuiltIn:
    """How an item of a tool that the provider has built in is laid out.

    Attributes:
        asked: the keys of what the tool is asked, which become the arguments of its part.
        result: the key of what it gave; empty for a call that is answered by an item of its own.
        is_output: whether the item is such an answer.
        is_named: whether the item names its tool; its arguments are JSON text, as those of a function.
        call: the key of the id of the call.
    """

    asked: tuple[str, ...] = ()
    result: str = ""
    is_output: bool = False
    is_named: bool = False
    call: str = "call_id"

    @property
    def keys(self) -> frozenset[str]:
        """The keys that have a meaning in the item."""
        return frozenset({"type", "id", "call_id", *self.asked, *([self.result] if self.result else [])})


BUILT_IN: dict[str, BuiltIn] = {
    "web_search_call": BuiltIn(("action",), "results"),
    "file_search_call": BuiltIn(("queries",), "results"),
    "code_interpreter_call": BuiltIn(("code", "container_id"), "outputs"),
    "mcp_call": BuiltIn(("arguments",), "output", is_named=True),
    "mcp_list_tools": BuiltIn(("server_label",), "tools"),
    "mcp_approval_request": BuiltIn(("arguments",), is_named=True),
    "mcp_approval_response": BuiltIn((), "reason", is_output=True, call="approval_request_id"),
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

TERMS = tuple(BUILT_IN)
"""The types of items that are noted."""

_UNDER_WAY = frozenset({"in_progress", "searching", "interpreting", "calling", "generating"})


def _read_built_in(item: Json, place: str) -> Message:
    kind = item["type"]
    layout = BUILT_IN[kind]
    item_id, call_id = wire.maybe_text(item, "id", place), wire.maybe_text(item, layout.call, place)
    name, style = kind.removesuffix("_output").removesuffix("_response").removesuffix("_call"), None
    arguments: Value = {key: item[key] for key in layout.asked if item.get(key) is not None}
    read = {**arguments}
    if layout.is_named:
        name = wire.expect_text(item, "name", place)
        arguments, style = shared.read_call_arguments(item)
        read = {"name": name, "arguments": True}
    state, result, error = _read_given(item, layout)
    read |= {"type": kind, "id": item_id, layout.call: call_id, layout.result: result, "error": error}
    notes: Json = {
        "item": kind,
        "id": item_id or None,
        "call_id": call_id or None,
        "arguments": style,
        "extra": {key: value for key, value in item.items() if read.get(key) in (None, "")},
    }
    own = (with_result_notes if layout.is_output else with_notes)(FORMAT, notes)
    part = ToolPart(call_id or item_id or "", name, arguments, state, result, error, own)
    return Message("tool" if layout.is_output else "assistant", (part,), id=item_id or "")


def _read_given(item: Json, layout: BuiltIn) -> tuple[ToolState, Value, str | None]:
    """Return state, result and error of an item. An error that is no text stays in the notes."""
    result, error = item.get(layout.result) if layout.result else None, item.get("error")
    if not wire.is_empty(error) and not layout.is_output:
        return "error", result, error if isinstance(error, str) else None
    status = item.get("status")
    is_done = layout.is_output or (bool(layout.result) and not (isinstance(status, str) and status in _UNDER_WAY))
    return "result" if is_done or result is not None else "call", result, None


def _write_built_in(part: ToolPart, kind: str, notes: WireShape) -> Json:
    layout = BUILT_IN[kind]
    body: Json = {"type": kind, **blocks.own_id(notes)}
    if "call_id" in notes:
        body[layout.call] = part.call_id
    arguments = thaw(part.arguments)
    if layout.is_named:
        body |= {"name": part.name, **shared.write_call_arguments(part, notes)}
    elif wire.is_object(arguments):
        body |= {key: arguments[key] for key in layout.asked if key in arguments}
    if part.result is not None and layout.result:
        body[layout.result] = thaw(part.result)
    if part.error is not None and not layout.is_output:
        body["error"] = part.error
    return with_unknown_keys(body, notes, layout.keys)


def _built_in(part: Part) -> tuple[str, WireShape] | None:
    """Return the type of item of a tool that the provider has built in, and its notes; None for other parts."""
    for notes in (notes_of(part, FORMAT), result_notes(part, FORMAT)) if isinstance(part, ToolPart) else ():
        kind = notes.get("item")
        if isinstance(kind, str) and kind in BUILT_IN:
            return kind, notes
    return None


# Reasoning

_REASONING_KEYS = frozenset({"type", "summary", "content", "id"})
_REASONING_FIELDS = {
    field: WireBlock(FORMAT, ReasoningPart, {"text": "text"}, head={"type": kind}, notes={"reasoning": field})
    for field, kind in {"summary": "summary_text", "content": "reasoning_text"}.items()
}


def _read_reasoning(item: Json, place: str) -> Message:
    """Return the assistant's message for a ``reasoning`` item; encrypted content stays in its metadata."""
    parts = [
        part
        for field in _REASONING_FIELDS
        for part in blocks.read_list(item.get(field) or [], f"{place}.{field}", partial(_read_entry, field=field))
    ]
    notes: Json = {
        "item": "reasoning",
        "id": item.get("id") or None,
        "summary": None if "summary" in item else "absent",
        "extra": wire.unknown_keys(item, _REASONING_KEYS, {"type"}),
    }
    message_id = wire.maybe_text(item, "id", place) or ""
    return Message("assistant", tuple(parts), id=message_id, metadata=with_notes(FORMAT, notes))


def _read_entry(value: Value, place: str, field: str) -> Part:
    entry, block = wire.expect_object(value, place), _REASONING_FIELDS[field]
    if entry.get("type") != block.head["type"]:
        return UnknownPart(entry, with_notes(FORMAT, {"reasoning": field}))
    return block.read(entry, place)


def _write_reasoning(parts: Sequence[Part], notes: WireShape) -> Json:
    body: Json = {"type": "reasoning", **blocks.own_id(notes)}
    for field, block in _REASONING_FIELDS.items():
        entries = [
            block.write(part, notes_of(part, FORMAT)) if isinstance(part, ReasoningPart) else blocks.raw_of(part)
            for part in parts
            if _reasoning_field(part) == field
        ]
        if entries:
            body[field] = entries
    if "summary" not in body and not was_empty(notes, "summary"):
        body["summary"] = []
    return with_unknown_keys(body, notes, _REASONING_KEYS)


def _reasoning_field(part: Part) -> str:
    """Return the field of a ``reasoning`` item for a part; empty if there is none."""
    field = notes_of(part, FORMAT).get("reasoning", "")
    if field in _REASONING_FIELDS and isinstance(part, (ReasoningPart, UnknownPart)):
        return field
    return "summary" if isinstance(part, ReasoningPart) else ""


# Messages

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_KEYS = frozenset({"type", "role", "id", "content"})

_ITEMS: dict[str, Callable[[Json, str], Message]] = {
    "function_call": _read_call,
    "custom_tool_call": _read_call,
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    "reasoning": _read_reasoning,
    **dict.fromkeys(BUILT_IN, _read_built_in),
}


def _read_item(value: Value, place: str) -> Iterable[Message]:
    item = wire.expect_object(value, place, "a responses item")
    if item.get("type", "message") == "message":
        if "role" not in item and "type" not in item:
            raise MessageError(place, "expected a type or a role; neither is there")
        return [_read_message(item, place)]
    kind = wire.expect_text(item, "type", place)
    reader = _ITEMS.get(kind)
    if reader is not None:
        return [reader(item, place)]
    if kind in _READERS["input_text"]:
        raise MessageError(f"{place}.type", "expected an item, not a part of one; put it into the content of a message")
    role: Role = "tool" if kind.endswith(("_output", "_response")) else "assistant"
    given = item.get("id")
    part = UnknownPart(item, with_notes(FORMAT, {"item": True}))
    return [Message(role, (part,), id=given if isinstance(given, str) else "")]


read = wire.reader(_read_item)


def _read_message(item: Json, place: str) -> Message:
    role = _ROLES[wire.expect_role(item, place, _ROLES)]
    content = blocks.read_content(item.get("content"), f"{place}.content", partial(_read_part, role=role))
    notes: Json = {
        "type": None if "type" in item else "absent",
        "role": "developer" if item["role"] == "developer" else None,
        "id": item.get("id") or None,
        "content": blocks.content_notes(item, content),
        "extra": wire.unknown_keys(item, _KEYS, {"role", "type"}),
    }
    wire.refuse_without_content(item, place, content, notes["extra"])
    message_id = wire.maybe_text(item, "id", place) or ""
    return Message(role, tuple(content), id=message_id, metadata=with_notes(FORMAT, notes))


def _write_message(message: Message) -> list[Json]:
    notes: WireShape = notes_of(message, FORMAT)
    role = shared.system_role(message) if message.role == "system" else message.role
    if all(part.type in LEAVES_OUT for part in message.parts):
        if notes.get("item") == "reasoning":
            return [_write_reasoning((), notes)]
        return [] if message.parts and not notes else [_write_content(role, (), notes)]
    made: list[Json] = []
    for step in blocks.steps(blocks.with_answers(message.parts, FORMAT)):
        parts = [part for part in step if part.type not in LEAVES_OUT]
        for kind, group in groupby(parts, _kind):
            # The notes are about one item of the message: the first of its kind.
            is_noted = kind == ("reasoning" if notes.get("item") == "reasoning" else "message")
            made += _write_group(role, kind, list(group), notes if is_noted else {})
            notes = {} if is_noted else notes
        made += [_write_output(part) for part in blocks.tools(parts) if _built_in(part) is None]
    return made


write = wire.writer(_write_message)


def _kind(part: Part) -> str:
    """Return the kind of item in which a part stands."""
    if isinstance(part, ToolPart):
        return "call" if _built_in(part) is None else "built-in"
    if _reasoning_field(part):
        return "reasoning"
    return "item" if isinstance(part, UnknownPart) and notes_of(part, FORMAT).get("item") else "message"


def _write_group(role: str, kind: str, parts: Sequence[Part], notes: WireShape) -> list[Json]:
    if kind == "call":
        return [_write_call(part) for part in parts if isinstance(part, ToolPart) and role != "tool"]
    if kind == "built-in":
        found = ((part, _built_in(part)) for part in parts)
        return [_write_built_in(part, *own) for part, own in found if isinstance(part, ToolPart) and own is not None]
    if kind == "reasoning":
        return [_write_reasoning(parts, notes)]
    if kind == "item":
        return [blocks.raw_of(part) for part in parts]
    return [_write_content("assistant" if role == "tool" else role, parts, notes)]


def _write_content(role: str, parts: Sequence[Part], notes: WireShape) -> Json:
    kind = {} if notes.get("type") == "absent" else {"type": "message"}
    content = blocks.write_content([_write_part(part, role) for part in parts], notes, texts=_TEXTS)
    return with_unknown_keys({"role": role, **kind, **blocks.own_id(notes), **content}, notes, _KEYS)
