"""Rows on prompts that end on an answer as they may have been recorded; what the reference does is after its spec.

No processor is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

TEXT = {"type": "text", "text": "hi"}
STEP = {"type": "step-start"}


def invocation(state: str) -> Fields:
    """Return a call in that state."""
    return {
        "type": "tool-invocation",
        "toolInvocation": {"state": state, "toolName": "t", "toolCallId": "c1", "args": {}, "result": "r"},
    }


def message(place: int, role: str, *parts: Fields) -> Fields:
    """Return a stored message."""
    content = {"format": 2, "parts": list(parts)}
    return {"id": f"m{place}", "role": role, "createdAt": f"2026-01-01T00:00:0{place}.000Z", "content": content}


def row(name: str, model: str, *parts: Fields, added: bool, **more: Any) -> Row:
    """Return a row: what a model is shown last, and whether a message is added."""
    provider, _, model_id = model.partition("/")
    given = {
        "method": "process_input_step",
        "model": {"provider": provider, "model_id": model_id},
        "messages": [message(1, "user", TEXT), message(2, "assistant", *parts)],
        **more,
    }
    expected = {"appended": [{"role": "user", "text": "Go on."}] if added else []}
    return Row("trailing_assistant_guard", name, Given({}, given), expected)


def rows() -> Sequence[Row]:
    """Return the rows."""
    gemini, claude = "google.generative-ai/gemini-3-pro", "anthropic.messages/"
    formed: Fields = {"structured_output": {}}
    return [
        row("settled_call", gemini, TEXT, invocation("result"), added=False),
        row("settled_call_and_step", gemini, TEXT, invocation("result"), STEP, added=False),
        row("open_call_behind_text", gemini, TEXT, invocation("call"), added=True),
        row("open_call_alone", gemini, invocation("call"), added=False),
        row("text_behind_a_settled_call", gemini, invocation("result"), STEP, TEXT, added=True),
        row("vertex", "google.vertex.chat/gemini-3.1-flash", TEXT, added=True),
        row("claude_46_formed", f"{claude}claude-opus-4-6", TEXT, added=True, **formed),
        row("claude_dated_formed", f"{claude}claude-sonnet-4-20250514", TEXT, added=False, **formed),
        row("claude_old_formed", f"{claude}claude-3-5-haiku-latest", TEXT, added=False, **formed),
        row("claude_5_formed", f"{claude}claude-opus-5", TEXT, added=True, **formed),
        row("claude_unknown_formed", f"{claude}claude-latest", TEXT, added=True, **formed),
        row("openai_formed", "openai.responses/gpt-5", TEXT, added=False, **formed),
    ]
