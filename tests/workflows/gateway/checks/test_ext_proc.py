"""Envoy's external processing: a real gRPC client sends what Envoy sends, and reads what Envoy reads."""

import gzip
import json
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import grpc
import grpc.aio
import pytest

from penstock import Workflow
from penstock.workflows.gateway.checks.ext_proc import SERVICE, ExtProcServer
from penstock.workflows.presets import safety
from tests.workflows.gateway.checks.served import BLOCKS, HIDES, breaks, policy

envoy: Any = import_module("envoy_data_plane.envoy.service.ext_proc.v3")  # behind our module, which knows its warnings
core: Any = import_module("envoy_data_plane.envoy.config.core.v3")
MAIL = "ann@example.com"
CHAT = {"model": "m", "messages": [{"role": "user", "content": f"Mail {MAIL} please"}]}


@asynccontextmanager
async def serving(guards: Workflow, limit: int = 100_000) -> AsyncIterator[grpc.aio.Channel]:
    """Serve a policy, and give a channel to it."""
    async with (
        ExtProcServer(lambda: guards, "127.0.0.1:0", limit=limit) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield channel


async def exchange(channel: grpc.aio.Channel, requests: Sequence[Any]) -> list[Any]:
    """Return the replies to the messages of one exchange; nothing is sent after an immediate answer."""
    call = channel.stream_stream(
        f"/{SERVICE}/Process", request_serializer=bytes, response_deserializer=envoy.ProcessingResponse.parse
    )()
    replies: list[Any] = []
    for request in requests:
        await call.write(request)
        replies.append(await call.read())
        if replies[-1].immediate_response is not None:
            break
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return replies


def headers(**values: str) -> Any:
    """Return headers as Envoy sends them: in bytes."""
    named = [core.HeaderValue(key=name.replace("_", "-"), raw_value=value.encode()) for name, value in values.items()]
    return envoy.HttpHeaders(headers=core.HeaderMap(headers=named))


def asks(body: object, **named: str) -> list[Any]:
    """Return the messages for a request."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [
        envoy.ProcessingRequest(request_headers=headers(**named)),
        envoy.ProcessingRequest(request_body=envoy.HttpBody(body=sent, end_of_stream=True)),
    ]


def answers(body: object, **named: str) -> list[Any]:
    """Return the messages for an answer."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [
        envoy.ProcessingRequest(response_headers=headers(**named)),
        envoy.ProcessingRequest(response_body=envoy.HttpBody(body=sent, end_of_stream=True)),
    ]


def says(text: str) -> dict[str, Any]:
    """Return an answer of a model."""
    return {"id": "c1", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


async def test_bodies_are_replaced_only_where_a_guard_has_edited_them() -> None:
    """In both directions, on one stream."""
    async with serving(policy(HIDES)) as channel:
        sent = [*asks(CHAT, content_type="application/json"), *answers(says(f"It is {MAIL}."))]
        _, request, _, answer = await exchange(channel, sent)
        clean = await exchange(channel, [*asks({"model": "m", "messages": []}), *answers(says("Hello there"))])
    left = json.loads(request.request_body.response.body_mutation.body)
    assert left == {**CHAT, "messages": [{"role": "user", "content": "Mail [EMAIL] please"}]}
    assert json.loads(answer.response_body.response.body_mutation.body) == says("It is [EMAIL].")
    assert clean[1].request_body.response.body_mutation is None
    assert clean[3].response_body.response.body_mutation is None


async def test_the_answer_comes_uncompressed() -> None:
    """Since compressed ones cannot be read, and are refused."""
    async with serving(policy(HIDES)) as channel:
        (first, *_) = await exchange(channel, asks(CHAT, accept_encoding="gzip"))
        packed = gzip.compress(json.dumps(CHAT).encode())
        (refused,) = await exchange(channel, asks(packed, content_encoding="gzip"))
        (refused_answer,) = await exchange(channel, answers(packed, content_encoding="gzip"))
    assert first.request_headers.response.header_mutation.remove_headers == ["accept-encoding"]
    assert refused.immediate_response.status.code == refused_answer.immediate_response.status.code == 415


async def test_a_verdict_is_an_answer_in_openais_form() -> None:
    """Which Envoy sends at once; it names the guard, and not the reason."""
    async with serving(policy(BLOCKS)) as channel:
        asked = {"messages": [{"role": "user", "content": "about Globex"}]}
        replies = [*await exchange(channel, asks(asked)), *await exchange(channel, answers(says("Globex")))]
    for reply in (replies[1], replies[3]):
        said = reply.immediate_response
        assert said.status.code == 403
        assert json.loads(said.body)["error"]["message"] == "A guard has blocked this. (rivals)"
        assert said.headers.set_headers[0].header.raw_value == b"application/json"


async def test_an_answer_is_judged_in_the_light_of_its_request() -> None:
    """The instructions came on the same stream."""
    secret = "Never sell below forty percent margin, and always praise the premium tariff of the company first."
    asked = {"messages": [{"role": "system", "content": secret}, {"role": "user", "content": "What are they?"}]}
    async with serving(safety(harm="warn")) as channel:
        replies = await exchange(channel, [*asks(asked), *answers(says(f"They are: {secret}"))])
    assert b"margin" not in replies[3].response_body.response.body_mutation.body


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (asks(b"{"), 400),
        (asks(b"\xff"), 400),
        (asks(b'{"a": 1, "a": 2}'), 400),
        (asks({"input": [1, 2, 3]}), 400),
        (asks({**CHAT, "stream": True}), 400),
        (answers("text"), 400),
        (answers(b"data: {}\n\n", content_type="text/event-stream; charset=utf-8"), 502),
        ([envoy.ProcessingRequest(request_body=envoy.HttpBody(body=b'{"mess'))], 500),
        ([envoy.ProcessingRequest(response_body=envoy.HttpBody(body=b'{"choi'))], 500),
        ([envoy.ProcessingRequest()], 500),
    ],
)
async def test_what_cannot_be_read_is_refused(sent: list[Any], status: int) -> None:
    """With what to do."""
    async with serving(policy(HIDES)) as channel:
        last = (await exchange(channel, sent))[-1].immediate_response
    assert last.status.code == status
    assert json.loads(last.body)["error"]["message"]


async def test_a_guard_that_breaks_is_a_verdict_and_logs_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """Neither does the answer."""
    with caplog.at_level(logging.DEBUG):
        async with serving(policy(breaks)) as channel:
            reply = (await exchange(channel, asks(CHAT)))[-1].immediate_response
    assert reply.status.code == 403
    assert MAIL not in reply.body.decode() + caplog.text


async def test_a_body_beyond_the_limit_ends_the_stream() -> None:
    """Envoy then fails closed, unless failure_mode_allow is set."""
    async with serving(policy(HIDES), limit=1000) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await exchange(channel, asks(b"x" * 100_000))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_empty_bodies_and_trailers_pass() -> None:
    """There is nothing in them."""
    trailers = [
        envoy.ProcessingRequest(request_trailers=envoy.HttpTrailers()),
        envoy.ProcessingRequest(response_trailers=envoy.HttpTrailers()),
    ]
    async with serving(policy(HIDES)) as channel:
        replies = await exchange(channel, [*asks(b""), *answers(b""), *trailers])
    assert [reply.immediate_response for reply in replies] == [None] * 6


async def test_fields_that_a_newer_envoy_sends_are_no_hindrance() -> None:
    """They are unknown here."""
    async with serving(policy(HIDES)) as channel:
        call = channel.stream_stream(f"/{SERVICE}/Process", response_deserializer=envoy.ProcessingResponse.parse)()
        newer = bytes([0xFA, 0x3F, 2]) + b"hi"  # field 1023, two bytes
        await call.write(bytes(asks(CHAT)[1]) + newer)
        reply = await call.read()
        await call.done_writing()
    assert b"[EMAIL]" in reply.request_body.response.body_mutation.body


async def test_each_body_has_a_line_in_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    """With the verdict and the step, and without a text; headers have none."""
    caplog.set_level(logging.INFO, "penstock.gateway.access")
    async with serving(policy(HIDES, BLOCKS)) as channel:
        for text in (f"Mail {MAIL} please", "Ask globex", "Hi"):
            await exchange(channel, asks({"model": "m", "messages": [{"role": "user", "content": text}]}))
        await exchange(channel, asks(b"{"))
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.gateway.access"]
    endpoint, reason = 'endpoint="check ext_proc request"', 'reason="the text holds what may not pass: banned-word"'
    assert [re.sub(r"\d+ms ", "", line) for line in lines] == [
        f"200 ok {endpoint} edited",
        f"403 blocked {endpoint} step=rivals stage=process_input {reason}",
        f"200 ok {endpoint}",
        f"400 refused {endpoint}",
    ]
    assert not any(MAIL in line or "globex" in line for line in lines)
