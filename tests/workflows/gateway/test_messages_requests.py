"""Requests to Anthropic's messages: what goes on to the provider, what is hidden in them, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock import Message, PIIDetector, Processor
from penstock.workflows.gateway.endpoints.messages import CountTokens, Messages
from penstock.workflows.gateway.endpoints.messages_sections import EDITED
from tests.workflows.gateway.exchanges import Got, Scripted, run_exchange

MAIL = "ann@example.com"
HIDDEN = "a*n@*******.com"
ASK: dict[str, Any] = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
FINE = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [{"type": "text", "text": "Fine."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
RECORDED = json.loads((Path(__file__).parent / "recorded" / "claude_code.json").read_text())


def dumped(value: Any) -> bytes:
    """As the clients of Anthropic write JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


async def asked(body: Any, guard: Processor | None = None, **more: Any) -> tuple[Got, Scripted]:
    upstream = Scripted([dumped(FINE)], "application/json")
    got = await run_exchange(
        more.pop("endpoint", Messages()), body, upstream, guard or PIIDetector(strategy="redact"), **more
    )
    return got, upstream


async def sent(body: Any, guard: Processor | None = None) -> Any:
    got, upstream = await asked(body, guard)
    assert got.status == 200, got.body
    return upstream.got


async def test_what_claude_code_sends_goes_on_byte_by_byte():
    first = RECORDED["first"]
    turns = [first, {**first, "messages": [*first["messages"], *RECORDED["then"]]}]
    for body in turns:
        got, upstream = await asked({**body, "stream": False})
        assert (got.status, got.ended.unknown, got.ended.edited) == (200, (), False)
        assert upstream.asked[0].body == json.dumps({**body, "stream": False}).encode()


async def test_what_claude_code_s_tool_found_is_hidden_and_nothing_else_changes():
    first = RECORDED["first"]
    call, result = RECORDED["then"]
    found = {**result, "content": [{**result["content"][0], "content": f"owner: {MAIL}"}]}
    body = {**first, "stream": False, "messages": [*first["messages"], call, found]}
    made = await sent(body)
    assert made["messages"][-1]["content"][0] == {**found["content"][0], "content": f"owner: {HIDDEN}"}
    assert {**made, "messages": made["messages"][:-1]} == {**body, "messages": body["messages"][:-1]}


async def test_the_history_is_hidden_the_same_way_in_each_turn():
    signed = {"type": "thinking", "thinking": f"It is {MAIL}.", "signature": "c2lnbmVk"}
    call = {"type": "tool_use", "id": "toolu_01", "name": "mail", "input": {"to": MAIL}}
    result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": [{"type": "text", "text": f"To {MAIL}"}]}
    turns = [
        {"role": "user", "content": f"I am {MAIL}, “quoted”."},
        {"role": "assistant", "content": [signed, {"type": "text", "text": "I write."}, call]},
        {
            "role": "user",
            "content": [result, {"type": "text", "text": "Well?", "cache_control": {"type": "ephemeral"}}],
        },
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": f"Now {MAIL} again"},
    ]
    bodies = []
    for count in (1, 3, 5):
        _, upstream = await asked(dumped({"model": "m", "max_tokens": 9, "messages": turns[:count]}))
        bodies.append(upstream.asked[0].body)
    assert all(later.startswith(before[:-2]) for before, later in pairwise(bodies))
    assert not any(MAIL.encode() in body for body in bodies)


# Thoughts and their signatures


async def test_a_signed_thought_that_a_guard_changes_is_left_out_of_the_history():
    content = [
        {"type": "thinking", "thinking": f"It is {MAIL}.", "signature": "c2lnbmVk"},
        {"type": "thinking", "thinking": "It is Tuesday.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "text", "text": "Fine."},
    ]
    body = {**ASK, "messages": [*ASK["messages"], {"role": "assistant", "content": content}, *ASK["messages"]]}
    assert (await sent(body))["messages"][1]["content"] == content[1:]
    alone = {**body, "messages": [{"role": "assistant", "content": content[:1]}, *ASK["messages"]]}
    assert (await sent(alone))["messages"] == ASK["messages"]


async def test_a_provider_that_signs_nothing_gets_its_changed_thought():
    content = [{"type": "thinking", "thinking": f"It is {MAIL}."}, {"type": "text", "text": "Fine."}]
    body = {**ASK, "messages": [{"role": "assistant", "content": content}, *ASK["messages"]]}
    assert (await sent(body))["messages"][0]["content"][0] == {"type": "thinking", "thinking": f"It is {HIDDEN}."}


async def test_a_thought_that_was_changed_for_the_client_is_left_out_when_it_comes_back():
    edited = {"type": "thinking", "thinking": f"It is {HIDDEN}.", "signature": EDITED}
    call = {"type": "tool_use", "id": "toolu_01", "name": "mail", "input": {}}
    summary = {"type": "compaction", "content": "They met.", "signature": EDITED, "encrypted_content": EDITED}
    answers = [{"role": "assistant", "content": [edited, call]}, {"role": "assistant", "content": [edited]}]
    body = {**ASK, "messages": [*answers, {"role": "assistant", "content": [summary]}, *ASK["messages"]]}
    assert (await sent(body))["messages"] == [
        {"role": "assistant", "content": [call]},
        {"role": "assistant", "content": [{"type": "compaction", "content": "They met."}]},
        *ASK["messages"],
    ]


@pytest.mark.parametrize("signature", [EDITED, "c2lnbmVk"])
async def test_a_model_told_to_think_is_not_asked_to_where_the_thought_before_its_call_is_lost(signature):
    lost = {"type": "thinking", "thinking": f"It is {MAIL if signature != EDITED else HIDDEN}.", "signature": signature}
    call = {"type": "tool_use", "id": "toolu_01", "name": "mail", "input": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "Done"}]}
    body = {
        **ASK,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "context_management": {"edits": [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}]},
        "messages": [*ASK["messages"], {"role": "assistant", "content": [lost, call]}, result],
    }
    made = await sent(body)
    assert made["thinking"] == {"type": "disabled"}
    assert made["messages"][1]["content"] == [call]
    assert made["context_management"] == {"edits": [{"type": "clear_tool_uses_20250919"}]}
    adaptive = await sent({**body, "thinking": {"type": "adaptive"}})
    assert (adaptive["thinking"], adaptive["context_management"]) == ({"type": "adaptive"}, body["context_management"])
    kept = {"type": "thinking", "thinking": "It is Tuesday.", "signature": "c2lnbmVk"}
    body["messages"][1] = {"role": "assistant", "content": [lost, kept, call]}
    made = await sent(body)
    assert (made["thinking"], made["messages"][1]["content"]) == (body["thinking"], [kept, call])


# The system prompt


class Adds(Processor):
    """Adds a system message."""

    id = "adds"

    def process_input(self, ctx):
        return [*ctx.messages, Message("system", "Speak softly.")]


@pytest.mark.parametrize(
    ("system", "then"),
    [
        (None, [{"type": "text", "text": "Speak softly."}]),
        ("Be brief.", [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Speak softly."}]),
        (
            [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            [
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Speak softly."},
            ],
        ),
    ],
)
async def test_a_system_message_that_a_guard_adds_stands_in_the_system_prompt(system, then):
    made = await sent({**ASK, **({} if system is None else {"system": system})}, Adds())
    assert made == {**ASK, "system": then}


class Softens(Processor):
    """Changes a word wherever it stands."""

    id = "softens"

    def process_input(self, ctx):
        return ctx.message_list.map_text(lambda text: text.replace("Shout", "Speak"))


@pytest.mark.parametrize(
    "system", ["Shout.", [{"type": "text", "text": "Shout.", "cache_control": {"type": "ephemeral"}}]]
)
async def test_the_system_prompt_is_read_and_written_in_its_form(system):
    made = await sent({**ASK, "system": system}, Softens())
    assert made["system"] == json.loads(json.dumps(system).replace("Shout", "Speak"))


# What is refused


HOSTED = [
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "web_search_20991231", "name": "web_search"},
    {"type": "web_fetch_20250910", "name": "web_fetch"},
    {"type": "code_execution_20250825", "name": "code_execution"},
    {"type": "mcp_toolset", "mcp_server_name": "a"},
    {"type": "advisor_20260301", "name": "advisor", "model": "m"},
]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
async def test_a_tool_that_runs_at_the_provider_is_refused(tool):
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}
    summary = {"type": "compaction", "content": "They met.", "tool_changes": [added]}
    for body in (
        {**ASK, "tools": [tool]},
        {**ASK, "messages": [*ASK["messages"], {"role": "system", "content": [added]}]},
        {**ASK, "messages": [{"role": "assistant", "content": [summary]}, *ASK["messages"]]},
        {**ASK, "system": [added]},
    ):
        got, upstream = await asked(body, strict=False)
        assert (got.status, upstream.asked) == (400, [])
        assert "let the client run a tool of its own" in got.json["error"]["message"]


async def test_what_an_operator_permits_goes_on_and_is_read():
    tool = {"type": "web_search_20250305", "name": "web_search", "allowed_domains": [MAIL]}
    body = {**ASK, "tools": [tool], "thread": {"type": "create"}}
    page = {
        "type": "web_search_result",
        "title": f"Ask {MAIL}",
        "url": "https://example.com",
        "encrypted_content": "ZW5j",
    }
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    upstream = Scripted([dumped({**FINE, "content": [found]})], "application/json")
    guard = PIIDetector(strategy="redact")
    got = await run_exchange(Messages(), body, upstream, guard, permits=frozenset({"state", "hosted-tools"}))
    assert upstream.got == {**body, "tools": [{**tool, "allowed_domains": [HIDDEN]}]}
    assert got.json["content"] == [{**found, "content": [{**page, "title": f"Ask {HIDDEN}"}]}]


@pytest.mark.parametrize("tool", ["bash_20250124", "text_editor_20250728", "memory_20250818", "computer_20251124"])
async def test_a_tool_that_the_client_runs_goes_on(tool):
    body = {**ASK, "tools": [{"type": tool, "name": "it"}]}
    assert await sent(body) == body


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("mcp_servers", [{"type": "url", "name": "a", "url": "https://example.com"}], "runs at the provider"),
        ("container", "container_01", "runs at the provider"),
        ("container", {"skills": []}, "runs at the provider"),
        ("thread", {"type": "create"}, "keeps the conversation at the provider"),
        ("surprise", "x", "is not in the gateway's table"),
        ("system", 5, "send a text"),
        ("system", [5], "system"),
        ("tools", {"name": "a"}, "tools"),
        ("messages", [{"role": "user", "content": [{"text": "hi"}]}], "messages[0].content[0]"),
    ],
)
async def test_a_field_that_escapes_or_is_malformed_is_refused_with_what_to_do(field, value, says):
    got, upstream = await asked({**ASK, field: value})
    assert (got.status, upstream.asked) == (400, [])
    assert got.json["type"] == "error"
    assert says in got.json["error"]["message"]


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}])
async def test_a_thread_is_refused_so_that_tool_runners_go_on_without_it(thread):
    """Those of Anthropic's libraries begin one by themselves, and send all messages after this error code alone."""
    got, upstream = await asked({**ASK, "thread": thread})
    assert (got.status, upstream.asked) == (400, [])
    assert got.json["error"]["details"] == {"error_code": "thread_unsupported_request"}
    other, _ = await asked({**ASK, "container": "container_01"})
    assert "details" not in other.json["error"]


# Counting tokens


async def test_the_tokens_of_the_guarded_request_are_counted():
    upstream = Scripted([b'{"input_tokens": 12}'], "application/json")
    body = {"model": "m", "messages": [{"role": "user", "content": f"I am {MAIL}"}], "tools": []}
    got = await run_exchange(CountTokens(), body, upstream, PIIDetector(strategy="redact"), NeverSilent())
    assert (got.body, upstream.got["messages"][0]["content"]) == (b'{"input_tokens": 12}', f"I am {HIDDEN}")
    silent = Scripted([dumped({**FINE, "content": []})], "application/json")
    assert (await run_exchange(Messages(), ASK, silent, NeverSilent())).json["stop_reason"] == "refusal"
    got = await run_exchange(CountTokens(), body, Scripted([]), PIIDetector(strategy="block"))
    assert (got.status, got.json["error"]["type"]) == (400, "invalid_request_error")
    assert got.ended.verdict is not None


class NeverSilent(Processor):
    """Blocks answers without words."""

    id = "never-silent"

    def process_output_result(self, ctx):
        if not ctx.text:
            ctx.abort("says nothing")
