"""A framework in small: it runs the loop, keeps the history its own way, and knows nothing of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from penstock import Message
from penstock.engine.values.frozen import Value
from penstock.engine.values.messages import ToolPart
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.protocols import Model
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting import HostRequest, ModelCall


def stored(message: Message) -> Message:
    """Return a message as the framework stores it: without our ids, times and metadata, calls without results."""
    parts = tuple(
        replace(part, state="call", result=None, error=None, metadata={}) if isinstance(part, ToolPart) else part
        for part in message.parts
    )
    return Message(message.role, parts)


def result(call: ToolPart, value: Value) -> Message:
    """Return the message with which the framework stores a tool's result."""
    return Message("tool", (ToolPart(call.call_id, call.name, {}, "result", value),))


@dataclass
class Loop:
    """The framework's agent.

    Attributes:
        hooks: whether it calls us around its tools.
        history: what it has stored.
        shown: the text that its user saw come.
    """

    model: Model
    tools: Mapping[str, Callable[..., Value]] = field(default_factory=dict)
    hooks: bool = True
    live: bool = False
    instructions: str = ""
    history: list[Message] = field(default_factory=list)
    shown: str = ""

    async def ask(self, request: HostRequest, text: str) -> str:
        """Run a request to its end, and return the answer."""
        self.history.append(Message.user(text))
        for _ in range(5):
            answer = await self._answer(request)
            self.history = [one for one in request.current(self.history) if one is not None]
            self.history.append(stored(answer))
            if not calls_of(answer):
                return answer.text
            for call in calls_of(answer):
                self.history.append(result(call, await self._call(request, call)))
        raise AssertionError("no end")

    async def _answer(self, request: HostRequest) -> Message:
        system = [Message.system(self.instructions)] if self.instructions else []
        specs = [ToolSpec(name) for name in self.tools]
        call = ModelCall(self.model, [*system, *self.history], specs, live=self.live)
        async for chunk in request.answers(call):
            if chunk.type == "text-delta":
                self.shown += chunk.text
        request.check()
        return request.answer or Message("assistant")

    async def _call(self, request: HostRequest, call: ToolPart) -> Value:
        if not self.hooks:
            return self.tools[call.name](**call.arguments)
        checked = await request.tool_call(call.name, call.arguments, call.call_id)
        if checked.answered:
            return checked.answer
        made = self.tools[call.name](**checked.arguments)
        return await request.tool_result(call.name, made, call.call_id, arguments=checked.arguments)
