"""A scripted chat client of agent-framework, and ways to run an agent with it, for the tests of the middleware."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import (
    AgentResponseUpdate,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from penstock import PIIDetector

HIDES = PIIDetector(redaction_method="placeholder")
BLOCKS = PIIDetector(strategy="block")
MAIL = "ada@example.com"


class Client(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers with the given contents, one list a call; each content is an update of the stream."""

    def __init__(self, *answers: Sequence[Content | Exception], **about: Any) -> None:
        super().__init__()
        self.answers, self.about = iter(answers), about
        self.asked: list[Sequence[Message]] = []
        self.options: list[Mapping[str, Any]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        self.asked.append(list(messages))
        self.options.append(dict(options))
        contents = next(self.answers)
        form = options.get("response_format")
        if stream:
            return ResponseStream(
                self._stream(contents),
                finalizer=lambda updates: ChatResponse.from_updates(updates, output_format_type=form),
            )
        return self._whole(contents, form)

    async def _whole(self, contents: Sequence[Content | Exception], form: Any) -> ChatResponse[Any]:
        said = [content for content in contents if isinstance(content, Content)]
        for failure in contents:
            if isinstance(failure, Exception):
                raise failure
        return ChatResponse(messages=[Message("assistant", said)], response_format=form, **self.about)

    async def _stream(self, contents: Sequence[Content | Exception]) -> AsyncIterator[ChatResponseUpdate]:
        for content in contents:
            await asyncio.sleep(0)
            if isinstance(content, Exception):
                raise content
            yield ChatResponseUpdate(contents=[content], role="assistant")
        about = {name: item for name, item in self.about.items() if name != "usage_details"}
        usage = self.about.get("usage_details")
        yield ChatResponseUpdate(contents=[Content.from_usage(usage)] if usage else [], role="assistant", **about)


def text(said: str) -> Content:
    """Return a text."""
    return Content.from_text(said)


def everything(messages: Sequence[Message]) -> str:
    """Return messages as JSON."""
    return json.dumps([message.to_dict() for message in messages])


async def run(agent: Any, said: Any, *, streamed: bool, **options: Any) -> tuple[list[AgentResponseUpdate], Any]:
    """Run an agent; return its updates and its response."""
    if not streamed:
        return [], await agent.run(said, **options)
    stream = agent.run(said, stream=True, **options)
    updates = [update async for update in stream]
    return updates, await stream.get_final_response()


both_ways = pytest.mark.parametrize("streamed", [False, True])


def lookup(asked: list[str], says: Callable[[], Any] = lambda: "it is bob@example.com") -> Any:
    """Return a tool that notes what it was asked."""

    @tool(name="lookup", approval_mode="never_require")
    def function(query: str) -> Any:
        """Look something up."""
        asked.append(query)
        return says()

    return function
