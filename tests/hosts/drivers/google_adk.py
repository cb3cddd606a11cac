"""Google ADK: agents with a scripted `BaseLlm`, run by a `Runner` with the session service in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import PrivateAttr

from penstock.workflows.adapters.google_adk import as_plugin, tripwire_of
from tests.hosts.contract import Job, Seen, strings

NAME = "Google ADK"
PACKAGE = "google-adk"
LACKS: dict[str, str] = {}


class Scripted(BaseLlm):
    """A model that answers by the script."""

    model: str = "scripted"
    _job: Any = PrivateAttr()
    _seen: Any = PrivateAttr()
    _script: Any = PrivateAttr()

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT002
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next answer: its pieces as partial responses if it is streamed, then the whole."""
        job: Job = self._job
        said = llm_request.config.system_instruction
        contents = [content.model_dump(mode="json", exclude_none=True) for content in llm_request.contents]
        self._seen.asked.append(strings([said, *contents]))
        says = next(self._script)
        if says.fails is not None:
            raise says.fails
        for thought in says.reasoning if stream else ():
            part = types.Part(text=thought, thought=True)
            yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        for number, piece in enumerate(says.streamed if stream else ()):
            if job.gate is not None and number == len(says.streamed) - 1:
                await job.gate()
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=piece)]), partial=True)
        if job.gate is not None and not stream:
            await job.gate()
        if says.breaks is not None:
            raise says.breaks
        parts = [types.Part(text="".join(says.reasoning), thought=True)] if says.reasoning else []
        parts += [types.Part(text=says.whole)] if says.whole else []
        for call in says.calls:
            made = types.FunctionCall(id=call.id, name=call.name, args=dict(call.arguments))
            parts.append(types.Part(function_call=made))
        yield LlmResponse(content=types.Content(role="model", parts=parts), finish_reason=types.FinishReason.STOP)


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()
    model = Scripted()
    model._job, model._seen, model._script = job, seen, iter(job.script)
    agent = LlmAgent(name="agent", model=model, tools=list(job.tools), output_schema=job.output_type)
    plugins = [as_plugin(*job.guards, **job.options)] if job.guards else []
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
    if job.earlier is not None:
        runner.session_service, session = job.earlier
    else:
        session = await runner.session_service.create_session(app_name="app", user_id="u")
    mode = StreamingMode.SSE if job.streamed else StreamingMode.NONE
    try:
        async for event in runner.run_async(
            user_id="u",
            session_id=session.id,
            new_message=types.Content(role="user", parts=[types.Part(text=job.text)]),
            run_config=RunConfig(streaming_mode=mode),
        ):
            seen.tripwire = seen.tripwire or tripwire_of(event)
            if event.error_code is not None:  # ADK's users get errors as events
                seen.error = RuntimeError(event.error_message)
            parts = (event.content.parts or ()) if event.content else ()
            texts = [part.text for part in parts if part.text and not part.thought]
            seen.events += strings([part.model_dump(mode="json", exclude_none=True) for part in parts if not part.text])
            seen.events += [part.text or "" for part in parts if part.thought]
            if event.partial:
                seen.shown.extend(texts)
            elif event.is_final_response() and event.error_code is None and event.content is not None:
                text = "".join(texts)
                seen.output = text if job.output_type is None else job.output_type(**json.loads(text))
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error, seen.tripwire = error, seen.tripwire or getattr(error, "tripwire", None)
    seen.history = await stored_texts(runner, session.id)
    seen.memory = (runner.session_service, session)
    return seen


async def stored_texts(runner: Any, id: str) -> list[str]:
    """Return every string in what the session service has stored."""
    stored = await runner.session_service.get_session(app_name="app", user_id="u", session_id=id)
    dumped = [event.content.model_dump(mode="json", exclude_none=True) for event in stored.events if event.content]
    return strings([*dumped, dict(stored.state)])
