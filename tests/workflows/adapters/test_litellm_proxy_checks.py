"""LiteLLM's own client of a generic guardrail, in its proxy, before our checks: over HTTP on both sides."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported
pytest.importorskip("litellm", reason="litellm is not installed")
pytest.importorskip("fastapi", reason="litellm's proxy is not installed")

import httpx
import litellm

from penstock import RegexFilterProcessor, Workflow
from penstock.testing.provider import FakeProvider
from penstock.testing.turns import Turn
from penstock.workflows.gateway.checks import checks_app
from penstock.workflows.presets import hygiene
from tests.hosts.drivers.litellm_proxy import proxy
from tests.listening import listening

MAIL = "ada@example.com"
PIECES = f"You can write to {MAIL} or call the office, and somebody will answer within a day or two, I am sure."
CLEAN = PIECES.replace(MAIL, "[EMAIL]")


@pytest.fixture
def anyio_backend() -> str:
    """LiteLLM runs on asyncio."""
    return "asyncio"


@asynccontextmanager
async def guarded(policy: Workflow, answers: Any, **more: Any) -> AsyncIterator[tuple[httpx.AsyncClient, FakeProvider]]:
    """Run the proxy between a provider with a script and the checks, as docs/checks.md configures it."""
    before = list(litellm.callbacks)
    with FakeProvider(answers) as provider:
        async with listening(checks_app(lambda: policy)) as url:
            params = {
                "guardrail": "generic_guardrail_api",
                "mode": ["pre_call", "post_call"],
                "api_base": url.removesuffix("/mcp"),
                "default_on": True,
                "unreachable_fallback": "fail_closed",
                "streaming_transform_mode": "incremental_diff",
                "streaming_sampling_rate": 1,
                **more,
            }
            model = {"model": "openai/gpt", "api_base": provider.url, "api_key": "x"}
            config = {
                "model_list": [{"model_name": "gpt", "litellm_params": model}],
                "router_settings": {"num_retries": 0},
                "guardrails": [{"guardrail_name": "penstock", "litellm_params": params}],
            }
            async with (
                proxy(json.dumps(config)) as address,
                httpx.AsyncClient(base_url=address, timeout=20) as client,
            ):
                yield client, provider
    litellm.callbacks = before


async def ask(client: httpx.AsyncClient, text: str = "Whom may I write to?", **more: Any) -> httpx.Response:
    """Ask for a chat completion."""
    body = {"model": "gpt", "messages": [{"role": "user", "content": text}], **more}
    return await client.post("/chat/completions", json=body)


def pieces(response: httpx.Response) -> list[str]:
    """Return the texts of a stream, piece by piece."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines()]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    found = [choice["delta"].get("content") for event in events for choice in event.get("choices", ())]
    return [text for text in found if text]


async def test_requests_and_answers_are_edited_whole_and_streamed() -> None:
    """The stream comes in pieces, and leaves as the whole answer does."""
    async with guarded(hygiene(), [PIECES] * 2) as (client, provider):
        whole = await ask(client, f"Is {MAIL} the right address?")
        streamed = await ask(client, stream=True)
        asked = "\n".join(str(request.json) for request in provider.requests)
    assert whole.json()["choices"][0]["message"]["content"] == CLEAN
    assert "".join(pieces(streamed)) == CLEAN
    assert len(pieces(streamed)) > 1
    assert "[EMAIL]" in asked
    assert MAIL not in asked + whole.text + streamed.text


async def test_rows_and_tools_come_back_edited() -> None:
    """What stands in arguments of earlier calls, and in definitions."""
    call = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": json.dumps({"to": MAIL})}}
    function = {"name": "send", "description": f"Sends, by default to {MAIL}", "parameters": {"type": "object"}}
    messages = [
        {"role": "user", "content": "Send it, please, and tell me when you are done."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "It was sent at noon."},
    ]
    async with guarded(hygiene(), ["Done."]) as (client, provider):
        answer = await ask(client, messages=messages, tools=[{"type": "function", "function": function}])
        asked = str(provider.requests[0].json)
    assert answer.status_code == 200, answer.text
    assert MAIL not in asked
    assert asked.count("[EMAIL]") == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_verdict_reaches_the_client_without_its_reason(stream: bool) -> None:
    """Of a request and of an answer; what was released before stays."""
    rivals = Workflow("rivals").then(RegexFilterProcessor(banned_words=["globex"], id="rivals"))
    async with guarded(rivals, ["Ask Globex about that."] * 2) as (client, provider):
        asked = await ask(client, "What about Globex?", stream=stream)
        answered = await ask(client, stream=stream)
        assert len(provider.requests) == 1
    for response in (asked, answered):
        assert "A guard has blocked this. (rivals)" in response.text
        assert "Ask Globex" not in response.text


async def test_a_call_of_a_tool_that_a_guard_would_change_is_blocked() -> None:
    """LiteLLM takes none back."""
    turn = Turn(tool_calls=[{"name": "send", "args": {"to": MAIL}}])
    async with guarded(hygiene(), [turn]) as (client, _):
        answer = await ask(client, "Send it to Ada, please.")
    assert answer.status_code >= 400
    assert MAIL not in answer.text


async def test_checks_that_cannot_be_reached_let_nothing_pass() -> None:
    """With the setting of docs/checks.md."""
    async with guarded(hygiene(), [PIECES], api_base="http://127.0.0.1:9") as (client, provider):
        answer = await ask(client)
        assert answer.status_code >= 400
        assert provider.requests == []
