"""The stages around each model call: the middleware of the chat client, and the client as the stages call it."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

import agent_framework as theirs
from agent_framework import ChatMiddleware, ResponseStream

from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.model import ToolSpec
from penstock.formats.wire import is_array
from penstock.workflows.adapters.agent_framework.answers import AgentFrameworkAnswerWriter
from penstock.workflows.adapters.agent_framework.messages import Contents
from penstock.workflows.adapters.agent_framework.running import Bound, GuardBlockedError, Instructions
from penstock.workflows.adapters.agent_framework.values import jsonable
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostRequest, ModelCall, as_asked, raised_as

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from agent_framework import ChatContext, ChatResponseUpdate

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.formats.wire import Json
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

    @asynccontextmanager
    async def _closing(self, request: HostRequest) -> AsyncGenerator[None]:
        """Close the request after an error, and the call's own one in any case."""
        try:
            yield
        except BaseException as error:
            await request.close(error)
            raise
        if self.request is None:
            await request.close()


Result: TypeAlias = "theirs.ChatResponse | theirs.ResponseStream[theirs.ChatResponseUpdate, theirs.ChatResponse] | None"
"""The result of a model call."""


class InnerChatClient:
    """The chat client as the stages call it, for one model call of the framework.

    Attributes:
        name: the name of the model.
        writer: writes its answer as the guards left it.
    """

    def __init__(
        self,
        context: theirs.ChatContext,
        call_next: CallNext,
        request: HostRequest,
        own: Instructions | None,
    ) -> None:
        self._contents = Contents(request)
        self._context = context
        self._call_next = call_next
        self._request = request
        self._own = own
        self._messages = list(context.messages)
        self._options: Json = dict(context.options or {})
        self._stream = context.stream
        self._after: str | None = None  # the id of the answer up to which a service keeps the conversation
        model = self._options.get("model") or getattr(context.client, "model", None)
        self.name = str(model or "agent-framework")
        self.writer = AgentFrameworkAnswerWriter(self._contents, request, self._options.get("response_format"))
        self._settings = {name: self._options[name] for name in PLAIN_SETTINGS & self._options.keys()}
        given = self._options.get("tools") or ()
        self._tools: list[object] = list(given) if is_array(given) else [given]

    def call(self, before: Sequence[Message]) -> ModelCall:
        """Return the call that the framework is about to make.

        Args:
            before: the conversation of earlier calls of the same request.
        """
        said = _with_answers(self._contents.read_call(self._messages), before)
        answer = self._request.answer
        if answer is not None and before and not _has_calls_of(answer, said):
            self._after = answer.id
            said = [*(one for one in before if not one.metadata.get(_OURS)), *said]
        said[:0] = self._instructions()
        tools = [tool for tool in map(_spec, self._tools) if tool is not None]
        settings = freeze(jsonable(self._settings))
        is_whole = not self._options.get("conversation_id")
        return ModelCall(self, said, tools, settings=settings, live=self._stream, is_whole=is_whole)

    def _instructions(self) -> list[Message]:
        """Return the instructions; guards read those of context providers, which often hold documents."""
        given = self._options.get("instructions")
        if not given:
            return []
        split = [(str(given), True)] if self._own is None else self._own.split(given)
        return [Message.system(text, metadata={_OURS: True}, from_client=not own) for text, own in split]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Call the client; yield its answer as chunks."""
        self._ask(request)
        reader = self.writer.attempt()
        result = await self._called()
        if not isinstance(result, theirs.ResponseStream):
            said = result if result is not None else theirs.ChatResponse(messages=[])
            for message in said.messages:
                for chunk in reader.read(message.contents):
                    yield chunk
        else:
            try:
                async for update in result:
                    self.writer.message_id = self.writer.message_id or update.message_id
                    for chunk in reader.read(update.contents):
                        yield chunk
                said = await result.get_final_response()
            finally:
                await result.close()
        for chunk in self.writer.end(said):
            yield chunk

    def _ask(self, request: ModelRequest) -> None:
        """Give the call its messages and options, as the stages left them."""
        own = [message.text for message in request.messages if message.metadata.get(_OURS)]
        said = [message for message in request.messages if not message.metadata.get(_OURS)]
        options = dict(self._options)
        if options.get("instructions") and "\n".join(own) != str(options["instructions"]):
            options["instructions"] = "\n".join(own) or None
        for name, value in request.settings.items():
            if name not in self._settings or freeze(jsonable(self._settings[name])) != value:
                options[_SPELLED.get(name, name)] = thaw(value)
        names = {tool.name for tool in request.tools}
        known = {spec.name for spec in map(_spec, self._tools) if spec is not None}
        if names != known:
            kept = [tool for tool in self._tools if (spec := _spec(tool)) is None or spec.name in names]
            options["tools"] = [*kept, *(_tool(tool) for tool in request.tools if tool.name not in known)]
        if request.tool_choice != "auto":
            choice = request.tool_choice
            options["tool_choice"] = (
                choice if isinstance(choice, str) else {"mode": "required", "required_function_name": choice[0]}
            )
        self._context.options = options
        self._context.messages = self._contents.written(said, after=self._after)

    async def _called(self) -> Result:
        """Call the client, with the hooks that the middleware behind us adds to its stream."""
        context = self._context
        before = {name: len(getattr(context, name, ())) for name in _HOOKS}
        context.result = None
        with suppress(theirs.MiddlewareTermination):
            await self._call_next()
        result = cast("Result", context.result)
        if isinstance(result, theirs.ResponseStream):
            for name, (method, more) in _HOOKS.items():
                hooks: list[object] = getattr(context, name, [])
                for hook in hooks[before[name] :]:
                    getattr(result, method)(hook, **more)
                del hooks[before[name] :]
        return result


_HOOKS: dict[str, tuple[str, dict[str, str]]] = {
    "stream_transform_hooks": ("with_transform_hook", {}),
    "stream_result_hooks": ("with_result_hook", {}),
    "stream_cleanup_hooks": ("with_cleanup_hook", {}),
    "stream_update_gates_before": ("with_update_gate", {"phase": "before_transform"}),
    "stream_update_gates_after": ("with_update_gate", {"phase": "after_transform"}),
    "stream_result_gates_before": ("with_result_gate", {"phase": "before_transform"}),
    "stream_result_gates_after": ("with_result_gate", {"phase": "after_transform"}),
}
"""What a chat middleware may add to a stream, with the method of the stream that does it."""

_OURS, ANSWER = "penstock-instruction", "penstock-answer"
"""Keys in the metadata of instructions, and of answers of this request."""

_SPELLED = {"parallel_tool_calls": "allow_multiple_tool_calls"}


def _with_answers(said: Sequence[Message], before: Sequence[Message]) -> list[Message]:
    """Return messages with the answers of this request as they were, text included that was not let into a stream."""
    answers: dict[tuple[str, ...], list[Message]] = {}
    for message in before:
        if message.metadata.get(ANSWER) and _call_ids(message):
            answers.setdefault(_call_ids(message), []).append(message)
    made: list[Message] = []
    for message in said:
        found = answers.get(_call_ids(message)) if message.role == "assistant" else None
        made.append(found.pop(0) if found else message)
    return made


def _call_ids(message: Message) -> tuple[str, ...]:
    return tuple([part.call_id for part in message.parts if isinstance(part, ToolPart) and part.state == "call"])


def has_call(answer: Message | None, call_id: str) -> bool:
    """Return whether an answer makes a call."""
    return answer is not None and any(isinstance(part, ToolPart) and part.call_id == call_id for part in answer.parts)


def _has_calls_of(answer: Message, said: Iterable[Message]) -> bool:
    """Return whether a conversation holds an answer; if not, a service keeps it."""
    calls = {part.call_id for part in answer.parts if isinstance(part, ToolPart)}
    return not calls or any(
        part.call_id in calls
        for message in said
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, ToolPart)
    )


def _spec(tool: object) -> ToolSpec | None:
    if not isinstance(tool, theirs.FunctionTool):
        return None
    return ToolSpec(tool.name, jsonable(tool.parameters()), tool.description or "")


def _tool(tool: ToolSpec) -> theirs.FunctionTool:
    schema = cast("Json", thaw(dict(tool.parameters)))
    return theirs.FunctionTool(name=tool.name, description=tool.description or "", input_model=schema)
