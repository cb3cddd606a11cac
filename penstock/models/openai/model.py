"""`OpenAICompatibleModel`: chat completions of OpenAI, and of all who speak like it; it knows no agent and no graph."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

import anyio

from penstock.engine.values.answers import collected
from penstock.engine.values.errors import MessageError, ModelError, OptionError
from penstock.engine.values.frozen import FrozenDict, freeze, is_mapping
from penstock.engine.values.model import ModelRequest
from penstock.models.openai.failures import is_failure, kept_headers
from penstock.models.openai.http import USUAL, EndpointClient, EndpointOptions, TimeLimits
from penstock.models.openai.reading import AnswerReader, is_answer
from penstock.models.openai.requests import body_of
from penstock.models.openai.wire import MOST_OF_AN_EVENT, EventTooLongError, SSEReader, objects_of, parsed, says

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    import httpx

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelAnswer
    from penstock.engine.values.ports import Model
    from penstock.models.openai.failures import Failures
    from penstock.models.openai.http import Deadline
    from penstock.models.openai.providers import Provider
    from penstock.models.openai.wire import Json


_MOST_OF_A_FAILURE = 64 * 1024
_DONE = "[DONE]"
_LINGERING_SECONDS, _CLOSING_SECONDS = 0.25, 2.0


async def chunks_of(
    answer: httpx.Response, deadline: Deadline, failures: Failures, reader: AnswerReader, largest: int
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of an answer, as a reader makes them; no event, and no whole answer, may be larger.

    Raises:
        ModelError: it is none, or broke off.
        MessageError: it is malformed.
    """
    reading = _BodyReader(answer, failures, reader, largest)
    pieces = cast("AsyncGenerator[bytes, None]", answer.aiter_bytes())
    try:
        while not reading.done:
            try:
                piece = await deadline.keep(anext(pieces))
            except StopAsyncIteration:
                break
            except ModelError:
                if reading.is_failure and reading.rest:
                    break  # what there is of it says more than that it broke off
                raise
            for chunk in reading.feed(piece):
                yield chunk
        for chunk in reading.end():
            yield chunk
        await _drained(pieces)
    finally:
        await _closed(answer, pieces)


async def _drained(pieces: AsyncGenerator[bytes, None]) -> None:
    """Read the few bytes behind the end, so that the connection can be used again; a server that lingers is left."""
    with anyio.move_on_after(_LINGERING_SECONDS), suppress(Exception):
        async for _ in pieces:
            pass


async def _closed(answer: httpx.Response, pieces: AsyncGenerator[bytes, None]) -> None:
    """Close the connection, and run the reading of it into its end: trio complains of generators that are left."""
    with anyio.move_on_after(_CLOSING_SECONDS, shield=True), suppress(Exception):
        await answer.aclose()
        async for _ in pieces:
            pass


class _BodyReader:
    """Reads one body. What it is, its status and type say; where they do not, its first characters.

    Attributes:
        done: whether nothing more is needed of the body.
    """

    __slots__ = ("_answer", "_events", "_failures", "_largest", "_reader", "_told", "done", "rest")

    def __init__(self, answer: httpx.Response, failures: Failures, reader: AnswerReader, largest: int) -> None:
        self._answer = answer
        self._failures = failures
        self._largest = largest
        self._reader = reader
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._events = SSEReader(largest) if kind == "text/event-stream" and not self.is_failure else None
        self._told = False
        self.done = False
        self.rest = bytearray()

    @property
    def is_failure(self) -> bool:
        """Whether the status says that this is no answer."""
        return is_failure(self._answer.status_code)

    def feed(self, piece: bytes) -> Iterator[Chunk]:
        """Yield the chunks that a piece of the body brings."""
        if self._events is not None and not self._told and piece.strip().startswith(b"{"):
            self._events = None  # an error, mostly: a stream was promised, and could not be given
        self._told = self._told or bool(piece.strip())
        if self._events is not None:
            yield from self._events_in(self._events, piece)
            return
        self.rest += piece
        if self.is_failure:
            self.done = len(self.rest) >= _MOST_OF_A_FAILURE
        elif len(self.rest) > self._largest:
            raise self._failed(f"the answer has more than {self._largest} bytes")
        elif _looks_like_events(self.rest):
            self._events = SSEReader(self._largest)
            piece = bytes(self.rest)
            self.rest.clear()
            yield from self._events_in(self._events, piece)

    def _events_in(self, events: SSEReader, piece: bytes) -> Iterator[Chunk]:
        try:
            for event in events.feed(piece):
                if event.data.strip() == _DONE:
                    self.done = True
                    return
                yield from self._read(event.data, failed=event.event == "error")
        except EventTooLongError as error:
            raise self._failed(str(error)) from error

    def _read(self, data: str, *, failed: bool) -> Iterator[Chunk]:
        if not data.strip():
            return
        item = parsed(data)
        if not is_mapping(item):
            raise self._failed("the stream holds something that is no JSON object", data, retryable=True)
        yield from self._item(item if not failed or _error_in(item) is not None else {"error": item}, data)

    def _item(self, item: Json, data: str) -> Iterator[Chunk]:
        found = _error_in(item)
        if found is not None:
            answer = self._answer
            raise self._failures.of_error(answer.status_code, answer.headers, data, found)
        for chunk in self._reader.read(item):
            yield self._with_headers(chunk) if chunk.type == "response-metadata" else chunk

    def _with_headers(self, chunk: Chunk) -> Chunk:
        """Return the first chunk with the headers worth keeping: request ids, what is left of rate limits."""
        kept = {name: self._failures.hidden(value) for name, value in kept_headers(self._answer.headers).items()}
        return chunk.with_payload(freeze({**chunk.payload, "provider_headers": kept}))

    def end(self) -> Iterator[Chunk]:
        """Yield what is left when the body has ended.

        Raises:
            ModelError: it was no whole answer.
        """
        if self.is_failure:
            text = self.rest.decode("utf-8", "replace")
            status, headers = self._answer.status_code, self._answer.headers
            raise self._failures.of_status(status, headers, text, parsed(text))
        if self._events is None:
            yield from self._whole(self.rest.decode("utf-8-sig", "replace"))
        elif not (self.done or self._reader.complete):
            raise self._failed("the stream ended before the answer did", retryable=True)
        if not self._reader.begun:
            raise self._failed("the answer is empty: it has no choices", retryable=True)
        yield from self._reader.end()

    def _whole(self, text: str) -> Iterator[Chunk]:
        item = parsed(text)
        if not is_mapping(item):
            raise self._failed("the answer is neither JSON nor a stream of events", text, retryable=not text.strip())
        if not is_answer(item) and _error_in(item) is None:
            raise self._failed("the answer is no chat completion; is the address right?", text)
        yield from self._item(item, text)

    def _failed(self, problem: str, body: str = "", *, retryable: bool = False) -> ModelError:
        answer = self._answer
        return self._failures.made(
            problem, status=answer.status_code, headers=answer.headers, body=body, retryable=retryable
        )


def _error_in(item: Json) -> Value:
    """Return the error that a provider put into an answer; None if there is none."""
    if says(item.get("error")):
        return item["error"] if not isinstance(item["error"], str) else item
    for choice in objects_of(item.get("choices")):
        if says(choice.get("error")):
            return choice["error"]
    return None if item.get("object") != "error" else item


def _looks_like_events(body: bytearray) -> bool:
    """Whether a body without the type of a stream begins like one."""
    start = bytes(body[:64]).lstrip(b"\xef\xbb\xbf\r\n ")
    return start.startswith((b"data:", b"event:", b"id:", b": "))


class OpenAICompatibleModel(EndpointClient):
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
        reach = EndpointOptions(provider, base_url, api_key, headers, query, limits, proxy, verify, client)
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


def model(name: str | Model, **options: Value) -> Model:
    """Return the model of a name such as ``openai/gpt-5`` or ``openrouter/openai/gpt-oss-safeguard-20b``.

    What is a model already is returned as it is. Options are those of `OpenAICompatibleModel`.

    Raises:
        OptionError: the provider is not known, no key is there, or an option cannot be.
        MissingExtraError: the extra ``openai`` is not installed.
    """
    return OpenAICompatibleModel(name, **options) if isinstance(name, str) else name
