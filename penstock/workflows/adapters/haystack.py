"""A workflow in Haystack: ``as_agent(Agent(…), guard)``; in pipelines, ``as_chat_generator(generator, guard)``.

Needs the extra ``haystack``. A guarded agent is Haystack's agent with the stages around its chat generator, so that the
stream, the replies and the state agree; its hooks check input, tool calls and results, before anything else sees them.
"""

# pyright: reportPrivateUsage=false
# Haystack's messages have no other list of all that they hold than ``_content``.

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from inspect import isawaitable, signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio.to_thread

from penstock.engine.formats.wire import has_text, is_array, is_object, without_empty
from penstock.engine.processor.processor import Processor
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import let_others_run
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MissingExtraError, UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import (
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.tripwire import BlockedError, Tripwire
from penstock.engine.workflow import Workflow
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostRequest, HostSupport, ModelCall, as_asked
from penstock.workflows.hosting.without_await import each, each_given, wait_for

try:
    from haystack import component
    from haystack.components.agents import Agent, State
    from haystack.components.agents.state import replace_values
    from haystack.core.errors import DeserializationError, SerializationError
    from haystack.core.serialization import component_to_dict, default_to_dict, import_class_by_name
    from haystack.dataclasses import (
        ChatMessage,
        ChatRole,
        ComponentInfo,
        FileContent,
        ImageContent,
        ReasoningContent,
        StreamingChunk,
        TextContent,
        ToolCall,
        ToolCallDelta,
        ToolCallResult,
    )
    from haystack.dataclasses.streaming_chunk import StreamingCallbackT, select_streaming_callback
    from haystack.tools import flatten_tools_or_toolsets
    from haystack.utils.deserialization import deserialize_component_inplace
    from pydantic import BaseModel
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.haystack", "haystack") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from haystack.hooks import Hook, HookPoint
    from haystack.tools.tool import Tool
    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Part, Role
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions

F = TypeVar("F", bound="Callable[..., Any]")

# System messages are often rendered from templates with documents in them, so guards read them as they read input.
SUPPORT = HostSupport("haystack.as_agent", trusted_instructions=False)
GENERATOR_SUPPORT = HostSupport(
    "haystack.as_chat_generator",
    frozenset(STAGES) - {"process_tool_result"},
    trusted_instructions=False,
    instead="as_agent(…)",
)
ROUTER_SUPPORT = HostSupport(
    "haystack.as_router",
    frozenset({"process_input"}),
    retries=False,
    trusted_instructions=False,
    instead="as_agent(…)",
)


def as_agent(agent: Agent, *processors: Item, **options: Unpack[HostOptions]) -> GuardedAgent:
    """Return an agent that does what the given one does, with processors at every stage.

    One serves any number of runs at once. A verdict is raised as a `BlockedError`.

    Args:
        agent: the agent; it stays as it is.
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist, or the agent is none of Haystack's own.
        WorkflowError: the processors cannot run together.
    """
    if type(agent) is not Agent:
        raise UsageError(
            f"as_agent(…) needs an Agent, not {type(agent).__name__}; for other components, guard the chat generator "
            "with as_chat_generator(…)"
        )
    return GuardedAgent(agent, Host(SUPPORT, processors, **options), _Named(processors, options))


def as_chat_generator(generator: Any, *processors: Item, **options: Unpack[HostOptions]) -> GuardedChatGenerator:
    """Return a chat generator with processors around each of its calls, for pipelines and for components of your own.

    Each call is a request of its own: input, answer and the tool calls in it are checked; results of tools are read as
    input; `process_tool_result` never runs, and the log says so. Use `as_agent` for agents. A verdict is raised as a
    `BlockedError`.

    Args:
        generator: the chat generator.
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist; or, unless ``strict=False``, a processor has no stage that can run.
        WorkflowError: the processors cannot run together.
    """
    host = Host(GENERATOR_SUPPORT, processors, **options)
    return GuardedChatGenerator(generator, host, _Named(processors, options))


def as_router(*processors: Item, **options: Unpack[HostOptions]) -> GuardRouter:
    """Return a component that checks what a user says, for pipelines: ``messages`` or ``text`` in.

    It gives both as the guards left them, or only the ``tripwire``, so that a pipeline goes another way. Only
    `process_input` runs, and the log says so: guard the answer with `as_chat_generator`.

    Args:
        processors: processors and workflows with `process_input`.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist; or, unless ``strict=False``, a processor has no `process_input`.
        WorkflowError: the processors cannot run together.
    """
    return GuardRouter(Host(ROUTER_SUPPORT, processors, **options), _Named(processors, options))


def tripwire_of(error: BaseException | None) -> Tripwire | None:
    """Return the verdict that an error carries, also within the errors that pipelines and tools make of it."""
    while error is not None:
        if isinstance(error, BlockedError):
            return error.tripwire
        error = error.__cause__ or error.__context__
    return None


# The chat generator


@component
class GuardedChatGenerator:
    """A chat generator with the stages of a request around its calls. Made by `as_chat_generator` and `as_agent`.

    Attributes:
        generator: the chat generator. What it streams reaches nobody but the guards.
        host: the processors.
    """

    def __init__(self, generator: Any, host: Host, named: _Named) -> None:
        self.generator = generator
        self.host = host
        self._named = named
        self._accepts = signature(generator.run).parameters
        self._callback = _own_callback(generator)
        if self._callback is not None and "streaming_callback" not in self._accepts:
            raise UsageError(
                f"{type(generator).__name__} streams to a callback of its own that cannot be replaced, so its user "
                "would see what no guard has read; create it without streaming_callback"
            )
        for name, socket in _sockets(generator, "input").items():
            if name not in _RUN_PARAMETERS:
                component.set_input_type(self, name, socket.type, socket.default_value)
        types = {name: socket.type for name, socket in _sockets(generator, "output").items()}
        component.set_output_types(self, **(types or {"replies": list[ChatMessage]}))

    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the replies as the guards left them; the callback gets what they release, in the caller's thread.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=False)
        inner = _Inner(self, generation_kwargs, tools, kwargs, streams=callback is not None, awaits=False)
        show: Any = getattr(callback, _RELEASED, callback)
        if show is None:
            return wait_for(self._run(inner, messages, None))
        for piece in each(self._pieces(inner, messages)):
            if not isinstance(piece, StreamingChunk):
                return piece
            show(piece)
        raise UsageError("the chat generator returned nothing")

    async def run_async(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Do the same in an event loop. A generator without ``run_async`` runs in a thread.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=True)
        awaits = hasattr(self.generator, "run_async")
        inner = _Inner(self, generation_kwargs, tools, kwargs, streams=callback is not None, awaits=awaits)
        return await self._run(inner, messages, getattr(callback, _RELEASED, callback))

    async def _run(self, inner: _Inner, messages: Sequence[ChatMessage], show: Any) -> dict[str, Any]:
        async with aclosing(self._pieces(inner, messages)) as pieces:
            async for piece in pieces:
                if not isinstance(piece, StreamingChunk):
                    return piece
                shown = show(piece)
                if isawaitable(shown):
                    await shown
        raise UsageError("the chat generator returned nothing")

    async def _pieces(
        self, inner: _Inner, messages: Sequence[ChatMessage]
    ) -> AsyncGenerator[StreamingChunk | dict[str, Any]]:
        """Yield the pieces of the answer that the guards release, if it is streamed; then the output."""
        running = _running.get()
        within = running if running is not None and running.host is self.host else None
        request = self.host.open() if within is None else within.request
        inner.forms = forms = _Forms() if within is None else within.forms
        written = _StreamWriter(ComponentInfo(_type_name(self.generator), getattr(self, "__component_name__", None)))
        try:
            async with aclosing(request.answers(inner.call(messages))) as chunks:
                async for chunk in chunks:
                    for piece in written.pieces(chunk) if inner.streams else ():
                        yield piece
            request.check()
            output = inner.output(request)
            if within is None:
                _refuse_answered(request, inner.tools)
                await request.close()
        except BaseException as failure:
            if within is None:
                await request.close(failure)
            raise
        if request.answer is not None:
            forms.answers[request.answer.id] = output["replies"][0]
        if within is not None:
            within.asked |= {call.id or "": call.arguments for one in output["replies"] for call in one.tool_calls}
        for piece in written.rest(output["replies"]) if inner.streams else ():
            yield piece
        yield output

    def warm_up(self) -> None:
        """Warm the generator up."""
        _call(self.generator, "warm_up")

    async def warm_up_async(self) -> None:
        """Warm the generator up in the event loop."""
        await _call_async(self.generator, "warm_up")

    def close(self) -> None:
        """Release what the generator holds."""
        _call(self.generator, "close")

    async def close_async(self) -> None:
        """Release what the generator holds in the event loop."""
        await _call_async(self.generator, "close")

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dictionary: processors by the names of the variables that hold them.

        Raises:
            SerializationError: a processor is not held by a variable of a module, or an option is no plain value.
        """
        inner = component_to_dict(self.generator, "generator")
        return default_to_dict(self, generator=inner, **self._named.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GuardedChatGenerator:
        """Return the generator of a dictionary.

        Raises:
            DeserializationError: a name does not lead to a processor, or its module is not allowed.
        """
        given = dict(data["init_parameters"])
        deserialize_component_inplace(given, key="generator")
        processors, options = _loaded(given)
        return as_chat_generator(given["generator"], *processors, **options)


_RUN_PARAMETERS = frozenset({"messages", "streaming_callback", "generation_kwargs", "tools"})


def _sockets(generator: Any, side: str) -> Mapping[str, Any]:
    """Return the sockets of a component."""
    found = getattr(generator, f"__haystack_{side}__", None)
    return {} if found is None else found._sockets_dict


def _own_callback(generator: Any) -> StreamingCallbackT | None:
    """Return the callback that a generator was made with, or the first one of those that it chooses from."""
    own: StreamingCallbackT | None = getattr(generator, "streaming_callback", None)
    if own is not None:
        return own
    nested: Sequence[Any] = getattr(generator, "chat_generators", ())
    found = (_own_callback(one) for one in nested)
    return next((one for one in found if one is not None), None)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


def _call(target: Any, name: str) -> None:
    found = getattr(target, name, None)
    if found is not None:
        found()


async def _call_async(target: Any, name: str) -> None:
    found = getattr(target, f"{name}_async", None)
    if found is None:
        _call(target, name)
    else:
        await found()


def _refuse_answered(request: HostRequest, tools: Mapping[str, Tool]) -> None:
    """Refuse an answer in a tool's place: whoever runs the tools would run this one, too.

    Calls of unknown tools are left to whoever runs the tools.

    Raises:
        UsageError: there is one.
    """
    for part in request.answer.parts if request.answer is not None else ():
        if isinstance(part, ToolPart) and (part.state == "result" or (part.state == "error" and part.name in tools)):
            raise UsageError(
                f"a processor answered in the place of the tool {part.name!r}, and a chat generator cannot keep the "
                "tool from running; use as_agent(…)"
            )


class _Inner:
    """The chat generator of the framework as the stages call it, for one request.

    Attributes:
        streams: whether the answer is shown as it comes.
        forms: the messages of the request, both ways.
        tools: the tools of the call, by name.
    """

    def __init__(
        self,
        guarded: GuardedChatGenerator,
        settings: dict[str, Any] | None,
        tools: Any,
        others: Mapping[str, Any],
        *,
        streams: bool,
        awaits: bool,
    ) -> None:
        self.streams = streams
        self.forms = _Forms()
        self._generator = guarded.generator
        self._accepts = guarded._accepts
        self._settings = settings
        self._given_tools = tools
        self._others = others
        self._awaits = awaits
        self.tools: Mapping[str, Tool] = (
            {tool.name: tool for tool in flatten_tools_or_toolsets(tools)} if tools is not None else {}
        )
        self._result: dict[str, Any] | None = None
        self._usages: list[Any] = []

    @property
    def name(self) -> str:
        model = getattr(self._generator, "model", None)
        return model if isinstance(model, str) else type(self._generator).__name__

    def call(self, messages: Sequence[ChatMessage]) -> ModelCall:
        """Return the call that Haystack is about to make."""
        running = _running.get()
        trusted = None if running is None else running.trusted
        specs = [ToolSpec(tool.name, freeze(tool.parameters), tool.description or "") for tool in self.tools.values()]
        given = self._settings or {}
        settings = {name: item for name, item in given.items() if name in PLAIN_SETTINGS}
        said = self.forms.read(_as_messages(messages), trusted)
        return ModelCall(self, said, specs, settings=freeze(settings), live=self.streams)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        reader = _AnswerReader()
        inputs = self._inputs(request)
        self._result = None
        if self.streams and "streaming_callback" in self._accepts:
            async with aclosing(self._streamed(inputs)) as pieces:
                async for piece in pieces:
                    for chunk in reader.piece(piece):
                        yield chunk
        else:
            self._result = await self._run(inputs)
        result = self._result or {}
        replies: Sequence[ChatMessage] = result.get("replies", ())
        if len(replies) > 1:
            raise UsageError(f"the chat generator gave {len(replies)} replies; guards judge one: use n=1")
        for reply in replies:
            self._usages.append(reply.meta.get("usage"))
            for chunk in reader.rest(reply, _texts_of(result, _REPLIES)):
                yield chunk

    def _inputs(self, request: ModelRequest) -> dict[str, Any]:
        """Return what to call the generator with, as the stages left it."""
        inputs: dict[str, Any] = {"messages": self.forms.written(request.messages), **self._others}
        given = self._settings or {}
        changed = {name: item for name, item in thaw(dict(request.settings)).items() if given.get(name) != item}
        if request.tool_choice != "auto":
            choice = request.tool_choice
            named = {"type": "function", "function": {"name": choice[0]}}
            changed["tool_choice"] = choice if isinstance(choice, str) else named
        if self._settings is not None or changed:
            inputs["generation_kwargs"] = {**given, **changed}
        names = [tool.name for tool in request.tools]
        if names != list(self.tools):
            unknown = [name for name in names if name not in self.tools]
            if unknown:
                raise UsageError(f"a processor added the tools {', '.join(unknown)}, which Haystack could not run")
            inputs["tools"] = [self.tools[name] for name in names]
        elif self._given_tools is not None:
            inputs["tools"] = self._given_tools
        return inputs

    async def _run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self._awaits:
            made: dict[str, Any] = await self._generator.run_async(**inputs)
            return made
        work = partial(self._generator.run, **inputs)
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))

    async def _streamed(self, inputs: dict[str, Any]) -> AsyncGenerator[StreamingChunk]:
        """Yield the pieces that the generator gives to its callback, and keep its output."""

        async def work(give: Callable[[StreamingChunk], None]) -> None:
            async def give_async(piece: StreamingChunk) -> None:
                give(piece)
                await let_others_run()

            self._result = await self._run({**inputs, "streaming_callback": give_async if self._awaits else give})

        async with aclosing(each_given(work)) as pieces:
            async for piece in pieces:
                yield piece

    def output(self, request: HostRequest) -> dict[str, Any]:
        """Return the generator's output, with the reply as the guards left it."""
        result = self._result or {}
        said: ChatMessage | None = next(iter(result.get("replies", ())), None)
        answer = request.answer or Message("assistant")
        texts = _texts_of(result, _REPLIES)
        others = {name: item for name, item in result.items() if name not in (*_REPLIES, *texts)}
        if said is None and not answer.parts:
            return {**others, "replies": []}
        reply = _reply(said, answer, request, _summed(self._usages))
        if said is None or reply._content == said._content:  # else nobody knows which of them repeat the answer
            left = _data(answer.parts, _OUTPUTS)
            others |= {name: _put(result[name], left[name]) for name in texts if name in left}
        return {**others, "replies": [reply]}


_REPLIES = frozenset({"replies"})


def _as_messages(messages: Sequence[ChatMessage] | str) -> Sequence[ChatMessage]:
    return [ChatMessage.from_user(messages)] if isinstance(messages, str) else messages


# The router


@component
class GuardRouter:
    """A component that checks what a user says. Made by `as_router`.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host, named: _Named) -> None:
        self.host = host
        self._named = named
        component.set_output_types(self, messages=list[ChatMessage], text=str, tripwire=Tripwire)

    def run(self, messages: list[ChatMessage] | None = None, text: str | None = None) -> dict[str, Any]:
        """Return what the guards left, or the verdict."""
        return wait_for(self.run_async(messages, text))

    async def run_async(self, messages: list[ChatMessage] | None = None, text: str | None = None) -> dict[str, Any]:
        """Do the same in an event loop."""
        given = {"messages": messages, "text": None if text is None else [ChatMessage.from_user(text)]}
        request, forms, left = self.host.open(), _Forms(), dict[str, Any]()
        try:
            read = {name: forms.read(said) for name, said in given.items() if said is not None}
            await request.begin([one for said in read.values() for one in said])
            if request.tripwire is None:
                for name, said in read.items():
                    left[name] = forms.left(given[name] or (), said, request.current(said))
        except BaseException as failure:
            await request.close(failure)
            raise
        await request.close()
        if request.tripwire is not None:
            return {"tripwire": request.tripwire}
        if text is not None:
            left["text"] = "\n".join([one.text or "" for one in left["text"]])
        return left

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dictionary: processors by the names of the variables that hold them.

        Raises:
            SerializationError: a processor is not held by a variable of a module, or an option is no plain value.
        """
        return default_to_dict(self, **self._named.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GuardRouter:
        """Return the component of a dictionary.

        Raises:
            DeserializationError: a name does not lead to a processor, or its module is not allowed.
        """
        processors, options = _loaded(data["init_parameters"])
        return as_router(*processors, **options)


# The agent


class _Running:
    """One run of a guarded agent.

    Attributes:
        request: the request of the run.
        forms: its messages, both ways.
        trusted: the agent's own instructions, which are read as such; None: they hold variables, or there are none.
        asked: the arguments of the tool calls in the replies, by their ids.
    """

    def __init__(self, agent: GuardedAgent) -> None:
        self.host = agent.host
        self.request = agent.host.open()
        self.forms = _Forms()
        self.trusted = agent.trusted
        self.asked: dict[str, Any] = {}
        self._keys = agent.own_keys
        self._values: dict[str, Any] = {}
        self._results: dict[str, tuple[Any, Any]] = {}  # by the ids of calls: as checked last, and what was left
        self._full: ChatMessage | None = None  # the message of which tools see only the calls that nobody has answered
        self._answers: dict[str, ChatMessage] = {}

    async def read_input(self, state: State) -> None:
        """Check the messages in the state, and replace them by what the guards left.

        Raises:
            BlockedError: a guard stopped the run.
        """
        await self.check_results(state)
        given: Sequence[ChatMessage] = state.data["messages"]
        said = self.forms.read(given, self.trusted)
        if not await self.request.begin(said):
            self.request.check()
        self._rewrite(state, said)

    def _rewrite(self, state: State, said: Sequence[Message]) -> None:
        given: Sequence[ChatMessage] = state.data["messages"]
        _set(state, given, self.forms.left(given, said, self.request.current(said)))

    async def check_calls(self, state: State) -> None:
        """Check the calls that are about to run; take out those that a processor has answered.

        Raises:
            BlockedError: a guard stopped the run.
        """
        self._values = {key: _plain(state.data.get(key)) for key in self._keys}
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
        checked = await self.request.tool_call(call.tool_name, _jsonable(call.arguments), id)
        if checked.answered and checked.is_error and not known:
            return call  # of a tool that does not exist: Haystack fails, or tells the model, as it does alone
        if checked.answered and call.id:
            said = _content_of(thaw(checked.answer))
            answers[call.id] = ChatMessage.from_tool(said, origin=call, error=checked.is_error)
            return call
        if checked.arguments == freeze(_jsonable(call.arguments)):
            return call
        return replace(call, arguments=cast("dict[str, Any]", thaw(checked.arguments)))

    async def check_results(self, state: State) -> None:
        """Check results of this run's tools that were not yet, or that another hook has changed; and what tools stored.

        Raises:
            BlockedError: a guard stopped the run.
        """
        self._put_back(state)
        messages: Sequence[ChatMessage] = state.data["messages"]
        left = [await self._checked_results(one) if one.is_from(ChatRole.TOOL) else one for one in messages]
        _set(state, messages, left)
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
                said = _plain(result.result)
                self._results[result.origin.id or ""] = (said, said)
        state.set("messages", made, handler_override=replace_values)

    async def _checked_results(self, message: ChatMessage) -> ChatMessage:
        content = [
            await self.checked_result(one) if isinstance(one, ToolCallResult) and (one.origin.id in self.asked) else one
            for one in message._content
        ]
        return message if content == list(message._content) else replace(message, _content=content)

    async def checked_result(self, result: ToolCallResult) -> ToolCallResult:
        """Return a result as the guards left it; each is checked once, unless another hook has changed it.

        Raises:
            BlockedError: a guard stopped the run.
        """
        call, given = result.origin, _plain(result.result)
        id = call.id or ""
        before, left = self._results.get(id, (None, None))
        if given not in (before, left):
            checked = await self.request.tool_result(
                call.tool_name, given, id, arguments=_jsonable(call.arguments), is_error=result.error
            )
            left = thaw(checked)
            self._results[id] = (given, left)
        return result if left == given else replace(result, result=_content_of(_put(result.result, left)))

    async def _check_value(self, state: State, key: str, before: Any) -> None:
        """Check what tools have written into the state under a key."""
        value = state.data.get(key)
        given = _plain(value)
        if given == before or given is None:
            return
        tools: Sequence[Tool] = state.data.get("tools") or []
        name = next((tool.name for tool in tools if key in (tool.outputs_to_state or {})), key)
        left = thaw(await self.request.tool_result(name, given, f"state-{key}"))
        if left != given:
            state.set(key, _put(value, left), handler_override=replace_values)
        self._values[key] = left

    async def end(self, state: State) -> None:
        """Judge an answer behind which a tool ended the run.

        Raises:
            BlockedError: a guard stopped the run.
        """
        said = self.forms.read(state.data["messages"], self.trusted)
        if not await self.request.end():
            self.request.check()
        self._rewrite(state, said)

    def shown(self, callback: Any, *, awaits: bool) -> StreamingCallbackT:
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

        made: Any = show_async if awaits else show
        setattr(made, _RELEASED, callback)
        return cast("StreamingCallbackT", made)


_RELEASED = "penstock_released"
"""The attribute of a callback that holds the one for what guards have released."""

_running: ContextVar[_Running | None] = ContextVar("penstock_haystack_run", default=None)


class GuardHook:
    """A hook of a guarded agent. Made by `as_agent`.

    Args:
        step: what it does in a run.
    """

    def __init__(self, step: Callable[[_Running, State], Awaitable[None]]) -> None:
        self._step = step

    def run(self, state: State) -> None:
        """Do the same as `run_async`, without ``await``."""
        wait_for(self.run_async(state))

    async def run_async(self, state: State) -> None:
        """Run the stages."""
        running = _running.get()
        if running is not None:
            await self._step(running, state)


def _signed_as(method: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that gives a method the parameters of another, of which Haystack makes sockets."""
    return cast("Callable[[F], F]", wraps(method))


@component
class GuardedAgent(Agent):
    """Haystack's agent with processors at every stage. Made by `as_agent`.

    Attributes:
        agent: the agent that it was made of.
        host: the processors.
        trusted: the agent's own instructions, if they hold no variables.
        own_keys: the keys of the state that the agent's user has defined.
    """

    def __init__(self, agent: Agent, host: Host, named: _Named) -> None:
        given = _parameters(agent)
        hooks: Mapping[HookPoint, Sequence[Hook]] = given.get("hooks") or {}
        steps = (_Running.read_input, _Running.check_calls, _Running.check_results, _Running.end)
        read, calls, results, end = map(GuardHook, steps)
        given["hooks"] = {
            **hooks,
            "before_run": [read, *hooks.get("before_run", ())],
            "before_llm": [*hooks.get("before_llm", ()), read],
            "before_tool": [*hooks.get("before_tool", ()), calls],
            "after_tool": [results, *hooks.get("after_tool", ()), results],
            "after_run": [end, *hooks.get("after_run", ())],
        }
        given["chat_generator"] = GuardedChatGenerator(agent.chat_generator, host, named)
        Agent.__init__(self, **given)
        self.agent = agent
        self.host = host
        prompt = agent.system_prompt
        self.trusted = prompt if prompt is not None and "{{" not in prompt and "{%" not in prompt else None
        schema: Mapping[str, Any] = given.get("state_schema") or {}
        self.own_keys = [key for key in schema if key != "messages"]
        self._named = named

    @_signed_as(Agent.run)
    def run(self, messages: Any, streaming_callback: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Run the agent.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=False)
        running = _Running(self)
        token = _running.set(running)
        try:
            shown = callback and running.shown(getattr(callback, _RELEASED, callback), awaits=False)
            result = Agent.run(self, messages, shown, **kwargs)
        except BaseException as failure:
            wait_for(running.request.close(failure))
            raise
        finally:
            _running.reset(token)
        wait_for(running.request.close())
        return result

    @_signed_as(Agent.run_async)
    async def run_async(self, messages: Any, streaming_callback: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Run the agent in an event loop.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=True)
        running = _Running(self)
        token = _running.set(running)
        try:
            shown = callback and running.shown(getattr(callback, _RELEASED, callback), awaits=True)
            result = await Agent.run_async(self, messages, shown, **kwargs)
        except BaseException as failure:
            await running.request.close(failure)
            raise
        finally:
            _running.reset(token)
        await running.request.close()
        return result

    @property
    def _callback(self) -> StreamingCallbackT | None:
        return self.agent.streaming_callback or _own_callback(self.agent.chat_generator)

    def clone(self, **overrides: Any) -> GuardedAgent:
        """Return a guarded agent that is made of the same, but for some parameters of `Agent`."""
        return GuardedAgent(Agent(**{**_parameters(self.agent), **overrides}), self.host, self._named)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dictionary: processors by the names of the variables that hold them.

        Raises:
            SerializationError: a processor is not held by a variable of a module, or an option is no plain value.
        """
        return default_to_dict(self, agent=component_to_dict(self.agent, "agent"), **self._named.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GuardedAgent:
        """Return the agent of a dictionary.

        Raises:
            DeserializationError: a name does not lead to a processor, or its module is not allowed.
        """
        given = dict(data["init_parameters"])
        deserialize_component_inplace(given, key="agent")
        processors, options = _loaded(given)
        return as_agent(given["agent"], *processors, **options)


def _parameters(agent: Agent) -> dict[str, Any]:
    """Return what an agent was made with."""
    given = {name: getattr(agent, name) for name in signature(Agent.__init__).parameters if name != "self"}
    given["state_schema"] = getattr(agent, "_state_schema", agent.state_schema)  # in 3.0, the other one has more keys
    return given


def _set(state: State, before: Sequence[ChatMessage], after: list[ChatMessage]) -> None:
    if len(before) != len(after) or any(one is not other for one, other in zip(before, after, strict=True)):
        state.set("messages", after, handler_override=replace_values)


# Names of processors, for dictionaries and YAML


class _Named:
    """What a guarded component was made with: stored by the names of the variables that hold the processors."""

    def __init__(self, processors: Sequence[Item], options: HostOptions) -> None:
        self._processors = processors
        self._options = options

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters.

        Raises:
            SerializationError: a processor is not held by a variable of a module, or an option is no plain value.
        """
        options: dict[str, Any] = dict(self._options)
        if options.pop("observers", None):
            raise SerializationError("observers cannot be stored; add them when the pipeline was loaded")
        for name in _LISTS & options.keys():
            options[name] = [_path_of(item) for item in options[name]]
        return {"processors": [_path_of(item) for item in self._processors], "options": options}


_LISTS = frozenset({"input_processors", "output_processors", "error_processors"})


def _path_of(item: Item) -> str:
    """Return the name of the variable of a module that holds a processor or workflow.

    Raises:
        SerializationError: there is none.
    """
    for name, module in list(sys.modules.items()):
        if name != "__main__":
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if value is item and not key.startswith("_"):
                    return f"{name}.{key}"
    raise SerializationError(
        f"{type(item).__name__} cannot be stored: no variable of an imported module holds it. Assign it to one in a "
        "module that the program which loads the pipeline can import"
    )


def _loaded(given: Mapping[str, Any]) -> tuple[list[Item], HostOptions]:
    """Return the processors and options of a dictionary.

    Raises:
        DeserializationError: a name does not lead to a processor, or its module is not allowed.
    """
    options: dict[str, Any] = dict(given.get("options") or {})
    for name in _LISTS & options.keys():
        options[name] = [_item_at(path) for path in options[name]]
    return [_item_at(path) for path in given["processors"]], cast("HostOptions", options)


def _item_at(path: str) -> Item:
    found: Any = import_class_by_name(path)
    if not isinstance(cast("object", found), (Workflow, Processor)):
        raise DeserializationError(f"{path} is a {type(found).__name__}, not a processor or workflow")
    item: Item = found
    return item


# Messages both ways


class _Forms:
    """The messages of one request, both ways. What nobody has changed is written as the object that was read.

    Attributes:
        answers: the replies, by the ids of the messages that were made of them.
    """

    def __init__(self) -> None:
        self.answers: dict[str, ChatMessage] = {}
        self._originals: list[ChatMessage] = []
        self._numbers: dict[int, int] = {}
        self._results: dict[str, ChatMessage] = {}

    def read(self, messages: Iterable[ChatMessage], trusted: str | None = None) -> list[Message]:
        """Return each message as one of ours. System messages count as input, except the trusted one."""
        ids = _CallIds()
        return [self._read(message, ids, trusted) for message in messages]

    def _read(self, message: ChatMessage, ids: _CallIds, trusted: str | None) -> Message:
        number = self._numbers.get(id(message))
        if number is None:
            number = self._numbers[id(message)] = len(self._originals)
            self._originals.append(message)  # which also keeps its id its own
        for result in message.tool_call_results:
            if result.origin.id:
                self._results[result.origin.id] = message
        role: Role = message.role.value
        own = role == "system" and message.text == trusted
        parts = tuple(_parts(message, ids))
        name = message.name or None
        return Message(role, parts, name=name, metadata={_NUMBER: number}, from_client=role == "system" and not own)

    def written(self, messages: Iterable[Message]) -> list[ChatMessage]:
        """Return messages as Haystack's."""
        return [one for message in messages for one in self._written(message)]

    def _written(self, message: Message) -> Iterator[ChatMessage]:
        number = message.metadata.get(_NUMBER)
        if isinstance(number, int) and number < len(self._originals):
            original = self._originals[number]
            before = tuple(_parts(original, _CallIds()))
            same = _without_ids(before) == _without_ids(message.parts)
            yield original if same else self.changed(original, before, message.parts)
            return
        asked = as_asked(message).parts
        answer = self.answers.get(message.id)
        if message.role != "tool":
            yield _merged(answer, asked) if message.role == "assistant" else _new(message.role, map(_content, asked))
        for part in message.parts:
            if isinstance(part, ToolPart) and part.state in ("result", "error"):
                yield self._result(part)

    def _result(self, part: ToolPart) -> ChatMessage:
        """Return the message with a result."""
        known = self._results.get(part.call_id)
        result = known.tool_call_result if known is not None and len(known) == 1 else None
        if known is None or result is None or result.error != (part.state == "error"):
            return _new("tool", [_content(part)])
        left = part.error if result.error else thaw(part.result)
        if _plain(result.result) == left:
            return known
        return replace(known, _content=[replace(result, result=_content_of(_put(result.result, left)))])

    def left(
        self, given: Iterable[ChatMessage], said: Iterable[Message], now: Iterable[Message | None]
    ) -> list[ChatMessage]:
        """Return messages as the guards left them; those that are the same stay as they are."""
        made: list[ChatMessage] = []
        for message, before, after in zip(given, said, now, strict=True):
            if after is not None:
                same = after.parts == before.parts
                made.append(message if same else self.changed(message, before.parts, after.parts))
        return made

    @staticmethod
    def changed(original: ChatMessage, before: Sequence[Part], after: Iterable[Part]) -> ChatMessage:
        """Return a message with other parts; content of which the part is the same stays as it is."""
        if original.is_from(ChatRole.ASSISTANT):
            return _merged(original, list(after))
        contents = list(zip(before, original._content, strict=True))
        left: list[Any] = []
        for part in after:
            known = next((pair for pair in contents if pair[0] == part), None)
            if known is not None:
                contents.remove(known)
            left.append(_changed_content(part, contents) if known is None else known[1])
        return replace(original, _content=left)


_NUMBER = "haystack-number"


class _CallIds:
    """Gives calls ids where the model gave none; results get those of the calls of the same tool, in order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, list[str]] = {}

    def of_call(self, call: ToolCall) -> str:
        """Return the id of a call."""
        if call.id:
            return call.id
        self._count += 1
        made = f"call-{self._count}"
        self._open.setdefault(call.tool_name, []).append(made)
        return made

    def of_result(self, result: ToolCallResult) -> str:
        """Return the id of the call that a result belongs to."""
        waiting = self._open.get(result.origin.tool_name)
        return result.origin.id or (waiting.pop(0) if waiting else self.of_call(result.origin))


def _parts(message: ChatMessage, ids: _CallIds) -> Iterator[Part]:
    for item in message._content:
        yield _part(item, ids)
    refusal = message.meta.get("refusal")
    if message.is_from(ChatRole.ASSISTANT) and isinstance(refusal, str) and refusal:  # generators send it to the model
        yield UnknownPart({"refusal": refusal})
    extras = _extras(message) if message.is_from(ChatRole.ASSISTANT) else None
    if extras:
        yield DataPart(_EXTRAS, extras)


def _part(item: Any, ids: _CallIds) -> Part:
    if isinstance(item, TextContent):
        return TextPart(item.text)
    if isinstance(item, ReasoningContent):
        return ReasoningPart(item.reasoning_text)
    if isinstance(item, ImageContent):
        return ImagePart(data=item.base64_image, media_type=item.mime_type)
    if isinstance(item, FileContent):
        return FilePart(data=item.base64_data, media_type=item.mime_type, name=item.filename)
    if isinstance(item, ToolCall):
        return ToolPart(ids.of_call(item), item.tool_name, _jsonable(item.arguments))
    if isinstance(item, ToolCallResult):
        said, call = _plain(item.result), item.origin
        made = ToolPart(ids.of_result(item), call.tool_name, _jsonable(call.arguments))
        if item.error:
            return replace(made, state="error", error=said if isinstance(said, str) else json.dumps(said))
        return replace(made, state="result", result=said)
    return UnknownPart(freeze(_plain(item)))


def _without_ids(parts: Iterable[Part]) -> list[Part]:
    return [replace(part, call_id="") if isinstance(part, ToolPart) else part for part in parts]


def _content(part: Part) -> Any:
    """Return a part as Haystack's content.

    Raises:
        UsageError: Haystack has no content of that kind.
    """
    if isinstance(part, TextPart):
        return TextContent(part.text)
    if isinstance(part, ReasoningPart):
        return ReasoningContent(part.text)
    if isinstance(part, ImagePart) and part.data is not None:
        return ImageContent(part.data, part.media_type, validation=False)
    if isinstance(part, FilePart) and part.data is not None:
        return FileContent(part.data, part.media_type, part.name, validation=False)
    if isinstance(part, ToolPart):
        call = ToolCall(part.name, cast("dict[str, Any]", thaw(part.arguments)), part.call_id)
        if part.state == "call":
            return call
        failed = part.state == "error"
        return ToolCallResult(part.error or "" if failed else _content_of(thaw(part.result)), call, failed)
    raise UsageError(f"a processor made a part of the type {part.type!r}, which Haystack's messages do not have")


def _changed_content(part: Part, contents: Iterable[tuple[Part, Any]]) -> Any:
    """Return a changed part as content, with what the content that it was made of has beside it."""
    for before, content in contents:
        if isinstance(part, FilePart) and isinstance(before, FilePart) and part.data == before.data:
            return replace(content, filename=part.name)
        if isinstance(part, ToolPart) and isinstance(before, ToolPart) and part.call_id == before.call_id:
            made: ToolCallResult = _content(part)
            said = made.result if made.error else _content_of(_put(content.result, thaw(part.result)))
            return replace(
                made, result=said, origin=made.origin if part.arguments != before.arguments else content.origin
            )
    return _content(part)


def _new(role: str, contents: Iterable[Any]) -> ChatMessage:
    return ChatMessage(ChatRole(role), list(contents))


def _content_of(value: Any) -> Any:
    """Return a value as the result in a message: contents as they are, and other values as JSON."""
    if isinstance(value, str):
        return value
    items: Sequence[Any] = value if is_array(value) else ()
    if items and all(isinstance(one, (TextContent, ImageContent, FileContent)) for one in items):
        return items
    return json.dumps(_plain(value), ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str)


def _plain(value: Any) -> Any:
    """Return a value of the framework as JSON: dataclasses and models as objects, bytes as the text in them."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, BaseModel):
        return _jsonable(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if is_object(value):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    return _jsonable(value)


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _put(value: Any, left: Any) -> Any:
    """Return a value of the framework with what the guards left of its JSON; what is the same stays as it is."""
    if _plain(value) == left:
        return value
    if isinstance(value, bytes) and isinstance(left, str):
        return left.encode()
    if isinstance(value, BaseModel) and is_object(left):
        return type(value).model_validate(left)
    if is_dataclass(value) and not isinstance(value, type) and is_object(left):
        changed = {
            one.name: _put(getattr(value, one.name), left[one.name])
            for one in fields(value)
            if one.init and one.name in left and _plain(getattr(value, one.name)) != left[one.name]
        }
        return replace(cast("Any", value), **changed)
    if is_object(value) and is_object(left):
        by_name = {str(name): item for name, item in value.items()}
        return {name: _put(by_name[name], item) if name in by_name else item for name, item in left.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and is_array(left):
        items, kind = list(cast("Iterable[Any]", value)), cast("type[Any]", type(cast("object", value)))
        if len(items) == len(left):
            return kind(map(_put, items, left))
    return left


# Answers


class _AnswerReader:
    """Reads one answer of the generator."""

    def __init__(self) -> None:
        self._open: tuple[str, Any] | None = None
        self._count = 0
        self._text = ""
        self._reasoning = ""

    def piece(self, piece: StreamingChunk) -> Iterator[Chunk]:
        """Yield the text of a piece."""
        if piece.content:
            self._text += piece.content
            yield from self._delta("text", piece.index, piece.content)
        if piece.reasoning is not None and piece.reasoning.reasoning_text:
            self._reasoning += piece.reasoning.reasoning_text
            yield from self._delta("reasoning", piece.index, piece.reasoning.reasoning_text)

    def rest(self, reply: ChatMessage, others: Mapping[str, Any]) -> Iterator[Chunk]:
        """Yield what of the reply has not come in pieces, the texts of other outputs, and the finish."""
        seen = {"text": self._text, "reasoning": self._reasoning}
        for number, part in enumerate(_parts(reply, _CallIds())):
            if isinstance(part, (TextPart, ReasoningPart)):
                known = seen[part.type]
                if not known:
                    yield from self._delta(part.type, f"part-{number}", part.text)
                elif part.text.startswith(known):
                    yield from self._delta(part.type, self._open and self._open[1], part.text[len(known) :])
            elif isinstance(part, (ImagePart, FilePart)):
                yield Chunk("file", payload={"data": part.data, "media_type": part.media_type})
            elif isinstance(part, DataPart):
                yield Chunk(f"data-{part.name}", payload={"data": part.data})
            elif isinstance(part, UnknownPart):
                yield Chunk("raw", payload={"provider_part": part.raw})
        yield from self._close()
        model = reply.meta.get("model")
        yield Chunk("response-metadata", payload={"model": model if isinstance(model, str) else None})
        for call in reply.tool_calls:
            named = {"call_id": call.id or "", "name": call.tool_name, "arguments": _jsonable(call.arguments)}
            yield Chunk("tool-call", id=call.id or "", payload=named)
        if others:
            yield Chunk(f"data-{_OUTPUTS}", payload={"data": others})
        yield Chunk("finish", payload={"reason": _reason(reply), "usage": _usage(reply)})

    def _delta(self, kind: str, index: Any, text: str) -> Iterator[Chunk]:
        if not text:
            return
        if self._open != (kind, index):
            yield from self._close()
            self._open = (kind, index)
            self._count += 1
            yield Chunk(f"{kind}-start", id=str(self._count))
        yield Chunk(f"{kind}-delta", text, str(self._count))

    def _close(self) -> Iterator[Chunk]:
        if self._open is not None:
            yield Chunk(f"{self._open[0]}-end", id=str(self._count))
        self._open = None


_REASONS = {"stop": "stop", "length": "length", "tool_calls": "tool-calls", "content_filter": "content-filter"}


def _reason(reply: ChatMessage) -> str:
    raw = reply.meta.get("finish_reason")
    if isinstance(raw, str):
        return _REASONS.get(raw, "other")
    return "tool-calls" if reply.tool_calls else "stop"


def _usage(reply: ChatMessage) -> Values | None:
    used: Any = _plain(reply.meta.get("usage"))
    if not is_object(used):
        return None
    numbers = {name: item for name, item in used.items() if isinstance(item, int)}
    return {
        "input_tokens": numbers.get("prompt_tokens", numbers.get("input_tokens")),
        "output_tokens": numbers.get("completion_tokens", numbers.get("output_tokens")),
    }


def _summed(usages: Sequence[Any]) -> Any:
    """Return the usage of all attempts, rejected ones included, in the form of the provider."""
    given = [one for one in usages if one]
    if len(given) <= 1:
        return given[0] if given else None
    last: Any = _plain(given[-1])
    return last if not is_object(last) else {name: _total([_plain(one).get(name) for one in given]) for name in last}


def _total(values: Sequence[Any]) -> Any:
    if all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values):
        return sum(values)
    return _summed(values) if is_object(values[-1]) else values[-1]


def _reply(said: ChatMessage | None, answer: Message, request: HostRequest, usage: Any) -> ChatMessage:
    """Return the reply as the guards left it."""
    made = _merged(said, as_asked(answer).parts)
    if said is None:
        meta: dict[str, Any] = {"model": str(request.metadata.get("model") or ""), "finish_reason": "stop"}
        return replace(made, _meta=meta)
    return made if made.meta.get("usage") == usage else replace(made, _meta={**made.meta, "usage": usage})


def _merged(said: ChatMessage | None, parts: Sequence[Part]) -> ChatMessage:
    """Return an answer with these parts; what is the same as in what the model said stays as it is."""
    if said is None:
        return _new("assistant", [_content(part) for part in parts if not isinstance(part, (DataPart, UnknownPart))])
    same = _said(_parts(said, _CallIds())) == _said(parts)
    given, left = _extras(said), _data(parts, _EXTRAS)
    if same and left == given:
        return said
    told = {name: item for name, item in said.meta.items() if name in _PLAIN_FACTS}
    if same:
        told = _with_left(said.meta, given, left, "meta")
    for part in parts:
        if isinstance(part, UnknownPart) and is_object(part.raw):  # a refusal
            told |= part.raw
    data = {part.data for part in parts if isinstance(part, (FilePart, ImagePart))}
    thoughts = [
        replace(one, extra=_with_left(one.extra, given, left, f"reasoning {at}"))
        for at, one in enumerate(said.reasonings)
    ]
    calls = [
        replace(call, extra=call.extra and _with_left(call.extra, given, left, f"call {call.id}"))
        for call in said.tool_calls
    ]
    contents = [
        *_same_texts(thoughts, parts, ReasoningPart),
        *_same_texts([TextContent(text) for text in said.texts], parts, TextPart),
        *(item for item in said._content if isinstance(item, ImageContent) and item.base64_image in data),
        *(item for item in said._content if isinstance(item, FileContent) and item.base64_data in data),
        *_same_calls(calls, parts),
    ]
    return ChatMessage(ChatRole.ASSISTANT, contents, said.name, told)


_EXTRAS, _OUTPUTS = "haystack-extras", "haystack-outputs"
"""The names of the data parts with what stands beside an answer, and beside the replies; guards can edit data."""


def _data(parts: Iterable[Part], name: str) -> dict[str, Any]:
    """Return what the guards left of a data part; empty if nothing."""
    found = next((part.data for part in parts if isinstance(part, DataPart) and part.name == name), None)
    return thaw(found) if is_object(found) else {}


def _extras(reply: ChatMessage) -> dict[str, Any]:
    """Return the texts that stand beside those of an answer: citations in ``meta``, and notes of its provider.

    Returns:
        The texts by where they stand: ``meta``, ``reasoning`` with its place, ``call`` with its id.
    """
    held = {"meta": _texts_of(reply.meta, _PLAIN_FACTS | {"logprobs", "refusal"})}
    held |= {f"reasoning {at}": _texts_of(one.extra, _SEALED) for at, one in enumerate(reply.reasonings)}
    held |= {f"call {call.id}": _texts_of(call.extra, _SEALED) for call in reply.tool_calls}
    return without_empty(held)


_SEALED = frozenset({"id", "type", "status", "call_id", "item_id", "signature", "encrypted_content"})
"""What providers note that is no text, or that only they can read."""


def _texts_of(values: Mapping[str, Any] | None, known: Collection[str] = ()) -> dict[str, Any]:
    """Return the values that hold texts, as JSON, but for the known names."""
    plain = {name: _plain(item) for name, item in (values or {}).items() if name not in known}
    return {name: item for name, item in plain.items() if has_text(item)}


def _with_left(
    values: Mapping[str, Any], given: Mapping[str, Any], left: Mapping[str, Any], place: str
) -> dict[str, Any]:
    """Return values with what the guards left of the texts among them."""
    before, after = given.get(place, {}), left.get(place, {})
    return {
        name: _put(item, after[name]) if name in before else item
        for name, item in values.items()
        if name not in before or name in after
    }


def _same_texts(before: Sequence[Any], parts: Iterable[Part], kind: type[TextPart | ReasoningPart]) -> Sequence[Any]:
    """Return the texts of a kind; those of before if they say the same, however the text is cut."""
    old = [one.reasoning_text if isinstance(one, ReasoningContent) else one.text for one in before]
    texts = [part.text for part in parts if isinstance(part, kind)]
    if "".join(old) == "".join(texts):
        return before
    return [_content(kind(text)) for text in (texts if len(texts) == len(old) else ["".join(texts)]) if text]


def _same_calls(before: Sequence[ToolCall], parts: Iterable[Part]) -> Iterator[ToolCall]:
    """Yield the calls, with what their provider has noted at those that are the same."""
    for part in parts:
        if isinstance(part, ToolPart):
            call: ToolCall = _content(part)
            yield next((one for one in before if replace(one, extra=None) == call), call)


_PLAIN_FACTS = frozenset({"model", "index", "finish_reason", "usage", "completion_start_time", "id", "created", "type"})
"""What generators report that repeats nothing of an answer; logprobs, for example, do."""


def _said(parts: Iterable[Part]) -> tuple[Any, ...]:
    """Return what parts say, however the text is cut into pieces."""
    held = list(parts)
    texts = "".join(part.text for part in held if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in held if isinstance(part, ReasoningPart))
    calls = [
        (part.call_id, part.name, part.arguments, part.state, part.result, part.error)
        for part in held
        if isinstance(part, ToolPart)
    ]
    data = [part.data for part in held if isinstance(part, (FilePart, ImagePart))]
    return texts, reasoning, calls, data, [part.raw for part in held if isinstance(part, UnknownPart)]


class _StreamWriter:
    """Writes the answer as the guards release it: pieces of text, then the calls, and the finish.

    Args:
        info: the component that is named in the pieces.
    """

    def __init__(self, info: ComponentInfo) -> None:
        self._info = info
        self._open: tuple[str, str] | None = None
        self._index = -1

    def pieces(self, chunk: Chunk) -> Iterator[StreamingChunk]:
        """Yield a piece of text as Haystack's; nothing for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return
        start = self._open != (chunk.type, chunk.id)
        self._open = (chunk.type, chunk.id)
        self._index += start
        if chunk.type == "text-delta":
            yield StreamingChunk(chunk.text, component_info=self._info, index=self._index, start=start)
        else:
            thought = ReasoningContent(chunk.text)
            yield StreamingChunk("", component_info=self._info, index=self._index, start=start, reasoning=thought)

    def rest(self, replies: Sequence[ChatMessage]) -> Iterator[StreamingChunk]:
        """Yield the calls of a reply, and the finish."""
        for reply in replies:
            for call in reply.tool_calls:
                self._index += 1
                delta = ToolCallDelta(self._index, call.tool_name, json.dumps(call.arguments), call.id)
                yield StreamingChunk("", component_info=self._info, index=self._index, start=True, tool_calls=[delta])
            told = {name: item for name, item in reply.meta.items() if name in _PLAIN_FACTS}
            reason: Any = told.get("finish_reason")
            known: Any = reason if reason in _REASONS else "tool_calls" if reply.tool_calls else "stop"
            yield StreamingChunk("", told, self._info, finish_reason=known)
