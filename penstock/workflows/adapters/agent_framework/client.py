"""`InnerModel`: the chat client as the stages call it, for one model call of the framework."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import agent_framework as theirs

from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.model import ToolSpec
from penstock.workflows.adapters.agent_framework.answers import THEIR_REASONS, AnswerReader
from penstock.workflows.adapters.agent_framework.messages import Contents
from penstock.workflows.adapters.agent_framework.values import is_single, jsonable
from penstock.workflows.hosting import PLAIN_SETTINGS, ModelCall, as_asked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.workflows.adapters.agent_framework.running import CallNext
    from penstock.workflows.hosting import HostRequest


class InnerModel:
    """The chat client as the stages call it, for one model call of the framework."""

    name = "agent-framework"

    def __init__(self, context: theirs.ChatContext, call_next: CallNext, request: HostRequest) -> None:
        self.contents = Contents()
        self.said: theirs.ChatResponse[Any] | None = None
        self.message_id: str | None = None
        self._context = context
        self._call_next = call_next
        self.request = request
        self._messages = list(context.messages)
        self._options: dict[str, Any] = dict(context.options or {})
        self._stream = context.stream
        self._after: str | None = None  # the id of the answer up to which a service keeps the conversation
        model = self._options.get("model") or getattr(context.client, "model", None)
        self.name = str(model or "agent-framework")
        self.format = self._options.get("response_format")
        self._settings = {name: self._options[name] for name in PLAIN_SETTINGS & self._options.keys()}
        given: Any = self._options.get("tools") or ()
        self._tools: list[Any] = [given] if is_single(given) else list(given)

    def call(self, before: Sequence[Message]) -> ModelCall:
        """Return the call that the framework is about to make.

        Args:
            before: the conversation of earlier calls of the same request.
        """
        said = _with_answers([one for message in self._messages for one in self.contents.read(message)], before)
        answer = self.request.answer
        if answer is not None and before and not _has_calls_of(answer, said):
            self._after = answer.id
            said = [*(one for one in before if not one.metadata.get(_OURS)), *said]
        instructions = self._options.get("instructions")
        if instructions:
            said.insert(0, Message.system(str(instructions), metadata={_OURS: True}))
        tools = [tool for tool in map(_spec, self._tools) if tool is not None]
        return ModelCall(self, said, tools, settings=freeze(jsonable(self._settings)), live=self._stream)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        self._ask(request)
        reader = AnswerReader(self.contents)
        result: Any = await self._called()
        if result is None:
            result = theirs.ChatResponse(messages=[])
        if not _is_stream(result):
            self._say(result)
            for message in result.messages:
                for chunk in reader.read(message.contents):
                    yield chunk
        else:
            try:
                async for update in result:
                    self.message_id = self.message_id or update.message_id
                    for chunk in reader.read(update.contents):
                        yield chunk
                self._say(await result.get_final_response())
            finally:
                close = getattr(result, "aclose", None)
                if close is not None:
                    await close()
        said = cast("theirs.ChatResponse[Any]", self.said)
        for chunk in reader.rest(said):
            yield chunk

    def _say(self, response: theirs.ChatResponse[Any]) -> None:
        self.said = response
        if response.messages:
            self.message_id = self.message_id or response.messages[-1].message_id

    def _ask(self, request: ModelRequest) -> None:
        """Give the call its messages and options, as the stages left them."""
        own = [message.text for message in request.messages if message.metadata.get(_OURS)]
        said = [message for message in request.messages if not message.metadata.get(_OURS)]
        options = dict(self._options)
        if options.get("instructions") and own != [str(options["instructions"])]:
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
            options["tool_choice"] = _choice(request.tool_choice)
        self._context.options = options
        self._context.messages = self.contents.written(said, after=self._after)

    async def _called(self) -> Any:
        """Call the client, with what the middleware behind us adds to its stream."""
        context: Any = self._context
        before = {name: len(getattr(context, name, ())) for name in _HOOKS}
        context.result = None
        with suppress(theirs.MiddlewareTermination):
            await self._call_next()
        result: Any = context.result
        if _is_stream(result):
            for name, (method, more) in _HOOKS.items():
                hooks: list[Any] = getattr(context, name, [])
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


def _choice(choice: str | tuple[str, ...]) -> Any:
    if isinstance(choice, str):
        return choice
    return {"mode": "required", "required_function_name": choice[0]}


def _is_stream(result: Any) -> bool:
    return isinstance(result, theirs.ResponseStream)


def _spec(tool: Any) -> ToolSpec | None:
    if not isinstance(tool, theirs.FunctionTool):
        return None
    return ToolSpec(tool.name, jsonable(tool.parameters()), tool.description or "")


def _tool(tool: ToolSpec) -> theirs.FunctionTool:
    schema = cast("dict[str, Any]", thaw(dict(tool.parameters)))
    return theirs.FunctionTool(name=tool.name, description=tool.description or "", input_model=schema)


def _about(inner: InnerModel) -> dict[str, Any]:
    """Return what is reported with an answer. Not its raw form, and no properties, which may repeat the text."""
    said, request = inner.said, inner.request
    reason = THEIR_REASONS.get(request.finish_reason)
    return {
        "response_id": None if said is None else said.response_id,
        "conversation_id": None if said is None else said.conversation_id,
        "model": None if said is None else said.model,
        "created_at": None if said is None else said.created_at,
        "finish_reason": reason,
    }


def _usage(inner: InnerModel) -> Any:
    """Return the tokens of all attempts; the details of the last one."""
    used, own = inner.request.usage, inner.said.usage_details if inner.said is not None else None
    if not own:
        return own
    made: dict[str, Any] = dict(own)
    if used.input_tokens is not None:
        made["input_token_count"] = used.input_tokens
    if used.output_tokens is not None:
        made["output_token_count"] = used.output_tokens
    if used.total_tokens is not None:
        made["total_token_count"] = used.total_tokens
    return made


def response_of(answer: Message, inner: InnerModel) -> theirs.ChatResponse[Any]:
    """Return an answer as the guards left it."""
    contents = [content for part in as_asked(answer).parts for content in inner.contents.contents_of(part)]
    messages = [theirs.Message("assistant", contents, message_id=inner.message_id)]
    return theirs.ChatResponse(
        messages=messages, usage_details=_usage(inner), response_format=inner.format, **_about(inner)
    )


def update_of(contents: list[theirs.Content], inner: InnerModel) -> theirs.ChatResponseUpdate:
    """Return a piece of the answer."""
    return theirs.ChatResponseUpdate(contents=contents, role="assistant", message_id=inner.message_id)


def last_update(inner: InnerModel) -> theirs.ChatResponseUpdate:
    """Return the end of a stream: what is reported with the answer."""
    usage = _usage(inner)
    contents = [theirs.Content.from_usage(usage)] if usage else []
    return theirs.ChatResponseUpdate(contents=contents, role="assistant", message_id=inner.message_id, **_about(inner))


def from_updates(updates: Sequence[theirs.ChatResponseUpdate], form: Any) -> theirs.ChatResponse[Any]:
    """Return the response that updates make."""
    return theirs.ChatResponse.from_updates(updates, output_format_type=form)
