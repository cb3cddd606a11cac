"""Anthropic's messages through the gateway: what leaves as it came, what is patched, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import PIIDetector, Processor
from penstock.workflows.gateway.endpoints.messages import Messages
from penstock.workflows.gateway.endpoints.messages_sections import EDITED
from penstock.workflows.gateway.http import UpstreamError
from tests.lines import counted_lines
from tests.workflows.gateway.exchanges import Got, Scripted, event, run_exchange

MESSAGES = Messages()
ASK: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}
MAIL = "ann@example.com"
HIDDEN = "a*n@*******.com"


def sse(data: dict[str, Any]) -> bytes:
    return event(data, data["type"])


def start() -> bytes:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 5, "output_tokens": 1}
    head = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": []}
    return sse({"type": "message_start", "message": {**head, "stop_reason": None, "usage": usage}})


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    begin = sse({"type": "content_block_start", "index": index, "content_block": content})
    middle = [sse({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]
    return [begin, *middle, sse({"type": "content_block_stop", "index": index})]


def text(index: int, *pieces: str) -> list[bytes]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thought(index: int, *pieces: str, signature: str = "c2lnbmVk") -> list[bytes]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    sealed = {"type": "signature_delta", "signature": signature}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, sealed)


def call(index: int, *pieces: str, name: str = "mail") -> list[bytes]:
    begin = {"type": "tool_use", "id": "toolu_01", "name": name, "input": {}}
    return block(index, begin, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def end(reason: str = "end_turn") -> list[bytes]:
    stopped = {"stop_reason": reason, "stop_sequence": None}
    return [
        sse({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 12}}),
        sse({"type": "message_stop"}),
    ]


PING = sse({"type": "ping"})


async def streamed(*raw: bytes, guard: Processor | None = None, **more: Any) -> Got:
    return await run_exchange(MESSAGES, {**ASK, **more}, Scripted(raw), guard or PIIDetector(strategy="redact"))


def deltas(got: Got, key: str) -> str:
    return "".join(one["delta"].get(key, "") for one in got.events if one["type"] == "content_block_delta")


async def test_events_that_nobody_changes_leave_as_the_bytes_that_came():
    raw = [
        start(),
        PING,
        *thought(0, "They say", " hello."),
        *text(1, "Good day", " to you."),
        *call(2, '{"to": "no', 'body"}'),
        *end("tool_use"),
    ]
    got = await streamed(*raw)
    assert got.body == b"".join(raw)
    assert (got.ended.edited, got.ended.usage, got.ended.error) == (False, (10, 12), "")


async def test_texts_thoughts_and_calls_are_hidden_in_place():
    raw = [
        start(),
        *thought(0, "It is ann", "@example.com."),
        *text(1, "Write to ann@exam", "ple.com, please."),
        *call(2, '{"to": "ann@exa', 'mple.com"}'),
        *end("tool_use"),
    ]
    got = await streamed(*raw)
    assert deltas(got, "thinking") == f"It is {HIDDEN}."
    assert deltas(got, "text") == f"Write to {HIDDEN}, please."
    assert json.loads(deltas(got, "partial_json")) == {"to": HIDDEN}
    assert [one["type"] for one in got.events] == [json.loads(one.split(b"data: ")[1])["type"] for one in raw]


async def test_a_signature_goes_with_the_thought_that_was_changed_and_stays_with_others():
    raw = [start(), *thought(0, "It is ann@example.com."), *thought(1, "It is Tuesday."), *text(2, "Fine."), *end()]
    got = await streamed(*raw)
    seals = [one["delta"]["signature"] for one in got.events if one.get("delta", {}).get("type") == "signature_delta"]
    assert seals == [EDITED, "c2lnbmVk"]
    assert b"".join(raw[5:]) in got.body


async def test_a_signature_waits_for_the_thought_that_a_guard_still_holds():
    raw = [start(), *thought(0, "It is ", "ann"), *text(1, "Fine."), *end()]
    got = await streamed(*raw)
    assert got.body == b"".join(raw)


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("Write to ann.secret@exam", "ple.com now.", "Write to a********t@*******.com now."),
        ("Pay with 4111 1111 ", "1111 1111 now.", "Pay with **** **** **** 1111 now."),
        ("It is the", "4111 1111 1111 1111 now.", "It is the**** **** **** 1111 now."),
        (
            "It is the",
            "sk-proj-9hV2Qw8nT4bX7cZ1mK5pL3dF6gJ0rS now.",
            "It is thes************************************S now.",
        ),
    ],
    ids=["an address cut", "a card cut", "a card behind a word", "a key behind a word"],
)
async def test_two_blocks_of_text_are_read_as_one_and_each_alone(first, second, left):
    """Citations cut a sentence into blocks, and a reader joins them; or not."""
    raw = [start(), *text(0, first), *text(1, second), *end()]
    assert deltas(await streamed(*raw), "text") == left
    got = await answered(message({"type": "text", "text": first}, {"type": "text", "text": second}))
    assert "".join(one["text"] for one in got.json["content"]) == left


def message(*content: dict[str, Any], reason: str = "end_turn") -> dict[str, Any]:
    head = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    usage = {"input_tokens": 3, "output_tokens": 2}
    return {**head, "content": list(content), "stop_reason": reason, "stop_sequence": None, "usage": usage}


async def answered(body: dict[str, Any], guard: Processor | None = None, **more: Any) -> Got:
    upstream = Scripted([json.dumps(body).encode()], "application/json")
    return await run_exchange(
        MESSAGES, {**ASK, "stream": False, **more}, upstream, guard or PIIDetector(strategy="redact")
    )


async def test_a_whole_answer_is_patched_in_place():
    thinking = {"type": "thinking", "signature": "c2lnbmVk", "thinking": f"It is {MAIL}."}
    kept = {"type": "thinking", "thinking": "It is Tuesday.", "signature": "c2lnbmVk"}
    tool = {"type": "tool_use", "id": "toolu_01", "name": "mail", "input": {"to": MAIL}, "caller": {"type": "direct"}}
    cited = {"type": "char_location", "cited_text": f"Ask {MAIL}", "document_index": 0, "document_title": MAIL}
    said = {"type": "text", "text": "As it says.", "citations": [cited]}
    got = await answered(message(thinking, kept, said, tool, reason="tool_use"))
    assert got.json["content"] == [
        {**thinking, "thinking": f"It is {HIDDEN}.", "signature": EDITED},
        kept,
        {**said, "citations": [{**cited, "cited_text": f"Ask {HIDDEN}", "document_title": HIDDEN}]},
        {**tool, "input": {"to": HIDDEN}},
    ]
    assert got.ended.usage == (3, 2)
    clean = message(kept, {"type": "text", "text": "Fine."})
    got = await answered(clean)
    assert got.body == json.dumps(clean).encode()


# Verdicts and errors


async def test_a_verdict_on_a_request_is_a_refusal_of_the_model():
    upstream = Scripted([])
    body = {**ASK, "stream": False, "messages": [{"role": "user", "content": f"I am {MAIL}"}]}
    got = await run_exchange(MESSAGES, body, upstream, PIIDetector(strategy="block"))
    assert (got.status, got.json["stop_reason"], upstream.asked) == (200, "refusal", [])
    assert got.json["content"] == [{"type": "text", "text": "I can't help with that request."}]
    got = await run_exchange(MESSAGES, {**body, "stream": True}, upstream, PIIDetector(strategy="block"))
    assert [one["type"] for one in got.events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_a_verdict_in_a_stream_closes_what_is_open():
    raw = [start(), *thought(0, "A long beginning that says nothing at all. ", "It is ann@example.com.")[:-2]]
    got = await streamed(*raw, *end(), guard=PIIDetector(strategy="block"))
    assert b"ann@" not in got.body
    told = [(one["type"], one.get("index")) for one in got.events]
    assert told[-7:] == [
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("message_delta", None),
        ("message_stop", None),
    ]
    assert got.events[-7]["delta"] == {"type": "signature_delta", "signature": EDITED}
    assert got.events[-2]["delta"]["stop_reason"] == "refusal"


async def test_an_error_has_the_form_of_the_protocol():
    got = await run_exchange(MESSAGES, b"{", Scripted([]), PIIDetector())
    assert got.status == 400
    assert (got.json["type"], got.json["error"]["type"]) == ("error", "invalid_request_error")
    got = await streamed(start(), *text(0, "One word. "), UpstreamError("broken", "the connection broke"))  # type: ignore[arg-type]
    assert got.body.rpartition(b"event: ")[2].startswith(b"error\n")
    assert got.events[-1]["error"] == {"type": "api_error", "message": "the connection broke"}
    assert MESSAGES.refused(429, "rate_limit", "wait").body == (
        b'{"type":"error","error":{"type":"rate_limit_error","message":"wait"}}'
    )


async def test_an_error_of_the_provider_in_a_stream_is_read_before_it_passes():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": f"no {MAIL}"}}
    got = await streamed(start(), sse(error))
    assert got.events[-1]["error"]["message"] == f"no {HIDDEN}"


async def test_a_ping_overtakes_text_that_a_guard_holds():
    raw = [start(), *text(0, "Ask ann")[:2], PING, *text(0, "@example.com today")[1:], *end()]
    got = await streamed(*raw)
    types = [one["type"] for one in got.events]
    assert types.index("ping") < types.index("content_block_delta")
    assert "ann" not in deltas(got, "text")


async def test_a_late_piece_of_a_changed_call_is_as_much_work_as_an_early_one():
    def stream(count: int) -> bytes:
        return b"".join([start(), *call(0, f'{{"to": "{MAIL} ', *["word "] * count, '"}'), *end("tool_use")])

    async def work(count: int) -> int:
        with counted_lines() as lines:
            got = await streamed(stream(count), guard=PIIDetector(strategy="redact", arguments="redact"))
        assert json.loads(deltas(got, "partial_json"))["to"].startswith(f"{HIDDEN} word")
        return lines.count

    await work(10)
    few, more, most = [await work(count) for count in (100, 200, 400)]
    assert more - few > 100
    assert most - more == pytest.approx(2 * (more - few), rel=0.05)
