"""Detect which format a message is in, from its keys.

A format is chosen only if no other fits. A message with a role and plain content, or with content of text parts only,
fits OpenAI's formats, Anthropic's and the AI SDK's model messages. Then the other messages of the input decide; if they
do not, it is read as chat. A message that fits both a UI message and Penstock's own form is read the same way by both.
What fits no format is refused: read as another one, a model would be sent something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message
from penstock.formats.wire import Json, Value, is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHAT, _RESPONSES, _MODEL, _ANTHROPIC = "openai-chat", "openai-responses", "ai-sdk-model", "anthropic"
_GOOGLE, _LANGCHAIN, _PYDANTIC, _MCP = "google", "langchain", "pydantic-ai", "mcp"
_PLAIN = "plain"
"""Content that is a str: it fits chat, responses, Anthropic's and model messages."""
_TEXTS = "texts"
"""Content of text parts only: it fits chat, Anthropic's and model messages."""

_ROW = frozenset({"createdAt", "threadId", "resourceId"})
_ROW_CONTENT = frozenset({"format", "parts", "content", "reasoning", "toolInvocations", "metadata"})
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
_ANTHROPIC_PARTS = frozenset({"document", "redacted_thinking", "search_result", "container_upload"})
_ANTHROPIC_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_ANTHROPIC_ROLES = frozenset({"system", "user", "assistant"})
_MCP_PARTS = frozenset({"audio", "resource", "resource_link"})
_MCP_MEDIA = frozenset({"mimeType", "mime_type"})
_MCP_RESULT = frozenset({"structuredContent", "isError", "structured_content", "is_error"})
_GOOGLE_PARTS = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
        *("inline_data", "file_data", "function_call", "function_response", "executable_code"),
        *("codeExecutionResult", "code_execution_result"),
    }
)
_LANGCHAIN_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})
_LANGCHAIN_CHUNK = "MessageChunk"
_LANGCHAIN_ROLES = frozenset({"human", "ai"})


def formats_of(items: Sequence[Value], place: str) -> list[str]:
    """Return the format of each message; empty for one that is a `Message` already.

    Raises:
        MessageError: a message has no known format, or is not an object.
    """
    found = [_format_of(item, f"{place}[{index}]") for index, item in enumerate(items)]
    there = set(found)
    texts = next((fmt for fmt in (_MODEL, _ANTHROPIC) if fmt in there and _CHAT not in there), _CHAT)
    sure = {texts if fmt == _TEXTS else fmt for fmt in found} & {_CHAT, _RESPONSES, _MODEL, _ANTHROPIC}
    meant = {_TEXTS: texts, _PLAIN: sure.pop() if len(sure) == 1 else _CHAT}
    for index, fmt in enumerate(found):
        if fmt in meant:
            is_chat = meant[fmt] in (_ANTHROPIC, _MODEL) and items[index]["role"] not in _ANTHROPIC_ROLES
            found[index] = _CHAT if is_chat else meant[fmt]
    return found


def _format_of(item: Value, place: str) -> str:
    if isinstance(item, Message):
        return ""
    if not is_object(item):
        raise MessageError(place, f"expected a message (a Message or a dict), not {type(item).__name__}")
    if _is_langchain(item):
        return _LANGCHAIN
    if is_object(item.get("content")):
        return _format_of_object(item["content"], place)
    if not _ROW.isdisjoint(item) and not is_array(item.get("parts")):
        return "stored"
    if is_array(item.get("parts")):
        return _format_of_parts(item)
    if not isinstance(item.get("role"), str):
        return _format_without_role(item, place)
    kind = item.get("type")
    if kind == "message":
        # Responses call their messages so too.
        is_answer = "stop_reason" in item or any(_is_of_anthropic(part) for part in _parts_of(item))
        return _ANTHROPIC if is_answer else _RESPONSES
    if isinstance(kind, str) and "content" not in item:
        return _RESPONSES
    return _format_of_content(item)


def _is_langchain(item: Json) -> bool:
    kind, role = item.get("type"), item.get("role")
    if "lc" in item and is_object(item.get("kwargs")):
        return True
    if isinstance(kind, str) and (kind in _LANGCHAIN_TYPES or kind.endswith(_LANGCHAIN_CHUNK)):
        return "content" in item or is_object(item.get("data")) or kind == "remove"
    return isinstance(role, str) and role in _LANGCHAIN_ROLES and "type" not in item and "parts" not in item


def _format_of_object(content: Json, place: str) -> str:
    """Return the format of a message whose content is an object: one block, or the parts of a stored row."""
    if isinstance(content.get("type"), str):
        return _MCP
    if not _ROW_CONTENT.isdisjoint(content) or not content:
        return "stored"
    expected = "expected a str, a list of parts, or an object with type or parts, not another object"
    raise MessageError(f"{place}.content", expected)


def _format_of_parts(item: Json) -> str:
    if item.get("kind") in ("request", "response") and "role" not in item:
        return _PYDANTIC
    parts = [part for part in item["parts"] if is_object(part)]
    if item.get("role") in ("model", "function"):
        return _GOOGLE
    if all("type" not in part for part in parts) and any(not _GOOGLE_PARTS.isdisjoint(part) for part in parts):
        return _GOOGLE
    return "penstock" if _is_own(item) else "ai-sdk-ui"


def _format_without_role(item: Json, place: str) -> str:
    if isinstance(item.get("type"), str):
        return _RESPONSES
    if is_array(item.get("content")) and item.keys() & _MCP_RESULT:
        return _MCP
    if is_array(item.get("messages")) or "system" in item:
        return _ANTHROPIC
    if is_array(item.get("contents")) or "systemInstruction" in item or "system_instruction" in item:
        return _GOOGLE
    if "role" in item:
        raise MessageError(f"{place}.role", f"expected a str, not {type(item['role']).__name__}")
    raise MessageError(place, "expected a message with a role, or an item with a type; neither is there")


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
    if isinstance(kind, str) and kind in ("image", "source"):
        return kind not in part
    return (isinstance(kind, str) and kind in _OWN_PARTS) or not _OWN_KEYS.isdisjoint(part)


def _parts_of(item: Json) -> list[Json]:
    content = item.get("content")
    return [part for part in content if is_object(part)] if is_array(content) else []


def _format_of_content(item: Json) -> str:
    parts = _parts_of(item)
    kinds = {kind for part in parts if isinstance(kind := part.get("type"), str)}
    if _MODEL_OPTIONS in item or any(_MODEL_OPTIONS in part for part in parts):
        return _MODEL
    if any(_is_of_anthropic(part) for part in parts) and _CHAT_KEYS.isdisjoint(item):
        return _ANTHROPIC
    if any(_is_of_mcp(part) for part in parts):
        return _MCP
    if any(_is_of_model(part) for part in parts):
        return _MODEL
    if not _CHAT_KEYS.isdisjoint(item) or item["role"] in ("tool", "function"):
        return _CHAT
    if not kinds.isdisjoint(_RESPONSES_PARTS):
        return _RESPONSES
    if kinds == {"text"}:
        return _TEXTS
    return _PLAIN if kinds.isdisjoint(_CHAT_PARTS) else _CHAT


def _is_of_anthropic(part: Json) -> bool:
    """Return whether only Anthropic's messages have such a part."""
    kind = part.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "thinking":
        return isinstance(part.get("thinking"), str)
    if kind in _ANTHROPIC_CALLS:
        return "id" in part and "name" in part
    if kind.endswith("tool_result"):
        return "tool_use_id" in part
    return kind in _ANTHROPIC_PARTS or (kind == "image" and is_object(part.get("source")))


def _is_of_mcp(part: Json) -> bool:
    """Return whether only messages of the Model Context Protocol have such a part."""
    kind = part.get("type")
    if kind == "tool_result":
        return "toolUseId" in part
    if kind == "image":
        return isinstance(part.get("data"), str) and not _MCP_MEDIA.isdisjoint(part) and "image" not in part
    return isinstance(kind, str) and kind in _MCP_PARTS


def _is_of_model(part: Json) -> bool:
    """Return whether only the AI SDK's model messages have such a part."""
    kind = part.get("type")
    if kind == "file":
        return not _MODEL_FILE.isdisjoint(part)
    return isinstance(kind, str) and kind in _MODEL_PARTS
