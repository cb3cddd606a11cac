"""Tool calls and results in AI-SDK model messages; it knows no other part.

A result says what it is: text, JSON, an error of either kind, a list of content. Before version 5 it was a bare
``result`` with ``isError``, and a call's ``input`` was called ``args``. What a result said is the part's result or
error, so that guards read it; how it said it is noted under ``result``, apart from what is noted about the call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.formats._notes import foreign, kept, notes_of, restored, telling, unknown
from penstock.engine.formats.ai_sdk_notes import MODEL as FORMAT, OPTIONS, read_metadata, write_metadata
from penstock.engine.formats.tool_parts import as_json
from penstock.engine.formats.wire import Json, Value, expect_text, is_array, is_object, maybe_text
from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from penstock.engine.values.messages import ToolState

CALL = "tool-call"
RESULTS = ("tool-result", "tool-error")
_KEYS = ("output", "result", "error")
"""Where a tool's word stands, today's place first."""

_CALL_KEYS = frozenset({"type", "toolCallId", "toolName"})
_OUTPUT_KEYS = frozenset({"type", "value"})
_ERRORS = ("error-text", "error-json")
_VENDOR, _COPY = "mastra", "modelOutput"


# Calls


def read_call(item: Json, place: str) -> ToolPart:
    """Return the part of a ``tool-call``.

    Raises:
        MessageError: it is malformed.
    """
    key = "args" if "args" in item and "input" not in item else "input"
    notes = {"arguments": "args" if key == "args" else None if key in item else "absent"}
    metadata = read_metadata(item, FORMAT, {*_CALL_KEYS, key}, notes, OPTIONS)
    call_id, name = (expect_text(item, name, place) for name in ("toolCallId", "toolName"))
    return ToolPart(call_id, name, item.get(key, EMPTY), metadata=metadata)


def write_call(part: ToolPart) -> Json:
    """Return the ``tool-call`` of a part."""
    said = notes_of(part, FORMAT).get("arguments")
    key = "args" if said == "args" else "input"
    body: Json = {"type": CALL, "toolCallId": part.call_id, "toolName": part.name}
    if said != "absent" or part.arguments != {}:
        body[key] = thaw(part.arguments)
    return write_metadata(body, part, FORMAT, {*_CALL_KEYS, key}, OPTIONS)


# Results


def read_result(item: Json, place: str, *, alone: bool) -> ToolPart:
    """Return the part of a ``tool-result`` or ``tool-error``; ``alone`` if it stands among an assistant's content.

    Raises:
        MessageError: it is malformed.
    """
    key = next((key for key in _KEYS if key in item), _KEYS[0])
    state, result, error, shape = _read_output(item, key)
    notes: Json = {
        "type": item["type"] if item["type"] != RESULTS[0] else None,
        "key": None if key == "output" else key,
        "name": None if item.get("toolName") is not None else "absent",
        **shape,
    }
    known = {*_CALL_KEYS, key, *(("isError",) if notes.get("shape") == "flagged" else ())}
    rest = {name: given for name, given in item.items() if name not in known or (given is None and name == "toolName")}
    metadata = read_metadata(rest, FORMAT, (), {"alone": alone or None}, OPTIONS)
    metadata = _without_copy(metadata, item.get(key), notes)
    own = metadata.get(FORMAT)
    metadata = kept(FORMAT, {**(own if is_object(own) else {}), "result": telling(notes)}, metadata)
    call_id, name = expect_text(item, "toolCallId", place), maybe_text(item, "toolName", place)
    return ToolPart(call_id, name or "", EMPTY, state, result, error, metadata)


def _read_output(item: Json, key: str) -> tuple[ToolState, Value, str | None, Json]:
    """Return state, result, error and notes on the shape."""
    value: Value = item.get(key)
    if key not in item:
        return "result", None, None, {"shape": "absent"}
    if key != "output":
        if item.get("isError") is not True and key != "error":
            return "result", value, None, {"shape": "bare"}
        error, is_json = _as_error(value)
        return "error", None, error, {"shape": "flagged" if key == "result" else "bare", "json": is_json}
    kind = value.get("type") if is_object(value) else None
    inner = unknown(value, _OUTPUT_KEYS, _OUTPUT_KEYS) if is_object(value) else {}
    if is_object(value) and "value" in value and _is_usual(kind, value["value"]):
        if kind in _ERRORS:
            error, is_json = _as_error(value["value"])
            odd = kind if kind == "error-json" and not is_json else None
            return "error", None, error, {"json": is_json, "shape": odd, "inner": inner}
        given = value["value"]
        odd = kind if kind == "content" or (kind == "json" and isinstance(given, str)) else None
        return "result", given, None, {"shape": odd, "inner": inner}
    return "result", value, None, {"shape": "raw"}


def _is_usual(kind: Value, value: Value) -> bool:
    """Whether an output of that kind may hold such a value."""
    if kind in ("text", "error-text"):
        return isinstance(value, str)
    return is_array(value) if kind == "content" else kind in ("json", "error-json")


def _as_error(value: Value) -> tuple[str, bool | None]:
    """Return an error as text, and whether it was a JSON value."""
    return (value, None) if isinstance(value, str) else (as_json(value), True)


def _without_copy(metadata: Json, output: Value, notes: Json) -> Json:
    """Return the metadata with a vendor's copy of the output only marked: no guard reads it, and it would go stale."""
    vendor = metadata.get(_VENDOR)
    if not is_object(vendor) or vendor.get(_COPY) is None or vendor[_COPY] != output:
        return metadata
    notes["copy"] = True
    return {**metadata, _VENDOR: {**vendor, _COPY: True}}


def write_result(part: ToolPart) -> Json:
    """Return the ``tool-result`` of a part."""
    own = notes_of(part, FORMAT)
    notes: Json = own["result"] if is_object(own.get("result")) else {}
    kind = RESULTS[1] if notes.get("type") == RESULTS[1] else RESULTS[0]
    body: Json = {"type": kind, "toolCallId": part.call_id}
    if part.name or notes.get("name") != "absent":
        body["toolName"] = part.name
    said = _write_output(part, notes)
    body.update(said)
    used = next((place for place, key in enumerate(_KEYS) if key in said), len(_KEYS))
    known = {*_CALL_KEYS, *said, *_KEYS[:used]}
    return _with_copy(write_metadata(body, part, FORMAT, known, OPTIONS), part, notes)


def _write_output(part: ToolPart, notes: Json) -> Json:
    """Return what the tool said, in the shape in which it was read if that still fits, else in today's."""
    shape, key = notes.get("shape"), notes.get("key")
    failed = part.state == "error"
    value = _error_value(part, notes) if failed else thaw(part.result)
    if shape == "absent" and not failed and value is None:
        return {}
    if failed and ((shape, key) == ("flagged", "result") or (shape, key) == ("bare", "error")):
        return {str(key): value, **({"isError": True} if shape == "flagged" else {})}
    if not failed and (shape, key) == ("bare", "result"):
        return {"result": value}
    if not failed and shape == "raw":
        return {"output": value}
    body = {"type": _output_type(part, value, shape), "value": value}
    return {"output": restored(body, notes, _OUTPUT_KEYS, "inner")}


def _output_type(part: ToolPart, value: Value, shape: Value) -> str:
    if part.state == "error":
        return _ERRORS[not isinstance(value, str) or shape == "error-json"]
    if shape == "content" and is_array(value):
        return "content"
    return "text" if isinstance(value, str) and shape != "json" else "json"


def _error_value(part: ToolPart, notes: Json) -> Value:
    """Return the error: text, or the JSON value that it was, if it still is one."""
    if notes.get("json"):
        try:
            return json.loads(part.error or "")
        except ValueError:
            pass
    return part.error or ""


def _with_copy(body: Json, part: ToolPart, notes: Json) -> Json:
    """Return the wire object with the vendor's copy of the output made anew."""
    vendor = foreign(part, FORMAT).get(_VENDOR)
    if not notes.get("copy") or not is_object(vendor) or vendor.get(_COPY) is not True:
        return body
    said = next((body[key] for key in _KEYS if key in body), None)
    return {**body, OPTIONS: {**body[OPTIONS], _VENDOR: {**vendor, _COPY: said}}}
