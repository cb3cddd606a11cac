"""What becomes of a result that a prompt does not carry in full: its text, or a stub for it. It knows no prompt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import Layer, is_items, is_mapping, thaw

if TYPE_CHECKING:
    from penstock.engine.values.messages import ToolPart

_MEDIA_TYPES = ("mediaType", "mimeType", "media_type", "mime_type")


def result_text(part: ToolPart) -> str:
    """Return what a tool said as plain text.

    A str as it is, a list line by line, the text of a content entry; anything else as compact JSON. Media are named by
    their type (``[image/png]``), never quoted.
    """
    return (part.error or "") if part.state == "error" else _text(part.result)


def _text(value: Layer) -> str:
    if isinstance(value, str):
        return value
    if is_items(value):
        return "\n".join(_text(item) for item in value)
    if is_mapping(value):
        named = _media_name(value)
        if named is not None:
            return named
        if value.get("type") == "text" and isinstance(value.get("text"), str):
            return str(value["text"])
        for key in ("value", "text"):
            if key in value and value.keys() <= {"type", key}:
                return _text(value[key])
    return "" if value is None else as_json(_without_media(value))


def as_json(value: Layer) -> str:
    """Return a JSON value as compact text."""
    return json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"))


def _media_name(value: dict[str, object]) -> str | None:
    """Return the placeholder for an object that holds media in base64; None if it holds none."""
    kind = next((found for key in _MEDIA_TYPES if isinstance(found := value.get(key), str)), None)
    return f"[{kind}]" if kind is not None and isinstance(value.get("data"), str) else None


def _without_media(value: Layer) -> Layer:
    if is_mapping(value):
        named = _media_name(value)
        return {key: _without_media(item) for key, item in value.items()} if named is None else named
    return [_without_media(item) for item in value] if is_items(value) else value


def preserved(part: ToolPart, name: str) -> str | None:
    """Return the text that stays of a removed call: the tool and what it said; None if it said nothing."""
    text = result_text(part)
    return f"{part.name or name} result:\n{text}" if text else None


def is_marked(part: ToolPart) -> bool:
    """Whether the result bears the reference's mark of an output that was made for the model.

    Only the mark is looked at: a copy of the output beside it is read by no guard, so the result itself is what counts.
    """
    vendor = part.metadata.get("mastra")
    return is_mapping(vendor) and vendor.get("modelOutput") is not None


def stub(part: ToolPart, size: int, unit: str, recall: str | None) -> ToolPart:
    """Return the part with a short note in place of its result, which names the id under which it can be had again."""
    cure = f"; call {recall} with its id to read it" if recall is not None and part.call_id else ""
    note = f"[result {part.call_id or 'of a tool'} left out, {size} {unit}{cure}]"
    return replace(part, result=None, error=note) if part.state == "error" else replace(part, result=note)
