"""The stages around each model call: the middleware of the chat client."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_framework import ChatMiddleware, ResponseStream

from penstock.engine.values.messages import Message
from penstock.workflows.adapters.agent_framework.client import ANSWER, InnerChatClient, has_call
from penstock.workflows.adapters.agent_framework.running import Bound, Closing, Instructions
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

    def __init__(self, host: Host, request: HostRequest | None = None, own: Instructions | None = None) -> None:
        super().__init__(host, request, own)
        self._before: list[Message] = []  # the conversation so far, for services that keep it themselves

    async def process(self, context: ChatContext, call_next: CallNext) -> None:
        """Call the model with the stages around it.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        request = self.request or self.host.open()
        inner = InnerChatClient(context, call_next, request, self.own)
        call = inner.call(self._before)
        if self.request is not None:  # else the next call may be somebody else's
            self._before = list(call.messages)
        if context.stream:
            context.result = ResponseStream(self._updates(call, inner, request), finalizer=inner.writer.joined)
            return
        async with self._closing(request):
            with raised_as(GuardBlockedError):
                answer = await request.whole_answer(call)
            self._note(answer)
            context.result = inner.writer.response(answer)

    async def _updates(
        self, call: ModelCall, inner: InnerChatClient, request: HostRequest
    ) -> AsyncGenerator[ChatResponseUpdate]:
        async with self._closing(request), aclosing(request.answers(call)) as chunks:
            with raised_as(GuardBlockedError):
                async for chunk in chunks:
                    if chunk.type == "tool-call" and not has_call(request.answer, chunk.id):
                        continue  # of an earlier answer, whose text was held until now
                    for update in inner.writer.updates(chunk):
                        yield update
                request.check()
            self._note(request.answer or Message("assistant"))
            yield inner.writer.last_update()

    def _note(self, answer: Message) -> None:
        if self.request is not None:
            asked = as_asked(answer)
            self._before.append(replace(asked, metadata={**asked.metadata, ANSWER: True}))

    def _closing(self, request: HostRequest) -> Closing:
        return Closing(request, owns=self.request is None)
