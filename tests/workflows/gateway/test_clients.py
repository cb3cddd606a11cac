"""Clients that people use, in front of a gateway in a process of its own: they notice nothing but its guards."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from penstock.testing import FakeProvider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.rest

LOOKS = {"text": "I look.", "tool_calls": [{"name": "look_up", "args": {"who": "ann"}}]}


@asynccontextmanager
async def gateway(upstream: str, policy: str = "privacy") -> AsyncIterator[str]:
    """The command in a process of its own; yields the base URL for clients."""
    command = [sys.executable, "-m", "penstock", "serve", policy, "--upstream", upstream, "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    found = None
    while found is None:
        line = await process.stderr.readline()
        assert line, "the gateway ended"
        found = re.search(rb"http://[\d.]+:\d+", line)
    try:
        yield f"{found.group().decode()}/v1"
    finally:
        process.terminate()
        await process.communicate()
        assert process.returncode == 0


async def test_openai_s_client_gets_streams_answers_and_errors():
    with FakeProvider(["Write to ann@example.com today.", "No data here.", "and again"]) as provider:
        async with gateway(provider.url) as url, openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            ask = [{"role": "user", "content": "I am bob@example.com"}]
            stream = await client.chat.completions.create(model="m", messages=ask, stream=True)
            said = [piece.choices[0].delta.content or "" async for piece in stream if piece.choices]
            assert "".join(said) == "Write to [EMAIL] today."
            whole = await client.chat.completions.create(model="m", messages=ask)
            assert whole.choices[0].message.content == "No data here."
            assert whole.usage is not None
            assert whole.usage.completion_tokens > 0
            async with client.chat.completions.stream(model="m", messages=ask) as events:
                final = await events.get_final_completion()
            assert final.choices[0].message.content == "and again"
            with pytest.raises(openai.BadRequestError, match="store"):
                await client.chat.completions.create(model="m", messages=ask, store=True)
        assert not any(b"bob@" in request.body for request in provider.requests)


async def test_pydantic_ai_runs_its_tools_behind_the_guards():
    with FakeProvider([LOOKS, "She is at [EMAIL]."]) as provider:
        async with gateway(provider.url) as url, openai.AsyncOpenAI(base_url=url, api_key="k") as client:
            agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))
            asked: list[str] = []

            @agent.tool_plain
            def look_up(who: str) -> str:
                asked.append(who)
                return "ann@example.com"

            result = await agent.run("Where is Ann?")
        assert (result.output, asked) == ("She is at [EMAIL].", ["ann"])
        assert b"ann@example.com" not in provider.requests[1].body


async def test_openai_agents_stream_behind_the_guards():
    from agents import Agent as TheirAgent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled

    set_tracing_disabled(disabled=True)
    with FakeProvider(["Write to ann@example.com today."]) as provider:
        async with gateway(provider.url) as url, openai.AsyncOpenAI(base_url=url, api_key="k") as client:
            agent = TheirAgent(name="a", model=OpenAIChatCompletionsModel("m", client))
            running = Runner.run_streamed(agent, "hi")
            async for _ in running.stream_events():
                pass
        assert running.final_output == "Write to [EMAIL] today."
