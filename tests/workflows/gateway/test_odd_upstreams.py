"""Providers that answer in another way than they should: nothing unread leaves, and the client gets an error."""

from __future__ import annotations

import json

import pytest

from penstock import PIIDetector
from tests.workflows.gateway.exchanges import Scripted, run_exchange
from tests.workflows.gateway.planting import SECRET
from tests.workflows.gateway.samples import SAMPLES

EACH = pytest.mark.parametrize("name", sorted(SAMPLES))
ERROR = json.dumps({"error": {"message": SECRET}}).encode()


@EACH
async def test_headers_that_say_more_than_a_count_a_time_or_an_id_stay_behind(name):
    sample = SAMPLES[name]
    usual = {
        "retry-after": "1.5",
        "x-request-id": "req_0a-1B",
        "x-ratelimit-reset-requests": "6m0.5s",
        "x-ratelimit-reset": "2026-01-02T03:04:05Z",
    }
    odd = {"request-id": SECRET, "x-ratelimit-limit": f"4 {SECRET}", "openai-processing-ms": "4111 1111 1111 1111"}
    for status, body in (200, json.dumps(sample.answer).encode()), (429, ERROR):
        sent = Scripted([body], "application/json", status, (*usual.items(), *odd.items()))
        got = await run_exchange(sample.endpoint, sample.request, sent, PIIDetector())
        assert usual.items() <= got.headers.items()
        assert not odd.keys() & got.headers.keys()


@EACH
@pytest.mark.parametrize("status", [100, 302, 304])
async def test_a_status_that_is_neither_an_answer_nor_an_error_is_an_error(name, status):
    sample = SAMPLES[name]
    sent = Scripted([json.dumps(sample.answer).encode()], "application/json", status, (("location", f"/{SECRET}"),))
    got = await run_exchange(sample.endpoint, sample.request, sent, PIIDetector())
    assert (got.status, got.ended.error) == (502, "upstream_malformed")
    assert SECRET not in json.dumps(got.headers)


@pytest.mark.parametrize("name", ["embeddings", "messages count"])
async def test_a_stream_for_a_protocol_without_streams_is_an_error(name):
    sample = SAMPLES[name]
    got = await run_exchange(sample.endpoint, sample.request, Scripted([b"data: " + ERROR + b"\n\n"]), PIIDetector())
    assert (got.status, got.ended.error) == (502, "upstream_malformed")
    assert SECRET.encode() not in got.body


@EACH
@pytest.mark.parametrize("field", ["object", "usage"])
async def test_the_number_of_a_card_does_not_pass_as_a_word_or_a_count(name, field):
    sample, card = SAMPLES[name], "4111111111111111"
    if field not in sample.answer:
        pytest.skip("the protocol has no such field")
    value = {"kind": card} if field == "usage" else card
    sent = Scripted([json.dumps({**sample.answer, field: value}).encode()], "application/json")
    got = await run_exchange(sample.endpoint, sample.request, sent, PIIDetector(strategy="redact"))
    assert card.encode() not in got.body
