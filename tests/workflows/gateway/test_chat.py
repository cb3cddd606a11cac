"""Chat completions through the gateway: what leaves as it came, what is patched, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import openai
import pytest
from hypothesis import given, settings, strategies as st

from penstock import PIIDetector, Processor
from penstock.engine.processor.context import ToolCallContext
from penstock.processors.tools import ToolPolicy
from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.gateway.guards import REFUSAL
from penstock.workflows.gateway.http import UpstreamError
from tests.laws import examples
from tests.workflows.gateway.exchanges import Scripted, cut, event, run_exchange

CHAT = ChatCompletions()
ASK = {"model": "gpt-4o", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, object], end: str | None = None, index: int = 0, **more: object) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": end, **more}
    return event(
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    )


def texts(events: list[dict], index: int = 0) -> str:
    found = [
        choice["delta"].get("content") or "" for one in events for choice in one["choices"] if choice["index"] == index
    ]
    return "".join(found)


MAIL = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Write to ann"}),
    chunk({"content": "@exam"}),
    chunk({"content": "ple.com, please"}),
    chunk({"content": " do."}),
    chunk({}, "stop"),
    DONE,
]


async def test_events_that_nobody_changes_leave_as_the_bytes_that_came():
    raw = [
        b": hello\n\n",
        chunk({"role": "assistant", "content": "Good day"}),
        chunk({"content": " to you"}),
        chunk({}, "stop"),
        DONE,
    ]
    got = await run_exchange(CHAT, ASK, Scripted(raw), PIIDetector())
    assert got.body == b"".join(raw)
    assert not got.ended.edited


async def test_a_text_that_is_cut_over_events_is_hidden_in_place():
    got = await run_exchange(CHAT, ASK, Scripted(MAIL), PIIDetector(strategy="redact"))
    assert texts(got.events) == "Write to a*n@*******.com, please do."
    assert (len(got.events), got.body.endswith(DONE), got.ended.edited) == (6, True, True)
    assert got.body.startswith(MAIL[0])


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(1, 900), max_size=12))
async def test_however_the_bytes_are_cut_the_same_leaves(places):
    whole = await run_exchange(CHAT, ASK, Scripted([b"".join(MAIL)]), PIIDetector(strategy="redact"))
    pieces = await run_exchange(CHAT, ASK, Scripted(cut(b"".join(MAIL), places)), PIIDetector(strategy="redact"))
    assert pieces.body == whole.body


async def test_an_event_leaves_before_the_next_one_is_read():
    words = [chunk({"content": f"word {number} and more. "}) for number in range(4)]
    got = await run_exchange(CHAT, ASK, Scripted([*words, chunk({}, "stop"), DONE]), PIIDetector())
    read_at = [read for _, read in got.pieces]
    assert read_at[:-1] == sorted(set(read_at[:-1]))  # the mark behind them waits for the verdict on all
    assert read_at[0] <= 2


async def test_calls_of_tools_are_judged_whole():
    def call(**function: str) -> bytes:
        return chunk({"tool_calls": [{"index": 0, "function": function}]})

    begin = chunk(
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "mail", "arguments": ""}}]}
    )
    raw = [begin, call(arguments='{"to": "ann@exa'), call(arguments='mple.com"}'), chunk({}, "tool_calls"), DONE]
    got = await run_exchange(CHAT, ASK, Scripted(raw), PIIDetector(strategy="redact"))
    pieces = [one["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for one in got.events[:-1]]
    assert json.loads("".join(pieces)) == {"to": "a*n@*******.com"}
    clean = [begin, call(arguments='{"to": "no'), call(arguments='body"}'), chunk({}, "tool_calls"), DONE]
    assert (await run_exchange(CHAT, ASK, Scripted(clean), PIIDetector(strategy="redact"))).body == b"".join(clean)


async def test_a_key_that_stands_twice_in_arguments_hides_nothing():
    text = '{"to": "ann@example.com", "to": "nobody"}'
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "mail", "arguments": text}}
    got = await run_exchange(
        CHAT, ASK, Scripted([chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), DONE]), PIIDetector()
    )
    assert b"ann@" not in got.body


async def test_each_of_several_answers_is_read_by_itself():
    raw = [
        chunk({"content": "ann"}, index=0),
        chunk({"content": "fine"}, index=1),
        chunk({"content": "@example.com"}, index=0),
        chunk({"content": " day"}, index=1),
        chunk({}, "stop", index=0),
        chunk({}, "stop", index=1),
        DONE,
    ]
    got = await run_exchange(CHAT, {**ASK, "n": 2}, Scripted(raw), PIIDetector(strategy="redact"))
    assert (texts(got.events), texts(got.events, 1)) == ("a*n@*******.com", "fine day")


@pytest.mark.parametrize("place", ["first", "last"])
async def test_a_verdict_ends_a_stream_as_a_refusal(place):
    raw = MAIL[1:] if place == "first" else [chunk({"content": "A long beginning that says nothing. "}), *MAIL[1:]]
    got = await run_exchange(CHAT, ASK, Scripted(raw), PIIDetector(strategy="block"))
    assert got.events[-2]["choices"][0]["delta"]["refusal"] == "I can't help with that request."
    assert got.events[-1]["choices"][0]["finish_reason"] == "content_filter"
    assert b"ann" not in got.body
    assert got.ended.verdict is not None
    assert got.ended.verdict.processor_id == "pii-detector"


async def test_a_verdict_on_a_request_asks_no_provider():
    upstream = Scripted([])
    body = {"model": "m", "messages": [{"role": "user", "content": "I am ann@example.com"}]}
    got = await run_exchange(CHAT, body, upstream, PIIDetector(strategy="block"))
    assert (got.status, got.json["choices"][0]["message"]["refusal"]) == (200, "I can't help with that request.")
    assert (upstream.asked, got.headers["x-penstock-verdict"]) == ([], "blocked")


async def test_a_verdict_tells_its_details_where_the_operator_says_so():
    refusal = replace(REFUSAL, details=True)
    upstream = Scripted([chunk({"content": "It is ann@example.com"}), chunk({}, "stop"), DONE])
    got = await run_exchange(CHAT, ASK, upstream, PIIDetector(strategy="block"), refusal=refusal)
    found = openai.types.chat.ChatCompletionChunk.model_validate(got.events[-1]).moderation
    assert found is not None
    assert [one.categories for one in found.output.results] == [{"email": True}]
    assert found.input.results == []
    asked = {"model": "m", "messages": [{"role": "user", "content": "I am ann@example.com"}]}
    whole = await run_exchange(CHAT, asked, Scripted([]), PIIDetector(strategy="block"), refusal=refusal)
    assert whole.json["moderation"]["input"]["results"][0]["flagged"] is True
    assert whole.headers["x-penstock-verdict"] == "blocked; pii-detector"
    assert b"ann@" not in whole.body


async def test_tools_that_the_provider_runs_need_a_permit():
    body = {**ASK, "tools": [{"type": "openrouter:web_search", "parameters": {"max_uses": 1}}]}
    refused = await run_exchange(CHAT, body, Scripted([]), PIIDetector())
    assert "permit: [hosted-tools]" in refused.json["error"]["message"]
    upstream = Scripted([chunk({"content": "fine"}), chunk({}, "stop"), DONE])
    await run_exchange(CHAT, body, upstream, PIIDetector(), permits=frozenset({"hosted-tools"}))
    assert upstream.got == body


async def test_a_request_goes_on_as_the_bytes_that_came():
    raw = b'{ "messages": [{"content": "hi", "role": "user"}],\n "model":"m" }'
    upstream = Scripted([json.dumps(answer("fine")).encode()], "application/json")
    got = await run_exchange(CHAT, raw, upstream, PIIDetector())
    assert upstream.asked[0].body == raw
    assert got.body == upstream.sends[0]


def answer(text: str, **message: object) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


async def test_only_the_item_that_a_guard_changes_is_written_anew():
    body = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": "Be brief.", "name": "boss"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "I am ann@example.com", "cache_control": {"type": "ephemeral"}}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "bob@example.com"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "Ask zed@example.com", "parameters": {"type": "object"}},
            }
        ],
    }
    upstream = Scripted([json.dumps(answer("fine")).encode()], "application/json")
    await run_exchange(CHAT, body, upstream, PIIDetector(strategy="redact"))
    sent = upstream.got
    assert sent["messages"][0] == body["messages"][0]
    assert sent["messages"][2] == body["messages"][2]
    part = {"type": "text", "text": "I am a*n@*******.com", "cache_control": {"type": "ephemeral"}}
    assert sent["messages"][1] == {"role": "user", "content": [part]}
    assert sent["messages"][3]["content"] == "b*b@*******.com"
    assert sent["tools"][0]["function"]["description"] == "Ask z*d@*******.com"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("store", True, "store: keeps the answer"),
        ("top_logprobs", 3, "top_logprobs"),
        ("surprise", "x", "surprise: is not"),
    ],
)
async def test_a_field_that_escapes_is_refused_with_what_to_do(field, value, says):
    upstream = Scripted([])
    got = await run_exchange(CHAT, {**ASK, field: value}, upstream, PIIDetector())
    assert (got.status, upstream.asked) == (400, [])
    assert got.json["error"]["message"].startswith(says)


async def test_unknown_fields_are_read_where_they_may_pass():
    upstream = Scripted([json.dumps({**answer("fine"), "note": "bob@example.com"}).encode()], "application/json")
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "surprise": {"to": ["ann@example.com"]}}
    got = await run_exchange(CHAT, body, upstream, PIIDetector(strategy="redact"), strict=False)
    assert upstream.got["surprise"] == {"to": ["a*n@*******.com"]}
    assert got.json["note"] == "b*b@*******.com"
    assert got.ended.unknown == ("surprise", "event: note")


@pytest.mark.parametrize(
    "raw", [b'{"a": 1', b'{"model": "a", "model": "b"}', b"[1]", b'{"a": NaN}', b"\xff", b"[" * 100_000]
)
async def test_a_body_that_is_no_json_is_the_client_s_fault(raw):
    got = await run_exchange(CHAT, raw, Scripted([]), PIIDetector())
    assert (got.status, got.json["error"]["code"]) == (400, "invalid_json")


async def test_tokens_leave_only_with_the_text_that_they_spell():
    def tokens(*texts: str) -> dict[str, object]:
        return {
            "content": [
                {"token": text, "logprob": -0.1, "bytes": list(text.encode()), "top_logprobs": []} for text in texts
            ]
        }

    good = chunk({"content": "Good day"}, logprobs=tokens("Good", " day"))
    lies = chunk({"content": "Good day"}, logprobs=tokens("ann@example.com"))
    mail = chunk({"content": "ann@example.com "}, logprobs=tokens("ann@example.com", " "))
    got = await run_exchange(
        CHAT, ASK, Scripted([good, lies, mail, chunk({}, "stop"), DONE]), PIIDetector(strategy="redact")
    )
    assert [one["choices"][0].get("logprobs") is not None for one in got.events[:3]] == [True, False, False]
    assert b"ann@" not in got.body


@pytest.mark.parametrize("broken", [b"data: {\n\n", b"data: [1]\n\n", UpstreamError("broken", "the connection broke")])
async def test_a_provider_that_breaks_ends_the_stream_with_an_error(broken):
    got = await run_exchange(CHAT, ASK, Scripted([chunk({"content": "One word. "}), broken]), PIIDetector())
    assert got.events[-1]["error"]["code"].startswith("upstream_")
    assert got.body.endswith(DONE)


async def test_an_error_of_the_provider_is_read_before_it_passes():
    raw = json.dumps({"error": {"message": "no ann@example.com here", "type": "t"}}).encode()
    got = await run_exchange(CHAT, ASK, Scripted([raw], "application/json", 404), PIIDetector(strategy="redact"))
    assert (got.status, got.json["error"]["message"]) == (404, "no a*n@*******.com here")
    page = Scripted([b"<html>ann@example.com</html>"], "text/html", 503)
    assert b"ann" not in (await run_exchange(CHAT, ASK, page, PIIDetector())).body


class NoTool(Processor):
    """Blocks a tool."""

    id = "no-tool"

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        if ctx.tool_name == "rm":
            ctx.abort("not that one")


async def test_a_call_that_may_not_run_does_not_reach_the_client():
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}
    raw = [chunk({"content": "I remove it. "}), chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), DONE]
    got = await run_exchange(CHAT, ASK, Scripted(raw), NoTool())
    assert b'"rm"' not in got.body
    assert got.events[-1]["choices"][0]["finish_reason"] == "content_filter"


@pytest.mark.parametrize("rule", ["ask", "deny"])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_call_that_needs_a_person_does_not_reach_the_client(rule, streams):
    """The client would run it, and nobody here can be asked."""
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}
    whole = answer("", tool_calls=[{key: value for key, value in call.items() if key != "index"}])
    sends = [chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), DONE] if streams else [json.dumps(whole).encode()]
    upstream = Scripted(sends, "text/event-stream" if streams else "application/json")
    got = await run_exchange(CHAT, {**ASK, "stream": streams}, upstream, ToolPolicy(**{rule: ["rm"]}))
    assert b'"rm"' not in got.body
    assert b"content_filter" in got.body


class Late(Processor):
    """Judges an answer when it is whole."""

    id = "late"

    def process_output_step(self, ctx):
        return ctx.message_list.map_text(lambda text: text.replace("Paris", "P."))


async def test_an_answer_that_is_judged_late_is_held_and_patched():
    raw = [chunk({"content": "It is Pa"}), chunk({"content": "ris."}), chunk({}, "stop"), DONE]
    got = await run_exchange(CHAT, ASK, Scripted(raw), Late())
    assert texts(got.events) == "It is P.."
    assert got.pieces[0][1] == len(raw)


class Footer(Processor):
    """Adds a line behind each text."""

    id = "footer"

    def process_output_result(self, ctx):
        return ctx.message_list.map_text(lambda text: f"{text} (checked)" if text.startswith("Good") else text)


async def test_text_that_a_guard_adds_at_the_end_leaves_too():
    raw = [chunk({"content": "Good day."}), chunk({}, "stop"), DONE]
    assert texts((await run_exchange(CHAT, ASK, Scripted(raw), Footer())).events) == "Good day. (checked)"
