"""A workflow as middleware of Microsoft's agent-framework: ``Agent(client, middleware=as_middleware(guard))``.

Needs the extra ``agent-framework``. The agent middleware opens a request for each run and checks the input; the chat
middleware stands around each model call, so that stream, response and history agree; the function middleware stands
around each tool.
"""

from __future__ import annotations

import json
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from penstock.engine.formats.parts import media_type_of, split_data_url
from penstock.engine.formats.wire import notes_of, with_notes
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MissingExtraError, UsageError
from penstock.engine.values.frozen import EMPTY, freeze, thaw
from penstock.engine.values.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.tripwire import BlockedError
from penstock.models.openai.wire import checksum
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostSupport, ModelCall, as_asked, raised_as

try:
    import agent_framework as theirs
    from agent_framework import AgentMiddleware, ChatMiddleware, FunctionMiddleware, MiddlewareFailure
    from agent_framework.exceptions import AgentContentFilterException
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.agent_framework", "agent-framework") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Part, Role
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions, HostRequest

    CallNext = Callable[[], Awaitable[None]]

SUPPORT = HostSupport("agent_framework.as_middleware")
FORMAT = "agent-framework"
"""The name under which metadata holds what only the framework knows."""


class GuardBlockedError(BlockedError, MiddlewareFailure, AgentContentFilterException):
    """A guard stopped a run. It is the framework's error for filtered content, and carries the verdict.

    Attributes:
        tripwire: the verdict.
    """


def as_middleware(
    *processors: Item, **options: Unpack[HostOptions]
) -> list[AgentMiddleware | ChatMiddleware | FunctionMiddleware]:
    """Return processors as middleware: ``Agent(client, middleware=as_middleware(guard))``.

    Put them last in the list: middleware that stands behind them reads what the guards have not.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    host = Host(SUPPORT, processors, **options)
    return [GuardAgentMiddleware(host), GuardChatMiddleware(host), GuardFunctionMiddleware(host)]


class GuardAgentMiddleware(AgentMiddleware):
    """Opens a request for each run of an agent, and checks its input before anything else reads it.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        self.host = host

    async def process(self, context: theirs.AgentContext, call_next: CallNext) -> None:
        """Run the agent as one request.

        Raises:
            GuardBlockedError: a guard stopped the run.
            UsageError: the agent stores each answer of the model before guards could read it.
        """
        if getattr(context.agent, "require_per_service_call_history_persistence", False):
            raise UsageError(
                "require_per_service_call_history_persistence stores each answer before any middleware can read it; "
                "create the agent without it"
            )
        request = self.host.open()
        context.client_kwargs = {**context.client_kwargs}
        context.client_kwargs["middleware"] = [
            item.bound(request) if isinstance(item, _Bound) and item.host is self.host else item
            for item in context.client_kwargs.get("middleware", ())
        ]
        context.stream_cleanup_hooks.append(request.close)
        try:
            await self._check_input(context, request)
            await call_next()
        except BaseException as failure:
            await request.close(failure)
            raise
        if not context.stream:
            await request.close()

    @staticmethod
    async def _check_input(context: theirs.AgentContext, request: HostRequest) -> None:
        contents = _Contents()
        said = [(message, list(contents.read(message))) for message in context.messages]
        with raised_as(GuardBlockedError):
            await request.begin([one for _, group in said for one in group], whole=False)
            request.check()
        context.messages = contents.current(request, said)


class _Bound:
    """Middleware that may belong to the request of an agent's run; without one, each call is its own request."""

    def __init__(self, host: Host, request: HostRequest | None = None) -> None:
        self.host = host
        self.request = request

    def bound(self, request: HostRequest) -> _Bound:
        """Return the middleware for one request."""
        return type(self)(self.host, request)


class GuardChatMiddleware(_Bound, ChatMiddleware):
    """The stages around each model call.

    Attributes:
        host: the processors.
        request: the request of the agent's run; None if a chat client is used alone.
    """

    def __init__(self, host: Host, request: HostRequest | None = None) -> None:
        super().__init__(host, request)
        self._before: list[Message] = []  # the conversation so far, for services that keep it themselves

    async def process(self, context: theirs.ChatContext, call_next: CallNext) -> None:
        """Call the model with the stages around it.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        request = self.request or self.host.open()
        inner = _InnerModel(context, call_next, request)
        call = inner.call(self._before)
        self._before = list(call.messages)
        if context.stream:
            context.result = theirs.ResponseStream(
                self._updates(call, inner, request),
                finalizer=lambda updates: _from_updates(updates, inner.format),
            )
            return
        async with self._closing(request):
            with raised_as(GuardBlockedError):
                answer = await request.whole_answer(call)
            self._note(answer)
            context.result = _response(answer, inner)

    async def _updates(
        self, call: ModelCall, inner: _InnerModel, request: HostRequest
    ) -> AsyncGenerator[theirs.ChatResponseUpdate]:
        async with self._closing(request), aclosing(request.answers(call)) as chunks:
            with raised_as(GuardBlockedError):
                async for chunk in chunks:
                    if chunk.type == "tool-call" and not _calls(request.answer, chunk.id):
                        continue  # of an earlier answer, whose text was held until now
                    contents = list(inner.contents.of_chunk(chunk))
                    if contents:
                        yield _update(contents, inner)
                request.check()
            answer = request.answer or Message("assistant")
            self._note(answer)
            yield _last_update(inner)

    def _note(self, answer: Message) -> None:
        asked = as_asked(answer)
        self._before.append(replace(asked, metadata={**asked.metadata, _ANSWER: True}))

    def _closing(self, request: HostRequest) -> _Closing:
        return _Closing(request, owns=self.request is None)


class _Closing:
    """Closes a request after an error, and its own one in any case."""

    def __init__(self, request: HostRequest, *, owns: bool) -> None:
        self._request = request
        self._owns = owns

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None or self._owns:
            await self._request.close(error)


class GuardFunctionMiddleware(_Bound, FunctionMiddleware):
    """The stages around each call of a tool.

    Attributes:
        host: the processors.
        request: the request of the agent's run; None if a chat client is used alone.
    """

    async def process(self, context: theirs.FunctionInvocationContext, call_next: CallNext) -> None:
        """Check the call and its result; a processor may answer in the tool's place.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        request = self.request or self.host.open()
        try:
            with raised_as(GuardBlockedError):
                await self._process(request, context, call_next)
        except Exception as failure:
            if self.request is None:
                await request.close(failure)
            raise
        except BaseException as failure:  # cancelled
            await request.close(failure)
            raise
        if self.request is None:
            await request.close()

    @staticmethod
    async def _process(request: HostRequest, context: theirs.FunctionInvocationContext, call_next: CallNext) -> None:
        name, call_id = context.function.name, str(context.metadata.get("call_id") or context.function.name)
        arguments: Any = context.arguments
        given = _json(arguments.model_dump() if hasattr(arguments, "model_dump") else dict(arguments))
        checked = await request.tool_call(name, given, call_id)
        if checked.answered:
            context.result = _as_result(checked.answer)
            return
        if checked.arguments != freeze(given):
            context.arguments = thaw(checked.arguments)
        await _guarded_call(request, context, call_next, name, call_id, checked.arguments)


async def _guarded_call(
    request: HostRequest,
    context: theirs.FunctionInvocationContext,
    call_next: CallNext,
    name: str,
    call_id: str,
    arguments: Value,
) -> None:
    """Call a tool, and check its result or error."""

    async def check_result() -> None:
        said = _result_value(context.result)
        left = await request.tool_result(name, said, call_id, arguments=arguments)
        if left != freeze(said):
            context.result = _as_result(left)

    try:
        await call_next()
    except theirs.MiddlewareTermination as ended:  # the loop ends with what the middleware behind us has set
        if context.result is None:
            context.result = _unpacked(ended.result)
        if context.result is not None and not _asks(context.result):
            await check_result()
        raise
    except (MiddlewareFailure, theirs.UserInputRequiredException):
        raise
    except Exception as failure:
        said = str(failure)
        left = await request.tool_result(name, said, call_id, arguments=arguments, is_error=True)
        if left != said:
            raise theirs.exceptions.ToolExecutionException(str(left)) from None
        raise
    if not _asks(context.result):
        await check_result()


def _unpacked(result: Any) -> Any:
    if isinstance(result, theirs.Content) and result.type == "function_result":
        return result.items or result.result
    return result


def _asks(result: Any) -> bool:
    """Return whether a result asks for an approval, with the arguments that the guards have checked."""
    return isinstance(result, theirs.Content) and result.type == "function_approval_request"


class _InnerModel:
    """The chat client as the stages call it, for one model call of the framework."""

    name = "agent-framework"

    def __init__(self, context: theirs.ChatContext, call_next: CallNext, request: HostRequest) -> None:
        self.contents = _Contents()
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
        self._tools: list[Any] = [given] if _is_single(given) else list(given)

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
        return ModelCall(self, said, tools, settings=freeze(_json(self._settings)), live=self._stream)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        self._ask(request)
        reader = _AnswerReader(self.contents)
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
            if name not in self._settings or freeze(_json(self._settings[name])) != value:
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

_OURS, _ANSWER = "penstock-instruction", "penstock-answer"
"""Keys in the metadata of instructions, and of answers of this request."""

_SPELLED = {"parallel_tool_calls": "allow_multiple_tool_calls"}


def _with_answers(said: Sequence[Message], before: Sequence[Message]) -> list[Message]:
    """Return messages with the answers of this request as they were, text included that was not let into a stream."""
    answers: dict[tuple[str, ...], list[Message]] = {}
    for message in before:
        if message.metadata.get(_ANSWER) and _call_ids(message):
            answers.setdefault(_call_ids(message), []).append(message)
    made: list[Message] = []
    for message in said:
        found = answers.get(_call_ids(message)) if message.role == "assistant" else None
        made.append(found.pop(0) if found else message)
    return made


def _call_ids(message: Message) -> tuple[str, ...]:
    return tuple([part.call_id for part in message.parts if isinstance(part, ToolPart) and part.state == "call"])


def _calls(answer: Message | None, call_id: str) -> bool:
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


def _is_single(tools: Any) -> bool:
    return not isinstance(tools, (list, tuple))


def _is_stream(result: Any) -> bool:
    return isinstance(result, theirs.ResponseStream)


def _spec(tool: Any) -> ToolSpec | None:
    if not isinstance(tool, theirs.FunctionTool):
        return None
    return ToolSpec(tool.name, _json(tool.parameters()), tool.description or "")


def _tool(tool: ToolSpec) -> theirs.FunctionTool:
    schema = cast("dict[str, Any]", thaw(dict(tool.parameters)))
    return theirs.FunctionTool(name=tool.name, description=tool.description or "", input_model=schema)


# Messages both ways


class _Contents:
    """Reads and writes the framework's messages. What is unchanged is written as the very object that was read."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, tuple[Part, ...]], theirs.Message] = {}
        self._contents: dict[Part, theirs.Content] = {}
        self._calls: dict[str, theirs.Content] = {}
        self._results: dict[str, theirs.Content] = {}
        self._thoughts: dict[str, str] = {}  # the reasoning that has left, by its block

    def read(self, message: theirs.Message) -> Iterator[Message]:
        """Yield a message of the framework; results of tools as messages of their own."""
        role: Any = message.role if message.role in ("system", "user", "assistant", "tool") else "system"
        parts = tuple(map(self.part, message.contents))
        results = tuple(part for part in parts if isinstance(part, ToolPart) and part.state != "call")
        rest = tuple(part for part in parts if part not in results)
        notes: dict[str, Value] = {"id": message.message_id} if message.message_id else {}
        if message.additional_properties:
            notes["properties"] = _json(message.additional_properties)
        metadata: Any = with_notes(FORMAT, notes) if notes else EMPTY
        if results:
            yield Message("tool", results, metadata=metadata, name=message.author_name)
            self._messages["tool", results] = message
        if rest or not results:
            said: Role = "assistant" if role == "tool" else role
            yield Message(said, rest, metadata=metadata, name=message.author_name)
            if not results:
                self._messages[said, rest] = message

    def part(self, content: theirs.Content) -> Part:
        """Return a part."""
        raw = cast("dict[str, Any]", _json(content.to_dict()))
        made = self._part(content, raw)
        self._contents[made] = content
        return made

    def _part(self, content: theirs.Content, raw: dict[str, Any]) -> Part:
        kind = content.type
        if kind == "text":
            return TextPart(content.text or "", _notes(raw, "text"))
        if kind == "text_reasoning" and content.text:
            return ReasoningPart(content.text, _notes(raw, "text"))
        if kind == "function_call" and content.name and not getattr(content, "informational_only", False):
            self._calls[content.call_id or ""] = content
            return ToolPart(content.call_id or "", content.name, freeze(_arguments(content)[0]))
        if kind == "function_result":
            call_id = content.call_id or ""
            self._results[call_id] = content
            value = _result_value(getattr(content, "items", None) or content.result)
            if content.exception is None:
                return ToolPart(call_id, "", EMPTY, "result", freeze(value))
            return ToolPart(call_id, "", EMPTY, "error", None, value if isinstance(value, str) else json.dumps(value))
        if kind in ("data", "uri") and content.uri:
            return _media(content, raw)
        return UnknownPart(freeze(raw))

    def current(
        self, request: HostRequest, said: Sequence[tuple[theirs.Message, list[Message]]]
    ) -> list[theirs.Message]:
        """Return the framework's messages as the guards left them; those that they removed are left out."""
        left = iter(request.current([one for _, group in said for one in group]))
        made: list[theirs.Message] = []
        for message, group in said:
            now = [next(left) for _ in group]
            if all(after is not None and one.parts == after.parts for one, after in zip(group, now, strict=True)):
                made.append(message)
                continue
            parts = [part for one in now if one is not None for part in one.parts]
            if not parts:
                continue
            changed = copy(message)
            changed.contents = [content for part in parts for content in self.contents_of(part)]
            changed.raw_representation = None
            made.append(changed)
        return made

    def written(self, messages: Iterable[Message], *, after: str | None = None) -> list[theirs.Message]:
        """Return messages for the client; those up to the message ``after`` only if it does not keep them itself."""
        made: list[theirs.Message] = []
        for message in messages:
            results = [part for part in message.parts if isinstance(part, ToolPart) and part.state != "call"]
            if message.id == after and after is not None:
                made = []
            elif not results or message.role != "tool":
                made.append(self._message(as_asked(message)))
            if results:
                tool = self._messages.get(("tool", message.parts))
                made.append(tool or theirs.Message("tool", [self._result(part) for part in results]))
        return made

    def _message(self, message: Message) -> theirs.Message:
        known = self._messages.get((message.role, message.parts))
        if known is not None:
            return known
        notes = notes_of(message, FORMAT)
        return theirs.Message(
            message.role,
            [content for part in message.parts for content in self.contents_of(part)],
            author_name=message.name,
            message_id=notes.get("id"),
            additional_properties=thaw(notes.get("properties") or {}),
        )

    def contents_of(self, part: Part) -> Iterator[theirs.Content]:
        """Yield the content of a part."""
        known = self._contents.get(part)
        if known is not None:
            yield known
        elif isinstance(part, (TextPart, ReasoningPart)):
            kind = "text" if isinstance(part, TextPart) else "text_reasoning"
            sealed = _protected(part)
            yield _content(
                {**_extra(part), "type": kind, "text": part.text, **({"protected_data": sealed} if sealed else {})}
            )
        elif isinstance(part, ToolPart):
            yield self._call(part) if part.state == "call" else self._result(part)
        elif isinstance(part, (ImagePart, AudioPart, FilePart)):
            yield _media_content(part)
        elif isinstance(part, UnknownPart):
            yield _content(cast("dict[str, Any]", thaw(part.raw)))

    def _call(self, part: ToolPart) -> theirs.Content:
        known = self._calls.get(part.call_id)
        if known is not None and known.name == part.name and freeze(_arguments(known)[0]) == part.arguments:
            return known
        arguments = thaw(part.arguments)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        made = theirs.Content.from_function_call(part.call_id, part.name, arguments=text)
        if known is not None:
            made.additional_properties = dict(known.additional_properties)
        return made

    def _result(self, part: ToolPart) -> theirs.Content:
        known = self._results.get(part.call_id)
        said = part.error if part.state == "error" else part.result
        if known is not None and freeze(_result_value(getattr(known, "items", None) or known.result)) == said:
            return known
        failed = "error" if part.state == "error" else None
        return theirs.Content.from_function_result(part.call_id, result=_as_result(said), exception=failed)

    def of_chunk(self, chunk: Chunk) -> Iterator[theirs.Content]:
        """Yield the contents of a chunk that a guard released."""
        if chunk.type == "text-delta":
            yield theirs.Content.from_text(chunk.text)
        elif chunk.type == "reasoning-delta":
            self._thoughts[chunk.id] = self._thoughts.get(chunk.id, "") + chunk.text
            yield theirs.Content.from_text_reasoning(text=chunk.text)
        elif chunk.type == "reasoning-end":
            notes = cast("Any", chunk.payload.get("provider_metadata") or EMPTY)
            sealed = _protected(ReasoningPart(self._thoughts.pop(chunk.id, ""), notes))
            if sealed is not None:
                yield _content({"type": "text_reasoning", "protected_data": sealed})
        elif chunk.type == "tool-call":
            yield self._call(ToolPart(chunk.id, cast("str", chunk.payload["name"]), chunk.payload["arguments"]))
        elif chunk.type == "file":
            data, media_type = chunk.payload.get("data"), chunk.payload.get("media_type")
            url = chunk.payload.get("url")
            yield from self.contents_of(FilePart(cast("Any", data), cast("Any", url), None, cast("Any", media_type)))
        elif chunk.type == "raw":
            raw = chunk.payload.get("provider_part") or chunk.payload.get("provider_sealed")
            if raw is not None:
                yield from self.contents_of(UnknownPart(raw))


def _notes(raw: Mapping[str, Any], *known: str) -> Any:
    """Return the metadata of a part: what its content has beside what the part holds."""
    extra = {name: item for name, item in raw.items() if name not in ("type", *known) and item not in ({}, None)}
    if "protected_data" in extra:
        extra["of"] = checksum(str(raw.get("text") or ""))
    return with_notes(FORMAT, extra) if extra else EMPTY


def _extra(part: Part) -> dict[str, Any]:
    """Return what a changed part keeps: not its signature, and no annotations, which point into the old text."""
    dropped = ("of", "protected_data", "annotations")
    return {name: thaw(item) for name, item in notes_of(part, FORMAT).items() if name not in dropped}


def _protected(part: Part) -> str | None:
    """Return what a provider needs back with a reasoning, unless the text was changed."""
    notes = notes_of(part, FORMAT)
    if not isinstance(part, ReasoningPart) or notes.get("of") != checksum(part.text):
        return None
    return cast("str | None", notes.get("protected_data"))


def _content(raw: dict[str, Any]) -> theirs.Content:
    return theirs.Content.from_dict(raw)


def _media(content: theirs.Content, raw: Mapping[str, Any]) -> Part:
    uri = content.uri or ""
    found = split_data_url(uri)
    data, url = (found[1], None) if found is not None else (None, uri)
    media_type = content.media_type or (found[0] if found is not None else None)
    notes = _notes(raw, "uri", "media_type")
    family = (media_type or "").partition("/")[0]
    if family == "image":
        return ImagePart(url, data, media_type, notes)
    if family == "audio":
        return AudioPart(data, url, media_type, metadata=notes)
    return FilePart(data, url, None, media_type, None, notes)


def _media_content(part: ImagePart | AudioPart | FilePart) -> theirs.Content:
    media_type = media_type_of(part) or "application/octet-stream"
    uri = part.url if part.data is None else f"data:{media_type};base64,{part.data}"
    kind = "data" if part.data is not None else "uri"
    return _content({**_extra(part), "type": kind, "uri": uri or "", "media_type": media_type})


def _arguments(content: theirs.Content) -> tuple[Any, bool]:
    """Return a call's arguments, and whether they are valid JSON; no arguments are an empty object."""
    given: Any = content.arguments
    if not isinstance(given, str):
        return _json(given or {}), True
    try:
        return json.loads(given) if given.strip() else {}, True
    except (ValueError, RecursionError):
        return given, False


def _json(value: Any) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(value, default=str))


def _result_value(result: Any) -> Any:
    """Return the result of a tool as JSON: the text, if there is nothing else."""
    if isinstance(result, theirs.Content):
        result = [result]
    items: list[Any] = [] if _is_single(result) else list(result)
    if items and all(isinstance(item, theirs.Content) for item in items):
        if all(item.type == "text" for item in items):
            return "\n".join(item.text or "" for item in items)
        return [_json(item.to_dict()) for item in items]
    return _json(result)


def _as_result(value: Value) -> Any:
    """Return a result for the framework."""
    said: Any = thaw(value)
    if isinstance(said, str):
        return [theirs.Content.from_text(said)]
    items: list[Any] = [] if _is_single(said) else said
    if items and all(isinstance(item, dict) and "type" in item for item in items):
        return [_content(item) for item in items]
    return [theirs.Content.from_text(json.dumps(said, ensure_ascii=False))]


# Answers


_REASONS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_calls": "tool-calls"}
_THEIR_REASONS = {ours: theirs_ for theirs_, ours in _REASONS.items()}


class _AnswerReader:
    """Reads one answer of a client into chunks."""

    def __init__(self, contents: _Contents) -> None:
        self._contents = contents
        self._open = ""  # the kind of the text that is being read
        self._text: list[str] = []
        self._protected: str | None = None
        self._count = 0

    def read(self, contents: Iterable[theirs.Content]) -> Iterator[Chunk]:
        """Yield the chunks of contents, without tool calls: those are complete at the end only."""
        for content in contents:
            kind = content.type
            if kind == "usage" or (kind == "function_call" and not getattr(content, "informational_only", False)):
                continue
            if kind in ("text", "text_reasoning") and (content.text or self._open == "reasoning"):
                yield from self._say("text" if kind == "text" else "reasoning", content)
                continue
            if kind == "text":
                continue
            yield from self._end()
            part = self._contents.part(_without_raw(content))
            if isinstance(part, (ImagePart, AudioPart, FilePart)):
                yield Chunk("file", payload={"media_type": part.media_type, "data": part.data, "url": part.url})
            elif isinstance(part, UnknownPart):
                sealed = kind == "text_reasoning"
                yield Chunk("raw", payload={"provider_sealed" if sealed else "provider_part": part.raw})
            else:
                yield Chunk("raw", payload={"provider_part": _json(content.to_dict())})

    def _say(self, kind: str, content: theirs.Content) -> Iterator[Chunk]:
        if self._open != kind:
            yield from self._end()
            self._open, self._count = kind, self._count + 1
            yield Chunk(f"{kind}-start", id=f"{kind}-{self._count}")
        self._protected = content.protected_data or self._protected
        if content.text:
            self._text.append(content.text)
            yield Chunk(f"{kind}-delta", content.text, f"{kind}-{self._count}")

    def _end(self) -> Iterator[Chunk]:
        if not self._open:
            return
        said: dict[str, Any] = {}
        if self._protected is not None:
            notes = {"protected_data": self._protected, "of": checksum("".join(self._text))}
            said = {"provider_metadata": {FORMAT: notes}}
        yield Chunk(f"{self._open}-end", id=f"{self._open}-{self._count}", payload=said)
        self._open, self._text, self._protected = "", [], None

    def rest(self, said: theirs.ChatResponse[Any]) -> Iterator[Chunk]:
        """Yield the tool calls of an answer, and its finish."""
        yield from self._end()
        called = False
        for content in (content for message in said.messages for content in message.contents):
            part = self._contents.part(_without_raw(content)) if content.type == "function_call" else None
            if not isinstance(part, ToolPart):
                continue
            called = True
            arguments, valid = _arguments(content)
            named = {"call_id": part.call_id, "name": part.name}
            yield Chunk("tool-input-start", id=part.call_id, payload=named)
            yield Chunk("tool-input-end", id=part.call_id)
            broken = {} if valid else {"invalid": True}
            notes = {FORMAT: _json(content.additional_properties)}  # goes back to the client, so guards read it
            told = {"provider_metadata": notes} if content.additional_properties else {}
            yield Chunk("tool-call", id=part.call_id, payload={**named, "arguments": arguments, **broken, **told})
        usual = "tool-calls" if called else "stop"
        reason = _REASONS.get(str(said.finish_reason), "other") if said.finish_reason else usual
        metadata = {"id": said.response_id, "model": said.model}
        used: Any = said.usage_details or {}
        counts = {ours: used.get(name) for ours, name in _COUNTS.items()}
        payload: dict[str, Any] = {
            "reason": reason,
            "metadata": {name: item for name, item in metadata.items() if item},
            "usage": counts if used else None,
        }
        yield Chunk("finish", payload={name: item for name, item in payload.items() if item})


def _without_raw(content: theirs.Content) -> theirs.Content:
    """Return a content without the client's raw form, which may hold text that guards have not read."""
    made = copy(content)
    made.raw_representation = None
    return made


_COUNTS = {"input_tokens": "input_token_count", "output_tokens": "output_token_count"}


def _about(inner: _InnerModel) -> dict[str, Any]:
    """Return what is reported with an answer. Not its raw form, and no properties, which may repeat the text."""
    said, request = inner.said, inner.request
    reason = _THEIR_REASONS.get(request.finish_reason)
    return {
        "response_id": None if said is None else said.response_id,
        "conversation_id": None if said is None else said.conversation_id,
        "model": None if said is None else said.model,
        "created_at": None if said is None else said.created_at,
        "finish_reason": reason,
    }


def _usage(inner: _InnerModel) -> Any:
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


def _response(answer: Message, inner: _InnerModel) -> theirs.ChatResponse[Any]:
    contents = [content for part in as_asked(answer).parts for content in inner.contents.contents_of(part)]
    messages = [theirs.Message("assistant", contents, message_id=inner.message_id)]
    return theirs.ChatResponse(
        messages=messages, usage_details=_usage(inner), response_format=inner.format, **_about(inner)
    )


def _update(contents: list[theirs.Content], inner: _InnerModel) -> theirs.ChatResponseUpdate:
    return theirs.ChatResponseUpdate(contents=contents, role="assistant", message_id=inner.message_id)


def _last_update(inner: _InnerModel) -> theirs.ChatResponseUpdate:
    usage = _usage(inner)
    contents = [theirs.Content.from_usage(usage)] if usage else []
    return theirs.ChatResponseUpdate(contents=contents, role="assistant", message_id=inner.message_id, **_about(inner))


def _from_updates(updates: Sequence[theirs.ChatResponseUpdate], form: Any) -> theirs.ChatResponse[Any]:
    return theirs.ChatResponse.from_updates(updates, output_format_type=form)
