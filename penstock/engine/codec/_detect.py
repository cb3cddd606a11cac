"""Which format a message is of, told from its keys; it knows no codec.

A format is named only where no other could be meant. Where OpenAI's two formats say the same (a role and plain
content), the other messages of the input decide; where UI and Penstock's own say the same, both read it alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.codec._wire import Json, Value, is_array, is_object
from penstock.engine.errors import MessageError
from penstock.engine.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

EITHER_OPENAI = "openai"
"""What is chat and responses alike."""

_ROW = frozenset({"createdAt", "threadId", "resourceId"})
_OWN_HEAD = frozenset({"created_at", "thread_id", "resource_id"})
_OWN_PARTS = frozenset({"audio", "tool", "data", "unknown"})
_OWN_KEYS = frozenset({"metadata", "media_type", "file_id", "name"})
_CHAT_KEYS = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning"}
)
_CHAT_PARTS = frozenset({"text", "image_url", "file", "thinking"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def formats_of(items: Sequence[Value], place: str) -> list[str]:
    """Return the format of each message; empty for one that is a `Message` already.

    Raises:
        MessageError: one is of no format, or is no object.
    """
    found = [_format_of(item, f"{place}[{index}]") for index, item in enumerate(items)]
    sure = {fmt for fmt in found if fmt.startswith(EITHER_OPENAI) and fmt != EITHER_OPENAI}
    meant = "openai-responses" if sure == {"openai-responses"} else "openai-chat"
    return [meant if fmt == EITHER_OPENAI else fmt for fmt in found]


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
            return "openai-responses"
        raise MessageError(place, "expected a message with a role, or an item with a type; neither is there")
    if item.get("type") == "message":
        return "openai-responses"
    return _openai_format(item)


def _is_own(item: Json) -> bool:
    """Whether only Penstock's own form has such a message."""
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
    if not _CHAT_KEYS.isdisjoint(item) or item["role"] in ("tool", "function"):
        return "openai-chat"
    content = item.get("content")
    kinds = {part.get("type") for part in content if is_object(part)} if is_array(content) else set[Value]()
    if not kinds.isdisjoint(_RESPONSES_PARTS):
        return "openai-responses"
    return EITHER_OPENAI if kinds.isdisjoint(_CHAT_PARTS) else "openai-chat"
