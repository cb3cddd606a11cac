"""Detect which format a message is in, from its keys.

A format is chosen only if no other fits. A message with a role and plain content, or with content of text parts only,
fits both of OpenAI's formats and the AI SDK's model messages. Then the other messages of the input decide; if they do
not, it is read as chat. A message that fits both a UI message and Penstock's own form is read the same way by both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats.wire import Json, Value, is_array, is_object
from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHAT, _RESPONSES, _MODEL = "openai-chat", "openai-responses", "ai-sdk-model"
_PLAIN = "plain"
"""Content that is a str: it fits chat, responses and model messages."""
_TEXTS = "texts"
"""Content of text parts only: it fits chat and model messages."""

_ROW = frozenset({"createdAt", "threadId", "resourceId"})
_OWN_HEAD = frozenset({"created_at", "thread_id", "resource_id", "from_client"})
_OWN_PARTS = frozenset({"audio", "tool", "data", "unknown"})
_OWN_KEYS = frozenset({"metadata", "media_type", "file_id", "name"})
_CHAT_KEYS = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning"}
)
_CHAT_PARTS = frozenset({"text", "image_url", "file", "thinking"})
_MODEL_PARTS = frozenset({"image", "reasoning", "redacted-reasoning", "tool-call", "tool-result", "tool-error"})
_MODEL_FILE = frozenset({"data", "mediaType", "mimeType"})
_MODEL_OPTIONS = "providerOptions"
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def formats_of(items: Sequence[Value], place: str) -> list[str]:
    """Return the format of each message; empty for one that is a `Message` already.

    Raises:
        MessageError: a message has no known format, or is not an object.
    """
    found = [_format_of(item, f"{place}[{index}]") for index, item in enumerate(items)]
    texts = _MODEL if _MODEL in found and _CHAT not in found else _CHAT
    sure = {texts if fmt == _TEXTS else fmt for fmt in found} & {_CHAT, _RESPONSES, _MODEL}
    meant = {_TEXTS: texts, _PLAIN: sure.pop() if len(sure) == 1 else _CHAT}
    return [meant.get(fmt, fmt) for fmt in found]


def _format_of(item: Value, place: str) -> str:
    if isinstance(item, Message):
        return ""
    if not is_object(item):
        raise MessageError(place, f"expected a message (a Message or a dict), not {type(item).__name__}")
    content = item.get("content")
    if is_object(content) or (not _ROW.isdisjoint(item) and not is_array(item.get("parts"))):
        return "stored"
    if is_array(item.get("parts")):
        return "penstock" if _is_own(item) else "ai-sdk-ui"
    if not isinstance(item.get("role"), str):
        if isinstance(item.get("type"), str):
            return _RESPONSES
        raise MessageError(place, "expected a message with a role, or an item with a type; neither is there")
    if item.get("type") == "message":
        return _RESPONSES
    return _openai_format(item)


def _is_own(item: Json) -> bool:
    """Return whether only Penstock's own form has such a message."""
    metadata = item.get("metadata")
    return (
        not _OWN_HEAD.isdisjoint(item)
        or item.get("role") == "tool"
        or (is_object(metadata) and "ai-sdk-ui" in metadata)
        or any(_is_own_part(part) for part in item["parts"])
    )


def _is_own_part(part: Value) -> bool:
    if not is_object(part):
        return False
    kind = part.get("type")
    if kind in ("image", "source"):
        return kind not in part
    return kind in _OWN_PARTS or not _OWN_KEYS.isdisjoint(part)


def _openai_format(item: Json) -> str:
    content = item.get("content")
    parts = [part for part in content if is_object(part)] if is_array(content) else []
    kinds = {kind for part in parts if isinstance(kind := part.get("type"), str)}
    if _MODEL_OPTIONS in item or any(_is_of_model(part) for part in parts):
        return _MODEL
    if not _CHAT_KEYS.isdisjoint(item) or item["role"] in ("tool", "function"):
        return _CHAT
    if not kinds.isdisjoint(_RESPONSES_PARTS):
        return _RESPONSES
    if kinds == {"text"}:
        return _TEXTS
    return _PLAIN if kinds.isdisjoint(_CHAT_PARTS) else _CHAT


def _is_of_model(part: Json) -> bool:
    """Return whether only the AI SDK's model messages have such a part."""
    kind = part.get("type")
    if kind == "file":
        return _MODEL_OPTIONS in part or not _MODEL_FILE.isdisjoint(part)
    return _MODEL_OPTIONS in part or (isinstance(kind, str) and kind in _MODEL_PARTS)
