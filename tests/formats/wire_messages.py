"""Random wire messages of each format, every string of which holds a marker, and a walk over what was read of them.

`python -m tests.formats.wire_messages 10000` checks the law of `test_every_string_is_read` on many.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message
from penstock.formats import FORMATS, parse_messages

MARKER = re.compile(r"zq\d+q")
Make = Callable[["Maker"], dict[str, Any]]


class Maker:
    """Makes JSON values; each text that it makes is new."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - no secret
        self.count = 0

    def text(self) -> str:
        """A text with a marker of its own."""
        self.count += 1
        return self.random.choice(["", "a ", "https://x.test/", "é\n"]) + f"zq{self.count}q"

    def maybe(self, likely: float = 0.5) -> bool:
        """A throw of a coin."""
        return self.random.random() < likely

    def value(self, depth: int = 0) -> Any:
        """Any JSON value."""
        kind = self.random.randrange(4 if depth > 2 else 6)
        if kind == 4:
            return [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        if kind == 5:
            return self.object(depth + 1)
        return [None, True, 3, self.text()][kind] if kind != 3 else self.text()

    def object(self, depth: int = 0) -> dict[str, Any]:
        """A JSON object of unknown keys."""
        keys = [self.text() if self.maybe() else self.random.choice("abcd") for _ in range(self.random.randrange(3))]
        return {key: self.value(depth + 1) for key in keys}

    def several(self, *makes: Callable[[], Any]) -> list[Any]:
        """A few values by some of the functions."""
        return [self.random.choice(makes)() for _ in range(self.random.randrange(1, 4))]

    def with_some(self, always: dict[str, Any], **sometimes: Callable[[], Any]) -> dict[str, Any]:
        """An object with some of the optional keys."""
        return {**always, **{key: make() for key, make in sometimes.items() if self.maybe(0.35)}}


# OpenAI


def _chat_part(m: Maker) -> dict[str, Any]:
    return m.random.choice(
        [
            lambda: m.with_some({"type": "text", "text": m.text()}, cache_control=m.object),
            lambda: {"type": "refusal", "refusal": m.text()},
            lambda: {"type": "image_url", "image_url": m.with_some({"url": m.text()}, detail=m.text)},
            lambda: {"type": "image_url", "image_url": m.text()},
            lambda: {"type": "input_audio", "input_audio": {"data": m.text(), "format": m.text()}},
            lambda: {"type": "file", "file": m.with_some({}, file_id=m.text, file_data=m.text, filename=m.text)},
            lambda: {"type": "thinking", "thinking": [{"type": "text", "text": m.text()}]},
        ]
    )()


def _chat(m: Maker) -> dict[str, Any]:
    role = m.random.choice(["system", "developer", "user", "assistant", "assistant", "tool", "function"])
    content = m.random.choice([m.text, lambda: m.several(lambda: _chat_part(m)), lambda: None])()
    if role in ("tool", "function"):
        return m.with_some({"role": role, "content": content}, tool_call_id=m.text, name=m.text, id=m.text)
    function = {"name": m.text(), "arguments": json.dumps(m.object(), ensure_ascii=False)}
    custom = {"type": "custom", "id": m.text(), "custom": {"name": m.text(), "input": m.text()}}
    return m.with_some(
        {"role": role, "content": content},
        name=m.text,
        id=m.text,
        refusal=m.text,
        reasoning=m.text,
        reasoning_content=m.text,
        annotations=m.value,
        reasoning_details=lambda: m.several(
            lambda: {"type": "reasoning.text", "text": m.text(), "signature": m.text()},
            lambda: {"type": "reasoning.encrypted", "data": m.text()},
        ),
        thinking_blocks=lambda: m.several(
            lambda: {"type": "thinking", "thinking": m.text(), "signature": m.text()},
            lambda: {"type": "redacted_thinking", "data": m.text()},
        ),
        audio=lambda: m.with_some({"id": m.text()}, data=m.text, transcript=m.text),
        tool_calls=lambda: [m.with_some({"type": "function", "function": function}, id=m.text), custom],
        function_call=lambda: {"name": m.text(), "arguments": m.text()},
    )


_ITEMS: list[tuple[str, dict[str, str]]] = [
    ("web_search_call", {"id": "t", "status": "t", "action": "j"}),
    ("file_search_call", {"id": "t", "queries": "j", "results": "j"}),
    ("code_interpreter_call", {"id": "t", "code": "t", "container_id": "t", "outputs": "j"}),
    ("mcp_call", {"id": "t", "name": "t", "server_label": "t", "arguments": "t", "output": "t", "error": "j"}),
    ("mcp_list_tools", {"id": "t", "server_label": "t", "tools": "j", "error": "t"}),
    ("mcp_approval_request", {"id": "t", "name": "t", "server_label": "t", "arguments": "t"}),
    ("mcp_approval_response", {"id": "t", "approval_request_id": "t", "reason": "t"}),
    ("computer_call", {"id": "t", "call_id": "t", "action": "j", "pending_safety_checks": "j"}),
    ("computer_call_output", {"id": "t", "call_id": "t", "output": "j", "acknowledged_safety_checks": "j"}),
    ("local_shell_call", {"id": "t", "call_id": "t", "action": "j", "status": "t"}),
    ("local_shell_call_output", {"id": "t", "output": "t", "status": "t"}),
    ("shell_call", {"id": "t", "call_id": "t", "action": "j", "environment": "j"}),
    ("shell_call_output", {"id": "t", "call_id": "t", "output": "j"}),
    ("apply_patch_call", {"id": "t", "call_id": "t", "operation": "j"}),
    ("apply_patch_call_output", {"id": "t", "call_id": "t", "output": "t", "error": "t"}),
    ("tool_search_call", {"id": "t", "arguments": "j"}),
    ("program_output", {"id": "t", "call_id": "t", "result": "t"}),
    ("image_generation_call", {"id": "t", "result": "t", "revised_prompt": "t"}),
    ("custom_tool_call", {"id": "t", "call_id": "t", "name": "t", "input": "t"}),
    ("function_call", {"id": "t", "call_id": "t", "name": "t", "arguments": "t"}),
    ("function_call_output", {"id": "t", "call_id": "t", "output": "t"}),
    ("custom_tool_call_output", {"call_id": "t", "output": "t"}),
    ("reasoning", {"id": "t", "encrypted_content": "t"}),
    ("item_reference", {"id": "t"}),
    ("compaction", {"id": "t", "encrypted_content": "t"}),
    ("novelty", {"id": "t", "x": "j"}),
]


def _responses(m: Maker) -> dict[str, Any]:
    if m.maybe():
        kind, keys = m.random.choice(_ITEMS)
        optional = m.random.choice([0.6, 1.0])
        made = {key: m.text() if how == "t" else m.value() for key, how in keys.items() if m.maybe(optional)}
        return {"type": kind, **made}
    parts = (
        lambda: m.with_some({"type": "input_text", "text": m.text()}, annotations=m.value),
        lambda: {"type": "output_text", "text": m.text()},
        lambda: m.with_some({"type": "input_image"}, image_url=m.text, detail=m.text, file_id=m.text),
        lambda: m.with_some({"type": "input_file"}, file_url=m.text, file_id=m.text, filename=m.text),
    )
    role = m.random.choice(["system", "developer", "user", "assistant"])
    content = m.several(*parts) if m.maybe() else m.text()
    return m.with_some({"type": "message", "role": role, "content": content}, id=m.text, status=m.text)


# Anthropic, Google


def _anthropic_source(m: Maker) -> dict[str, Any]:
    return m.random.choice(
        [
            lambda: {"type": "base64", "media_type": m.text(), "data": m.text()},
            lambda: {"type": "url", "url": m.text()},
            lambda: {"type": "file", "file_id": m.text()},
            lambda: {"type": "text", "media_type": "text/plain", "data": m.text()},
            lambda: {"type": "content", "content": m.text()},
            lambda: {"type": "content", "content": [{"type": "text", "text": m.text()}]},
        ]
    )()


def _anthropic_block(m: Maker) -> dict[str, Any]:
    texts = [{"type": "text", "text": m.text()} for _ in range(m.random.randrange(1, 3))]
    return m.random.choice(
        [
            lambda: m.with_some({"type": "text", "text": m.text()}, citations=m.value, cache_control=m.object),
            lambda: {"type": "thinking", "thinking": m.text(), "signature": m.text()},
            lambda: {"type": "redacted_thinking", "data": m.text()},
            lambda: {"type": "image", "source": _anthropic_source(m)},
            lambda: m.with_some({"type": "document", "source": _anthropic_source(m)}, title=m.text, context=m.text),
            lambda: {"type": "search_result", "source": m.text(), "title": m.text(), "content": texts},
            lambda: {"type": "container_upload", "file_id": m.text()},
            lambda: m.with_some({"type": "tool_use", "id": m.text(), "name": m.text(), "input": m.object()}),
            lambda: {"type": "mcp_tool_use", "id": m.text(), "name": m.text(), "server_name": m.text(), "input": {}},
            lambda: m.with_some(
                {"type": "tool_result", "tool_use_id": m.text()},
                content=lambda: m.text() if m.maybe() else texts,
                is_error=m.maybe,
            ),
            lambda: {"type": "web_search_tool_result", "tool_use_id": m.text(), "content": [m.object()]},
        ]
    )()


def _anthropic(m: Maker) -> dict[str, Any]:
    content = m.several(lambda: _anthropic_block(m)) if m.maybe(0.8) else m.text()
    item = {"role": m.random.choice(["system", "user", "assistant"]), "content": content}
    if m.maybe(0.1):
        return {"system": [{"type": "text", "text": m.text()}], "messages": [item]}
    return m.with_some(item, id=m.text, stop_reason=m.text, model=m.text)


def _google_part(m: Maker) -> dict[str, Any]:
    blob = m.with_some({"mimeType": m.random.choice(["image/png", "audio/wav", "x/" + m.text()])}, displayName=m.text)
    part = m.random.choice(
        [
            lambda: m.with_some({"text": m.text()}, thought=lambda: True),
            lambda: {"inlineData": {**blob, "data": m.text()}},
            lambda: {"inline_data": {"mime_type": "image/png", "data": m.text()}},
            lambda: m.with_some({"fileData": {**blob, "fileUri": m.text()}}, videoMetadata=m.object),
            lambda: {"functionCall": m.with_some({"name": m.text()}, id=m.text, args=m.object)},
            lambda: {"functionResponse": m.with_some({"name": m.text()}, id=m.text, response=m.object, parts=m.value)},
            lambda: {"executableCode": m.with_some({"code": m.text()}, language=m.text, id=m.text)},
            lambda: {"codeExecutionResult": m.with_some({"output": m.text()}, outcome=m.text)},
        ]
    )()
    return m.with_some(part, thoughtSignature=m.text)


def _google(m: Maker) -> dict[str, Any]:
    item = {
        "role": m.random.choice(["user", "model", "function", "system"]),
        "parts": m.several(lambda: _google_part(m)),
    }
    return {"systemInstruction": {"parts": [{"text": m.text()}]}, "contents": [item]} if m.maybe(0.1) else item


# The AI SDK, and rows


def _sdk_part(m: Maker) -> dict[str, Any]:
    provider = {"providerMetadata": lambda: {"p": m.object()}}
    invocation = {"toolCallId": m.text(), "toolName": m.text(), "state": "result", "args": m.object()}
    return m.random.choice(
        [
            lambda: m.with_some({"type": "text", "text": m.text()}, **provider),
            lambda: m.with_some({"type": "reasoning", "text": m.text()}, **provider),
            lambda: {"type": "reasoning", "reasoning": m.text(), "details": [{"type": "text", "text": m.text()}]},
            lambda: m.with_some({"type": "file", "url": m.text()}, mediaType=m.text, filename=m.text),
            lambda: {"type": "file", "data": m.text(), "mimeType": m.text()},
            lambda: m.with_some({"type": "source-url", "sourceId": m.text(), "url": m.text()}, title=m.text),
            lambda: {"type": "source", "source": {"sourceType": "url", "id": m.text(), "url": m.text()}},
            lambda: {"type": f"data-{m.text()}", "data": m.value()},
            lambda: {"type": "step-start"},
            lambda: {"type": "tool-invocation", "toolInvocation": {**invocation, "result": m.value()}},
            lambda: m.with_some(
                {"type": f"tool-{m.text()}", "toolCallId": m.text(), "state": "output-available", "input": m.object()},
                output=m.value,
                errorText=m.text,
                approval=lambda: {"id": m.text(), "approved": m.maybe(), "reason": m.text()},
            ),
            lambda: {"type": "novelty", "x": m.value()},
        ]
    )()


def _ui(m: Maker) -> dict[str, Any]:
    item = {"id": m.text(), "role": m.random.choice(["system", "user", "assistant"])}
    item["parts"] = m.several(lambda: _sdk_part(m))
    return m.with_some(item, metadata=m.object, content=m.text, createdAt=m.text, name=m.text)


def _stored(m: Maker) -> dict[str, Any]:
    item = {"id": m.text(), "role": m.random.choice(["user", "assistant", "signal"]), "createdAt": m.text()}
    parts = m.several(lambda: _sdk_part(m))
    body = m.with_some({"format": 2, "parts": parts}, content=m.text, metadata=m.object, reasoning=m.text)
    content = m.random.choice([lambda: body, lambda: body, m.text, lambda: parts])()
    return m.with_some({**item, "content": content}, threadId=m.text, resourceId=m.text, type=m.text)


def _model(m: Maker) -> dict[str, Any]:
    role = m.random.choice(["system", "user", "assistant", "tool"])
    options = {"providerOptions": lambda: {"p": m.object()}}
    parts = (
        lambda: m.with_some({"type": "text", "text": m.text()}, **options),
        lambda: {"type": "reasoning", "text": m.text()},
        lambda: m.with_some({"type": "image", "image": m.text()}, mediaType=m.text),
        lambda: m.with_some({"type": "file", "data": m.text(), "mediaType": m.text()}, filename=m.text),
        lambda: {"type": "tool-call", "toolCallId": m.text(), "toolName": m.text(), "input": m.value()},
    )
    results = (
        lambda: {
            "type": "tool-result",
            "toolCallId": m.text(),
            "toolName": m.text(),
            "output": {
                "type": m.random.choice(["text", "json", "error-text", "error-json", "content"]),
                "value": m.value(),
            },
        },
        lambda: {"type": "tool-result", "toolCallId": m.text(), "result": m.value(), "isError": m.maybe()},
    )
    if role == "tool":
        return {"role": role, "content": m.several(*results)}
    return m.with_some({"role": role, "content": m.text() if m.maybe(0.2) else m.several(*parts)}, **options, id=m.text)


def _native(m: Maker) -> dict[str, Any]:
    parts = (
        lambda: m.with_some({"type": "text", "text": m.text()}, metadata=m.object),
        lambda: {"type": "reasoning", "text": m.text()},
        lambda: m.with_some({"type": "image"}, url=m.text, data=m.text, media_type=m.text),
        lambda: m.with_some({"type": "file"}, url=m.text, data=m.text, name=m.text, file_id=m.text),
        lambda: m.with_some({"type": "audio"}, transcript=m.text, data=m.text),
        lambda: m.with_some({"type": "tool", "call_id": m.text(), "name": m.text()}, arguments=m.object, error=m.text),
        lambda: {"type": "unknown", "raw": m.value()},
        lambda: {"type": "data", "name": m.text(), "data": m.value()},
    )
    item = {"role": m.random.choice(["system", "user", "assistant", "tool"]), "parts": m.several(*parts)}
    return m.with_some(item, id=m.text, thread_id=m.text, name=m.text, metadata=m.object)


# LangChain, pydantic-ai, MCP


def _langchain_block(m: Maker) -> Any:
    media = m.random.choice(["image", "audio", "video", "file"])
    return m.random.choice(
        [
            m.text,
            lambda: m.with_some({"type": "text", "text": m.text()}, annotations=m.value, id=m.text),
            lambda: {"type": "reasoning", "reasoning": m.text()},
            lambda: m.with_some({"type": media}, url=m.text, base64=m.text, file_id=m.text, mime_type=m.text),
            lambda: {"type": media, "source_type": "base64", "data": m.text(), "mime_type": m.text()},
            lambda: m.with_some({"type": "text-plain", "text": m.text()}, title=m.text, context=m.text),
            lambda: {"type": "non_standard", "value": m.object()},
            lambda: {"type": "server_tool_call", "id": m.text(), "name": m.text(), "args": m.object()},
            lambda: {"type": "server_tool_result", "tool_call_id": m.text(), "output": m.value()},
            lambda: {"type": "tool_use", "id": m.text(), "name": m.text(), "input": m.object()},
            lambda: _chat_part(m),
            lambda: _anthropic_block(m),
        ]
    )()


def _langchain(m: Maker) -> dict[str, Any]:
    kind = m.random.choice(["human", "ai", "ai", "system", "tool", "function", "chat", "AIMessageChunk"])
    content = m.several(lambda: _langchain_block(m)) if m.maybe(0.7) else m.text()
    item = m.with_some(
        {"type": kind, "content": content},
        name=m.text,
        id=m.text,
        additional_kwargs=m.object,
        response_metadata=m.object,
    )
    call = {"name": m.text(), "args": m.object(), "id": m.text(), "type": "tool_call"}
    if kind in ("ai", "AIMessageChunk"):
        invalid = {"type": "invalid_tool_call", "id": m.text(), "name": m.text(), "args": m.text(), "error": m.text()}
        copy = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        item = m.with_some(item, tool_calls=lambda: [call], invalid_tool_calls=lambda: [invalid])
        if isinstance(content, list) and m.maybe():
            item["content"] = [*content, copy]
    if kind == "tool":
        item = m.with_some({**item, "tool_call_id": m.text()}, status=lambda: "error", artifact=m.value)
    if kind == "chat":
        item["role"] = m.random.choice(["user", "assistant", "system"])
    form = m.random.randrange(4)
    if form == 0:
        return {"type": kind, "data": item}
    name = kind if kind.endswith("Chunk") else f"{kind.title().replace('Ai', 'AI')}Message"
    return {"lc": 1, "type": "constructor", "id": ["langchain", m.text(), name], "kwargs": item} if form == 1 else item


def _pydantic_ai(m: Maker) -> dict[str, Any]:
    own = {"provider_name": m.text, "provider_details": m.object, "id": m.text}
    if m.maybe():
        parts = (
            lambda: m.with_some({"part_kind": "text", "content": m.text()}, **own),
            lambda: m.with_some({"part_kind": "thinking", "content": m.text()}, signature=m.text, **own),
            lambda: {"part_kind": "tool-call", "tool_name": m.text(), "tool_call_id": m.text(), "args": m.object()},
            lambda: {"part_kind": "tool-call", "tool_name": m.text(), "tool_call_id": m.text(), "args": m.text()},
            lambda: {"part_kind": "builtin-tool-call", "tool_name": m.text(), "args": m.value()},
            lambda: {"part_kind": "builtin-tool-return", "tool_name": m.text(), "content": m.value()},
            lambda: {"part_kind": "file", "content": {"kind": "binary", "data": m.text(), "media_type": m.text()}},
            lambda: {"part_kind": "novelty", "content": m.value()},
        )
        return m.with_some({"kind": "response", "parts": m.several(*parts)}, usage=m.object, model_name=m.text)
    content = (
        m.text,
        lambda: {"kind": "image-url", "url": m.text(), "identifier": m.text()},
        lambda: {"kind": "binary", "data": m.text(), "media_type": m.text()},
        lambda: {"kind": "text-content", "content": m.text(), "metadata": m.value()},
        lambda: {"kind": "uploaded-file", "file_id": m.text()},
    )
    parts = (
        lambda: m.with_some({"part_kind": "system-prompt", "content": m.text()}, dynamic_ref=m.text),
        lambda: {"part_kind": "user-prompt", "content": m.several(*content), "timestamp": m.text()},
        lambda: {"part_kind": "user-prompt", "content": m.text()},
        lambda: m.with_some(
            {"part_kind": "tool-return", "tool_name": m.text(), "tool_call_id": m.text(), "content": m.value()},
            outcome=m.text,
            metadata=m.value,
        ),
        lambda: m.with_some({"part_kind": "retry-prompt", "content": m.text()}, tool_name=m.text, tool_call_id=m.text),
        lambda: {"part_kind": "novelty", "content": m.value()},
    )
    return m.with_some({"kind": "request", "parts": m.several(*parts)}, instructions=m.text, run_id=m.text)


def _mcp_block(m: Maker) -> dict[str, Any]:
    resource = m.with_some({"uri": m.text()}, text=m.text, blob=m.text, mimeType=m.text)
    return m.random.choice(
        [
            lambda: m.with_some({"type": "text", "text": m.text()}, annotations=m.object, _meta=m.object),
            lambda: {"type": m.random.choice(["image", "audio"]), "data": m.text(), "mimeType": m.text()},
            lambda: {"type": "resource", "resource": resource},
            lambda: m.with_some({"type": "resource_link", "uri": m.text(), "name": m.text()}, description=m.text),
            lambda: {"type": "tool_use", "id": m.text(), "name": m.text(), "input": m.object()},
        ]
    )()


def _mcp(m: Maker) -> dict[str, Any]:
    result = m.with_some({"content": m.several(lambda: _mcp_block(m))}, structuredContent=m.value, isError=m.maybe)
    if m.maybe(0.25):
        return {"isError": False, **result}
    if m.maybe(0.25):
        return {"role": "user", "content": [{"type": "tool_result", "toolUseId": m.text(), **result}]}
    content = m.several(lambda: _mcp_block(m)) if m.maybe() else _mcp_block(m)
    return {"role": m.random.choice(["user", "assistant"]), "content": content}


MAKES: dict[str, Make] = {
    "penstock": _native,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "google": _google,
    "ai-sdk-ui": _ui,
    "ai-sdk-model": _model,
    "langchain": _langchain,
    "pydantic-ai": _pydantic_ai,
    "mcp": _mcp,
    "stored": _stored,
}


# What goes wrong on the way


def spoiled(item: Any, m: Maker) -> Any:
    """The message with something else in places: other keys, types, nesting."""
    places = list(_containers(item))
    for _ in range(m.random.randrange(1, 3)):
        inner, depth = m.random.choice(places)
        _spoil(inner, m, depth)
    return item


def _containers(value: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    if isinstance(value, (dict, list)):
        yield value, depth
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item, depth + 1)


def _spoil(inner: Any, m: Maker, depth: int) -> None:
    how = m.random.randrange(6)
    if isinstance(inner, list):
        inner.insert(0, m.value())
    elif how == 0 or not inner:
        inner[m.text() if m.maybe() else m.random.choice(_KEYS)] = m.value()
    else:
        key = m.random.choice(list(inner))
        was = inner[key]
        if how == 1:
            del inner[key]
        elif how == 2:
            inner[key] = m.value()
        elif how == 3:
            inner[key] = {"type": "text", "text": m.text(), m.text(): was}
        elif how == 4:
            inner[key] = m.text()
        else:
            inner[m.random.choice(_KEYS)] = inner.pop(key)


_KEYS = (
    *("type", "text", "content", "parts", "role", "name", "id", "data", "url", "source", "input", "args", "arguments"),
    *(
        "output",
        "result",
        "error",
        "tool_calls",
        "metadata",
        "title",
        "kind",
        "part_kind",
        "file",
        "file_id",
        "thinking",
    ),
    *(
        "providerMetadata",
        "mimeType",
        "mime_type",
        "functionCall",
        "function_call",
        "lc",
        "kwargs",
        "additional_kwargs",
    ),
    *("is_error", "isError", "structuredContent", "messages", "system", "contents", "instructions", "reasoning"),
)


# What was read


def strings_of(value: object) -> Iterator[str]:
    """Every string of a message, a part or a JSON value: the fields, and the keys and values of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from strings_of(key)
            yield from strings_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings_of(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from strings_of(getattr(value, field.name))


def markers_of(value: object) -> set[str]:
    """The markers in a value."""
    return {found for text in strings_of(value) for found in MARKER.findall(text)}


def made(name: str, seed: int, *, spoil: bool) -> list[dict[str, Any]]:
    """One to three random messages of a format."""
    maker = Maker(seed)
    items = [MAKES[name](maker) for _ in range(maker.random.randrange(1, 4))]
    return [spoiled(item, maker) if spoil and maker.maybe(0.7) else item for item in items]


def lost(items: list[dict[str, Any]], name: str | None) -> set[str] | None:
    """The markers that reading loses; None if the messages are refused."""
    try:
        messages: tuple[Message, ...] = parse_messages(items, name)  # type: ignore[arg-type]
    except MessageError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever else is raised is a fault, which is to be shown
        return {f"{type(error).__name__}: {error}"}
    return markers_of(items) - markers_of(messages)


def main(count: int) -> int:
    """Check that many messages of each kind, and print what was refused and what was lost."""
    seen: Counter[str] = Counter()
    failed = 0
    for seed in range(count):
        for name in FORMATS:
            for spoil in (False, True):
                for told in (name, None):
                    items = made(name, seed, spoil=spoil)
                    missing = lost(items, told)
                    kind = f"{name}, {'spoiled' if spoil else 'as it should be'}, {'told' if told else 'detected'}"
                    seen[f"{kind}: {'refused' if missing is None else 'read'}"] += 1
                    if missing:
                        failed += 1
                        if failed < 6:
                            print(kind, seed, sorted(missing), json.dumps(items)[:1500])  # noqa: T201
    for kind, number in sorted(seen.items()):
        print(f"{number:6} {kind}")  # noqa: T201
    print(f"{sum(seen.values())} lists of messages, {failed} of which lost a string")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
