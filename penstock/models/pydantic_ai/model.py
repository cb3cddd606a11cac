"""`PydanticAIModel`: any model of pydantic-ai's behind our port; the one module of ours that asks it."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import MessageError, MissingExtraError, ModelError, OptionError

_IS_INSTALLED = find_spec("pydantic_ai") is not None

if TYPE_CHECKING or _IS_INSTALLED:
    import pydantic_ai
    from pydantic_ai.direct import model_request, model_request_stream
    from pydantic_ai.models import infer_model

    from penstock.models.pydantic_ai.answers import Answer, started
    from penstock.models.pydantic_ai.failures import Errors
    from penstock.models.pydantic_ai.prompts import written
    from penstock.models.pydantic_ai.requests import parameters, settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import StreamedResponse

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ModelRequest


_AT_HAND = 1000  # events of an answer that is left, if it can give so many without waiting for more

_SAYS_WHY = frozenset({"finish_reason", "refusal"})
_FRAMED = frozenset({"xai"})  # gRPC tells by itself that a stream was cut, and keeps no reason in the details


class PydanticAIModel:
    """A `Model` that asks one of pydantic-ai's models through its direct interface, without an agent.

    Needs the extra ``pydantic-ai``, and of pydantic-ai the extra of the provider.

    Args:
        model: a model of pydantic-ai's, or a name that it knows, such as ``anthropic:claude-haiku-4-5``.
        streaming: whether to ask for the answer in pieces; a model that cannot stream is asked for the whole.

    Raises:
        MissingExtraError: pydantic-ai is not installed.
        OptionError: pydantic-ai knows no model of that name, or misses what it needs for it, such as its key.
    """

    __slots__ = ("_errors", "_model", "_native", "_streaming")

    def __init__(self, model: pydantic_ai.models.Model | str, *, streaming: bool = True) -> None:
        if not _IS_INSTALLED:
            raise MissingExtraError("a model of pydantic-ai's", "pydantic-ai")
        try:
            self._model = infer_model(model)
        except (pydantic_ai.UserError, ValueError, ImportError) as error:
            raise OptionError("PydanticAIModel", "model", model, f"one that pydantic-ai can ask: {error}") from error
        self._streaming = streaming
        self._native = _is_native(self._model)
        self._errors = Errors(self.name, self._model)

    @property
    def name(self) -> str:
        """The provider's name and the model's: ``anthropic:claude-haiku-4-5``."""
        return self._model.model_id

    @property
    def identity(self) -> Mapping[str, Value]:
        """What tells it apart from others of its name: its address and its own settings, without headers."""
        own: Mapping[str, Value] = {**(self._model.settings or {})}
        shown = {name: value for name, value in own.items() if name != "extra_headers"}
        return {"url": self._model.base_url, "settings": shown}

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the answer.

        Raises:
            MessageError: the prompt holds what cannot be sent.
            ModelError: it could not be asked, or gave no whole answer.
        """
        ask = self._streamed if self._streaming else self._whole
        chunks = ask(request)
        failure: ModelError | None = None
        try:
            async for chunk in chunks:
                yield chunk
        except (ModelError, MessageError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever the library raises is the model's failure
            failure = self._errors.made(error)
        finally:
            await chunks.aclose()
        if failure is not None:
            raise failure  # out here it has no context, which could show what its cause may not

    async def _streamed(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        answer = Answer()
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
        for chunk in Answer().rest(said):
            yield chunk

    def __repr__(self) -> str:
        """Show the name, and nothing of the model's own: it may hold a key."""
        return f"PydanticAIModel({self.name!r})"


async def _left(stream: StreamedResponse) -> None:
    """End the generators of an answer that is left, by cancelling what they wait for; else they would be left over."""
    items = 0
    with anyio.move_on_after(0), suppress(Exception):
        async for _ in stream:
            items += 1
            if items == _AT_HAND:
                break


def _broke_off(said: ModelResponse) -> bool:
    """Tell whether a streamed answer lacks its end.

    One that was cut can look whole: for some models the library takes it to have stopped where the provider does not
    say why. What a provider itself says stands in the details.
    """
    if said.state == "incomplete":
        return True
    silent = said.finish_reason in (None, "stop") and _SAYS_WHY.isdisjoint(said.provider_details or ())
    return silent and said.provider_url is not None and said.provider_name not in _FRAMED


def _is_native(model: pydantic_ai.models.Model) -> bool:
    """Tell whether a model can be held to a schema; one that stands for several is taken to."""
    try:
        return bool(model.profile.get("supports_json_schema_output", False))
    except NotImplementedError:
        return True
