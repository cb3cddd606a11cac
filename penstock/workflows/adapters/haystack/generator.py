"""`as_chat_generator`: a workflow around each call of a chat generator, for pipelines."""

# pyright: reportPrivateUsage=false
# Haystack's messages have no other list of all that they hold than ``_content``.

from __future__ import annotations

from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, signature
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread
from haystack import component
from haystack.dataclasses import ChatMessage, ComponentInfo, StreamingChunk
from haystack.dataclasses.streaming_chunk import StreamingCallbackT, select_streaming_callback
from haystack.tools import flatten_tools_or_toolsets

from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import let_others_run
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message
from penstock.engine.values.model import ToolSpec
from penstock.workflows.adapters.haystack.answers import HaystackAnswerReader, HaystackStreamWriter, reply_of, summed
from penstock.workflows.adapters.haystack.messages import OUTPUTS, HaystackMessages, put, texts_of
from penstock.workflows.adapters.haystack.running import RELEASED, running_now
from penstock.workflows.adapters.haystack.stored import Named, Stored
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostRequest, HostSupport, ModelCall
from penstock.workflows.hosting.answers import data_left, refuse_answered
from penstock.workflows.hosting.without_await import each, each_given, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from haystack.components.generators.chat.types import ChatGenerator
    from haystack.tools import ToolsType
    from haystack.tools.tool import Tool
    from typing_extensions import Unpack

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostOptions

Outputs: TypeAlias = "dict[str, Any]"
"""The inputs or outputs of a component, by their names."""

GENERATOR_SUPPORT = HostSupport(
    "haystack.as_chat_generator",
    frozenset(STAGES) - {"process_tool_result"},
    trusted_instructions=False,
    instead="as_agent(…)",
)


def as_chat_generator(
    generator: ChatGenerator, *processors: Item, **options: Unpack[HostOptions]
) -> GuardedChatGenerator:
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
    return GuardedChatGenerator(generator, host, Named(processors, options))


@component
class GuardedChatGenerator(Stored):
    """A chat generator with the stages of a request around its calls. Made by `as_chat_generator` and `as_agent`.

    Attributes:
        generator: the chat generator. Its stream reaches nobody but the guards.
        host: the processors.
    """

    _part = "generator"
    _make = staticmethod(as_chat_generator)

    def __init__(self, generator: ChatGenerator, host: Host, named: Named) -> None:
        self.generator = generator
        self.host = host
        self._named = named
        self._accepts = signature(generator.run).parameters
        self._callback = own_callback(generator)
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
        """Return the replies as the guards left them; the callback gets the released chunks, in the caller's thread.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=False)
        inner = _InnerGenerator(self, generation_kwargs, tools, kwargs, streams=callback is not None, awaits=False)
        show = getattr(callback, RELEASED, callback)
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
        inner = _InnerGenerator(self, generation_kwargs, tools, kwargs, streams=callback is not None, awaits=awaits)
        return await self._run(inner, messages, getattr(callback, RELEASED, callback))

    async def _run(
        self, inner: _InnerGenerator, messages: Sequence[ChatMessage], show: Callable[[StreamingChunk], object] | None
    ) -> Outputs:
        async with aclosing(self._pieces(inner, messages)) as pieces:
            async for piece in pieces:
                if not isinstance(piece, StreamingChunk):
                    return piece
                shown = None if show is None else show(piece)
                if isawaitable(shown):
                    await shown
        raise UsageError("the chat generator returned nothing")

    async def _pieces(
        self, inner: _InnerGenerator, messages: Sequence[ChatMessage]
    ) -> AsyncGenerator[StreamingChunk | Outputs]:
        """Yield the pieces of the answer that the guards release, if it is streamed; then the output."""
        running = running_now.get()
        within = running if running is not None and running.host is self.host else None
        request = self.host.open() if within is None else within.request
        own = request if within is None else nullcontext()
        inner.forms = forms = HaystackMessages(request) if within is None else within.forms
        kind = type(self.generator)
        written = HaystackStreamWriter(
            ComponentInfo(f"{kind.__module__}.{kind.__name__}", getattr(self, "__component_name__", None))
        )
        async with own:
            async with aclosing(request.answers(inner.call(messages))) as chunks:
                async for chunk in chunks:
                    for piece in written.pieces(chunk) if inner.streams else ():
                        yield piece
            request.check()
            output = inner.output(request)
            if within is None:
                refuse_answered(request.answer, inner.tools, _CURE)
        if request.answer is not None:
            forms.note_answer(request.answer, output["replies"][0])
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
        """Release the resources of the generator."""
        _call(self.generator, "close")

    async def close_async(self) -> None:
        """Release the resources of the generator in the event loop."""
        await _call_async(self.generator, "close")


_CURE = "a chat generator cannot keep the tool from running; use as_agent(…)"

_RUN_PARAMETERS = frozenset({"messages", "streaming_callback", "generation_kwargs", "tools"})


def _sockets(generator: object, side: str) -> Mapping[str, Any]:
    """Return the sockets of a component."""
    found = getattr(generator, f"__haystack_{side}__", None)
    return {} if found is None else found._sockets_dict


def own_callback(generator: object) -> StreamingCallbackT | None:
    """Return the callback that a generator was made with, or the first one of those that it chooses from."""
    own: StreamingCallbackT | None = getattr(generator, "streaming_callback", None)
    if own is not None:
        return own
    nested: Sequence[object] = getattr(generator, "chat_generators", ())
    found = (own_callback(one) for one in nested)
    return next((one for one in found if one is not None), None)


def _call(target: object, name: str) -> None:
    found = getattr(target, name, None)
    if found is not None:
        found()


async def _call_async(target: object, name: str) -> None:
    found = getattr(target, f"{name}_async", None)
    if found is None:
        _call(target, name)
    else:
        await found()


@dataclass
class _InnerGenerator:
    """The chat generator of the framework as the stages call it, for one request.

    Attributes:
        streams: whether the answer is shown as it comes.
        forms: the messages of the request, both ways; given before the first call.
        tools: the tools of the call, by name.
    """

    guarded: GuardedChatGenerator
    settings: Json | None
    given_tools: ToolsType | None
    others: Mapping[str, object]
    streams: bool
    awaits: bool
    forms: HaystackMessages = field(init=False)
    tools: Mapping[str, Tool] = field(init=False)
    _result: Outputs | None = None
    _usages: list[Value] = field(default_factory=list["Value"])

    def __post_init__(self) -> None:
        given = self.given_tools
        self.tools = {tool.name: tool for tool in flatten_tools_or_toolsets(given)} if given is not None else {}
        self._generator: Any = self.guarded.generator  # most take more than the protocol says

    @property
    def name(self) -> str:
        model = getattr(self._generator, "model", None)
        return model if isinstance(model, str) else type(self._generator).__name__

    def call(self, messages: Sequence[ChatMessage] | str) -> ModelCall:
        """Return the call that Haystack is about to make."""
        running = running_now.get()
        trusted = None if running is None else running.trusted
        specs = [ToolSpec(tool.name, freeze(tool.parameters), tool.description or "") for tool in self.tools.values()]
        given = self.settings or {}
        settings = {name: item for name, item in given.items() if name in PLAIN_SETTINGS}
        listed = [ChatMessage.from_user(messages)] if isinstance(messages, str) else messages
        said = self.forms.read_call(listed, trusted)
        return ModelCall(self, said, specs, settings=freeze(settings), live=self.streams)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        reader = HaystackAnswerReader()
        inputs = self._inputs(request)
        self._result = None
        if self.streams and "streaming_callback" in self.guarded._accepts:
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
            for chunk in reader.rest(reply, texts_of(result, _REPLIES)):
                yield chunk

    def _inputs(self, request: ModelRequest) -> Outputs:
        """Return what to call the generator with, as the stages left it."""
        inputs: Outputs = {"messages": self.forms.written(request.messages), **self.others}
        given = self.settings or {}
        changed = {name: item for name, item in thaw(dict(request.settings)).items() if given.get(name) != item}
        if request.tool_choice != "auto":
            choice = request.tool_choice
            named = {"type": "function", "function": {"name": choice[0]}}
            changed["tool_choice"] = choice if isinstance(choice, str) else named
        if self.settings is not None or changed:
            inputs["generation_kwargs"] = {**given, **changed}
        names = [tool.name for tool in request.tools]
        if names != list(self.tools):
            unknown = [name for name in names if name not in self.tools]
            if unknown:
                raise UsageError(f"a processor added the tools {', '.join(unknown)}, which Haystack could not run")
            inputs["tools"] = [self.tools[name] for name in names]
        elif self.given_tools is not None:
            inputs["tools"] = self.given_tools
        return inputs

    async def _run(self, inputs: Outputs) -> Outputs:
        if self.awaits:
            made: Outputs = await self._generator.run_async(**inputs)
            return made
        work = partial(self._generator.run, **inputs)
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))

    async def _streamed(self, inputs: Outputs) -> AsyncGenerator[StreamingChunk]:
        """Yield the pieces that the generator gives to its callback, and keep its output."""

        async def work(give: Callable[[StreamingChunk], None]) -> None:
            async def give_async(piece: StreamingChunk) -> None:
                give(piece)
                await let_others_run()

            self._result = await self._run({**inputs, "streaming_callback": give_async if self.awaits else give})

        async with aclosing(each_given(work)) as pieces:
            async for piece in pieces:
                yield piece

    def output(self, request: HostRequest) -> Outputs:
        """Return the generator's output, with the reply as the guards left it."""
        result = self._result or {}
        said: ChatMessage | None = next(iter(result.get("replies", ())), None)
        answer = request.answer or Message("assistant")
        texts = texts_of(result, _REPLIES)
        others = {name: item for name, item in result.items() if name not in (*_REPLIES, *texts)}
        if said is None and not answer.parts:
            return {**others, "replies": []}
        reply = reply_of(said, answer, request, summed(self._usages))
        if said is None or reply._content == said._content:  # else nobody knows which of them repeat the answer
            left = data_left(answer.parts, OUTPUTS)
            others |= {name: put(result[name], left[name]) for name in texts if name in left}
        return {**others, "replies": [reply]}


_REPLIES = frozenset({"replies"})
