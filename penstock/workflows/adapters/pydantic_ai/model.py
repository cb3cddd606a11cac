"""`GuardedModel`: a model of pydantic-ai, with the stages of one request around its calls."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import messages as theirs
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import FilePart, Message
from penstock.engine.values.model import ToolSpec, Usage
from penstock.models.pydantic_ai import requests
from penstock.models.pydantic_ai.answers import EventReader, started
from penstock.workflows.adapters.pydantic_ai.messages import (
    OURS,
    GuardBlockedError,
    instruction_messages,
    read_message,
    write_messages,
)
from penstock.workflows.hosting import PLAIN_SETTINGS, ModelCall, as_asked, raised_as

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.workflows.adapters.pydantic_ai.durable import GuardOperations
    from penstock.workflows.hosting import HostRequest


class GuardedModel(WrapperModel):
    """A model of pydantic-ai with the stages of one request around its calls."""

    def __init__(
        self,
        wrapped: Model,
        request: HostRequest,
        released: Callable[[theirs.ModelResponse], None],
        operations: GuardOperations | None,
    ) -> None:
        super().__init__(wrapped)
        self._request = request
        self._released = released
        self._operations = operations

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
        try:
            with raised_as(GuardBlockedError):
                message = await self._request.whole_answer(inner.call(messages, live=False))
        except GuardBlockedError:
            if self._operations is None:
                raise
            return self._operations.stopped(_response(Message("assistant"), self._request, inner))
        answer = _response(message, self._request, inner)
        self._released(answer)
        return answer if self._operations is None else self._operations.recorded(answer)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[theirs.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[object] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the answer as a stream of the chunks that the guards release."""
        inner = _InnerModel(self.wrapped, model_settings, model_request_parameters, run_context, streams=True)
        async with aclosing(self._request.answers(inner.call(messages, live=True))) as chunks:
            yield GuardedResponse(
                model_request_parameters, chunks, self._request, inner, self._released, self._operations
            )


class GuardedResponse(StreamedResponse):
    """A streamed answer as the guards release it; its parts are the ones that the history gets."""

    def __init__(
        self,
        model_request_parameters: ModelRequestParameters,
        chunks: AsyncGenerator[Chunk],
        request: HostRequest,
        inner: _InnerModel,
        released: Callable[[theirs.ModelResponse], None],
        operations: GuardOperations | None,
    ) -> None:
        super().__init__(model_request_parameters)
        self._released = released
        self._operations = operations
        self._chunks = chunks
        self._request = request
        self._inner = inner
        self._said: theirs.ModelResponse | None = None

    async def _get_event_iterator(self) -> AsyncIterator[theirs.ModelResponseStreamEvent]:
        try:
            with raised_as(GuardBlockedError):
                async for chunk in self._chunks:
                    for event in self._events(chunk):
                        yield event
                self._request.check()
        except GuardBlockedError:
            if self._operations is None:
                raise
            self._said = self._operations.stopped(_response(Message("assistant"), self._request, self._inner))
            return
        said = self._said = _response(self._request.answer or Message("assistant"), self._request, self._inner)
        self._usage = said.usage
        self.finish_reason, self.provider_response_id = said.finish_reason, said.provider_response_id
        self._released(said)
        if self._operations is not None:
            self._said = self._operations.recorded(said)

    def get(self) -> theirs.ModelResponse:
        """Return the answer so far; at its end with the fields that the provider needs back, such as signatures."""
        made = super().get()
        if self._said is None:
            return made
        return replace(made, parts=self._said.parts, metadata=self._said.metadata or made.metadata)

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


@dataclass(frozen=True)
class _InnerModel:
    """The model of the framework as the stages call it, for one request."""

    model: Model
    settings: ModelSettings | None
    parameters: ModelRequestParameters
    context: RunContext[object] | None
    streams: bool

    @property
    def name(self) -> str:
        return self.model.model_id

    def call(self, messages: Sequence[theirs.ModelMessage], *, live: bool) -> ModelCall:
        """Return the call that pydantic-ai is about to make."""
        settings = {name: item for name, item in (self.settings or {}).items() if name in PLAIN_SETTINGS}
        call = _call_of(self, messages, self.parameters)
        return replace(call, settings=freeze(settings), live=live)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        messages, parameters = self._asked(request)
        settings = cast("ModelSettings", {**(self.settings or {}), **requests.settings(request)})
        if not self.streams:
            said = await self.model.request(messages, settings or None, parameters)
            yield started(said.model_name, said.provider_name, said.timestamp.timestamp())
            for chunk in EventReader().rest(said):
                yield chunk
            return
        reader = EventReader()
        async with self.model.request_stream(messages, settings or None, parameters, self.context) as answer:
            yield started(answer.model_name, answer.provider_name, answer.timestamp.timestamp())
            async for event in answer:
                for chunk in reader.event(event):
                    yield chunk
            for chunk in reader.rest(answer.get()):
                yield chunk

    def _asked(self, request: ModelRequest) -> tuple[list[theirs.ModelMessage], ModelRequestParameters]:
        """Return the messages and parameters of a call, as the stages left them."""
        own = [message for message in request.messages if message.metadata.get(OURS)]
        said = [message for message in request.messages if not message.metadata.get(OURS)]
        parts = [theirs.InstructionPart(message.text) for message in own]
        before = self.parameters.instruction_parts or []
        if [part.content for part in parts] == [part.content for part in before]:
            parts = before
        known = {tool.name: tool for tool in self.parameters.function_tools}
        own_tools = {tool.name for tool in self.parameters.output_tools}  # these are always offered
        chosen = [tool for tool in request.tools if tool.name not in own_tools]
        tools = [known.get(tool.name) or requests.tool_definition(tool) for tool in chosen]
        parameters = replace(self.parameters, function_tools=tools, instruction_parts=parts or None)
        return write_messages(said), parameters


@dataclass(frozen=True)
class GivenAnswer:
    """Stands for a model whose answer is there already: another capability has given or changed it."""

    answer: theirs.ModelResponse
    parameters: ModelRequestParameters
    name: str = "given"

    def call(self, messages: Sequence[theirs.ModelMessage]) -> ModelCall:
        """Return the call that would have had this answer."""
        return _call_of(self, messages, self.parameters)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Yield the answer as chunks."""
        for chunk in EventReader().rest(self.answer):
            yield chunk


def _call_of(
    model: _InnerModel | GivenAnswer, messages: Sequence[theirs.ModelMessage], parameters: ModelRequestParameters
) -> ModelCall:
    said = [one for message in messages for one in read_message(message)]
    tools = [
        ToolSpec(tool.name, tool.parameters_json_schema, tool.description or "", tool.strict)
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    return ModelCall(model, [*instruction_messages(parameters), *said], tools)


# Answers


_REASONS = {"stop": "stop", "length": "length", "content-filter": "content_filter", "tool-calls": "tool_call"}


def _response(message: Message, request: HostRequest, inner: _InnerModel) -> theirs.ModelResponse:
    """Return an answer as pydantic-ai's."""
    return replace(
        _as_response(message),
        usage=_usage(request.usage),
        model_name=str(request.metadata.get("model") or inner.model.model_name),
        timestamp=_time(request),
        provider_name=inner.model.system,
        provider_url=inner.model.base_url,
        provider_response_id=cast("str | None", request.metadata.get("id")),
        finish_reason=cast("Any", _REASONS.get(request.finish_reason)),
    )


def parts_of(message: Message) -> Sequence[theirs.ModelResponsePart]:
    """Return the parts of an answer as pydantic-ai's."""
    return _as_response(message).parts


def _as_response(message: Message) -> theirs.ModelResponse:
    asked = requests.written([as_asked(message)])
    return asked[0] if asked and isinstance(asked[0], theirs.ModelResponse) else theirs.ModelResponse(parts=[])


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
    for message in write_messages([Message("assistant", (part,))]):
        yield from cast("theirs.ModelResponse", message).parts
