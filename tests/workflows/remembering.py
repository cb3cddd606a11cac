"""What tests of an agent with a memory share: whose requests they are, how they are made, how messages are told."""

from __future__ import annotations

from typing import Any

from penstock import Agent
from penstock.workflows import AgentResult

OWN: dict[str, Any] = {"thread_id": "t", "resource_id": "u"}


def said(messages: Any) -> list[str]:
    """Return messages as ``role:text``."""
    return [f"{message.role}:{message.text}" for message in messages]


async def asked(agent: Agent, text: Any, *, streamed: bool = False, **options: Any) -> AgentResult:
    """Return what comes of a request in the thread, whole or streamed."""
    if not streamed:
        return await agent.generate(text, **{**OWN, **options})
    async with agent.stream(text, **{**OWN, **options}) as stream:
        async for _ in stream:
            pass
        return await stream.result
