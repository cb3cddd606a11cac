"""A request, an answer and a stream of Anthropic's messages in which all usual fields stand, and those of its betas."""

from __future__ import annotations

from typing import Any

CACHE = {"type": "ephemeral", "ttl": "5m"}
PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
CITED = {
    "type": "char_location",
    "cited_text": "Two pairs",
    "document_index": 0,
    "document_title": "The shop",
    "start_char_index": 0,
    "end_char_index": 9,
    "file_id": None,
}
FOUND = {
    "type": "web_search_result_location",
    "cited_text": "Three pairs",
    "title": "A page",
    "url": "https://example.com",
    "encrypted_index": "RW5jcnlwdGVk",
}
USAGE = {
    "input_tokens": 10,
    "output_tokens": 2,
    "cache_creation_input_tokens": 3,
    "cache_read_input_tokens": 4,
    "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0},
    "service_tier": "standard",
    "server_tool_use": {"web_search_requests": 1},
    "output_tokens_details": {"thinking_tokens": 1},
    "iterations": [{"type": "message", "input_tokens": 10, "output_tokens": 2, "model": "claude-opus-4-8"}],
    "inference_geo": "us",
}
SEARCH = {
    "name": "find",
    "description": "Finds things.",
    "input_schema": {"type": "object", "properties": {"q": {"type": "string", "description": "the words"}}},
    "input_examples": [{"q": "shoes"}],
    "cache_control": CACHE,
}


def request() -> dict[str, Any]:
    text = {"type": "text", "text": "Two pairs", "media_type": "text/plain"}
    call = {"type": "tool_use", "id": "toolu_01", "name": "find", "input": {"q": "shoes"}, "caller": {"type": "direct"}}
    found = [{"type": "text", "text": "Two pairs"}, {"type": "image", "source": PICTURE}]
    return {
        "model": "claude-opus-4-8",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHE}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Good day", "cache_control": CACHE},
                    {"type": "document", "source": text, "title": "The shop", "context": "A shop of shoes"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Shoes, then.", "signature": "c2lnbmVk"},
                    {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="},
                    {"type": "text", "text": "I look.", "citations": [CITED]},
                    call,
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_01", "content": found, "is_error": False},
                    {"type": "text", "text": "Thanks"},
                ],
            },
            {"role": "system", "content": "Now briefer."},
        ],
        "tools": [SEARCH, {"type": "bash_20250124", "name": "bash"}],
        "tool_choice": {"type": "tool", "name": "find", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024, "block_binding": {"prefix_mismatch_behavior": "error"}},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "u-1"},
        "stop_sequences": ["END"],
        "service_tier": "auto",
        "fallbacks": [{"model": "claude-sonnet-5", "max_tokens": 10}],
    }


def answer() -> dict[str, Any]:
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [
            {"type": "thinking", "thinking": "A greeting.", "signature": "c2lnbmVk"},
            {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="},
            {"type": "text", "text": "Good day", "citations": [CITED, FOUND]},
            {"type": "tool_use", "id": "toolu_01", "name": "find", "input": {"q": "shoes"}},
            {"type": "compaction", "content": "They greet.", "encrypted_content": "ZW5j", "signature": "c2ln"},
            {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal"}},
            *_searched(),
        ],
        "stop_reason": "tool_use",
        "stop_sequence": "END",
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."},
        "container": {"id": "container_1", "expires_at": "2026-11-29T20:00:00Z", "skills": None},
        "context_management": {"applied_edits": [{"type": "clear_thinking_20251015", "cleared_thinking_turns": 1}]},
        "input_transformations": [{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "a"}],
        "diagnostics": {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 2}},
        "usage": USAGE,
    }


def _searched() -> list[dict[str, Any]]:
    page = {
        "type": "web_search_result",
        "title": "A page",
        "url": "https://example.com",
        "page_age": "3 days",
        "encrypted_content": "RW5j",
    }
    source = {"type": "text", "media_type": "text/plain", "data": "Shoes"}
    fetched = {
        "type": "web_fetch_result",
        "url": "https://example.com",
        "retrieved_at": "2026-11-29T20:00:00Z",
        "content": {"type": "document", "title": "A page", "source": source, "citations": {"enabled": True}},
    }
    ran = {"type": "bash_code_execution_result", "stdout": "shoes", "stderr": "none", "return_code": 0, "content": []}
    return [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "shoes"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]},
        {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": fetched},
        {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": ran},
        {"type": "mcp_tool_result", "tool_use_id": "srvtoolu_1", "is_error": False, "content": "shoes"},
        {"type": "container_upload", "file_id": "file_1"},
    ]


def events() -> list[tuple[str, dict[str, Any]]]:
    head = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": []}
    begun = {**head, "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    made += _block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "A gree", "estimated_tokens": 3},
        {"type": "thinking_delta", "thinking": "ting.", "estimated_tokens": 4},
        {"type": "signature_delta", "signature": "c2lnbmVk"},
    )
    made += _block(
        1,
        {"type": "text", "text": "", "citations": []},
        {"type": "text_delta", "text": "Good"},
        {"type": "text_delta", "text": " day"},
        {"type": "citations_delta", "citation": CITED},
    )
    made += _block(2, {"type": "text", "text": "It is"}, {"type": "text_delta", "text": " so."})
    made += _block(
        3,
        {"type": "tool_use", "id": "toolu_01", "name": "find", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"q": "sh'},
        {"type": "input_json_delta", "partial_json": 'oes"}'},
    )
    made += _block(
        4,
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "They greet.", "encrypted_content": "ZW5j"},
    )
    made += [
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 12},
        },
        {"type": "message_stop"},
    ]
    return [(str(one["type"]), one) for one in made]


def _block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]
