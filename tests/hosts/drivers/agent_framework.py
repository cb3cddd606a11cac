"""Microsoft agent-framework: agents with a scripted chat client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
    tool,
)

from penstock.workflows.adapters.agent_framework import as_middleware
from tests.hosts.contract import Job, Says, Seen, strings

NAME = "agent-framework"
PACKAGE = "agent-framework-core"
LACKS: dict[str, str] = {}


def breaks(said: Says) -> None:
    """Fail after the text, if the script says so."""
    failure: Exception | None = said.breaks
    if failure is not None:
        raise failure


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A chat client that answers by a script."""

    def __init__(self, job: Job, seen: Seen) -> None:
        super().__init__()
        self.job, self.seen, self.script = job, seen, iter(job.script)

    def _ask(self, messages: Sequence[Message], options: Mapping[str, Any]) -> Says:
        asked = strings([content.to_dict(exclude={"items"}) for message in messages for content in message.contents])
        self.seen.asked.append([*asked, str(options.get("instructions") or "")])
        said = next(self.script)
        if said.fails is not None:
            raise said.fails
        return said

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        if stream:
            return ResponseStream(
                self._stream(messages, options),
                finalizer=lambda updates: ChatResponse.from_updates(
                    updates, output_format_type=options.get("response_format")
                ),
            )
        return self._whole(messages, options)

    async def _whole(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse[Any]:
        said = self._ask(messages, options)
        if self.job.gate is not None:
            await self.job.gate()
        breaks(said)
        calls = [
            Content.from_function_call(one.id, one.name, arguments=json.dumps(one.arguments)) for one in said.calls
        ]
        thought = "".join(said.reasoning)
        texts = [Content.from_text_reasoning(text=thought)] if thought else []
        texts += [Content.from_text(said.whole)] if said.whole else []
        return ChatResponse(
            messages=[Message("assistant", [*texts, *calls])], response_format=options.get("response_format")
        )

    async def _stream(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> AsyncIterator[ChatResponseUpdate]:
        said = self._ask(messages, options)
        for thought in said.reasoning:
            yield ChatResponseUpdate(contents=[Content.from_text_reasoning(text=thought)], role="assistant")
        for number, piece in enumerate(said.streamed):
            if self.job.gate is not None and number == len(said.streamed) - 1:
                await self.job.gate()
            yield ChatResponseUpdate(contents=[Content.from_text(piece)], role="assistant")
        breaks(said)
        for call in said.calls:
            text = json.dumps(call.arguments)
            for name, piece in ((call.name, text[:3]), ("", text[3:])):
                made = Content.from_function_call(call.id, name, arguments=piece)
                yield ChatResponseUpdate(contents=[made], role="assistant")


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()
    agent = Agent(
        Scripted(job, seen),
        tools=[tool(function, approval_mode="never_require") for function in job.tools],
        context_providers=[InMemoryHistoryProvider("memory")],
        middleware=as_middleware(*job.guards, **job.options) if job.guards else None,
    )
    session = job.earlier or AgentSession()
    options: Any = {"response_format": job.output_type} if job.output_type else {}
    result: Any = None
    try:
        if job.streamed:
            stream = agent.run(job.text, session=session, stream=True, options=options)
            async for update in stream:
                if update.text:
                    seen.shown.append(update.text)
                others = [one.to_dict() for one in update.contents if one.type != "text"]
                seen.events.extend(strings(others))
            result = await stream.get_final_response()
        else:
            result = await agent.run(job.text, session=session, options=options)
        seen.output = result.text if job.output_type is None else result.value
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error, seen.tripwire = error, getattr(error, "tripwire", None)
    seen.memory = session
    kept: Any = session.state.get("memory", {}).get("messages", [])
    seen.history = strings([message.to_dict() for message in kept])
    if result is not None:
        seen.history += strings([message.to_dict() for message in result.messages])
    return seen
