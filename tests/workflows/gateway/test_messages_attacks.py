"""Streams of Anthropic's messages that are not as they should be: no secret in them leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import PIIDetector
from penstock.workflows.gateway.endpoints.messages import Messages
from tests.workflows.gateway.exchanges import Scripted, event, run_exchange
from tests.workflows.gateway.planting import SECRET, holds_secret

ASK: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}
HALF, REST = SECRET[:8], SECRET[8:]


def begin(**content: Any) -> bytes:
    return event({"type": "content_block_start", "index": 0, "content_block": content}, "content_block_start")


def call(**more: Any) -> bytes:
    return begin(**{"type": "tool_use", "id": "toolu_01", "name": "find", "input": {}, **more})


def delta(kind: str, **more: Any) -> bytes:
    return event({"type": "content_block_delta", "index": 0, "delta": {"type": kind, **more}}, "content_block_delta")


def piece(text: Any) -> bytes:
    return delta("input_json_delta", partial_json=text)


def said(text: Any) -> bytes:
    return delta("text_delta", text=text)


STOP = event({"type": "content_block_stop", "index": 0}, "content_block_stop")
WRITTEN = json.dumps({"q": SECRET})

CASES: dict[str, list[bytes]] = {
    "an id": [call(id=SECRET), STOP],
    "a name": [call(name=SECRET), STOP],
    "a second id in one place": [call(), call(id=SECRET), STOP],
    "a second name in one place": [call(), call(name=SECRET), STOP],
    "a name over two events": [call(name=HALF), call(name=REST), STOP],
    "a text that never began": [said(f"{SECRET} now")],
    "a call that never began": [piece(WRITTEN)],
    "arguments that are no JSON": [call(), piece(f"{SECRET} {{"), STOP],
    "arguments that are a list": [call(), piece(f'["{SECRET}"]'), STOP],
    "arguments at the beginning": [call(input={"q": SECRET}), STOP],
    "arguments at the beginning and behind it": [call(input={"q": 1}), piece(WRITTEN), STOP],
    "others at the beginning than behind it": [call(input={"q": SECRET}), piece('{"q": 1}'), STOP],
    "arguments that are a text": [call(input=SECRET), STOP],
    "a key of arguments": [call(), piece(f'{{"{SECRET}": 1}}'), STOP],
    "a key that stands twice in arguments": [call(), piece(f'{{"q": "{SECRET}", "q": "x"}}'), STOP],
    "a piece of arguments that is an object": [call(), piece({"q": SECRET}), STOP],
    "arguments behind the end": [call(), piece("{}"), STOP, piece(WRITTEN)],
    "a text behind the end": [begin(type="text", text=""), said("Fine."), STOP, said(f"{SECRET} now")],
    "a text that is an object": [said({"a": SECRET})],
    "a text that is a list": [said([SECRET])],
    "an escaped text": [b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\u0061'
                        + f'{SECRET[1:]} now"}}}}\n\n'.encode()],
    "a key that stands twice": [said("x").replace(b'"text": "x"', f'"text": "{SECRET}", "text": "x"'.encode())],
    "a text at the beginning and behind it": [begin(type="text", text=f"Ask {HALF}"), said(f"{REST} now"), STOP],
    "a thought and a text in one place": [begin(type="thinking", thinking=HALF, signature=""), said(f"{SECRET} ")],
    "a signature": [delta("signature_delta", signature=SECRET)],
    "a signature that is an object": [delta("signature_delta", signature={"a": SECRET})],
    "a thought behind its signature": [
        begin(type="thinking", thinking="", signature=""),
        delta("signature_delta", signature="c2ln"),
        delta("thinking_delta", thinking=f"{SECRET} now"),
        STOP,
    ],
    "a sealed thought": [begin(type="redacted_thinking", data=SECRET)],
    "a summary": [
        begin(type="compaction", content=None),
        delta("compaction_delta", content=HALF, encrypted_content="ZW5j"),
        delta("compaction_delta", content=f"{REST} now"),
        STOP,
    ],
    "a block of an unknown type": [begin(type="novel", x=SECRET)],
    "a delta of an unknown type": [delta("novel_delta", x=SECRET)],
    "the type of a block": [begin(type=SECRET)],
    "an event of an unknown type": [event({"type": "novel", "x": SECRET}, "novel")],
    "the name of an event": [event({"type": "ping"}, SECRET)],
    "a field beside a ping": [event({"type": "ping", "x": SECRET}, "ping")],
    "a line beside a ping": [f'id: {SECRET}\nevent: ping\ndata: {{"type": "ping"}}\n\n'.encode()],
    "an index": [event({"type": "content_block_stop", "index": SECRET}, "content_block_stop")],
    "a message that begins with content": [
        event({"type": "message_start", "message": {"content": [{"type": "text", "text": SECRET}]}}, "message_start")
    ],
    "an error": [event({"type": "error", "error": {"type": SECRET, "message": "x", "details": [SECRET]}}, "error")],
    "a citation": [delta("citations_delta", citation={"type": "char_location", "cited_text": SECRET})],
}  # fmt: skip


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "unknown read"])
@pytest.mark.parametrize("case", CASES)
async def test_a_secret_does_not_leave_as(case, strict):
    begun = event({"type": "message_start", "message": {"id": "msg_01", "content": []}}, "message_start")
    ended = event({"type": "message_stop"}, "message_stop")
    for raw in ([begun, *CASES[case], ended], [*CASES[case], ended]):
        guard = PIIDetector(strategy="redact", arguments="redact")
        got = await run_exchange(Messages(), ASK, Scripted(raw), guard, strict=strict)
        assert not holds_secret(got.body)
        assert SECRET not in "".join(_texts(got.events))


def _texts(events: list[Any]) -> list[str]:
    holders = [one.get("delta") or one.get("content_block") or {} for one in events]
    keys = ("text", "thinking", "content", "partial_json", "name")
    return [holder[key] for holder in holders for key in keys if isinstance(holder.get(key), str)]


async def test_a_name_that_changes_in_its_place_is_refused():
    got = await run_exchange(Messages(), ASK, Scripted([call(name="find"), call(name="remove"), STOP]), PIIDetector())
    assert got.ended.error == "upstream_malformed"
    assert b"remove" not in got.body
