"""Google ADK: a whole and a streamed request, bare and with guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from benchmarks.shared import Looks
from penstock import PIIDetector
from penstock.workflows.adapters.google_adk import as_plugin

PIECES = ["Some words of an answer "] * 100


class Offline(BaseLlm):
    """Answers with the same pieces each time."""

    model: str = "offline"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,  # noqa: ARG002 - it is asked nothing
        stream: bool = False,  # noqa: FBT001, FBT002 - ADK's own signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the answer."""
        for text in PIECES if stream else ():
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)
        whole = types.Content(role="model", parts=[types.Part(text="".join(PIECES))])
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=500)
        yield LlmResponse(content=whole, finish_reason=types.FinishReason.STOP, usage_metadata=used)


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return, by label, a request of the bare framework and the same one with a guard; each in a new session."""
    loop = asyncio.Runner()
    modes = {"whole": StreamingMode.NONE, "streamed": StreamingMode.SSE}
    message = types.Content(role="user", parts=[types.Part(text="Hello")])

    def asking(runner: InMemoryRunner, mode: StreamingMode) -> Callable[[], object]:
        async def ask() -> object:
            session = await runner.session_service.create_session(app_name="app", user_id="u")
            config = RunConfig(streaming_mode=mode)
            running = runner.run_async(user_id="u", session_id=session.id, new_message=message, run_config=config)
            events = [event async for event in running]
            await runner.session_service.delete_session(app_name="app", user_id="u", session_id=session.id)
            return events

        return lambda: loop.run(ask())

    def runner(*plugins: Any) -> InMemoryRunner:
        return InMemoryRunner(
            app=App(name="app", root_agent=LlmAgent(name="agent", model=Offline()), plugins=list(plugins))
        )

    guards = {"no-op": Looks(), "PIIDetector": PIIDetector()}
    return {
        f"{way}, {label}": (asking(runner(), mode), asking(runner(as_plugin(guard)), mode))
        for way, mode in modes.items()
        for label, guard in guards.items()
    }
