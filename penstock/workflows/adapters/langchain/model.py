"""A chat model with a workflow around its calls, for graphs made by hand (`as_chat_model`) and for the middleware."""

# pyright: reportPrivateUsage=false
# LangChain's models have no other methods for what they say of themselves than those with an underscore.
# LangChain's models are called without callbacks by the functions with an underscore only.

from __future__ import annotations

import functools
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.model import ToolSpec
from penstock.formats.wire import is_object
from penstock.workflows.adapters.langchain.left import LangChainAnswerWriter
from penstock.workflows.adapters.langchain.messages import CallMessages
from penstock.workflows.adapters.langchain.reading import LangChainAnswerReader
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostSupport, ModelCall
from penstock.workflows.hosting.answers import refuse_answered
from penstock.workflows.hosting.without_await import each, in_threads, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.messages import AIMessageChunk, BaseMessage
    from langchain_core.runnables import Runnable
    from typing_extensions import Unpack

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest as PreparedRequest
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions, HostRequest


MODEL_SUPPORT = HostSupport(
    "langchain.as_chat_model", frozenset(STAGES) - {"process_tool_result"}, instead="as_middleware(…)"
)


_CURE = "a chat model cannot keep the tool from running; use as_middleware(…)"


def as_chat_model(model: BaseChatModel, *processors: Item, **options: Unpack[HostOptions]) -> GuardedChatModel:
    """Return a chat model with processors around each of its calls, for graphs made by hand.

    Each call is a request of its own: input, answer and the tool calls in it are checked. Results of tools are read as
    input; `process_tool_result` never runs, and the log says so. A verdict is raised as a `BlockedError`.

    Args:
        model: the model.
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist; or, unless ``strict=False``, a processor has no stage that can run.
        WorkflowError: the processors cannot run together.
    """
    return guarded(model, Host(MODEL_SUPPORT, processors, **options))


class GuardedChatModel(BaseChatModel):
    """A chat model with the stages of a request around its calls. Made by `as_middleware` and `as_chat_model`.

    Attributes:
        inner: the model. It is called without callbacks, so that no handler sees text that the guards have not read.
        host: the processors.
        request: the request that the calls belong to; None: each call is a request.
        bound_tools: the tools that were bound, as they were given; None: none were.
        bound_options: the options that were bound with them.
        calls: an item for each call; shared with the copies that `bind_tools` makes.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    host: Any
    request: Any = None
    bound_tools: Any = None
    bound_options: dict[str, Any] = {}  # noqa: RUF012 - a field of pydantic's
    calls: list[bool]

    @property
    def called(self) -> bool:
        """Whether it, or a copy with tools, has been called."""
        return bool(self.calls)

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return model_name_of(self.inner)

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self.inner._identifying_params

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop, **kwargs)

    def get_num_tokens(self, text: str) -> int:
        """Return how many tokens a text has."""
        return self.inner.get_num_tokens(text)

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self.inner.get_token_ids(text)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """Return the model with tools; they are bound to the inner model with each call."""
        options = {**kwargs, **({} if tool_choice is None else {"tool_choice": tool_choice})}
        options.pop("ls_structured_output_format", None)  # for tracers; LangChain takes it out before it calls a model
        return self.model_copy(update={"bound_tools": tuple(tools), "bound_options": options})

    def _inner(
        self, stop: list[str] | None, options: Mapping[str, Any], *, streams: bool = False, awaits: bool = True
    ) -> InnerChatModel:
        given = {**self.bound_options, **options}
        return InnerChatModel(self.inner, self.bound_tools, stop, given, streams=streams, awaits=awaits)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await self._whole(self._inner(stop, kwargs), messages)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return wait_for(self._whole(self._inner(stop, kwargs, awaits=False), messages))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        async with aclosing(self._pieces(self._inner(stop, kwargs, streams=True), messages)) as pieces:
            async for piece in pieces:
                if run_manager is not None:
                    await run_manager.on_llm_new_token(piece.text, chunk=piece)
                yield piece

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for piece in each(self._pieces(self._inner(stop, kwargs, streams=True, awaits=False), messages)):
            if run_manager is not None:
                run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    async def _whole(self, inner: InnerChatModel, messages: Sequence[BaseMessage]) -> ChatResult:
        [piece] = [piece async for piece in self._pieces(inner, messages)]
        chunk = cast("AIMessageChunk", piece.message)
        told = {name: getattr(chunk, name) for name in AIMessage.model_fields if name != "type"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**told))])

    async def _pieces(
        self, inner: InnerChatModel, messages: Sequence[BaseMessage]
    ) -> AsyncGenerator[ChatGenerationChunk]:
        """Yield the pieces of the answer as the guards release them; a single one where nothing is streamed."""
        self.calls.append(True)
        request: HostRequest = self.request or self.host.open()
        written = LangChainAnswerWriter(lambda: inner.reader)
        async with request if self.request is None else nullcontext():
            async with aclosing(request.answers(inner.call(messages, request))) as chunks:
                async for chunk in chunks:
                    piece = written.piece(chunk) if inner.streams else None
                    if piece is not None:
                        yield ChatGenerationChunk(message=piece)
            request.check()
            if self.request is None:
                refuse_answered(request.answer, inner.tool_names, _CURE)
        yield ChatGenerationChunk(message=written.rest(request))


def guarded(model: BaseChatModel, host: Host, request: HostRequest | None = None) -> GuardedChatModel:
    """Return a model with the stages around it; callbacks of the model see the released chunks."""
    if not isinstance(cast("object", model), BaseChatModel):
        raise UsageError(f"the model is a {type(model).__name__}; as_middleware(…) needs a chat model")
    return GuardedChatModel(
        inner=model,
        host=host,
        request=request,
        calls=[],
        cache=False,
        callbacks=model.callbacks,
        tags=model.tags,
        metadata=model.metadata,
        disable_streaming=model.disable_streaming,
        profile=model.profile,
        output_version=model.output_version,
    )


@dataclass
class InnerChatModel:
    """The model of the framework as the stages call it, for one request.

    Attributes:
        model: the chat model.
        given_tools: the tools that are bound to it with each call; None: nothing is bound.
        stop: where answers end.
        options: the other arguments of its calls.
        streams: whether the answer is shown as it comes.
        awaits: whether its async functions are called; else the sync ones, in worker threads.
        reader: reads the answer of the last call.
    """

    model: BaseChatModel
    given_tools: Sequence[Any] | None
    stop: list[str] | None
    options: Mapping[str, Any]
    streams: bool
    awaits: bool
    reader: LangChainAnswerReader = field(default_factory=LangChainAnswerReader)
    _messages: CallMessages = field(init=False)

    def __post_init__(self) -> None:
        self._tools = {spec.name: (tool, spec) for tool in self.given_tools or () for spec in [_spec(tool)]}

    @property
    def name(self) -> str:
        return model_name_of(self.model) or self.model._llm_type

    @property
    def tool_names(self) -> Collection[str]:
        """The names of the tools that are bound to it."""
        return self._tools.keys()

    def call(self, messages: Sequence[BaseMessage], request: HostRequest) -> ModelCall:
        """Return the call that LangChain is about to make with these messages."""
        self._messages = CallMessages(request)
        said = self._messages.read(messages)
        settings = {name: item for name, item in self.options.items() if name in PLAIN_SETTINGS}
        return ModelCall(
            self,
            said,
            [spec for _, spec in self._tools.values()],
            settings=freeze(settings),
            live=self.streams,
        )

    async def stream(self, request: PreparedRequest) -> AsyncGenerator[Chunk]:
        model, options = self._bound(request)
        messages = self._messages.written(request.messages)
        reader = self.reader = LangChainAnswerReader()
        if not (self.streams and _can_stream(model)):
            if self.awaits:
                result = await model._agenerate_with_cache(messages, self.stop, None, **options)
            else:
                call = functools.partial(model._generate_with_cache, messages, self.stop, None, **options)
                result = await anyio.to_thread.run_sync(call)
            for chunk in reader.read(result.generations[0]):
                yield chunk
        else:
            pieces = (
                model._astream(messages, self.stop, **options)
                if self.awaits
                else in_threads(model._stream(messages, self.stop, **options))
            )
            if model.rate_limiter is not None:
                await model.rate_limiter.aacquire(blocking=True)
            async with aclosing(cast("AsyncGenerator[ChatGenerationChunk]", pieces)) as given:
                async for piece in given:
                    for chunk in reader.read(piece):
                        yield chunk
        for chunk in reader.rest():
            yield chunk

    def _bound(self, request: PreparedRequest) -> tuple[BaseChatModel, dict[str, Any]]:
        """Return the inner model, and what to call it with, tools included, as the stages left them."""
        options = {**self.options, **{name: thaw(item) for name, item in request.settings.items()}}
        choice = request.tool_choice
        if choice != "auto":
            options["tool_choice"] = {"required": "any"}.get(
                str(choice), choice if isinstance(choice, str) else choice[0]
            )
        tools: list[Any] = []
        for tool in request.tools:
            told = {"name": tool.name, "description": tool.description, "parameters": thaw(dict(tool.parameters))}
            known = self._tools.get(tool.name)
            tools.append(known[0] if known is not None else {"type": "function", "function": told})
        bound: Any = self.model
        if tools or self.given_tools is not None:
            bound = bound.bind_tools(tools, **options)
            options = {}
        while not isinstance(bound, BaseChatModel):
            options = {**getattr(bound, "kwargs", {}), **options}
            bound = getattr(bound, "bound", None)
            if bound is None:
                raise UsageError(f"{type(self.model).__name__}.bind_tools returned no chat model")
        return bound, options


def model_name_of(model: BaseChatModel) -> str:
    """Return the name of a model; empty if it has none."""
    named = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in named if isinstance(name, str) and name), "")


def _can_stream(model: BaseChatModel) -> bool:
    kind = type(model)
    has_stream = kind._stream is not BaseChatModel._stream or kind._astream is not BaseChatModel._astream
    return has_stream and model.disable_streaming is not True


def _spec(tool: Any) -> ToolSpec:
    """Return what guards are shown of a tool."""
    named: Mapping[str, Any] = tool if is_object(tool) else {}
    if named and "function" not in named and "parameters" not in named:
        return ToolSpec(str(named.get("name") or named.get("type")), freeze(named.get("input_schema") or {}))
    told = convert_to_openai_tool(cast("Any", tool))["function"]
    return ToolSpec(told["name"], freeze(told.get("parameters") or {}), told.get("description") or "")
