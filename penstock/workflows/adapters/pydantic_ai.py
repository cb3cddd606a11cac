"""A workflow as a capability of pydantic-ai's agents: ``Agent(…, capabilities=[as_capability(guard)])``.

Needs the extra ``pydantic-ai``. The capability wraps the model of each request, so that the stream, the output and the
message history agree; its hooks check input before the model is called, and tools around their calls.
"""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from penstock.engine.formats import pydantic_ai as wire
from penstock.engine.values.errors import MissingExtraError, UsageError
from penstock.engine.values.frozen import freeze, is_mapping, thaw
from penstock.engine.values.messages import FilePart, Message, ReasoningPart, TextPart, ToolPart
from penstock.engine.values.model import ToolSpec, Usage
from penstock.engine.values.tripwire import BlockedError
from penstock.models.openai.wire import checksum
from penstock.workflows.hosting import PLAIN_SETTINGS, Host, HostSupport, ModelCall, as_asked, raised_as

try:
    from pydantic_ai import ToolDefinition, exceptions, messages as theirs
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters, StreamedResponse
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.usage import RequestUsage
    from pydantic_core import to_jsonable_python

    from penstock.models.pydantic_ai import requests
    from penstock.models.pydantic_ai.answers import EventReader, started
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.pydantic_ai", "pydantic-ai") from error

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Sequence,
    )

    from pydantic_ai import AgentRunResult, RunContext
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings
    from typing_extensions import Unpack

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions, HostRequest

SUPPORT = HostSupport("pydantic_ai.as_capability")


class GuardBlockedError(BlockedError, exceptions.ContentFilterError):
    """A guard stopped a run. It is pydantic-ai's error for filtered content, and carries the verdict.

    Attributes:
        tripwire: the verdict.
    """


def as_capability(*processors: Item, **options: Unpack[HostOptions]) -> GuardCapability:
    """Return processors as a capability: ``Agent(model, capabilities=[as_capability(guard)])``.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardCapability(Host(SUPPORT, processors, **options))


class GuardCapability(AbstractCapability[Any]):
    """A workflow in pydantic-ai's agents. Made by `as_capability`; one serves any number of agents and runs.

    Attributes:
        host: the processors.
        request: the request of a run, of which the guards' records and trace can be read; None in the capability that
            was given to the agent, of which each run gets a copy.
    """

    def __init__(self, host: Host, request: HostRequest | None = None) -> None:
        self.host = host
        self.request = request

    @property
    def _open(self) -> HostRequest:
        if self.request is None:  # runs would share their state
            raise UsageError(
                "the capability was used outside of a run of its agent, so there is no request to guard; durable "
                "execution that calls models in another process is not supported"
            )
        return self.request

    def get_ordering(self) -> CapabilityOrdering | None:
        """Stand next to the model, inside all other capabilities, so that nothing they add is unread."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[Any]) -> GuardCapability:
        """Return the capability of one run."""
        return GuardCapability(self.host, self.host.open(run_id=ctx.run_id))

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Close the request when the run ends."""
        try:
            result = await handler()
        except BaseException as failure:
            await self._open.close(failure)
            raise
        await self._open.close()
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Judge an answer that is no text, such as an object.

        Raises:
            GuardBlockedError: a guard stopped the run.
            UsageError: a processor changed the answer, of which the object was made already.
        """
        request = self._open
        before = _said(request.answer)
        if not await request.end():
            self._refuse()
        if _said(request.answer) != before:
            raise UsageError(
                "a processor changed the answer in process_output_result, after pydantic-ai had made its object; let "
                "it change the answer in process_output_step or process_tool_call"
            )
        return result

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Check the input, and replace it in the history by what the guards left."""
        said = [_read(message) for message in request_context.messages]
        instructions = _instructions(request_context.model_request_parameters)
        if not await self._open.begin([*instructions, *(one for group in said for one in group)]):
            self._refuse()
        self._rewrite(ctx.messages, request_context.messages, said)
        return request_context

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model with the stages around its calls."""
        return GuardedModel(model, self._open)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: theirs.ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Check the call and its result; a processor may answer in the tool's place."""
        given = to_jsonable_python(args, fallback=str)
        with raised_as(GuardBlockedError):
            checked = await self._open.tool_call(call.tool_name, given, call.tool_call_id)
            if checked.answered:
                return checked.answer
            made = await handler(args if checked.arguments == freeze(given) else checked.arguments)
            wrapped = isinstance(cast("object", made), theirs.ToolReturn)
            value: Any = made.return_value if wrapped else made
            said = to_jsonable_python(value, fallback=str)
            left = await self._open.tool_result(call.tool_name, said, call.tool_call_id, arguments=checked.arguments)
        if left == freeze(said):
            return made
        return replace(made, return_value=thaw(left)) if wrapped else thaw(left)

    def _refuse(self) -> None:
        """Raise the verdict as pydantic-ai's error.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        with raised_as(GuardBlockedError):
            self._open.check()

    def _rewrite(
        self, history: list[theirs.ModelMessage], sent: list[theirs.ModelMessage], said: Sequence[Sequence[Message]]
    ) -> None:
        """Replace messages by what the guards left of them, in the request and in the history of the run.

        The newest message is the run's own, and is changed in place, since pydantic-ai knows it by its identity. Older
        ones belong to the caller; they are replaced.
        """
        left = iter(self._open.current([one for group in said for one in group]))
        for index, group in enumerate(said):
            now = [next(left) for _ in group]
            if all(after is not None and one.parts == after.parts for one, after in zip(group, now, strict=True)):
                continue
            before = sent[index]
            after = _written([one for one in now if one is not None])
            parts: Any = after[0].parts if after else []
            if before is sent[-1]:
                before.parts = parts
                continue
            made = replace(before, parts=parts)
            sent[index] = made
            for place, old in enumerate(history):
                if old is before:
                    history[place] = made


class GuardedModel(WrapperModel):
    """A model of pydantic-ai with the stages of one request around its calls."""

    def __init__(self, wrapped: Model, request: HostRequest) -> None:
        super().__init__(wrapped)
        self._request = request

    async def request(
        self,
        messages: list[theirs.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> theirs.ModelResponse:
        """Return the answer as the guards left it.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        inner = _InnerModel(self.wrapped, model_settings, model_request_parameters, None, streams=False)
        with raised_as(GuardBlockedError):
            message = await self._request.whole_answer(inner.call(messages, live=False))
        return _response(message, self._request, inner)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[theirs.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the answer as a stream, of which the guards release what they have read."""
        inner = _InnerModel(self.wrapped, model_settings, model_request_parameters, run_context, streams=True)
        async with aclosing(self._request.answers(inner.call(messages, live=True))) as chunks:
            yield GuardedResponse(model_request_parameters, chunks, self._request, inner)


class GuardedResponse(StreamedResponse):
    """A streamed answer as the guards release it; its parts are the ones that the history gets."""

    def __init__(
        self,
        model_request_parameters: ModelRequestParameters,
        chunks: AsyncGenerator[Chunk],
        request: HostRequest,
        inner: _InnerModel,
    ) -> None:
        super().__init__(model_request_parameters)
        self._chunks = chunks
        self._request = request
        self._inner = inner
        self._said: theirs.ModelResponse | None = None

    async def _get_event_iterator(self) -> AsyncIterator[theirs.ModelResponseStreamEvent]:
        with raised_as(GuardBlockedError):
            async for chunk in self._chunks:
                for event in self._events(chunk):
                    yield event
            self._request.check()
        said = self._said = _response(self._request.answer or Message("assistant"), self._request, self._inner)
        self._usage = said.usage
        self.finish_reason, self.provider_response_id = said.finish_reason, said.provider_response_id

    def get(self) -> theirs.ModelResponse:
        """Return the answer so far; at its end with what the provider needs back, such as signatures."""
        made = super().get()
        return made if self._said is None else replace(made, parts=self._said.parts)

    def _events(self, chunk: Chunk) -> Iterator[theirs.ModelResponseStreamEvent]:
        parts, kind = self._parts_manager, chunk.type
        if kind == "text-delta":
            yield from parts.handle_text_delta(vendor_part_id=chunk.id, content=chunk.text)
        elif kind == "reasoning-delta":
            yield from parts.handle_thinking_delta(vendor_part_id=chunk.id, content=chunk.text)
        elif kind in ("tool-call", "file", "raw"):
            for part in _whole_parts(chunk):
                yield parts.handle_part(vendor_part_id=None, part=part)

    async def close_stream(self) -> None:
        """Close the stream of the model."""
        await self._chunks.aclose()

    @property
    def model_name(self) -> str:
        """The name of the model that answers."""
        return str(self._request.metadata.get("model") or self._inner.model.model_name)

    @property
    def provider_name(self) -> str:
        """The name of its provider."""
        return self._inner.model.system

    @property
    def provider_url(self) -> str | None:
        """The address of the provider."""
        return self._inner.model.base_url

    @property
    def timestamp(self) -> datetime:
        """The time of the answer."""
        return _time(self._request)


class _InnerModel:
    """The model of the framework as the stages call it, for one request."""

    def __init__(
        self,
        model: Model,
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        context: RunContext[Any] | None,
        *,
        streams: bool,
    ) -> None:
        self.model = model
        self._settings = settings
        self._parameters = parameters
        self._context = context
        self._streams = streams

    @property
    def name(self) -> str:
        return self.model.model_id

    def call(self, messages: Sequence[theirs.ModelMessage], *, live: bool) -> ModelCall:
        """Return the call that pydantic-ai is about to make."""
        said = [one for message in messages for one in _read(message)]
        tools = [
            ToolSpec(tool.name, tool.parameters_json_schema, tool.description or "", tool.strict)
            for tool in self._parameters.function_tools
        ]
        settings = {name: item for name, item in (self._settings or {}).items() if name in PLAIN_SETTINGS}
        return ModelCall(self, [*_instructions(self._parameters), *said], tools, settings=freeze(settings), live=live)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        messages, parameters = self._asked(request)
        settings = cast("ModelSettings", {**(self._settings or {}), **requests.settings(request)})
        if not self._streams:
            said = await self.model.request(messages, settings or None, parameters)
            yield started(said.model_name, said.provider_name, said.timestamp.timestamp())
            for chunk in EventReader().rest(said):
                yield chunk
            return
        reader = EventReader()
        async with self.model.request_stream(messages, settings or None, parameters, self._context) as answer:
            yield started(answer.model_name, answer.provider_name, answer.timestamp.timestamp())
            async for event in answer:
                for chunk in reader.event(event):
                    yield chunk
            for chunk in reader.rest(answer.get()):
                yield chunk

    def _asked(self, request: ModelRequest) -> tuple[list[theirs.ModelMessage], ModelRequestParameters]:
        """Return the messages and parameters of a call, as the stages left them."""
        own = [message for message in request.messages if message.metadata.get(_OURS)]
        said = [message for message in request.messages if not message.metadata.get(_OURS)]
        parts = [theirs.InstructionPart(message.text) for message in own]
        before = self._parameters.instruction_parts or []
        if [part.content for part in parts] == [part.content for part in before]:
            parts = before
        known = {tool.name: tool for tool in self._parameters.function_tools}
        tools = [known.get(tool.name) or _tool(tool) for tool in request.tools]
        parameters = replace(self._parameters, function_tools=tools, instruction_parts=parts or None)
        return _written(said), parameters


_OURS = "penstock-instruction"
_INSTRUCTION: Values = freeze({_OURS: True})
"""The metadata of instructions, which pydantic-ai sends beside the messages."""


def _instructions(parameters: ModelRequestParameters) -> list[Message]:
    return [Message.system(part.content, metadata=_INSTRUCTION) for part in parameters.instruction_parts or ()]


# Messages both ways: through the JSON of pydantic-ai's histories, which keeps what nobody knows


def _read(message: theirs.ModelMessage) -> tuple[Message, ...]:
    """Return a message of pydantic-ai's; its instructions are left out, since requests carry them beside it."""
    [item] = theirs.ModelMessagesTypeAdapter.dump_python([message], mode="json", exclude_none=True)
    item.pop("instructions", None)
    return tuple(map(_sealed, wire.read([item]))) if item["parts"] else ()


def _written(messages: Iterable[Message]) -> list[theirs.ModelMessage]:
    """Return messages as pydantic-ai's. What a provider has signed goes without the signature if it was changed."""
    return theirs.ModelMessagesTypeAdapter.validate_python(wire.write(map(_unsealed, messages)))


_SEAL = "of"
"""The key of the checksum of a part's text, beside what its provider needs back; `PydanticAIModel` notes it, too."""


def _sealed(message: Message) -> Message:
    """Return a message with a checksum at each part that a provider has signed, of the text as it is now."""
    parts = [
        _with_notes(part, {**notes, _SEAL: _seal(part)}) if (notes := _notes(part)) else part for part in message.parts
    ]
    return message.with_parts(parts)


def _unsealed(message: Message) -> Message:
    """Return a message without the signatures of parts whose text was changed since."""
    parts = [
        part if _notes(part).get(_SEAL) in (None, _seal(part)) else _with_notes(part, {}) for part in message.parts
    ]
    return message.with_parts(parts)


def _notes(part: Part) -> dict[str, Value]:
    notes = part.metadata.get(wire.FORMAT)
    return {**notes} if is_mapping(notes) else {}


def _with_notes(part: Part, notes: dict[str, Value]) -> Part:
    return replace(part, metadata={**part.metadata, wire.FORMAT: notes})


def _seal(part: Part) -> str:
    """Return the checksum of what a part says."""
    if isinstance(part, ToolPart):
        return checksum(requests.arguments_text(thaw(part.arguments)))
    return checksum(part.text if isinstance(part, (TextPart, ReasoningPart)) else "")


def _tool(tool: ToolSpec) -> ToolDefinition:
    schema = cast("dict[str, Any]", thaw(dict(tool.parameters)))
    return ToolDefinition(
        name=tool.name, parameters_json_schema=schema, description=tool.description or None, strict=tool.strict
    )


# Answers


_REASONS = {"stop": "stop", "length": "length", "content-filter": "content_filter", "tool-calls": "tool_call"}


def _response(message: Message, request: HostRequest, inner: _InnerModel) -> theirs.ModelResponse:
    """Return an answer as pydantic-ai's."""
    asked = requests.written([as_asked(message)])
    said = asked[0] if asked and isinstance(asked[0], theirs.ModelResponse) else theirs.ModelResponse(parts=[])
    return replace(
        said,
        usage=_usage(request.usage),
        model_name=str(request.metadata.get("model") or inner.model.model_name),
        timestamp=_time(request),
        provider_name=inner.model.system,
        provider_url=inner.model.base_url,
        provider_response_id=cast("str | None", request.metadata.get("id")),
        finish_reason=cast("Any", _REASONS.get(request.finish_reason)),
    )


def _said(answer: Message | None) -> Message | None:
    """Return what the model said: `wrap_tool_execute` stores the results of tools in the answer that called them."""
    return None if answer is None else as_asked(answer)


def _usage(used: Usage) -> RequestUsage:
    return RequestUsage(
        input_tokens=used.input_tokens or 0,
        output_tokens=used.output_tokens or 0,
        cache_read_tokens=used.cached_tokens or 0,
    )


def _time(request: HostRequest) -> datetime:
    created = request.metadata.get("created")
    seconds = created if isinstance(created, (int, float)) else None
    return datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _whole_parts(chunk: Chunk) -> Iterator[theirs.ModelResponsePart]:
    """Yield the part of a chunk that comes in one piece."""
    if chunk.type == "tool-call":
        arguments = thaw(chunk.payload["arguments"])
        yield theirs.ToolCallPart(chunk.payload["name"], arguments, chunk.id)
    elif chunk.type == "file":
        yield from _file(chunk)
    else:
        raw = chunk.payload.get("provider_sealed") or chunk.payload.get("provider_part")
        part = requests.restored(raw)
        if part is not None:
            yield part


def _file(chunk: Chunk) -> Iterator[theirs.ModelResponsePart]:
    part = FilePart(data=chunk.payload.get("data"), media_type=chunk.payload.get("media_type"))
    for message in _written([Message("assistant", (part,))]):
        yield from cast("theirs.ModelResponse", message).parts
