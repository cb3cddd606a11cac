"""Each type of the `openai` package's responses, filled in whole: it passes, and no text in it passes unread."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from openai.types.responses import response_stream_event
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from penstock import PIIDetector
from penstock.workflows.gateway.endpoints.responses import Responses
from tests.workflows.gateway.exchanges import Got, Scripted, event, run_exchange
from tests.workflows.gateway.openai_types import values_of
from tests.workflows.gateway.planting import SECRET, holds_secret
from tests.workflows.gateway.responses_stream import message, response, stream_of

pytestmark = pytest.mark.rest

RESPONSES = Responses()
ASK = {"model": "gpt-5", "input": "hi", "store": False, "stream": True}
ANSWER = stream_of(response([message("Good day")]))
BEGIN = ANSWER[0]
SPEECH = "response.audio.delta"
REDACTING = PIIDetector(strategy="redact")
REDACTING_ALL_REQUESTS = PIIDetector(strategy="redact", unscanned="allow")
"""Made once, as a gateway does: half of the time went into making one for each of 466 events."""


def events() -> list[dict[str, Any]]:
    """Of the events with a whole response, all forms of one, and the first of the others."""
    made: list[dict[str, Any]] = []
    for kind in get_args(get_args(response_stream_event.ResponseStreamEvent)[0]):
        found = values_of(kind)
        is_whole = "response" in found[0] and found[0]["type"] != "response.completed"
        made += found[:1] if is_whole else found
    return [without_tokens(one) for one in made if one["type"] != SPEECH]


def without_tokens(value: Any) -> Any:
    """Return a value without tokens: they would not spell the text beside them."""
    if isinstance(value, dict):
        return {key: [] if key == "logprobs" else without_tokens(item) for key, item in value.items()}
    return [without_tokens(item) for item in value] if isinstance(value, list) else value


def with_secrets(value: Any, key: str = "") -> Any:
    """Return a value with the secret in place of each text but the types."""
    if isinstance(value, dict):
        return {name: with_secrets(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [with_secrets(item, key) for item in value]
    return SECRET if isinstance(value, str) and key != "type" else value


async def streamed(data: dict[str, Any], *, strict: bool = True) -> Got:
    before = [] if data["type"] == BEGIN[0] else [BEGIN]
    raw = b"".join(event(one, kind) for kind, one in (*before, (data["type"], data)))
    return await run_exchange(RESPONSES, ASK, Scripted([raw]), REDACTING, strict=strict)


async def test_each_event_leaves_as_it_came():
    for data in events():
        got = await streamed(data)
        assert (got.ended.error, got.ended.unknown) == ("", ()), data
        assert got.body.endswith(event(data, data["type"])), data


@pytest.mark.parametrize("strict", [True, False])
async def test_no_text_of_any_event_leaves_unread(strict):
    for data in events():
        got = await streamed(with_secrets(data), strict=strict)
        assert not holds_secret(got.body), data
        assert got.ended.error == "", data


def requests() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = values_of(ResponseCreateParamsStreaming)
    return [{**one, "store": False, "top_logprobs": 0} for one in found]


async def asked(body: dict[str, Any]) -> Scripted:
    upstream = Scripted([b"".join(event(one, kind) for kind, one in ANSWER)])
    permits = frozenset({"state", "hosted-tools"})
    await run_exchange(RESPONSES, body, upstream, REDACTING_ALL_REQUESTS, permits=permits, strict=True)
    return upstream


async def test_each_request_goes_on_as_it_came():
    passed = 0
    for body in requests():
        upstream = await asked(body)
        assert all(json.loads(request.body) == body for request in upstream.asked), body
        passed += len(upstream.asked)
    assert passed > 140


async def test_no_text_of_any_request_goes_on_unread():
    for body in requests():
        upstream = await asked(with_secrets(body))
        assert not any(holds_secret(request.body) for request in upstream.asked), body
