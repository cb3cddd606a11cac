"""`HaystackRun`: one run of a guarded agent."""

# pyright: reportPrivateUsage=false
# Haystack's messages have no other list of all that they hold than ``_content``.

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, cast

from haystack.components.agents.state import replace_values
from haystack.dataclasses import ChatMessage, ChatRole, StreamingChunk, ToolCall, ToolCallResult

from penstock.engine.values.frozen import freeze, thaw
from penstock.workflows.adapters.haystack.messages import HaystackMessages, content_of, jsonable, plain, put
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haystack.components.agents import State
    from haystack.dataclasses.streaming_chunk import StreamingCallbackT
    from haystack.tools.tool import Tool

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import Host


class HaystackRun:
    """One run of a guarded agent.

    Its methods raise a `BlockedError` if a guard stopped the run.

    Attributes:
        request: the request of the run.
        forms: its messages, both ways.
        trusted: the agent's own instructions, which are read as such; None: they hold variables, or there are none.
        asked: the arguments of the tool calls in the replies, by their ids.
    """

    def __init__(self, host: Host, trusted: str | None, own_keys: Sequence[str]) -> None:
        self.host = host
        self.request = host.open()
        self.forms = HaystackMessages(self.request)
        self.trusted = trusted
        self.asked: dict[str, Value] = {}
        self._keys = own_keys
        self._values: dict[str, Value] = {}
        self._results: dict[str, tuple[Value, Value]] = {}  # by the ids of calls: as checked last, and what was left
        self._full: ChatMessage | None = None  # the message of which tools see only the calls that nobody has answered
        self._answers: dict[str, ChatMessage] = {}

    async def read_input(self, state: State) -> None:
        """Check the messages in the state, and replace them by the guarded version."""
        await self.check_results(state)
        given: Sequence[ChatMessage] = state.data["messages"]
        said = self.forms.read(given, self.trusted)
        if not await self.request.begin(said):
            self.request.check()
        self._rewrite(state, said)

    def _rewrite(self, state: State, said: Sequence[Message]) -> None:
        given: Sequence[ChatMessage] = state.data["messages"]
        replace_messages(state, given, self.forms.left(given, said))

    async def check_calls(self, state: State) -> None:
        """Check the calls that are about to run; take out those that a processor has answered."""
        self._values = {key: plain(state.data.get(key)) for key in self._keys}
        messages: Sequence[ChatMessage] = state.data["messages"]
        calls = messages[-1].tool_calls if messages else []
        if not calls:
            return
        answers: dict[str, ChatMessage] = {}
        tools = {tool.name for tool in cast("Sequence[Tool]", state.data.get("tools") or ())}
        checked = [await self._checked_call(call, answers, known=call.tool_name in tools) for call in calls]
        changed = iter(checked)
        full = replace(
            messages[-1],
            _content=[next(changed) if isinstance(one, ToolCall) else one for one in messages[-1]._content],
        )
        if answers:
            self._full, self._answers = full, answers
            open_calls = [one for one in full._content if not (isinstance(one, ToolCall) and one.id in answers)]
            full = replace(full, _content=open_calls)
        if answers or checked != calls:
            state.set("messages", [*messages[:-1], full], handler_override=replace_values)

    async def _checked_call(self, call: ToolCall, answers: dict[str, ChatMessage], *, known: bool) -> ToolCall:
        """Return a call as the guards left it, and note the answer of a processor."""
        asked = self.asked.get(call.id or "")
        id = (call.id or "") if asked is None or asked == call.arguments else f"{call.id}-changed"  # by another hook
        checked = await self.request.tool_call(call.tool_name, jsonable(call.arguments), id)
        if checked.answered and checked.is_error and not known:
            return call  # of a tool that does not exist: Haystack fails, or tells the model, as it does alone
        if checked.answered and call.id:
            said = content_of(thaw(checked.answer))
            answers[call.id] = ChatMessage.from_tool(said, origin=call, error=checked.is_error)
            return call
        if checked.arguments == freeze(jsonable(call.arguments)):
            return call
        return replace(call, arguments=cast("Json", thaw(checked.arguments)))

    async def check_results(self, state: State) -> None:
        """Check results of this run's tools that are new or that another hook has changed; and what tools stored."""
        self._put_back(state)
        messages: Sequence[ChatMessage] = state.data["messages"]
        left = [await self._checked_results(one) if one.is_from(ChatRole.TOOL) else one for one in messages]
        replace_messages(state, messages, left)
        for key, before in self._values.items():
            await self._check_value(state, key, before)

    def _put_back(self, state: State) -> None:
        """Put the calls that processors have answered back into the state, with their answers."""
        full, self._full = self._full, None
        if full is None:
            return
        messages: Sequence[ChatMessage] = state.data["messages"]
        place = next((at for at in range(len(messages) - 1, -1, -1) if not messages[at].is_from(ChatRole.TOOL)), 0)
        made = [*messages[:place], full, *messages[place + 1 :], *self._answers.values()]
        for answer in self._answers.values():
            for result in answer.tool_call_results:
                said = plain(result.result)
                self._results[result.origin.id or ""] = (said, said)
        state.set("messages", made, handler_override=replace_values)

    async def _checked_results(self, message: ChatMessage) -> ChatMessage:
        content = [
            await self.checked_result(one) if isinstance(one, ToolCallResult) and (one.origin.id in self.asked) else one
            for one in message._content
        ]
        return message if content == list(message._content) else replace(message, _content=content)

    async def checked_result(self, result: ToolCallResult) -> ToolCallResult:
        """Return a result as the guards left it; each is checked once, unless another hook has changed it."""
        call, given = result.origin, plain(result.result)
        id = call.id or ""
        before, left = self._results.get(id, (None, None))
        if given not in (before, left):
            checked = await self.request.tool_result(
                call.tool_name, given, id, arguments=jsonable(call.arguments), is_error=result.error
            )
            left = thaw(checked)
            self._results[id] = (given, left)
        return result if left == given else replace(result, result=content_of(put(result.result, left)))

    async def _check_value(self, state: State, key: str, before: Value) -> None:
        """Check what tools have written into the state under a key."""
        value = state.data.get(key)
        given = plain(value)
        if given == before or given is None:
            return
        tools: Sequence[Tool] = state.data.get("tools") or []
        name = next((tool.name for tool in tools if key in (tool.outputs_to_state or {})), key)
        left = thaw(await self.request.tool_result(name, given, f"state-{key}"))
        if left != given:
            state.set(key, put(value, left), handler_override=replace_values)
        self._values[key] = left

    async def end(self, state: State) -> None:
        """Judge an answer behind which a tool ended the run."""
        said = self.forms.read(state.data["messages"], self.trusted)
        if not await self.request.end():
            self.request.check()
        self._rewrite(state, said)

    def shown(self, callback: StreamingCallbackT, *, awaits: bool) -> StreamingCallbackT:
        """Return a callback for what tools stream: their results, as the guards left them.

        The chat generator passes pieces of answers by it.
        """

        async def left(chunk: StreamingChunk) -> StreamingChunk | None:
            given = chunk.tool_call_result
            if given is None:
                return chunk if chunk.finish_reason == "tool_call_results" and not chunk.content else None
            result = await self.checked_result(given)
            return replace(chunk, tool_call_result=result, meta={**chunk.meta, "tool_result": result.result})

        async def show_async(chunk: StreamingChunk) -> None:
            seen = await left(chunk)
            shown = None if seen is None else callback(seen)
            if isawaitable(shown):
                await shown

        def show(chunk: StreamingChunk) -> None:
            seen = wait_for(left(chunk))
            if seen is not None:
                callback(seen)

        made: StreamingCallbackT = show_async if awaits else show
        setattr(made, RELEASED, callback)
        return made


RELEASED = "penstock_released"
"""The attribute of a callback that holds the one for what guards have released."""

running_now: ContextVar[HaystackRun | None] = ContextVar("penstock_haystack_run", default=None)


def replace_messages(state: State, before: Sequence[ChatMessage], after: list[ChatMessage]) -> None:
    """Put messages into the state, unless they are the objects that stand there."""
    if len(before) != len(after) or any(one is not other for one, other in zip(before, after, strict=True)):
        state.set("messages", after, handler_override=replace_values)
