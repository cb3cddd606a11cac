"""Requests to an agent of Haystack: as it is, with a processor that does nothing, and with `PIIDetector`."""

from __future__ import annotations

import os
from asyncio import Runner
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # read when haystack is imported

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk

from penstock import OutputStepContext, PIIDetector, processor
from penstock.workflows.adapters.haystack import as_agent

PIECES = [f"word {number} of the text. " for number in range(100)]
ANSWER = "".join(PIECES)
MESSAGES = [ChatMessage.from_user("Hi")]


@component
class Fixed:
    """A chat generator with one answer."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], streaming_callback: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the answer; its pieces go to the callback."""
        for number, piece in enumerate(PIECES if streaming_callback else ()):
            streaming_callback(StreamingChunk(piece, index=0, start=number == 0))
        return {"replies": [ChatMessage.from_assistant(ANSWER)]}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],  # noqa: ARG002 - what Haystack calls it with
        streaming_callback: Any = None,
    ) -> dict[str, Any]:
        """Do the same in an event loop."""
        for number, piece in enumerate(PIECES if streaming_callback else ()):
            await streaming_callback(StreamingChunk(piece, index=0, start=number == 0))
        return {"replies": [ChatMessage.from_assistant(ANSWER)]}


@processor("process_output_step", role="observer")
def look(_ctx: OutputStepContext) -> None:
    """Look at the answer, and find nothing."""


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return pairs of requests."""
    runner = Runner()
    bare = Agent(chat_generator=Fixed())
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for name, guard in (("no-op", look), ("PIIDetector", PIIDetector())):
        ours = as_agent(bare, guard)
        pairs[f"whole, {name}"] = (
            lambda: runner.run(bare.run_async(MESSAGES)),
            lambda agent=ours: runner.run(agent.run_async(MESSAGES)),
        )
        pairs[f"streamed, {name}"] = (
            lambda: runner.run(bare.run_async(MESSAGES, _show)),
            lambda agent=ours: runner.run(agent.run_async(MESSAGES, _show)),
        )
        pairs[f"whole without await, {name}"] = (
            lambda: bare.run(MESSAGES),
            lambda agent=ours: agent.run(MESSAGES),
        )
    return pairs


async def _show(_chunk: StreamingChunk) -> None:
    """Show a piece to nobody."""
