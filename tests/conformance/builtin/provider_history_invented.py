"""Rows on histories of other providers as they may have been recorded; what the reference does is after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

ANTHROPIC = {"provider": "anthropic.messages", "modelId": "claude-opus-4-6"}
REFUSED = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"


def said(text: str) -> Fields:
    """Return a text part."""
    return {"type": "text", "text": text}


def thought(text: str, **options: Any) -> Fields:
    """Return a reasoning part, with what a provider wants back."""
    return {"type": "reasoning", "text": text, **({"providerOptions": options} if options else {})}


def called(id: str, provider: str = "", **more: Any) -> Fields:
    """Return a call, run by a provider if one is named."""
    hosted = {"providerExecuted": True, "providerOptions": {provider: {"itemId": id}}} if provider else {}
    return {"type": "tool-call", "toolCallId": id, "toolName": "web", "input": {"q": 1}, **hosted, **more}


def result(id: str) -> Fields:
    """Return a result."""
    return {"type": "tool-result", "toolCallId": id, "toolName": "web", "output": {"type": "text", "value": "r"}}


def user(text: str) -> Fields:
    """Return a user's message."""
    return {"role": "user", "content": [said(text)]}


def assistant(*parts: Fields) -> Fields:
    """Return an assistant's message."""
    return {"role": "assistant", "content": list(parts)}


def prompt(name: str, model: Any, before: list[Fields], after: list[Fields] | None) -> Row:
    """Return a row on a prompt, with what the reference makes of it; None for nothing."""
    expected = {"changed": False} if after is None else {"changed": True, "prompt": after}
    given = {"method": "process_llm_request", "model": model, "prompt": before}
    return Row("provider_history_compat", name, Given({}, given), expected)


def stored(*ids: str) -> list[Fields]:
    """Return an assistant's stored message with calls of those ids."""
    parts = [
        {
            "type": "tool-invocation",
            "toolInvocation": {"state": "result", "toolName": "t", "toolCallId": id, "args": {}, "result": "r"},
        }
        for id in ids
    ]
    content = {"format": 2, "parts": parts}
    return [{"id": "a1", "role": "assistant", "createdAt": "2026-01-01T00:00:08.000Z", "content": content}]


def error(name: str, told: Fields, before: list[Fields], after: list[Fields], *, retried: bool) -> Row:
    """Return a row on an error."""
    given = {"method": "process_api_error", "error": told, "retry_count": 0, "messages": before}
    shown = [{"id": row["id"], "parts": row["content"]["parts"]} for row in after]
    expected = {"result": {"retry": True} if retried else None, "messages": shown}
    return Row("provider_history_compat", name, Given({}, given), expected)


def thoughts() -> list[Row]:
    """Return the rows on reasoning."""
    asked, foreign = user("a"), thought("foreign")
    open_turn = [asked, assistant(foreign, called("c1")), {"role": "tool", "content": [result("c1")]}]
    closed = [*open_turn, assistant(said("b")), user("c")]
    bare = [asked, assistant(called("c1")), *closed[2:]]
    return [
        prompt("open_turn_is_kept", ANTHROPIC, open_turn, None),
        prompt("closed_turn_is_not", ANTHROPIC, closed, bare),
        prompt("other_providers_keep_it", "openai/gpt-5", closed, None),
        prompt("an_empty_turn", ANTHROPIC, [asked, assistant(foreign), user("c")], [asked, assistant(), user("c")]),
        prompt(
            "any_of_several",
            ["openai/gpt-5", "cerebras/glm"],
            [asked, assistant(foreign, said("b")), user("c")],
            [asked, assistant(said("b")), user("c")],
        ),
        prompt("nobody_knows_whom", {"dynamic": True}, closed, None),
        prompt(
            "redacted_is_kept",
            ANTHROPIC,
            [asked, assistant(thought("", anthropic={"redactedData": "x"}), said("b")), user("c")],
            None,
        ),
    ]


def tools() -> list[Row]:
    """Return the rows on tools that providers ran, and on reminders."""
    asked = user("a")
    hosted = [asked, assistant(said("b"), called("c1", "openai"), result("c1")), user("c")]
    bare = [asked, assistant(said("b")), user("c")]
    alone = [asked, assistant(called("c1", "anthropic"), result("c1")), user("c")]
    reminded, renamed = (
        [{"role": "system", "content": f"<{tag}>x</{tag}>"}, user(f"<{tag} id='1'>y</{tag}> z"), assistant(said(tag))]
        for tag in ("system-reminder", "memory-context")
    )
    renamed[-1] = reminded[-1]
    return [
        prompt("hosted_by_another_family", ANTHROPIC, hosted, bare),
        prompt("hosted_by_the_same_family", {"provider": "azure.responses", "modelId": "gpt-5"}, hosted, None),
        prompt("hosted_turn_alone", "google:gemini-3-pro", alone, [asked, user("c")]),
        prompt("own_tools_stay", "openai/gpt-5", [asked, assistant(called("c1"), result("c1")), user("c")], None),
        prompt("azure_reminders", {"provider": "azure.chat", "modelId": "gpt-5"}, reminded, renamed),
        prompt("openai_reminders", "openai/gpt-5", reminded, None),
    ]


def rows() -> Sequence[Row]:
    """Return the rows."""
    body = {"message": "Bad Request", "responseBody": REFUSED}
    return [
        *thoughts(),
        *tools(),
        error("fix_tool_id", {"message": REFUSED}, stored("a.1", "ok"), stored("a_1", "ok"), retried=True),
        error("fix_tool_id_collision", {"message": REFUSED}, stored("a.1", "a:1"), stored("a_1", "a_1"), retried=True),
        error("fix_by_body", {**body, "api_call_error": True}, stored("a.1"), stored("a_1"), retried=True),
        error("body_of_a_plain_error", body, stored("a.1"), stored("a.1"), retried=False),
        error("no_error", {"plain": {"message": REFUSED}}, stored("a.1"), stored("a.1"), retried=False),
    ]
