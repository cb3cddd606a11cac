"""`PydanticAIModel`: any model of pydantic-ai as a `Model`."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import MessageError, MissingExtraError, ModelError, OptionError
from penstock.models.openai.failures import refused_field

_IS_INSTALLED = find_spec("pydantic_ai") is not None

if TYPE_CHECKING or _IS_INSTALLED:
    import pydantic_ai
    from pydantic_ai.direct import model_request, model_request_stream
    from pydantic_ai.models import infer_model

    from penstock.models.pydantic_ai.answers import EventReader, started
    from penstock.models.pydantic_ai.failures import ErrorConverter
    from penstock.models.pydantic_ai.requests import parameters, settings, written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import StreamedResponse

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ModelRequest


_AT_HAND = 1000  # the number of events that are read from an answer that is closed, if they come without a wait

_SAYS_WHY = frozenset({"finish_reason", "refusal"})
_FRAMED = frozenset({"xai"})  # gRPC reports by itself that a stream was cut; its details hold no reason


class PydanticAIModel:
    """Asks one of pydantic-ai's models through its direct interface, without an agent.

    Needs the extra ``pydantic-ai``, and the provider's own extra of pydantic-ai.

    Args:
        model: a model of pydantic-ai, or a name that it knows, such as ``anthropic:claude-haiku-4-5``.
        streaming: whether answers are requested as streams. A model that cannot stream is asked for whole answers.

    Raises:
        MissingExtraError: pydantic-ai is not installed.
        OptionError: pydantic-ai does not know the name, or something that the model needs is missing, such as its key.
    """

    __slots__ = ("_errors", "_model", "_native", "_streaming")

    def __init__(self, model: pydantic_ai.models.Model | str, *, streaming: bool = True) -> None:
        if not _IS_INSTALLED:
            raise MissingExtraError("PydanticAIModel", "pydantic-ai")
        try:
            self._model = infer_model(model)
        except (pydantic_ai.UserError, ValueError, ImportError) as error:
            raise OptionError("PydanticAIModel", "model", model, f"a model that pydantic-ai knows: {error}") from error
        self._streaming = streaming
        self._native = _is_native(self._model)
        self._errors = ErrorConverter(self.name, self._model)

    @property
    def name(self) -> str:
        """The provider's name and the model's: ``anthropic:claude-haiku-4-5``."""
        return self._model.model_id

    @property
    def identity(self) -> Mapping[str, Value]:
        """The address and the model's own settings, without headers, which distinguish models of one name."""
        own: Mapping[str, Value] = {**(self._model.settings or {})}
        shown = {name: value for name, value in own.items() if name != "extra_headers"}
        return {"url": self._model.base_url, "settings": shown}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Yield the answer.

        Raises:
            MessageError: the prompt holds something that cannot be sent.
            ModelError: the request failed, or the answer is not complete.
        """
        streamed, begun = self._streaming, False
        chunks = self._streamed(request) if streamed else self._whole(request)
        failure: ModelError | None = None
        try:
            async for chunk in chunks:
                begun = True
                yield chunk
        except (ModelError, MessageError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever the library raises is the model's failure
            failure = self._errors.made(error)
            self._streaming = self._streaming and (begun or not _cannot_stream(error, failure))
        finally:
            await chunks.aclose()
        if failure is None:
            return
        if begun or not streamed or self._streaming:
            raise failure  # outside the handler: a context could show what the cause must not
        again = self.stream(request)
        try:
            async for chunk in again:
                yield chunk
        finally:
            await again.aclose()

    async def _streamed(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        answer = EventReader()
        asked = model_request_stream(
            self._model,
            written(request.messages),
            model_settings=settings(request),
            model_request_parameters=parameters(request, native=self._native),
        )
        async with asked as stream:
            yield started(stream.model_name, stream.provider_name, stream.timestamp.timestamp())
            try:
                async for event in stream:
                    for chunk in answer.event(event):
                        yield chunk
            except GeneratorExit:
                await _left(stream)
                raise
            said = stream.get()
        if _broke_off(said):
            raise self._errors.broken_off()
        for chunk in answer.rest(said):
            yield chunk

    async def _whole(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        said = await model_request(
            self._model,
            written(request.messages),
            model_settings=settings(request),
            model_request_parameters=parameters(request, native=self._native),
        )
        yield started(said.model_name, said.provider_name, said.timestamp.timestamp())
        for chunk in EventReader().rest(said):
            yield chunk

    def __repr__(self) -> str:
        """Show the name. The model's own repr is not shown: it may hold a key."""
        return f"PydanticAIModel({self.name!r})"


async def _left(stream: StreamedResponse) -> None:
    """Run the generators of an answer that is closed to their end, by cancelling their awaits."""
    items = 0
    with anyio.move_on_after(0), suppress(Exception):
        async for _ in stream:
            items += 1
            if items == _AT_HAND:
                break


def _cannot_stream(error: Exception, failure: ModelError) -> bool:
    """Tell whether a model, or its provider, refuses to stream."""
    unable = isinstance(error, (NotImplementedError, AssertionError)) and "stream" in str(error).lower()
    return unable or refused_field(failure, ("stream",)) is not None


def _broke_off(said: ModelResponse) -> bool:
    """Tell whether a streamed answer lacks its end.

    An answer that was cut can look complete: for some models, pydantic-ai reports ``stop`` when the provider gives no
    reason. The provider's own reason is in the details.
    """
    if said.state == "incomplete":
        return True
    silent = said.finish_reason in (None, "stop") and _SAYS_WHY.isdisjoint(said.provider_details or ())
    return silent and said.provider_url is not None and said.provider_name not in _FRAMED


def _is_native(model: pydantic_ai.models.Model) -> bool:
    """Tell whether the provider enforces JSON Schemas for a model; True for one that stands for several models."""
    try:
        return bool(model.profile.get("supports_json_schema_output", False))
    except NotImplementedError:
        return True
