"""A workflow as middleware of LangChain's agents: ``create_agent(model, tools, middleware=[as_middleware(guard)])``.

Needs the extra ``langchain``. The middleware wraps the model of each call, so that the stream, the state and the
checkpoints agree; its hooks check input before the first call, and tools around their calls. `as_chat_model` wraps a
model that a graph made by hand calls.
"""

# pyright: reportPrivateUsage=false
# LangChain's models are called without callbacks by the functions with an underscore only.

from __future__ import annotations

import functools
import json
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Self, cast

import anyio.to_thread

from penstock.engine.formats import langchain as wire
from penstock.engine.formats.wire import has_text, is_array, is_object
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MissingExtraError, UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message, ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.tripwire import BlockedError
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostRequest, HostSupport, ModelCall
from penstock.workflows.hosting.without_await import each, in_threads, wait_for

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse, hook_config
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        HumanMessage,
        RemoveMessage,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.messages.tool import tool_call_chunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.channels import UntrackedValue  # pyright: ignore[reportMissingTypeStubs]
    from langgraph.types import Command
    from pydantic import ConfigDict
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.langchain", "langchain") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain.agents.middleware.types import ModelCallResult
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.runnables import Runnable
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import ModelRequest as PreparedRequest
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions

SUPPORT = HostSupport("langchain.as_middleware")
MODEL_SUPPORT = HostSupport(
    "langchain.as_chat_model", frozenset(STAGES) - {"process_tool_result"}, instead="as_middleware(…)"
)


def as_middleware(*processors: Item, **options: Unpack[HostOptions]) -> GuardMiddleware:
    """Return processors as middleware: ``create_agent(model, tools, middleware=[as_middleware(guard)])``.

    Put it last in the list, next to the model. One serves any number of agents and runs. A verdict is raised as a
    `BlockedError`.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardMiddleware(Host(SUPPORT, processors, **options))


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
    return _guarded(model, Host(MODEL_SUPPORT, processors, **options))


class _Opened(str):
    """The request of a run, in the state of the graph, where it lives as long as the run does.

    It is a str, its id, to whoever streams or stores the state.
    """

    __slots__ = ("host", "request")

    def __new__(cls, host: Host) -> Self:
        """Open a request."""
        request = host.open()
        made = super().__new__(cls, request.run.run_id)
        made.host, made.request = host, request
        return made

    host: Host
    request: HostRequest

    @property
    def current(self) -> HostRequest:
        """The request; another one if it was closed, because the framework repeats what has failed."""
        if self.request.closed:
            self.request = self.host.open()
        return self.request


class GuardState(AgentState[Any]):
    """The state of an agent with guards. The request is not stored in checkpoints: a run that is resumed opens one."""

    penstock_request: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]


class GuardMiddleware(AgentMiddleware[Any, Any, Any]):
    """A workflow in LangChain's agents. Made by `as_middleware`.

    Attributes:
        host: the processors.
    """

    state_schema = GuardState

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host

    @property
    def name(self) -> str:
        """The name of its nodes in the graph."""
        return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in self.host.name)

    # Before the first call

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Check the input, and replace it in the state by what the guards left."""
        opened = _Opened(self.host)
        with_request: dict[str, Any] = {"penstock_request": opened}
        given: Sequence[BaseMessage] = state["messages"]
        said = _read(given)
        try:
            goes_on = await opened.request.begin(said)
        except BaseException as failure:
            await opened.request.close(failure)
            raise
        if not goes_on:  # what came in last leaves the state; behind it, after_agent raises the verdict
            return {**with_request, "messages": _removed(_last_turn(given)), "jump_to": "end"}
        return {**with_request, "messages": _changes(given, said, opened.request.current(said))}

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same without ``await``."""
        return wait_for(self.abefore_agent(state, runtime))

    # Model calls

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelCallResult[Any]:
        """Put the stages around the model, and replace what they have changed in the state."""
        opened = _opened(self.host, request.state)
        model = _guarded(request.model, self.host, opened.current)
        try:
            response = await handler(request.override(model=model))
            return _completed(request, response, model, opened)
        except BaseException as failure:
            await opened.request.close(failure)
            raise

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelCallResult[Any]:
        """Do the same without ``await``."""
        opened = _opened(self.host, request.state)
        model = _guarded(request.model, self.host, opened.current)
        try:
            response = handler(request.override(model=model))
            return _completed(request, response, model, opened)
        except BaseException as failure:
            wait_for(opened.request.close(failure))
            raise

    # Tools

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Check the call and its result; a processor may answer in the tool's place.

        After a verdict the call has a result that says so, since providers refuse a conversation with a call that has
        none. The next model call, or the end of the run, raises the verdict.
        """
        guarded = _ToolCall(_opened(self.host, request.state).current, request)
        try:
            answered = await guarded.before()
            return answered or await guarded.after(await handler(guarded.request))
        except BlockedError:
            if guarded.opened.tripwire is None:  # of another run, which the tool has started
                raise
            return guarded.stopped()
        except Exception:  # the request goes on: other middleware may repeat the tool
            raise
        except BaseException as failure:  # cancelled
            await guarded.opened.close(failure)
            raise

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Do the same without ``await``."""
        guarded = _ToolCall(_opened(self.host, request.state).current, request)
        try:
            answered = wait_for(guarded.before())
            return answered or wait_for(guarded.after(handler(guarded.request)))
        except BlockedError:
            if guarded.opened.tripwire is None:  # of another run, which the tool has started
                raise
            return guarded.stopped()
        except Exception:  # the request goes on: other middleware may repeat the tool
            raise
        except BaseException as failure:  # interrupted
            wait_for(guarded.opened.close(failure))
            raise

    # Behind the last call

    async def aafter_agent(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge an answer that is no text, such as an object, and end the request.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: a processor changed the answer, of which the object was made already.
        """
        opened = state.get("penstock_request")
        if not isinstance(opened, _Opened):
            return None
        request = opened.request
        try:
            await _end(request)
        except BaseException as failure:
            await request.close(failure)
            raise
        await request.close()
        return None

    def after_agent(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same without ``await``."""
        return wait_for(self.aafter_agent(state, runtime))


async def _end(request: HostRequest) -> None:
    """Judge an answer that was not judged as a text.

    Raises:
        BlockedError: a guard stopped the run.
        UsageError: a processor changed the answer, of which the object was made already.
    """
    before = request.answer
    if not request.closed and await request.end() and request.answer != before:
        raise UsageError(
            "a processor changed the answer in process_output_result, after LangChain had made its object; let it "
            "change the answer in process_output_step or process_tool_call"
        )
    request.check()


def _opened(host: Host, state: Any) -> _Opened:
    """Return the request of a run; a run that was resumed opens another one."""
    held = state.get("penstock_request") if is_object(state) else None
    return held if isinstance(held, _Opened) else _Opened(host)


def _completed(
    request: ModelRequest[Any], response: ModelResponse[Any], model: GuardedChatModel, opened: _Opened
) -> ModelCallResult[Any]:
    """Return the response of a model call with the messages that the guards have changed.

    Raises:
        UsageError: another model answered.
    """
    if not model.called:
        raise UsageError(
            "another middleware has replaced the model, so its answer was not checked; put as_middleware(…) last in "
            "middleware=[…]"
        )
    update: dict[str, Any] = {}
    given: Sequence[BaseMessage] = request.state["messages"]
    said = _read(given)
    changes = _changes(given, said, opened.request.current(said))
    if changes:
        update["messages"] = changes
    if request.state.get("penstock_request") is not opened:
        update["penstock_request"] = opened
    return ExtendedModelResponse(response, Command(update=update)) if update else response


class _ToolCall:
    """One call of a tool, before and after it runs."""

    def __init__(self, opened: HostRequest, request: ToolCallRequest) -> None:
        self.opened = opened
        self.request = request
        self._call = request.tool_call
        self._id = self._call["id"] or ""

    async def before(self) -> ToolMessage | None:
        """Check the call; return the answer of a processor in the tool's place.

        Raises:
            BlockedError: a guard stopped the run.
        """
        given = to_jsonable_python(self._call["args"], fallback=str)
        checked = await self.opened.tool_call(self._call["name"], given, self._id)
        if checked.answered:
            return self._message(checked.answer, is_error=checked.is_error)
        if checked.arguments != freeze(given):
            call = {**self._call, "args": thaw(checked.arguments)}
            self.request = self.request.override(tool_call=cast("Any", call))
        return None

    async def after(self, result: ToolMessage | Command[Any]) -> ToolMessage | Command[Any]:
        """Return the result as the guards left it.

        Raises:
            BlockedError: a guard stopped the run.
        """
        if isinstance(result, ToolMessage):
            return await self._checked(result)
        update: Any = result.update
        messages: Any = update.get("messages") if is_object(update) else None
        if not is_array(messages):
            return result
        given: Sequence[Any] = messages
        checked = [await self._checked(one) if isinstance(one, ToolMessage) else one for one in given]
        return replace(result, update={**cast("dict[str, Any]", update), "messages": checked})

    def stopped(self) -> ToolMessage:
        """Return the result of a call that a verdict has stopped."""
        return self._message("The request was stopped.", is_error=True)

    async def _checked(self, message: ToolMessage) -> ToolMessage:
        given = to_jsonable_python(message.content, fallback=str)
        left = await self.opened.tool_result(
            self._call["name"],
            given,
            message.tool_call_id,
            arguments=to_jsonable_python(self.request.tool_call["args"], fallback=str),
            is_error=message.status == "error",
        )
        if left == freeze(given):
            return message
        return message.model_copy(update={"content": _content(left), "artifact": None})

    def _message(self, answer: Value, *, is_error: bool) -> ToolMessage:
        status = "error" if is_error else "success"
        return ToolMessage(_content(answer), tool_call_id=self._id, name=self._call["name"], status=status)


def _content(value: Value) -> Any:
    """Return a value as the content of a message: blocks as they are, and other values as JSON."""
    said: Any = thaw(value)
    if isinstance(said, str):
        return said
    blocks: Sequence[Any] = said if is_array(said) else ()
    if blocks and all(isinstance(one, (str, dict)) for one in blocks):
        return blocks
    return json.dumps(said, ensure_ascii=False)


# The model


class GuardedChatModel(BaseChatModel):
    """A chat model with the stages of a request around its calls. Made by `as_middleware` and `as_chat_model`.

    Attributes:
        inner: the model. It is called without callbacks, so that no handler sees what the guards have not read.
        host: the processors.
        request: the request that the calls belong to; None: each call is a request.
        bound_tools: the tools that were bound, as they were given; None: none were.
        bound_options: what was bound with them.
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
        return _model_name(self.inner)

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
        return self.model_copy(update={"bound_tools": tuple(tools), "bound_options": options})

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await self._whole(_Inner(self, stop, kwargs), messages)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return wait_for(self._whole(_Inner(self, stop, kwargs, awaits=False), messages))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        async with aclosing(self._pieces(_Inner(self, stop, kwargs, streams=True), messages)) as pieces:
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
        for piece in each(self._pieces(_Inner(self, stop, kwargs, streams=True, awaits=False), messages)):
            if run_manager is not None:
                run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    async def _whole(self, inner: _Inner, messages: Sequence[BaseMessage]) -> ChatResult:
        [piece] = [piece async for piece in self._pieces(inner, messages)]
        chunk = cast("AIMessageChunk", piece.message)
        told = {name: getattr(chunk, name) for name in AIMessage.model_fields if name != "type"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**told))])

    async def _pieces(self, inner: _Inner, messages: Sequence[BaseMessage]) -> AsyncGenerator[ChatGenerationChunk]:
        """Yield the pieces of the answer as the guards release them; a single one where nothing is streamed."""
        self.calls.append(True)
        request: HostRequest = self.request or self.host.open()
        written = _Writer(lambda: inner.reader)
        try:
            async with aclosing(request.answers(inner.call(messages))) as chunks:
                async for chunk in chunks:
                    piece = written.piece(chunk) if inner.streams else None
                    if piece is not None:
                        yield ChatGenerationChunk(message=piece)
            request.check()
            if self.request is None:
                await request.close()
        except BaseException as failure:
            if self.request is None:
                await request.close(failure)
            raise
        yield ChatGenerationChunk(message=written.rest(request))


def _guarded(model: BaseChatModel, host: Host, request: HostRequest | None = None) -> GuardedChatModel:
    """Return a model with the stages around it; callbacks of the model see what the guards release."""
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


def _model_name(model: BaseChatModel) -> str:
    named = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in named if isinstance(name, str) and name), "")


class _Inner:
    """The model of the framework as the stages call it, for one request.

    Attributes:
        streams: whether the answer is shown as it comes.
        reader: reads the answer of the last call.
    """

    def __init__(
        self,
        model: GuardedChatModel,
        stop: list[str] | None,
        options: Mapping[str, Any],
        *,
        streams: bool = False,
        awaits: bool = True,
    ) -> None:
        self.streams = streams
        self.reader = AnswerReader()
        self._model = model
        self._stop = stop
        self._options = {**model.bound_options, **options}
        self._awaits = awaits
        self._tools = {spec.name: (tool, spec) for tool in model.bound_tools or () for spec in [_spec(tool)]}
        self._originals: dict[str, BaseMessage] = {}

    @property
    def name(self) -> str:
        return self._model.model_name or self._model._llm_type

    def call(self, messages: Sequence[BaseMessage]) -> ModelCall:
        """Return the call that LangChain is about to make."""
        said = _read(messages)
        for message, one in zip(messages, said, strict=True):
            self._originals.setdefault(_key(one), message)
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
        messages = self._written(request.messages)
        reader = self.reader = AnswerReader()
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
        bound: Any = self._model.inner
        if tools or self._model.bound_tools is not None:
            bound = bound.bind_tools(tools, **options)
            options = {}
        while not isinstance(bound, BaseChatModel):
            options = {**getattr(bound, "kwargs", {}), **options}
            bound = getattr(bound, "bound", None)
            if bound is None:
                raise UsageError(f"{type(self._model.inner).__name__}.bind_tools returned no chat model")
        return bound, options

    def _written(self, messages: Iterable[Message]) -> list[BaseMessage]:
        """Return messages as LangChain's: those that nothing has changed are the ones that it gave."""
        written: list[BaseMessage] = []
        for one in messages:
            same = self._originals.get(_key(one))
            written.extend([same] if same is not None else map(_message, wire.write([one])))
        return written


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


# Messages both ways: through the JSON in which LangChain dumps them, which keeps what nobody knows


_CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}


def _read(messages: Iterable[BaseMessage]) -> list[Message]:
    """Return each of LangChain's messages as one of ours."""
    return [_read_one(message) for message in messages]


def _read_one(message: BaseMessage) -> Message:
    """Return one of LangChain's messages.

    Raises:
        MessageError: it is of a kind that is not known.
    """
    dumped = to_jsonable_python(message.model_dump(exclude={"artifact"}), fallback=str, bytes_mode="base64")
    said = {name: item for name, item in dumped.items() if item is not None and name not in _LEFT_OUT}
    [one] = wire.read([said])
    return one


_LEFT_OUT = frozenset({"usage_metadata", "response_metadata", "tool_call_chunks", "chunk_position"})
"""The fields of a message that no provider reads."""


def _message(item: Any) -> BaseMessage:
    """Return one of LangChain's messages for its JSON; reasoning that a provider has signed goes with its signature."""
    content = item.get("content")
    if item["type"] == "ai" and is_array(content):
        blocks: Sequence[Any] = content
        item = {**item, "content": [block for block in blocks if not _is_unsigned(block)]}
    kind = _CLASSES.get(item["type"])
    if kind is None:
        raise UsageError(
            f"a processor made a message of the type {item['type']!r}, which LangChain's agents do not have"
        )
    return kind(**{**item, "content": item.get("content", "")})


def _is_unsigned(block: Any) -> bool:
    """Return whether a block is reasoning that its provider would refuse, since its text was changed."""
    given: Mapping[str, Any] = block if is_object(block) else {}
    return given.get("type") in ("thinking", "reasoning") and not any(given.get(name) for name in _SIGNS)


_SIGNS = ("signature", "id", "encrypted_content", "extras")


def _key(message: Message) -> str:
    """Return what makes a message the same as the one that LangChain gave: its JSON."""
    return json.dumps(wire.write([message]), sort_keys=True, default=str)


def _changes(
    given: Sequence[BaseMessage], said: Sequence[Message], left: Sequence[Message | None]
) -> list[BaseMessage]:
    """Return what replaces or removes messages of the state, by their ids."""
    changes: list[BaseMessage] = []
    for message, before, after in zip(given, said, left, strict=True):
        if after is None:
            changes.extend(_removed([message]))
        elif after.parts != before.parts:
            [item] = wire.write([replace(before, parts=after.parts)])
            fields = _message(item)
            update: dict[str, Any] = {"content": fields.content, "additional_kwargs": fields.additional_kwargs}
            if isinstance(fields, AIMessage):
                update |= {"tool_calls": fields.tool_calls, "invalid_tool_calls": fields.invalid_tool_calls}
            if isinstance(fields, ToolMessage):
                update |= {"status": fields.status, "artifact": None}
            changes.append(message.model_copy(update=update))
    return changes


def _removed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [RemoveMessage(id=message.id) for message in messages if message.id]


def _last_turn(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages that came in last: all behind the last answer."""
    index = len(messages)
    while index and isinstance(messages[index - 1], HumanMessage):
        index -= 1
    return messages[index:]


# Answers


@dataclass(frozen=True)
class _Place:
    """Where a text stands in the blocks of LangChain's messages.

    Attributes:
        block: the type of the block.
        key: the key that holds the text, or the list of texts.
        index: the index of the block in the content.
        number: the index of the text in that list; None where the key holds the text.
    """

    block: str
    key: str
    index: Any
    number: Any = None

    @property
    def id(self) -> str:
        """The id of the text's chunks."""
        return f"{self.block}-{self.index}" if self.number is None else f"{self.block}-{self.index}-{self.number}"

    def holding(self, text: str) -> dict[str, Any]:
        """Return a block with a piece of the text."""
        listed = [{"type": "summary_text", "text": text, "index": self.number}]
        return {"type": self.block, self.key: text if self.number is None else listed, "index": self.index}


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    fields: dict[str, Any] = {name: getattr(message, name) for name in AIMessage.model_fields}
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
        for number, call in enumerate(message.tool_calls)
    ]
    broken = [
        tool_call_chunk(name=call["name"], args=call["args"], id=call["id"], index=len(calls) + number)
        for number, call in enumerate(message.invalid_tool_calls)
    ]
    given: Any = {**fields, "tool_calls": [], "invalid_tool_calls": [], "tool_call_chunks": [*calls, *broken]}
    return AIMessageChunk(**{name: item for name, item in given.items() if name != "type"})


class AnswerReader:
    """Reads one answer of the inner model.

    Attributes:
        whole: the answer, when it was read.
        places: where its texts stand, by the ids of their chunks; a text that is not here is the content itself.
    """

    def __init__(self) -> None:
        self.whole: AIMessageChunk | None = None
        self.places: dict[str, _Place] = {}
        self._begun: dict[str, str] = {}

    def read(self, generation: ChatGeneration) -> Iterator[Chunk]:
        """Yield the texts of a piece of the answer, or of a whole one."""
        message = generation.message
        told = {**(generation.generation_info or {}), **message.response_metadata}
        if not isinstance(message, AIMessageChunk):
            message = _as_chunk(cast("AIMessage", message))
        message = message.model_copy(update={"response_metadata": told})
        self.whole = message if self.whole is None else self.whole + message
        for kind, id, text in self.texts(message):
            if id not in self._begun:
                self._begun[id] = kind
                yield Chunk(f"{kind}-start", id=id)
            yield Chunk(f"{kind}-delta", text, id)

    def rest(self) -> Iterator[Chunk]:
        """Yield what is no text that was shown as it came, and the finish."""
        for id, kind in self._begun.items():
            yield Chunk(f"{kind}-end", id=id)
        whole = self.whole
        if whole is None:
            return
        told = whole.response_metadata
        yield Chunk("response-metadata", payload={"model": told.get("model_name") or told.get("model"), "id": whole.id})
        for raw in self.others():
            yield Chunk("raw", payload={"provider_part": freeze(raw)})
        for call in whole.tool_calls:
            yield _call(call["id"], call["name"], to_jsonable_python(call["args"], fallback=str))
        for broken in whole.invalid_tool_calls:
            yield _call(broken["id"], broken["name"] or "", broken["args"] or "")
        yield Chunk("finish", payload={"reason": _reason(whole), "usage": _usage(whole)})

    def others(self) -> list[Any]:
        """Return what the answer holds beside texts and calls, as JSON."""
        if self.whole is None:
            return []
        content = _listed(self.whole.content)
        blocks = [block for block in content if _is_other(block)]
        beside = [{"beside": found} for block in content if (found := _beside(block))]
        fields = {name: item for name, item in self.whole.additional_kwargs.items() if _is_other_field(name, item)}
        return list(map(_json, [*blocks, *beside, *([fields] if fields else [])]))

    def texts(self, message: AIMessageChunk) -> Iterator[tuple[str, str, str]]:
        """Yield the kind, the id and the text of each piece."""
        reasoning = message.additional_kwargs.get(_REASONING_FIELD)
        if isinstance(reasoning, str) and reasoning:
            yield "reasoning", _REASONING_FIELD, reasoning
        for number, block in enumerate(_listed(message.content)):
            if isinstance(block, str):
                yield "text", "text", block
                continue
            for kind, place, text in _text_places(block, number):
                self.places[place.id] = place
                if text:
                    yield kind, place.id, text


def _listed(content: str | list[Any]) -> list[Any]:
    """Return a content as a list of texts and blocks."""
    return ([content] if content else []) if isinstance(content, str) else content


def _is_other(block: Any) -> bool:
    """Return whether a block is neither a text, nor sealed reasoning, nor a call that ``tool_calls`` repeats."""
    known = _text_places(block, 0) or _is_sealed(block)
    return is_object(block) and not known and block.get("type") not in _CALL_BLOCKS


def _is_sealed(block: Any) -> bool:
    """Return whether a block is reasoning that its provider alone can read."""
    given: Mapping[str, Any] = block if is_object(block) else {}
    reasons = given.get("type") in ("thinking", "reasoning", "redacted_thinking")
    return reasons and given.keys() <= {"type", "index", "data", "summary", *_SIGNS} and not given.get("summary")


def _beside(block: Any) -> dict[str, Any]:
    """Return what else stands in a block with a text and holds texts, such as citations."""
    places = _text_places(block, 0)
    if not places:
        return {}
    known = {"type", "index", places[0][1].key, *_SIGNS}
    return {name: item for name, item in cast("dict[str, Any]", block).items() if name not in known and has_text(item)}


def _repeats(block: Mapping[str, Any], calls: Iterable[ToolPart]) -> bool:
    """Return whether a block repeats one of these calls and says nothing else."""
    call = next((call for call in calls if call.call_id == (block.get("call_id") or block.get("id"))), None)
    if call is None or block.get("name", call.name) != call.name or not block.keys() <= _KEYS_OF_CALLS:
        return False
    said = [block[name] for name in _ARGUMENTS if block.get(name)]
    return all(freeze(_read_arguments(one)) == call.arguments for one in said)


def _read_arguments(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _is_other_field(name: str, item: Any) -> bool:
    """Return whether a field of a provider may hold a text that stands nowhere else."""
    return name not in _READ_FIELDS and has_text(item)


def _json(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


_REASONING_FIELD = "reasoning_content"
_READ_FIELDS = frozenset({_REASONING_FIELD, "tool_calls"})
"""The fields whose texts stand elsewhere, too: ``tool_calls`` are those of the message in the provider's form."""
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
"""The blocks that repeat calls of ``tool_calls``."""
_ARGUMENTS = ("input", "args", "arguments", "partial_json")
_KEYS_OF_CALLS = frozenset({"type", "index", "id", "call_id", "name", "status", *_ARGUMENTS})


def _text_places(block: Any, number: int) -> list[tuple[str, _Place, str]]:
    """Return the kind, the place and the text of each text in a block; none for blocks of other kinds."""
    if not isinstance(block, dict):
        return []
    given = cast("dict[str, Any]", block)
    kind, index = given.get("type"), given.get("index", number)
    if kind == "text" and isinstance(given.get("text"), str):
        return [("text", _Place("text", "text", index), given["text"])]
    for name in ("thinking", "reasoning"):
        if kind == name and isinstance(given.get(name), str):
            return [("reasoning", _Place(name, name, index), given[name])]
    listed: Sequence[Any] = given["summary"] if kind == "reasoning" and is_array(given.get("summary")) else ()
    return [
        ("reasoning", _Place("reasoning", "summary", index, one.get("index", place)), one["text"])
        for place, one in enumerate(listed)
        if is_object(one) and isinstance(one.get("text"), str)
    ]


def _call(id: str | None, name: str, arguments: Value) -> Chunk:
    payload = {"call_id": id or "", "name": name, "arguments": freeze(arguments)}
    return Chunk("tool-call", id=id or "", payload=payload)


_REASONS = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "safety": "content-filter",
}


def _reason(message: AIMessage) -> str:
    """Return why an answer ended. Not every model says; then it is ``tool-calls`` or ``stop``."""
    told = message.response_metadata
    raw = told.get("finish_reason") or told.get("stop_reason") or told.get("done_reason")
    if isinstance(raw, str):
        return _REASONS.get(raw.lower(), "other")
    return "tool-calls" if message.tool_calls else "stop"


def _usage(message: AIMessage) -> Values | None:
    used = message.usage_metadata
    if used is None:
        return None
    return {
        "input_tokens": used["input_tokens"],
        "output_tokens": used["output_tokens"],
        "cached_tokens": used.get("input_token_details", {}).get("cache_read"),
        "reasoning_tokens": used.get("output_token_details", {}).get("reasoning"),
    }


class _Writer:
    """Writes the answer as the guards release it: pieces of text, and behind them the rest.

    Args:
        reader: returns the reader of the model's answer.
    """

    def __init__(self, reader: Callable[[], AnswerReader]) -> None:
        self._reader = reader
        self._shown = False

    def piece(self, chunk: Chunk) -> AIMessageChunk | None:
        """Return a piece of text as LangChain's; None for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return None
        self._shown = True
        place = self._reader().places.get(chunk.id)
        if place is not None:
            return AIMessageChunk(content=[place.holding(chunk.text)])
        if chunk.type == "reasoning-delta":
            return AIMessageChunk(content="", additional_kwargs={_REASONING_FIELD: chunk.text})
        return AIMessageChunk(content=chunk.text)

    def rest(self, request: HostRequest) -> AIMessageChunk:
        """Return what was not shown: the whole answer, if nothing was; and what the provider needs back."""
        reader, answer = self._reader(), request.answer or Message("assistant")
        whole = reader.whole or AIMessageChunk(content="")
        same = _said(answer.parts) == _said(_parts(reader))
        told = whole.response_metadata
        return AIMessageChunk(
            content=self._content(whole, answer, same=same),
            additional_kwargs={
                name: item
                for name, item in _fields(whole, answer, same=same).items()
                if not (self._shown and name in _READ_FIELDS)
            },
            response_metadata={name: item for name, item in told.items() if _is_fact(name, item, same=same)},
            tool_call_chunks=[
                tool_call_chunk(name=call.name, args=_arguments(call.arguments), id=call.call_id, index=number)
                for number, call in enumerate(calls_of(answer))
            ],
            usage_metadata=_used(request, whole),
            id=None if self._shown else whole.id,
            chunk_position="last",
        )

    def _content(self, whole: AIMessageChunk, answer: Message, *, same: bool) -> Any:
        if isinstance(whole.content, str) and not any(is_object(raw) and "type" in raw for raw in _others(answer)):
            return "" if self._shown else answer.text
        if not same:
            blocks = list(_blocks(answer.parts))
            return [block for block in blocks if _is_other(block)] if self._shown else blocks
        kept = [one for block in _listed(whole.content) for one in _left(block, answer)]
        return [one for block in kept for one in _unshown(block)] if self._shown else kept


def _left(block: Any, answer: Message) -> Iterator[Any]:
    """Yield what the guards left of a block, in an answer whose texts and calls are as they were."""
    others = _others(answer)
    beside = _beside(block)
    if _is_other(block):
        left = freeze(_json(block)) in others
    else:
        left = not (is_object(block) and block.get("type") in _CALL_BLOCKS) or _repeats(block, calls_of(answer))
    if left and beside and freeze({"beside": _json(beside)}) not in others:
        yield {name: item for name, item in block.items() if name not in beside}
    elif left:
        yield block


def _parts(reader: AnswerReader) -> list[Part]:
    """Return what the model said, as parts."""
    whole = reader.whole
    if whole is None:
        return []
    texts: list[Part] = [
        ReasoningPart(text) if kind == "reasoning" else TextPart(text) for kind, _, text in reader.texts(whole)
    ]
    return [*texts, *_model_calls(whole)]


def _model_calls(whole: AIMessageChunk) -> Iterator[ToolPart]:
    for call in whole.tool_calls:
        yield ToolPart(call["id"] or "", call["name"], freeze(to_jsonable_python(call["args"], fallback=str)))
    for broken in whole.invalid_tool_calls:
        yield ToolPart(broken["id"] or "", broken["name"] or "", broken["args"] or "")


def _said(parts: Iterable[Part]) -> tuple[object, ...]:
    """Return what parts say, however the text is cut into pieces."""
    held = list(parts)
    texts = "".join(part.text for part in held if isinstance(part, TextPart))
    reasoning = "".join(part.text for part in held if isinstance(part, ReasoningPart))
    calls = [(part.call_id, part.name, part.arguments) for part in held if isinstance(part, ToolPart)]
    return texts, reasoning, calls


def _blocks(parts: Iterable[Part]) -> Iterator[Any]:
    """Yield parts as blocks of content; calls stand beside it."""
    for part in parts:
        if isinstance(part, UnknownPart):
            if is_object(raw := thaw(part.raw)) and "type" in raw:
                yield raw
        elif not isinstance(part, ToolPart):
            yield wire.write_part(part)


def _others(answer: Message) -> list[Value]:
    """Return what the guards left of blocks and fields that are neither texts nor calls."""
    return [part.raw for part in answer.parts if isinstance(part, UnknownPart)]


def _fields(whole: AIMessageChunk, answer: Message, *, same: bool) -> dict[str, Any]:
    """Return what is left of the fields of a provider: those without text stay if the answer is as it was."""
    left: dict[str, Any] = {}
    for raw in _others(answer):
        if is_object(fields := thaw(raw)) and not fields.keys() & {"type", "beside"}:
            left |= fields
    reasoning = "".join(part.text for part in answer.parts if isinstance(part, ReasoningPart))
    if reasoning and isinstance(whole.content, str):
        left[_REASONING_FIELD] = reasoning
    plain = whole.additional_kwargs if same else {}
    return {**{name: item for name, item in plain.items() if not has_text(item)}, **left}


def _unshown(block: Any) -> Iterator[Any]:
    """Yield what is left of a block when its text was shown, such as a signature."""
    if isinstance(block, str):
        return
    places = _text_places(block, 0)
    rest = {name: item for name, item in block.items() if not places or name != places[0][1].key}
    if not places or (rest.keys() - {"type", "index"} and "index" in rest):
        yield rest


def _arguments(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False)


_FACTS = frozenset(
    {"model_name", "model", "model_provider", "finish_reason", "stop_reason", "id", "created", "system_fingerprint"}
)


def _is_fact(name: str, item: Any, *, same: bool) -> bool:
    """Return whether a report of the provider says nothing that guards had to read: it names the model, or counts.

    ``logprobs`` repeat the answer, so they stay with one that is as it was.
    """
    return name in _FACTS or not has_text(item) or (name == "logprobs" and same)


def _used(request: HostRequest, whole: AIMessageChunk) -> Any:
    """Return the tokens of the call, rejected answers included."""
    used, last = request.usage, whole.usage_metadata
    spent = (used.input_tokens or 0, used.output_tokens or 0)
    if last is None or spent == (last["input_tokens"], last["output_tokens"]):
        return last
    return {"input_tokens": spent[0], "output_tokens": spent[1], "total_tokens": sum(spent)}
