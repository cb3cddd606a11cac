"""`as_guardrail`: a workflow as a guardrail of LiteLLM's proxy."""

from __future__ import annotations

from contextlib import aclosing
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, cast
from uuid import uuid4

from penstock.engine.execution.boundary import log
from penstock.engine.values.errors import OptionError, UsageError
from penstock.formats.wire import is_array, is_object
from penstock.workflows.adapters.litellm.exchange import ProxyExchange, check_input
from penstock.workflows.adapters.litellm.theirs import PRE_CALL, CustomGuardrail, types
from penstock.workflows.adapters.litellm.verdicts import (
    RefusalError,
    RequestRefusedError,
    StreamRefusedError,
    failed,
    refused_as,
)
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.tasks import when_task_ends

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Collection

    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json
    from penstock.workflows.hosting import HostOptions

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
