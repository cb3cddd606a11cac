"""`OpenAICompatibleModel`: chat completions by OpenAI's protocol; `model`: a model by its name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import anyio

from penstock.engine.values.answer_builder import collected
from penstock.engine.values.errors import MessageError, ModelError, OptionError
from penstock.engine.values.frozen import FrozenDict, freeze, is_mapping
from penstock.engine.values.model import ModelRequest
from penstock.engine.values.terms import is_code
from penstock.models.openai.failures import MOST_OF_A_FAILURE, is_failure, kept_headers, refused_field
from penstock.models.openai.http import (
    USUAL,
    EndpointClient,
    EndpointOptions,
    TimeLimits,
    close_pieces,
    is_broken,
    raw_pieces,
)
from penstock.models.openai.reading import AUDIO_TYPES, AnswerReader, ThinkTagMode, is_answer
from penstock.models.openai.requests import KNOWN_KEYS, SystemRole, body_of
from penstock.models.openai.unpacking import UnpackingError
from penstock.models.openai.wire import (
    MOST_OF_AN_ANSWER,
    MOST_OF_AN_EVENT,
    EventTooLongError,
    SSEReader,
    object_of,
    objects_of,
    parsed,
    says,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping

    import httpx

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelAnswer
    from penstock.engine.values.protocols import Model
    from penstock.models.openai.failures import Failures
    from penstock.models.openai.http import ApiKey, Deadline, Http
    from penstock.models.openai.providers import Provider
    from penstock.models.openai.unpacking import Unpacker
    from penstock.models.openai.wire import Json


_DONE = "[DONE]"
_SERVERS = frozenset({"server", "via"})  # headers with names and addresses of servers, which are of use in errors only
_LINGERING_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """The largest answers that are read, in bytes, after they were unpacked.

    Attributes:
        event: the largest event of a stream, or answer that is not streamed.
        answer: the largest answer, all of its events together.
    """

    event: int = MOST_OF_AN_EVENT
    answer: int = MOST_OF_AN_ANSWER


async def chunks_of(
    answer: httpx.Response, deadline: Deadline, http: Http, reader: AnswerReader, limits: SizeLimits
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of an HTTP answer: a stream of events, or one JSON object.

    Args:
        answer: the answer, whose body is not read yet.
        deadline: when it must be complete.
        http: what requested it; it unpacks the answer, and makes the errors.
        reader: makes the chunks.
        limits: the largest event, and the largest answer.

    Raises:
        ModelError: the answer is an error, is too large, or broke off before its finish reason.
        MessageError: it is malformed.
    """
    reading = _BodyReader(answer, http.failures, reader, limits)
    unpacker = http.unpacker(answer)
    pieces = raw_pieces(answer)
    try:
        while not reading.done:
            try:
                packed = await deadline.keep(anext(pieces))
            except StopAsyncIteration:
                break
            except ModelError as error:
                if (reader.complete and is_broken(error)) or (reading.is_failure and reading.rest):
                    break  # nothing of the answer is lost; of an error, the part that arrived says more
                raise
            for chunk in reading.unpack(unpacker, packed):
                yield chunk
        for chunk in reading.end():
            yield chunk
        # The few bytes after the end: with them read, the connection can be used again.
        with anyio.move_on_after(_LINGERING_SECONDS), suppress(Exception):
            async for _ in pieces:
                pass
    finally:
        await close_pieces(answer, pieces)


class _BodyReader:
    """Reads one body. Its status and content type tell its kind, or else its first characters.

    Attributes:
        done: whether no more of the body is needed.
        is_failure: whether the status is an error.
        rest: the bytes of a body that is not a stream of events.
    """

    __slots__ = (
        "_answer",
        "_events",
        "_failures",
        "_left",
        "_limits",
        "_reader",
        "_told",
        "done",
        "is_failure",
        "rest",
    )

    def __init__(self, answer: httpx.Response, failures: Failures, reader: AnswerReader, limits: SizeLimits) -> None:
        self._answer = answer
        self._failures = failures
        self._limits = limits
        self._left = limits.answer
        self._reader = reader
        self.is_failure = is_failure(answer.status_code)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._events = SSEReader(limits.event) if kind == "text/event-stream" and not self.is_failure else None
        self._told = False
        self.done = False
        self.rest = bytearray()

    def unpack(self, unpacker: Unpacker, packed: bytes) -> Iterator[Chunk]:
        """Yield the chunks that a piece of the body completes, as it came over the wire.

        Raises:
            ModelError: the piece is broken, or the answer is too large.
        """
        try:
            for piece in unpacker.feed(packed):
                yield from self._feed(piece)
                if self.done:
                    return
        except UnpackingError as error:
            raise self._failed(error.problem) from error

    def _feed(self, piece: bytes) -> Iterator[Chunk]:
        self._left -= len(piece)
        if self._left < 0 and not self.is_failure:
            raise self._failed(f"the answer has more than {self._limits.answer} bytes; most_of_an_answer= allows more")
        if not self._told:
            start = piece.strip()
            self._told = bool(start)
            if start.startswith(b"{"):
                self._events = None  # usually an error: the server promised a stream and could not start it
        if self._events is not None:
            yield from self._events_in(self._events, piece)
            return
        self.rest += piece
        if self.is_failure:
            self.done = len(self.rest) >= MOST_OF_A_FAILURE
        elif len(self.rest) > self._limits.event:
            raise self._failed(f"the answer has more than {self._limits.event} bytes; most_of_an_event= allows more")
        elif _looks_like_events(self.rest):
            self._events = SSEReader(self._limits.event)
            piece = bytes(self.rest)
            self.rest.clear()
            yield from self._events_in(self._events, piece)

    def _events_in(self, events: SSEReader, piece: bytes) -> Iterator[Chunk]:
        try:
            for event in events.feed(piece):
                data = event.data.strip()
                if data == _DONE:
                    self.done = True
                    return
                if data:
                    item = parsed(data)
                    if not is_mapping(item):
                        problem = "the stream holds something that is not a JSON object"
                        raise self._failed(problem, data, retryable=True)
                    yield from self._item(item, data, failed=event.event == "error")
        except EventTooLongError as error:
            raise self._failed(f"{error}; most_of_an_event= allows more") from error

    def _item(self, item: Json, data: str, *, failed: bool = False) -> list[Chunk]:
        found = _error_in(item)
        if found is None and failed and says(item):
            found = item
        if found is not None:
            answer = self._answer
            raise self._failures.of_error(answer.status_code, answer.headers, data, found)
        chunks = self._reader.read(item)
        if chunks and chunks[0].type == "response-metadata":  # it gets request ids, and remaining rate limits
            given = {name: self._failures.hidden(value) for name, value in kept_headers(self._answer.headers).items()}
            kept = {name: value for name, value in given.items() if name not in _SERVERS and is_code(value)}
            chunks[0] = chunks[0].with_payload(freeze({**chunks[0].payload, "provider_headers": kept}))
        return chunks

    def end(self) -> Iterator[Chunk]:
        """Yield the remaining chunks when the body has ended.

        Raises:
            ModelError: the answer is not complete.
        """
        if self.is_failure:
            text = self.rest.decode("utf-8", "replace")
            status, headers = self._answer.status_code, self._answer.headers
            raise self._failures.of_status(status, headers, text, parsed(text))
        if self._events is None:
            yield from self._whole(self.rest.decode("utf-8-sig", "replace"))
        elif not (self.done or self._reader.complete):
            raise self._failed("the stream ended before the answer was complete", retryable=True)
        if not self._reader.begun:
            raise self._failed("the answer is empty: it has no choices", retryable=True)
        yield from self._reader.end(done=self.done)

    def _whole(self, text: str) -> Iterator[Chunk]:
        item = parsed(text)
        if not is_mapping(item):
            raise self._failed("the answer is neither JSON nor an event stream", text, retryable=not text.strip())
        if not is_answer(item) and _error_in(item) is None:
            raise self._failed("the answer is not a chat completion; check the address", text)
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
    """Whether a body without the content type of a stream begins like one."""
    start = bytes(body[:64]).lstrip(b"\xef\xbb\xbf\r\n ")
    return start.startswith((b"data:", b"event:", b"id:", b": "))


class OpenAICompatibleModel(EndpointClient):
    """A model that is asked through chat completions.

    Needs the extra ``openai``. Tasks can share it; each event loop has its own connections, which stay open until the
    model is closed (``aclose``, or ``async with``).

    Attributes:
        name: the provider and the model, for people and records: ``openai/gpt-5``.
        model: the provider's name of the model: ``gpt-5``.
        provider: the provider, and its peculiarities.
    """

    __slots__ = ("_client_keys", "_limits", "_refused", "_settings", "_stream", "_system_role", "_think_tags")

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        provider: str | Provider | None = None,
        settings: Values | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout: float | TimeLimits | None = None,
        stream: bool = True,
        think_tags: bool | ThinkTagMode = False,
        system_role: SystemRole = "system",
        proxy: str | None = None,
        verify: bool = True,
        most_of_an_event: int = MOST_OF_AN_EVENT,
        most_of_an_answer: int = MOST_OF_AN_ANSWER,
        client_keys: Iterable[str] = (),
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """Find the provider, its address and the key.

        Args:
            name: ``<provider>/<model>``; if ``base_url`` or ``provider`` is given, the model's name alone.
            base_url: the address before ``/chat/completions``; None: the provider's.
            api_key: the key, or a function, sync or async, that returns it and is called before each request; None: the
                one in the environment, in the variable that the provider's documentation names.
            provider: the provider whose rules apply to your own base URL; None: no special rules.
            settings: settings of every request, such as ``temperature``; those of a request win.
            headers: further headers of every request, such as ``HTTP-Referer``. Those of one request are its setting
                ``extra_headers``.
            query: the query of every address, such as ``api-version``. Put no secrets here: addresses are logged.
            timeout: the seconds to wait for a whole answer, above 0, or `TimeLimits`; None: 10 seconds for a
                connection, 120 between two pieces of an answer.
            stream: whether answers are requested as streams. An answer that comes as a whole is read in either case. A
                model that cannot stream is asked for whole answers once it has refused a stream.
            think_tags: whether reasoning between ``<think>`` and ``</think>`` at the start of the text is reasoning
                instead of text. True (``closed``): also if only the closing tag comes, because the prompt's template
                ends with the opening one; a text without a tag is then held until the answer ends. ``opened``: the
                answer begins with reasoning in any case. ``tagged``: only behind an opening tag; nothing is held.
            system_role: the role of system messages in requests: ``system`` (the default) or ``developer``.
            proxy: the address of a proxy; None: as the environment says (``HTTPS_PROXY`` …).
            verify: whether TLS certificates are checked.
            most_of_an_event: the largest event of a stream, or answer that is not streamed, in bytes, 1 or more.
                Default: 32 MiB.
            most_of_an_answer: the largest answer, all of its events together, in bytes, 1 or more. Default: 128 MiB.
            client_keys: keys beyond the protocol that are sent on if a client's messages, or their parts, have them.
                Those that providers define are, such as ``cache_control``; others are left out.
            client: an httpx client to use. It is not closed with the model.

        Raises:
            OptionError: the provider is unknown, the key is missing, or an option has a value that is not allowed.
            MissingExtraError: the extra ``openai`` is not installed.
        """
        what = type(self).__name__
        for option, most in (("most_of_an_event", most_of_an_event), ("most_of_an_answer", most_of_an_answer)):
            if most < 1:
                raise OptionError(what, option, most, "a number of bytes, 1 or more")
        for option, chosen, known in (
            ("think_tags", think_tags, (False, True, *get_args(ThinkTagMode))),
            ("system_role", system_role, get_args(SystemRole)),
        ):
            if chosen not in known:
                raise OptionError(what, option, chosen, f"one of {', '.join(map(repr, known))}")
        limits = _limits(what, timeout)
        reach = EndpointOptions(provider, base_url, api_key, headers, query, limits, proxy, verify, client)
        super().__init__(name, reach)
        self._settings: Values = freeze(settings or {})
        self._stream = stream
        self._think_tags: bool | ThinkTagMode = think_tags
        self._system_role: SystemRole = system_role
        self._limits = SizeLimits(most_of_an_event, most_of_an_answer)
        self._client_keys = KNOWN_KEYS | set(client_keys)
        self._refused: set[str] = set()

    @property
    def identity(self) -> Values:
        """The address and the settings, which distinguish models of one name. It holds no key."""
        shown = FrozenDict({name: value for name, value in self._settings.items() if name != "extra_headers"})
        return FrozenDict(url=self._http.place.url, settings=shown, think_tags=self._think_tags)

    def body(self, request: ModelRequest) -> Json:
        """Return the body of a request, without headers.

        Raises:
            MessageError: the arguments or the result of a tool call are not JSON values.
            UsageError: ``tool_choice`` names a tool that is not among the tools, or ``n`` asks for several answers.
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
        streamed = self._stream and "stream" not in self._refused
        body = body_of(
            asked,
            self.model,
            self.provider,
            stream=streamed,
            client_keys=self._client_keys,
            system_role=self._system_role,
        )
        return {name: value for name, value in body.items() if name not in self._refused - {"stream"}}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Yield the answer, chunk by chunk. Closing the generator (``aclose``) closes the connection.

        Raises:
            ModelError: the request failed, was refused, or the answer broke off.
            MessageError: the arguments or the result of a tool call are not JSON values.
            OptionError: the setting ``extra_headers`` has a header that cannot be sent.
            UsageError: ``tool_choice`` names a tool that is not among the tools, or ``n`` asks for several answers.
        """
        begun = False
        while not begun:
            known = set(self._refused)
            chunks = self._answered(request)
            try:
                async for chunk in chunks:
                    begun = True
                    yield chunk
            except ModelError as error:
                refused = refused_field(error, _STREAM_FIELDS) if self._stream and not begun else None
                if refused is None or refused in known:
                    raise
                self._refused.add(refused)
            finally:
                await chunks.aclose()

    async def _answered(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        http = self._http
        settings = {**self._settings, **request.settings}
        deadline = http.deadline(settings.get("timeout"))
        body = self.body(request)
        async with http.answer("chat/completions", body, deadline, settings.get("extra_headers")) as answer:
            sound = AUDIO_TYPES.get(text_of(object_of(body.get("audio")).get("format")), "audio/wav")
            reader = AnswerReader(audio_type=sound, think_tags=self._think_tags)
            chunks = chunks_of(answer, deadline, http, reader, self._limits)
            try:
                async for chunk in chunks:
                    yield chunk
            except (MessageError, RecursionError) as error:
                told = error if isinstance(error, MessageError) else "it is nested too deeply"
                raise http.failures.made(f"the answer is malformed: {told}", status=answer.status_code) from error
            finally:
                await chunks.aclose()

    async def ask(self, request: ModelRequest | str) -> ModelAnswer:
        """Return the whole answer to a request; a str is one user message.

        Raises:
            ModelError: the request failed, was refused, or the answer broke off.
        """
        asked = ModelRequest(request) if isinstance(request, str) else request  # type: ignore[arg-type]
        return await collected(self.stream(asked))


_STREAM_FIELDS = ("stream", "stream_options")
"""The fields of a request for a stream that some models refuse. Such a request is made again without them."""


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

    Args:
        name: ``<provider>/<model>``; a model is returned unchanged.
        options: the options of `OpenAICompatibleModel`.

    Raises:
        OptionError: the provider is unknown, the key is missing, or an option has a value that is not allowed.
        MissingExtraError: the extra ``openai`` is not installed.
    """
    return OpenAICompatibleModel(name, **options) if isinstance(name, str) else name
