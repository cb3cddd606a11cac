"""The chat model of the framework, as the stages call it."""

# pyright: reportPrivateUsage=false
# LangChain's models are called without callbacks by the functions with an underscore only.

from __future__ import annotations

import functools
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.utils.function_calling import convert_to_openai_tool

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.model import ToolSpec
from penstock.formats.wire import is_object
from penstock.workflows.adapters.langchain.messages import CallMessages
from penstock.workflows.adapters.langchain.reading import LangChainAnswerReader
from penstock.workflows.hosting import PLAIN_SETTINGS, ModelCall
from penstock.workflows.hosting.without_await import in_threads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatGenerationChunk

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest as PreparedRequest
    from penstock.workflows.hosting import HostRequest


class InnerChatModel:
    """The model of the framework as the stages call it, for one request.

    Args:
        model: the chat model.
        tools: the tools that are bound to it with each call; None: nothing is bound.
        stop: where answers end.
        options: the other arguments of its calls.
        streams: whether the answer is shown as it comes.
        awaits: whether its async functions are called; else the sync ones, in worker threads.

    Attributes:
        streams: whether the answer is shown as it comes.
        reader: reads the answer of the last call.
    """

    _messages: CallMessages

    def __init__(
        self,
        model: BaseChatModel,
        tools: Sequence[Any] | None,
        stop: list[str] | None,
        options: Mapping[str, Any],
        *,
        streams: bool,
        awaits: bool,
    ) -> None:
        self.streams = streams
        self.reader = LangChainAnswerReader()
        self._model = model
        self._stop = stop
        self._options = options
        self._awaits = awaits
        self._binds = tools is not None
        self._tools = {spec.name: (tool, spec) for tool in tools or () for spec in [_spec(tool)]}

    @property
    def name(self) -> str:
        return model_name_of(self._model) or self._model._llm_type

    def call(self, messages: Sequence[BaseMessage], request: HostRequest) -> ModelCall:
        """Return the call that LangChain is about to make with these messages."""
        self._messages = CallMessages(request)
        said = self._messages.read(messages)
        settings = {name: item for name, item in self._options.items() if name in PLAIN_SETTINGS}
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
            if self._awaits:
                result = await model._agenerate_with_cache(messages, self._stop, None, **options)
            else:
                call = functools.partial(model._generate_with_cache, messages, self._stop, None, **options)
                result = await anyio.to_thread.run_sync(call)
            for chunk in reader.read(result.generations[0]):
                yield chunk
        else:
            pieces = (
                model._astream(messages, self._stop, **options)
                if self._awaits
                else in_threads(model._stream(messages, self._stop, **options))
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
        options = {**self._options, **{name: thaw(item) for name, item in request.settings.items()}}
        choice = request.tool_choice
        if choice != "auto":
            options["tool_choice"] = {"required": "any"}.get(
                str(choice), choice if isinstance(choice, str) else choice[0]
            )
        tools = [
            self._tools[tool.name][0] if tool.name in self._tools else _written_tool(tool) for tool in request.tools
        ]
        bound: Any = self._model
        if tools or self._binds:
            bound = bound.bind_tools(tools, **options)
            options = {}
        while not isinstance(bound, BaseChatModel):
            options = {**getattr(bound, "kwargs", {}), **options}
            bound = getattr(bound, "bound", None)
            if bound is None:
                raise UsageError(f"{type(self._model).__name__}.bind_tools returned no chat model")
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


def _written_tool(tool: ToolSpec) -> dict[str, Any]:
    told = {"name": tool.name, "description": tool.description, "parameters": thaw(dict(tool.parameters))}
    return {"type": "function", "function": told}
