"""The tables of OpenAI's responses: requests, answers, and all events of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.workflows.gateway.tables import (
    COUNTS,
    ECHO,
    HOSTED_TOOLS,
    MESSAGE,
    OFFSET,
    REASONING,
    SEALED,
    STATE,
    TERM,
    TEXT,
    TOKENS,
    VALUE,
    ByType,
    EachItem,
    Field,
    Obj,
    OneOf,
    Spec,
    repeated,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TERMS: Final = Obj({}, TERM)


def _all(names: Iterable[str], spec: Spec) -> dict[str, Spec]:
    return dict.fromkeys(names, spec)


# Requests


def _state(does: str) -> Field:
    return Field("refused", f"{does}; leave it out", permit=STATE)


_STORE = _state("keeps the answer at the provider as it was before any guard; the gateway sends store: false")
_PREVIOUS = _state("takes a conversation from the provider, which no guard reads; send it as `input`")
_BACKGROUND = _state("keeps the answer at the provider, to be fetched past the guards")
_PROMPT = _state("is filled in at the provider, where no guard reads it; send it as `instructions` and `input`")
_REFERENCE = _state("takes an item from the provider, which no guard reads; send the item itself")
_HOSTED = Field(
    "refused",
    "is a tool that the provider runs: it asks it, and reads its results, past the guards; leave it out, or run a "
    "tool of your own",
    permit=HOSTED_TOOLS,
)

HOSTED: Final = (
    *("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search"),
    *("code_interpreter", "image_generation", "mcp", "computer", "computer_use_preview", "programmatic_tool_calling"),
)
_FUNCTIONS: Mapping[str, Spec] = {"function": VALUE, "custom": VALUE}
_SHELL = Obj(
    {
        "environment": ByType({"local": VALUE, "container_auto": _HOSTED, "container_reference": _HOSTED}),
        "allowed_callers": TERM,
    }
)


def _tool(read: Field, functions: Mapping[str, Spec]) -> ByType:
    return ByType(
        {
            **functions,
            "namespace": Obj({"name": read, "description": read, "tools": EachItem(ByType(functions))}),
            "shell": _SHELL,
            **_all(("local_shell", "apply_patch", "tool_search"), read),
            **_all(HOSTED, _HOSTED),
        }
    )


TOOL: Final = _tool(VALUE, _FUNCTIONS)
_LATER_TOOLS = Obj(
    {
        **_all(("role", "id", "call_id", "execution", "status", "created_by"), TERM),
        "tools": EachItem(_tool(MESSAGE, _all(_FUNCTIONS, MESSAGE))),
    }
)

_OWN_ITEMS = (
    *("message", "reasoning", "compaction", "compaction_trigger", "configuration_update"),
    *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    *("computer_call", "computer_call_output", "local_shell_call", "local_shell_call_output"),
    *("shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output"),
    *("mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
    *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
    *("tool_search_call", "program", "program_output"),
)
_ITEM_IN = ByType(
    {
        **_all(_OWN_ITEMS, MESSAGE),
        "item_reference": _REFERENCE,
        **_all(("additional_tools", "tool_search_output"), _LATER_TOOLS),
    },
    usual=MESSAGE,
)

REQUEST: Final = Obj(
    {
        "model": TERM,
        "input": OneOf(text=MESSAGE, items=EachItem(_ITEM_IN)),
        "instructions": OneOf(text=MESSAGE),
        "tools": EachItem(TOOL),
        **_all(("tool_choice", "metadata", "moderation", "safety_identifier", "user"), VALUE),
        "text": Obj({"format": VALUE, "verbosity": TERM}),
        **_all(("reasoning", "stream_options", "prompt_cache_options", "image", "access_programs"), TERMS),
        **_all(
            ("stream", "include", "max_output_tokens", "max_tool_calls", "parallel_tool_calls", "temperature"), TERM
        ),
        **_all(("top_p", "truncation", "service_tier", "prompt_cache_key", "prompt_cache_retention"), TERM),
        "context_management": EachItem(TERMS),
        "top_logprobs": Field(
            "refused", "asks for other words than those of the answer, which no guard reads; leave it out"
        ),
        "store": _STORE,
        "previous_response_id": _PREVIOUS,
        "conversation": _PREVIOUS,
        "background": _BACKGROUND,
        "background_options": _BACKGROUND,
        "prompt": _PROMPT,
    }
)


# Answers

_ANNOTATION = ByType(
    {
        "file_citation": Obj({"file_id": TERM, "filename": VALUE, "index": OFFSET}),
        "url_citation": Obj({"start_index": OFFSET, "end_index": OFFSET, "title": VALUE, "url": VALUE}),
        "container_file_citation": Obj(
            {"container_id": TERM, "file_id": TERM, "filename": VALUE, "start_index": OFFSET, "end_index": OFFSET}
        ),
        "file_path": Obj({"file_id": TERM, "index": OFFSET}),
    }
)
PART: Final = ByType(
    {
        "output_text": Obj({"text": TEXT, "annotations": EachItem(_ANNOTATION), "logprobs": TOKENS}),
        "refusal": Obj({"refusal": TEXT}),
        "reasoning_text": Obj({"text": REASONING}),
    }
)
_SUMMARY = ByType({"summary_text": Obj({"text": REASONING})})

_NAME, _ID = Field("call_name"), Field("call_id")
_OF_CALL: Mapping[str, Spec] = {
    **_all(("id", "status", "namespace", "async", "created_by"), TERM),
    "caller": TERMS,
}


def _arguments(tool: str = "") -> Field:
    return Field("arguments", tool=tool)


_CALLS: Mapping[str, Spec] = {
    "function_call": Obj({**_OF_CALL, "call_id": _ID, "name": _NAME, "arguments": _arguments()}),
    "custom_tool_call": Obj({**_OF_CALL, "call_id": _ID, "name": _NAME, "input": _arguments()}),
    "mcp_call": Obj(
        {
            **_all(("id", "status", "server_label", "approval_request_id"), TERM),
            "name": _NAME,
            "arguments": _arguments(),
            "output": VALUE,
            "error": VALUE,
        }
    ),
    "mcp_approval_request": Obj({"id": TERM, "server_label": TERM, "name": _NAME, "arguments": _arguments()}),
    "code_interpreter_call": Obj(
        {
            **_all(("id", "status", "container_id"), TERM),
            "code": _arguments("code_interpreter"),
            "outputs": VALUE,
        }
    ),
    "computer_call": Obj(
        {
            **_all(("id", "status", "call_id"), TERM),
            **_all(("action", "actions"), _arguments("computer")),
            "pending_safety_checks": VALUE,
        }
    ),
    "local_shell_call": Obj({**_all(("id", "status", "call_id"), TERM), "action": _arguments("local_shell")}),
    "shell_call": Obj(
        {
            **_OF_CALL,
            "call_id": TERM,
            "action": Obj(
                {"commands": EachItem(_arguments("shell")), **_all(("max_output_length", "timeout_ms"), TERM)},
            ),
            "environment": VALUE,
        }
    ),
    "apply_patch_call": Obj(
        {
            **_OF_CALL,
            "call_id": TERM,
            "operation": Obj({"type": TERM, "path": VALUE, "diff": _arguments("apply_patch")}),
        }
    ),
    "tool_search_call": Obj(
        {**_OF_CALL, "call_id": TERM, "execution": TERM, "arguments": _arguments("tool_search")},
    ),
    "program": Obj({"id": TERM, "call_id": TERM, "code": _arguments("program"), "fingerprint": SEALED}),
}

_OF_RESULT: Mapping[str, Spec] = {
    **_all(("id", "call_id", "status", "name", "namespace", "created_by", "execution"), TERM),
    "caller": TERMS,
}
_OUTPUT = Obj({"stdout": TEXT, "stderr": TEXT, "outcome": TERMS, "created_by": TERM})
_RESULTS: Mapping[str, Spec] = {
    **_all(
        (
            *("function_call_output", "custom_tool_call_output", "local_shell_call_output"),
            *("apply_patch_call_output", "computer_call_output"),
        ),
        Obj({**_OF_RESULT, "output": VALUE, "acknowledged_safety_checks": VALUE}),
    ),
    "shell_call_output": Obj({**_OF_RESULT, "output": EachItem(_OUTPUT), "max_output_length": TERM}),
    "tool_search_output": Obj({**_OF_RESULT, "tools": VALUE}),
    "additional_tools": Obj({"id": TERM, "role": TERM, "tools": VALUE}),
    "program_output": Obj({**_OF_RESULT, "result": VALUE}),
    "mcp_list_tools": Obj({"id": TERM, "server_label": TERM, "tools": VALUE, "error": VALUE}),
    "mcp_approval_response": Obj({"id": TERM, "approval_request_id": TERM, "approve": TERM, "reason": VALUE}),
    "web_search_call": Obj({"id": TERM, "status": TERM, "action": VALUE, "results": VALUE}),
    "file_search_call": Obj({"id": TERM, "status": TERM, "queries": VALUE, "results": VALUE}),
    "image_generation_call": Obj(
        {
            **_all(("id", "status", "action", "background", "output_format", "quality", "size"), TERM),
            "result": SEALED,
            "revised_prompt": VALUE,
            "error": VALUE,
            "svg_usage": Obj({}, COUNTS),
        }
    ),
}

ITEM: Final = ByType(
    {
        "message": Obj({**_all(("id", "role", "status", "phase"), TERM), "content": EachItem(PART)}),
        "reasoning": Obj(
            {
                **_all(("id", "status", "format"), TERM),
                "summary": EachItem(_SUMMARY),
                "content": EachItem(PART),
                "encrypted_content": SEALED,
                "signature": SEALED,
            }
        ),
        "compaction": Obj({"id": TERM, "created_by": TERM, "encrypted_content": SEALED}),
        **_CALLS,
        **_RESULTS,
    }
)


def _response(item: Spec) -> Obj:
    return Obj(
        {
            **_all(("id", "object", "status", "model", "created_at", "completed_at", "background", "store"), TERM),
            "output": EachItem(item),
            **_all(("instructions", "metadata", "tools", "tool_choice", "text", "reasoning", "user"), ECHO),
            **_all(("safety_identifier", "prompt", "prompt_cache_key"), ECHO),
            **_all(("temperature", "top_p", "max_output_tokens", "max_tool_calls", "parallel_tool_calls"), TERM),
            **_all(("frequency_penalty", "presence_penalty", "top_logprobs", "truncation", "service_tier"), TERM),
            **_all(("prompt_cache_retention", "previous_response_id"), TERM),
            **_all(("usage", "tool_usage"), Obj({}, COUNTS)),
            **_all(("incomplete_details", "conversation", "image", "access_programs", "billing"), TERMS),
            **_all(("prompt_cache_options", "prompt_cache_diagnostics"), TERMS),
            "input_transformations": EachItem(TERMS),
            **_all(("error", "moderation", "content_filters", "output_text"), VALUE),
        }
    )


ANSWER: Final = _response(ITEM)


# Events

_HEAD: Mapping[str, Spec] = _all(("type", "sequence_number", "item_id", "output_index"), TERM)


def _event(**fields: Spec) -> Obj:
    return Obj({**_HEAD, **fields})


def _spelled(prefix: str, place: str, piece: Field, last: str) -> dict[str, Spec]:
    """Return the events of a text that is spelled: its pieces, and all of it."""
    return {
        f"response.{prefix}.delta": _event(**{place: TERM, "delta": piece, "obfuscation": SEALED}),
        f"response.{prefix}.done": _event(**{place: TERM, last: repeated(piece)}),
    }


def _called(prefix: str, last: str, tool: str = "") -> dict[str, Spec]:
    """Return the events of the arguments of a call, which some providers name again at their end."""
    made = _spelled(prefix, "obfuscation", _arguments(tool), last)
    done = f"response.{prefix}.done"
    return {**made, done: _event(name=repeated(_NAME), **{last: repeated(_arguments(tool))})}


def _steps(tool: str, *steps: str) -> dict[str, Spec]:
    return {f"response.{tool}.{step}": _event() for step in steps}


_LIFE = _event(response=_response(repeated(ITEM)))
_STEER = Field("refused", "brings input in the middle of an answer, which no guard has read")
_SPEECH = Field("refused", "is speech, which no guard hears")

EVENTS: Final[Mapping[str, Spec]] = {
    **_all([f"response.{step}" for step in ("created", "queued", "in_progress")], _LIFE),
    **_all([f"response.{step}" for step in ("completed", "failed", "incomplete")], _LIFE),
    "error": _event(code=TERM, message=VALUE, param=VALUE),
    "response.output_item.added": _event(item=ITEM),
    "response.output_item.done": _event(item=repeated(ITEM)),
    "response.content_part.added": _event(content_index=TERM, part=PART),
    "response.content_part.done": _event(content_index=TERM, part=repeated(PART)),
    "response.reasoning_part.added": _event(content_index=TERM, part=PART),  # vLLM
    "response.reasoning_part.done": _event(content_index=TERM, part=repeated(PART)),
    "response.output_text.delta": _event(content_index=TERM, delta=TEXT, logprobs=TOKENS, obfuscation=SEALED),
    "response.output_text.done": _event(content_index=TERM, text=repeated(TEXT), logprobs=TOKENS),
    "response.output_text.annotation.added": _event(content_index=TERM, annotation_index=TERM, annotation=_ANNOTATION),
    **_spelled("refusal", "content_index", TEXT, "refusal"),
    **_spelled("reasoning_text", "content_index", REASONING, "text"),
    **_spelled("reasoning_summary_text", "summary_index", REASONING, "text"),
    "response.reasoning_summary_part.added": _event(summary_index=TERM, part=_SUMMARY),
    "response.reasoning_summary_part.done": _event(summary_index=TERM, part=repeated(_SUMMARY), status=TERM),
    **_called("function_call_arguments", "arguments"),
    **_called("custom_tool_call_input", "input"),
    **_called("mcp_call_arguments", "arguments"),
    **_called("code_interpreter_call_code", "code", "code_interpreter"),
    **_called("apply_patch_call_operation_diff", "diff", "apply_patch"),
    "response.shell_call_command.added": _event(command_index=TERM, command=_arguments("shell")),
    **_spelled("shell_call_command", "command_index", _arguments("shell"), "command"),
    "response.shell_call_output_content.delta": _event(
        command_index=TERM, delta=Obj({"stdout": TEXT, "stderr": TEXT}), obfuscation=SEALED
    ),
    "response.shell_call_output_content.done": _event(command_index=TERM, output=EachItem(repeated(_OUTPUT))),
    **_steps("web_search_call", "in_progress", "searching", "completed"),
    **_steps("file_search_call", "in_progress", "searching", "completed"),
    **_steps("code_interpreter_call", "in_progress", "interpreting", "completed"),
    **_steps("image_generation_call", "in_progress", "generating", "completed"),
    **_steps("mcp_call", "in_progress", "completed", "failed"),
    **_steps("mcp_list_tools", "in_progress", "completed", "failed"),
    **_steps("compaction", "compacting"),
    "response.image_generation_call.partial_image": _event(
        partial_image_b64=SEALED,
        **_all(("partial_image_index", "background", "output_format", "quality", "size"), TERM),
    ),
    "response.audio.delta": _event(delta=_SPEECH),
    "response.audio.done": _event(),
    "response.audio.transcript.delta": _event(delta=TEXT),
    "response.audio.transcript.done": _event(),
    **_all([f"response.steer.{step}" for step in ("accepted", "failed", "pending")], _STEER),
    "keepalive": _event(),
}
