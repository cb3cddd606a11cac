"""Anthropic's `/v1/messages`: for every field of a request, an answer and an event, who reads it.

Taken from the types of ``anthropic`` 2.14, those of its betas too, and from what Claude Code 2.1 sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.workflows.gateway.tables import (
    COUNTS,
    HOSTED_TOOLS,
    MESSAGE,
    REASONING,
    SEAL,
    SEALED,
    STATE,
    TERM,
    TEXT,
    VALUE,
    ByType,
    EachItem,
    Field,
    Obj,
    OneOf,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.workflows.gateway.tables import Spec

NO_THREADS: Final = "thread_unsupported_request"
"""The error code of Anthropic's API at which the tool runners of its libraries send all messages instead."""

_HOSTED = Field(
    "refused",
    "runs at the provider, where no guard reads what it is asked and what it finds; leave it out, and let the client "
    "run a tool of its own",
    permit=HOSTED_TOOLS,
)
_STATE = Field(
    "refused",
    "keeps the conversation at the provider, where no guard hides anything; leave it out, and send all messages",
    permit=STATE,
    code=NO_THREADS,
)
_BY_CLIENT = Field("value", "run by the client")

TOOL: Final = ByType(
    {
        **dict.fromkeys(("custom", "bash_*", "text_editor_*", "computer_*", "memory_*"), _BY_CLIENT),
        **dict.fromkeys(("computer_toolset_*", "browser_toolset_*"), _BY_CLIENT),
        **dict.fromkeys(
            (
                *("tool_search_tool_bm25", "tool_search_tool_bm25_*"),
                *("tool_search_tool_regex", "tool_search_tool_regex_*"),
            ),
            Field("value", "searches the tools of the request only"),
        ),
        **dict.fromkeys(("web_search_*", "web_fetch_*", "code_execution_*", "advisor_*", "mcp_toolset"), _HOSTED),
    },
    usual=_BY_CLIENT,
)
"""A tool that the client offers; also the definition in a block that adds one to a conversation."""

_TERMS = (
    *("model", "max_tokens", "stream", "temperature", "top_k", "top_p", "service_tier", "speed", "inference_geo"),
    *("billing_policy", "cache_control", "fallback_credit_token", "anthropic_version", "anthropic_beta"),
)

COUNTED: Final[Mapping[str, Spec]] = {
    **dict.fromkeys(_TERMS, TERM),
    "messages": MESSAGE,
    "system": MESSAGE,
    "tools": EachItem(TOOL),
    "tool_choice": VALUE,
    "thinking": Obj({}, TERM),
    "output_config": Obj({"format": VALUE}, TERM),
    "output_format": VALUE,
    "context_management": Obj({"edits": EachItem(Obj({"instructions": VALUE}, TERM))}),
    "compaction": Obj({"instructions": VALUE}, TERM),
    "mcp_servers": Field("refused", _HOSTED.note, (None, "", []), permit=HOSTED_TOOLS),
}
"""The fields of a request whose tokens are counted."""

REQUEST: Final = Obj(
    {
        **COUNTED,
        "stop_sequences": EachItem(VALUE),
        "metadata": Obj({"user_id": VALUE}),
        "diagnostics": Obj({}, TERM),
        "fallbacks": OneOf(TERM, EachItem(Obj({"output_config": Obj({"format": VALUE}, TERM)}, TERM))),
        "container": _HOSTED,
        "thread": _STATE,
    }
)

_CITATION = Obj(
    {
        **dict.fromkeys(("cited_text", "document_title", "title", "url", "source"), VALUE),
        "encrypted_index": SEALED,
    },
    TERM,
)
_CALL = Obj(
    {
        "id": Field("call_id"),
        "name": Field("call_name"),
        "input": Field("arguments"),
        "server_name": VALUE,
        "caller": Obj({}, TERM),
        "toolset_name": TERM,
    }
)
_SEARCHED = Obj({**dict.fromkeys(("title", "url", "page_age"), VALUE), "encrypted_content": SEALED}, TERM)
_SOURCE = ByType({"base64": Obj({"data": SEALED, "media_type": TERM}), "text": Obj({"data": VALUE}, TERM)})
_FETCHED = Obj(
    {"url": VALUE, "content": Obj({"source": _SOURCE, "title": VALUE, "citations": Obj({}, TERM)}, TERM)}, TERM
)
_RAN = Obj({"encrypted_stdout": SEALED, "encrypted_content": SEALED, "type": TERM}, VALUE)


def _result(content: Spec) -> Obj:
    return Obj({"content": content, "tool_use_id": TERM, "is_error": TERM, "caller": Obj({}, TERM)})


_RESULTS = {
    "web_search_tool_result": _result(OneOf(items=EachItem(_SEARCHED), obj=Obj({}, TERM))),
    "web_fetch_tool_result": _result(_FETCHED),
    **{
        f"{name}_tool_result": _result(_RAN)
        for name in ("code_execution", "bash_code_execution", "text_editor_code_execution", "advisor", "tool_search")
    },
    "mcp_tool_result": _result(VALUE),
}
_BLOCK = ByType(
    {
        "text": Obj({"text": TEXT, "citations": EachItem(_CITATION)}),
        "thinking": Obj({"thinking": REASONING, "signature": SEAL}),
        "redacted_thinking": Obj({"data": SEALED}),
        **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), _CALL),
        **_RESULTS,
        "container_upload": Obj({"file_id": TERM}),
        "compaction": Obj({"content": TEXT, "encrypted_content": SEAL, "signature": SEAL, "tool_changes": VALUE}),
        "fallback": Obj({}, TERM),
        "mcp_tool_listing": Obj({}, VALUE),
    }
)
_STOP: Mapping[str, Spec] = {
    "stop_reason": TERM,
    "stop_sequence": VALUE,
    "stop_details": Obj({"explanation": VALUE}, TERM),
    "container": Obj({}, TERM),
}
_MORE: Mapping[str, Spec] = {
    "usage": Obj({}, COUNTS),
    "context_management": Obj({}, COUNTS),
    "input_transformations": EachItem(Obj({}, TERM)),
}

ANSWER: Final = Obj(
    {
        **dict.fromkeys(("id", "type", "role", "model"), TERM),
        "content": EachItem(_BLOCK),
        **_STOP,
        **_MORE,
        "diagnostics": Obj({}, TERM),
    }
)

_DELTA = ByType(
    {
        "text_delta": Obj({"text": TEXT}),
        "thinking_delta": Obj({"thinking": REASONING, "estimated_tokens": TERM}),
        "signature_delta": Obj({"signature": SEAL}),
        "input_json_delta": Obj({"partial_json": Field("arguments")}),
        "citations_delta": Obj({"citation": _CITATION}),
        "compaction_delta": Obj({"content": TEXT, "encrypted_content": SEAL, "signature": SEAL}),
    }
)

EVENTS: Final[Mapping[str, Spec]] = {
    "message_start": Obj({"type": TERM, "message": ANSWER}),
    "content_block_start": Obj({"type": TERM, "index": TERM, "content_block": _BLOCK}),
    "content_block_delta": Obj({"type": TERM, "index": TERM, "delta": _DELTA}),
    "content_block_stop": Obj({"type": TERM, "index": TERM}),
    "message_delta": Obj({"type": TERM, "delta": Obj(_STOP), **_MORE}),
    "message_stop": Obj({"type": TERM}),
    "ping": Obj({"type": TERM}),
    "error": Obj({"type": TERM, "error": Obj({"type": TERM}, VALUE), "request_id": TERM}),
}
