"""`OpenAICompatibleModel`: chat completions of OpenAI, and of all who speak like it; it knows no agent and no graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.answers import collected
from penstock.engine.values.errors import MessageError, OptionError
from penstock.engine.values.frozen import FrozenDict, freeze
from penstock.engine.values.model import ModelRequest
from penstock.models.openai.answers import chunks_of
from penstock.models.openai.connected import Connected
from penstock.models.openai.http import USUAL, TimeLimits
from penstock.models.openai.place import Reach
from penstock.models.openai.reading import AnswerReader
from penstock.models.openai.requests import body_of
from penstock.models.openai.sse import MOST_OF_AN_EVENT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    import httpx

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.model import ModelAnswer
    from penstock.models.openai.wire import Json
    from penstock.models.providers import Provider


class OpenAICompatibleModel(Connected):
    """A model that is asked by chat completions. It keeps its connections until it is closed (``async with``).

    Needs the extra ``openai``. Safe to share between tasks; each event loop has connections of its own.

    Attributes:
        name: what it is called, for people: ``openai/gpt-5``.
        model: what the provider calls it: ``gpt-5``.
        provider: who offers it, and what is special there.
    """

    __slots__ = ("_largest", "_settings", "_stream", "_think_tags")

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str | Provider | None = None,
        settings: Values | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout: float | TimeLimits | None = None,
        stream: bool = True,
        think_tags: bool = False,
        proxy: str | None = None,
        verify: bool = True,
        most_of_an_event: int = MOST_OF_AN_EVENT,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """Find the place of a model.

        Args:
            name: ``<provider>/<model>``; with a base URL or a provider, the model as that one calls it.
            base_url: the address before ``/chat/completions``; None: the provider's.
            api_key: the key; None: the one in the environment, in the variable that the provider's documents name.
            provider: whose ways to follow at a base URL of one's own; None: nothing special.
            settings: what every request is asked with, where it says nothing else.
            headers: what goes with every request besides, such as ``HTTP-Referer``.
            query: what every address ends in, such as ``api-version``; for no secrets: addresses are logged.
            timeout: for how many seconds to wait for a whole answer, or all limits; None: the usual ones.
            stream: whether answers are asked for in pieces; one that comes whole is read either way.
            think_tags: whether an answer that begins with ``<think>`` begins with a thought, not with text.
            proxy: a proxy's address; None: as the environment says (``HTTPS_PROXY`` …).
            verify: whether certificates are checked.
            most_of_an_event: how many bytes one event of a stream, or an answer that comes whole, may have.
            client: an httpx client to use; it is left open.

        Raises:
            OptionError: the provider is not known, there is no key, or an option cannot be.
            MissingExtraError: the extra is not installed.
        """
        what = type(self).__name__
        if most_of_an_event < 1:
            raise OptionError(what, "most_of_an_event", most_of_an_event, "a number of bytes, 1 or more")
        limits = _limits(what, timeout)
        reach = Reach(provider, base_url, api_key, headers, query, limits, proxy, verify, client)
        super().__init__(name, reach)
        self._settings: Values = freeze(settings or {})
        self._stream = stream
        self._think_tags = think_tags
        self._largest = most_of_an_event

    @property
    def identity(self) -> Values:
        """What tells it apart from others of its name: its address, and how it is asked. It holds no key."""
        return FrozenDict(url=self._http.place.url, settings=self._settings, think_tags=self._think_tags)

    def body(self, request: ModelRequest) -> Json:
        """Return what would be sent for a request: the body alone, no headers.

        Raises:
            MessageError: a tool's arguments or result are no JSON values.
            UsageError: a tool is to be called that is not among the tools.
        """
        merged = FrozenDict({**self._settings, **request.settings})
        asked = ModelRequest(
            request.messages,
            request.tools,
            request.tool_choice,
            merged,
            request.response_format,
            request.provider_options,
        )
        return body_of(asked, self.model, self.provider, stream=self._stream)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield the answer, chunk by chunk; closing it (``aclose``) closes the connection.

        Raises:
            ModelError: it could not be asked, said no, or broke off.
            MessageError: a tool's arguments or result are no JSON values.
            UsageError: a tool is to be called that is not among the tools.
        """
        http = self._http
        deadline = http.deadline(request.settings.get("timeout", self._settings.get("timeout")))
        async with http.answer("chat/completions", self.body(request), deadline) as answer:
            chunks = chunks_of(answer, deadline, http.failures, self._reader(), self._largest)
            try:
                async for chunk in chunks:
                    yield chunk
            except MessageError as error:
                raise http.failures.made(f"the answer is malformed: {error}", status=answer.status_code) from error
            finally:
                await chunks.aclose()

    def _reader(self) -> AnswerReader:
        return AnswerReader(think_tags=self._think_tags)

    async def ask(self, request: ModelRequest | str) -> ModelAnswer:
        """Return the whole answer; a str is what the user says.

        Raises:
            ModelError: it could not be asked, said no, or broke off.
        """
        asked = ModelRequest(request) if isinstance(request, str) else request  # type: ignore[arg-type]
        return await collected(self.stream(asked))


def _limits(what: str, timeout: float | TimeLimits | None) -> TimeLimits:
    if isinstance(timeout, TimeLimits):
        return timeout
    if timeout is None:
        return USUAL
    if not timeout > 0:
        raise OptionError(what, "timeout", timeout, "a number of seconds above 0, or TimeLimits")
    return TimeLimits(whole=float(timeout))
