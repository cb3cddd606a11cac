"""The stages around each model call: the middleware of the chat client."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_framework import ChatMiddleware, ResponseStream

from penstock.engine.values.messages import Message
from penstock.workflows.adapters.agent_framework.client import (
    ANSWER,
    InnerModel,
    from_updates,
    has_call,
    last_update,
    response_of,
    update_of,
)
from penstock.workflows.adapters.agent_framework.running import Bound, Closing
from penstock.workflows.adapters.agent_framework.verdicts import GuardBlockedError
from penstock.workflows.hosting import Host, HostRequest, ModelCall, as_asked, raised_as

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agent_framework import ChatContext, ChatResponseUpdate

    from penstock.workflows.adapters.agent_framework.running import CallNext


class GuardChatMiddleware(Bound, ChatMiddleware):
    """The stages around each model call.

    Attributes:
        host: the processors.
        request: the request of the agent's run; None if a chat client is used alone.
    """

    def __init__(self, host: Host, request: HostRequest | None = None) -> None:
        super().__init__(host, request)
        self._before: list[Message] = []  # the conversation so far, for services that keep it themselves

    async def process(self, context: ChatContext, call_next: CallNext) -> None:
        """Call the model with the stages around it.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        request = self.request or self.host.open()
        inner = InnerModel(context, call_next, request)
        call = inner.call(self._before)
        self._before = list(call.messages)
        if context.stream:
            context.result = ResponseStream(
                self._updates(call, inner, request),
                finalizer=lambda updates: from_updates(updates, inner.format),
            )
            return
        async with self._closing(request):
            with raised_as(GuardBlockedError):
                answer = await request.whole_answer(call)
            self._note(answer)
            context.result = response_of(answer, inner)

    async def _updates(
        self, call: ModelCall, inner: InnerModel, request: HostRequest
    ) -> AsyncGenerator[ChatResponseUpdate]:
        async with self._closing(request), aclosing(request.answers(call)) as chunks:
            with raised_as(GuardBlockedError):
                async for chunk in chunks:
                    if chunk.type == "tool-call" and not has_call(request.answer, chunk.id):
                        continue  # of an earlier answer, whose text was held until now
                    contents = list(inner.contents.of_chunk(chunk))
                    if contents:
                        yield update_of(contents, inner)
                request.check()
            answer = request.answer or Message("assistant")
            self._note(answer)
            yield last_update(inner)

    def _note(self, answer: Message) -> None:
        asked = as_asked(answer)
        self._before.append(replace(asked, metadata={**asked.metadata, ANSWER: True}))

    def _closing(self, request: HostRequest) -> Closing:
        return Closing(request, owns=self.request is None)
