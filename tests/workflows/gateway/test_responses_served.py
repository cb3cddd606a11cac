"""OpenAI's responses over real sockets: its own client, what an operator permits, and side doors."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import openai
import pytest

from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway
from tests.workflows.gateway.exchanges import event
from tests.workflows.gateway.responses_stream import message, response, stream_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

POLICY = """\
penstock: 1
steps:
  - {use: pii-detector, with: {strategy: redact, redaction_method: placeholder}}
  - {use: regex-filter, with: {rules: [{name: forbidden, pattern: forbidden}]}}
"""
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "find", "status": "completed"}
WHOLE = response([message("Write to ann@example.com today."), {**CALL, "arguments": '{"who": "ann@example.com"}'}])


@pytest.fixture
def served(tmp_path, serving, raw_server, read_request):
    """Serves a gateway in front of a provider of responses; yields its URL, and the requests of the provider."""

    @asynccontextmanager
    async def run(more: str = "", whole: Any = WHOLE) -> AsyncIterator[tuple[str, list[tuple[str, Any]]]]:
        asked: list[tuple[str, Any]] = []

        async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head, raw = await read_request(reader)
            asked.append((head.split("\r\n")[0], json.loads(raw or b"{}")))
            streams = asked[-1][1].get("stream")
            body = (
                b"".join(event(data, kind) for kind, data in stream_of(whole))
                if streams
                else json.dumps(whole).encode()
            )
            kind = "text/event-stream" if streams else "application/json"
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()
            writer.close()

        async with raw_server(provider) as url:
            (tmp_path / "guard.yaml").write_text(POLICY)
            text = f"gateway: 1\npolicy: guard.yaml\nlog: {{format: none}}\nupstreams: {{up: {{url: '{url}'}}}}\n{more}"
            (tmp_path / "gateway.yaml").write_text(text)
            async with serving(Gateway(lambda: read_gateway(tmp_path / "gateway.yaml"))) as (base, _):
                yield base, asked

    return run


@pytest.mark.rest
async def test_openai_s_client_gets_answers_and_streams(served):
    async with (
        served() as (base, asked),
        openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client,
    ):
        whole = await client.responses.create(model="m", input="I am bob@example.com", instructions="Be brief.")
        async with client.responses.stream(model="m", input="hi") as stream:
            final = await stream.get_final_response()
    for answer in (whole, final):
        assert answer.output_text == "Write to [EMAIL] today."
        assert answer.output[1].type == "function_call"
        assert json.loads(answer.output[1].arguments) == {"who": "[EMAIL]"}
    assert [body["store"] for _, body in asked] == [False, False]
    assert asked[0][1]["input"] == "I am [EMAIL]"


async def test_openai_s_client_reads_a_verdict_as_a_refusal(served):
    whole = response([message("A long beginning that says nothing at all. This is forbidden.")])
    async with served(whole=whole) as (base, _), openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k") as client:
        for body in ("hi", "forbidden"):
            async with client.responses.stream(model="m", input=body) as stream:
                final = await stream.get_final_response()
            part = final.output[-1].content[0]  # type: ignore[union-attr]
            assert part.type == "refusal"


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("", 400),
        ("permit: hosted-tools\n", 200),
        ("permit: [state]\n", 400),
        ("permit: state\nroutes: [{upstream: up, permit: [state, hosted-tools]}]\n", 200),
        ("permit: hosted-tools\nroutes: [{upstream: up, permit: []}]\n", 400),
    ],
)
async def test_an_operator_permits_what_escapes_the_guards(served, more, status):
    async with served(more) as (base, asked), aiohttp.ClientSession() as session:
        body = {"model": "m", "input": "hi", "tools": [{"type": "web_search"}]}
        async with session.post(f"{base}/v1/responses", json=body) as reply:
            assert (reply.status, len(asked)) == (status, int(status == 200))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/conversations"),
        ("GET", "/v1/conversations/conv_1/items"),
    ],
)
async def test_what_the_provider_keeps_is_not_fetched_past_the_guards(served, method, path):
    async with (
        served("permit: state\n") as (base, asked),
        aiohttp.ClientSession() as session,
        session.request(method, base + path, json={}) as reply,
    ):
        told = await reply.json()
    assert (reply.status, asked) == (404, [])
    assert "the gateway sends store: false" in told["error"]["message"]
