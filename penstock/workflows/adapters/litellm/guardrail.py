"""`as_guardrail`: a workflow as a guardrail of LiteLLM's proxy. A chat completion is checked in two halves."""

from __future__ import annotations

from contextlib import aclosing, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, cast
from uuid import uuid4

from anyio import CancelScope

from penstock.engine.execution.boundary import log
from penstock.engine.values.errors import MessageError, OptionError, UsageError, without_text
from penstock.engine.values.messages import Message
from penstock.engine.values.tripwire import BlockedError
from penstock.formats.wire import is_array, is_object
from penstock.workflows.adapters.litellm.answers import LiteLLMAnswerReader, LiteLLMStreamWriter, response_of
from penstock.workflows.adapters.litellm.call import Called, with_checked_results
from penstock.workflows.adapters.litellm.messages import LiteLLMMessages
from penstock.workflows.adapters.litellm.theirs import (
    PRE_CALL,
    CustomGuardrail,
    RefusalError,
    RequestRefusedError,
    StreamRefusedError,
    blocked,
    failed,
    refused_as,
    types,
)
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.tasks import when_task_ends

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Collection, Generator

    from typing_extensions import Unpack

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostOptions, OutsideCall


GUARDRAIL_SUPPORT = HostSupport("litellm.as_guardrail", retries=False, trusted_instructions=False)

_COMPLETIONS = frozenset({"completion", "acompletion"})
_INPUTS = frozenset({"embedding", "aembedding", "embeddings", "moderation", "amoderation"})
"""The calls that send texts, and get no text back."""

_READS = "A guard reads chat completions, embeddings and moderations"

_MODES = frozenset({"pre_call", "post_call"})


def as_guardrail(
    *processors: Item, unguarded: Collection[str] = (), **options: Unpack[HostOptions]
) -> type[GuardrailOfProxy]:
    """Return processors as a guardrail of LiteLLM's proxy: a class, which the proxy's configuration names.

    A verdict reaches the client as an error with the status 400, without its reason. Answers are not requested again:
    a guardrail has no place for that.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        unguarded: the calls other than chat completions that may pass unread, by LiteLLM's names (``aresponses``,
            ``atranscription`` …). Default: none; they are refused.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist, LiteLLM's extra for its proxy is not installed, or retries are wanted and
            ``strict=False`` is not set.
        WorkflowError: the processors cannot run together.
    """
    if find_spec("fastapi") is None:
        raise UsageError("litellm.as_guardrail needs LiteLLM's proxy: pip install 'litellm[proxy]'")
    known = {kind.value for kind in types.CallTypes}
    for name in [unguarded] if isinstance(unguarded, str) else unguarded:
        if name not in known or name in _COMPLETIONS:
            allowed = f"names of LiteLLM's calls without {' and '.join(sorted(_COMPLETIONS))}: {', '.join(known)}"
            raise OptionError("litellm.as_guardrail", "unguarded", name, allowed)
    host = Host(GUARDRAIL_SUPPORT, processors, **options)
    made = type("Guardrail", (GuardrailOfProxy,), {"host": host, "unguarded": frozenset(unguarded)})
    return cast("type[GuardrailOfProxy]", made)


class GuardrailOfProxy(CustomGuardrail):
    """A guardrail of LiteLLM's proxy. Made by `as_guardrail`; the proxy makes one instance of the class.

    Attributes:
        host: the processors.
        unguarded: the calls that pass unread.
    """

    host: ClassVar[Host]
    unguarded: ClassVar[frozenset[str]]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Give each class hooks of its own: LiteLLM finds only those that the class itself has."""
        super().__init_subclass__(**kwargs)
        for name in _HOOKS:
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))

    def __init__(
        self, guardrail_name: str | None = None, event_hook: object = None, *, default_on: bool = True, **kwargs: object
    ) -> None:
        """Take the proxy's configuration.

        Args:
            guardrail_name: the name, with which requests can ask for the guardrail.
            event_hook: the modes; both ``pre_call`` and ``post_call``.
            default_on: whether it runs in every request.
            kwargs: LiteLLM's further parameters.

        Raises:
            UsageError: the modes, or other parameters, would let something pass unread.
        """
        modes: object = ["pre_call", "post_call"] if event_hook is None else event_hook
        said = {str(getattr(mode, "value", mode)) for mode in (modes if is_array(modes) else [modes])}
        if said != set(_MODES):
            raise UsageError(
                f"the guardrail needs mode: [pre_call, post_call], not {', '.join(sorted(said))}: with one of them "
                "alone, requests or answers would pass unread"
            )
        for name in ("run_in_parallel", "scan_raw_request"):
            if kwargs.get(name):
                raise UsageError(f"the guardrail cannot have {name}: LiteLLM would drop what guards have changed")
        super().__init__(
            guardrail_name=guardrail_name or self.host.name, event_hook=modes, default_on=default_on, **kwargs
        )
        self._key = f"penstock_{uuid4().hex}"
        self._open: dict[str, ProxyExchange | None] = {}
        self._begun: set[str] = set()
        """The tokens of requests that were checked, until their tasks end: LiteLLM may call a model again."""

    # LiteLLM's hooks

    async def async_pre_call_hook(self, user_api_key_dict: object, cache: object, data: Json, call_type: str) -> Json:
        """Check a request before the model is called.

        Raises:
            RefusalError: a guard stopped the request, or nobody can read it.
        """
        with refused_as(RequestRefusedError):
            await self._note(data, await self._checked(data, call_type))
        return data

    async def _checked(self, data: Json, call_type: str) -> ProxyExchange | None:
        """Check a request; return what waits for its answer, None if that holds no text."""
        if call_type in _COMPLETIONS:
            exchange = ProxyExchange(self.host, data)
            await exchange.begin()
            return exchange
        if call_type in self.unguarded:
            return None
        if call_type in _INPUTS:
            await check_input(self.host, data)
            return None
        raise RefusalError(f"{_READS}; it cannot read {call_type} requests.", code="unguarded_call")

    async def async_post_call_success_hook(self, data: Json, user_api_key_dict: object, response: object) -> object:
        """Check an answer that is not streamed.

        Raises:
            RefusalError: a guard stopped the request.
        """
        with refused_as(RequestRefusedError):
            exchange = self._take(data)
            return response if exchange is None else await exchange.whole(response)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: object, response: AsyncIterable[object], request_data: Json
    ) -> AsyncGenerator[object]:
        """Yield the pieces of an answer as the guards release them.

        Raises:
            RefusalError: a guard stopped the request.
        """
        with refused_as(StreamRefusedError):
            exchange = self._take(request_data)
            async with aclosing(_given(response) if exchange is None else exchange.pieces(response)) as pieces:
                async for piece in pieces:
                    yield piece

    async def async_post_call_failure_hook(
        self, request_data: Json, original_exception: Exception, user_api_key_dict: object, traceback_str: object = None
    ) -> None:
        """Tell the processors of an error of the model, and end the request."""
        exchange = self._open.pop(self._token(request_data), None)
        if exchange is not None:
            await exchange.fail(original_exception)

    async def async_pre_call_deployment_hook(self, kwargs: Json, call_type: object) -> Json:
        """Refuse a call whose request was not checked: there, nobody would read the answer.

        Raises:
            UsageError: ``litellm.acompletion(…, guardrails=[…])`` names the guardrail.
            RefusalError: LiteLLM's proxy calls no guardrail where the request came in.
        """
        if self._token(kwargs) in self._begun or str(getattr(call_type, "value", call_type)) in self.unguarded:
            return kwargs
        if is_object(kwargs.get("proxy_server_request")):
            if self.should_run_guardrail(kwargs, PRE_CALL):
                with refused_as(RequestRefusedError):
                    raise RefusalError(f"{_READS}; LiteLLM calls no guard at this endpoint.", code="unguarded_call")
            return kwargs
        asked = kwargs.get("guardrails")
        if is_array(asked) and self.guardrail_name in asked:
            raise UsageError(
                f"the guardrail {self.guardrail_name} runs in LiteLLM's proxy only; in code that calls LiteLLM itself, "
                "use as_completion(…)"
            )
        return kwargs

    async def async_post_call_success_deployment_hook(
        self, request_data: Json, response: object, call_type: object
    ) -> None:
        """Do nothing: the proxy calls the other hook."""

    # The requests that wait for their answers

    async def _note(self, data: Json, exchange: ProxyExchange | None) -> None:
        before = self._open.pop(self._token(data), None)
        if before is not None:  # LiteLLM tries the request again, for another model
            await before.close()
        token = uuid4().hex
        self._open[token] = exchange
        self._begun.add(token)
        place = "litellm_metadata" if is_object(data.get("litellm_metadata")) else "metadata"
        if not is_object(data.get(place)):
            data[place] = {}
        data[place][self._key] = token

        async def forget() -> None:
            self._begun.discard(token)
            left = self._open.pop(token, None)
            if left is not None:
                await left.close()

        when_task_ends(forget)

    def _token(self, data: Json) -> str:
        for place in ("litellm_metadata", "metadata"):
            found = data.get(place)
            if is_object(found) and self._key in found:
                return str(found[self._key])
        return ""

    def _take(self, data: Json) -> ProxyExchange | None:
        """Return the exchange of a request; None for one whose answer holds no text.

        Raises:
            RefusalError: the request was not checked.
        """
        token = self._token(data)
        if token not in self._open:
            log.error("%s: an answer came whose request was not checked", self.guardrail_name)
            raise failed()
        return self._open.pop(token)


_HOOKS = tuple(name for name in vars(GuardrailOfProxy) if name.startswith("async_"))


async def _given(items: AsyncIterable[object]) -> AsyncGenerator[object]:
    async for item in items:
        yield item


class ProxyExchange:
    """One chat completion of the proxy: a request, and its answer.

    Its methods raise a `RefusalError` if a guard stopped the request.

    Raises:
        RefusalError: the request asks for what guards cannot read.
    """

    name = "litellm"

    def __init__(self, host: Host, data: Json) -> None:
        self._data = data
        self._request = host.open()
        try:
            self._called = Called(data, LiteLLMMessages(self._request), from_client=True)
        except UsageError as error:
            raise RefusalError(str(error), code="unguarded_call") from error
        self._reader = LiteLLMAnswerReader()
        self._failure: BaseException | None = None
        self._outside: OutsideCall | None = None
        self._answered = False

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        raise NotImplementedError("the proxy calls the model")

    async def begin(self) -> None:
        """Run the stages before the model is called, and write the guarded version into the request."""
        with self._refusals():
            try:
                asked = await self._prepared()
                self._request.check()
            except BaseException as failure:
                await self.close(failure)
                raise
        if asked is None:  # a processor has answered: LiteLLM makes an answer up, which nobody reads
            self._data |= {"mock_response": "answered by a processor", "cache": {"no-cache": True, "no-store": True}}
            return
        left = self._called.left(asked)
        for name in self._data.keys() - left.keys():
            del self._data[name]
        self._data.update(left)

    async def _prepared(self) -> ModelRequest | None:
        messages = await with_checked_results(self._request, self._data.get("messages"), frozenset())
        self._called.given = {**self._data, "messages": messages}
        outside = self._outside = self._request.outside_call(self._called.call(self))
        asked = await outside.prepared()
        self._answered = asked is None
        return asked

    async def whole(self, response: object) -> object:
        """Return a response as the guards left it."""
        with self._refusals():
            try:
                async with aclosing(self._answers(_one(response))) as chunks:
                    async for _ in chunks:
                        pass
                self._request.check()
                self._called.refuse_answered(self._answer)
                made, _ = response_of(self._answer, self._reader, self._request, 1)
            except BaseException as failure:
                await self.close(failure)
                raise
        await self.close()
        return made

    async def pieces(self, response: AsyncIterable[object]) -> AsyncGenerator[object]:
        """Yield the pieces of an answer as the guards release them."""
        writer = LiteLLMStreamWriter(self._called.model)
        with self._refusals():
            try:
                async with aclosing(self._answers(response)) as chunks:
                    async for chunk in chunks:
                        for piece in writer.pieces(chunk, self._reader):
                            yield piece
                self._request.check()
                self._called.refuse_answered(self._answer)
                pieces, _ = writer.rest(self._answer, self._reader, self._request, 1)
                for piece in pieces:
                    yield piece
            except BaseException as failure:
                await self.close(failure)
                raise
        await self.close()

    @property
    def _answer(self) -> Message:
        return self._request.answer or Message("assistant")

    def _answers(self, response: AsyncIterable[object]) -> AsyncGenerator[Chunk]:
        if self._outside is None:
            raise UsageError("the request has not begun")
        return self._outside.answers(None if self._answered else self._chunks(response))

    async def _chunks(self, response: AsyncIterable[object]) -> AsyncGenerator[Chunk]:
        try:
            async for piece in response:
                for chunk in self._reader.read(piece):
                    yield chunk
        except Exception as error:
            self._failure = error
            raise
        for chunk in self._reader.end():
            yield chunk

    async def fail(self, error: Exception) -> None:
        """Tell the processors of an error of the model."""
        try:
            async with aclosing(self._answers(_raising(error))) as chunks:
                async for _ in chunks:
                    pass
        except Exception as raised:  # noqa: BLE001 - LiteLLM goes on with the error of the model
            if raised is not error:
                said = without_text(raised)
                log.warning("litellm.as_guardrail: processors failed at an error of the model with %s", said)
        await self.close(error)

    async def close(self, error: BaseException | None = None) -> None:
        """End the request, also where the client's going away cancels each wait."""
        with CancelScope(shield=True):
            if self._outside is not None:
                await self._outside.close()
            await self._request.close(error)

    @contextmanager
    def _refusals(self) -> Generator[None]:
        """Raise verdicts and failures of guards as the errors that the client gets; errors of the model as they are."""
        try:
            yield
        except BlockedError as error:
            raise blocked(error.tripwire) from error
        except MessageError as error:
            raise RefusalError(str(error), code="malformed_messages") from error
        except Exception as error:
            if error is self._failure or isinstance(error, RefusalError):
                raise
            log.error("litellm.as_guardrail: a guard failed with %s", without_text(error))
            raise failed() from error


async def _one(item: object) -> AsyncGenerator[object]:
    yield item


async def _raising(error: Exception | None) -> AsyncGenerator[object]:
    if error is not None:
        raise error
    yield None


async def check_input(host: Host, data: Json) -> None:
    """Check the texts of an embedding or a moderation, and write the guarded version of them into the request.

    Raises:
        RefusalError: a guard stopped the request, or the input is no text.
    """
    given: Value = data.get("input")
    texts: list[Value] = [given] if isinstance(given, str) else list(given) if is_array(given) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise RefusalError("A guard reads texts; send the input as a text, or a list of texts.", code="unguarded_call")
    said = [Message.user(text) for text in texts]
    try:
        async with host.open() as request:
            await request.begin(said)
            request.check()
            left = [message.text if message is not None else "" for message in request.current(said)]
    except BlockedError as error:
        raise blocked(error.tripwire) from error
    except Exception as failure:
        log.error("litellm.as_guardrail: a guard failed with %s", without_text(failure))
        raise failed() from failure
    data["input"] = left[0] if isinstance(given, str) else left
