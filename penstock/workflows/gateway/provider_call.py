"""`ProviderCall`: the call of the provider behind an exchange, again where error processors say so, and its errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import ModelError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.terms import is_word
from penstock.workflows.gateway.answer_reading import VALUES
from penstock.workflows.gateway.endpoints.endpoint import JSON_HEADERS
from penstock.workflows.gateway.http import HttpReply, UpstreamError
from penstock.workflows.gateway.json_text import read_json, write_json
from penstock.workflows.gateway.prompt import ProviderModel
from penstock.workflows.gateway.tables import is_term
from penstock.workflows.gateway.verdict_replies import StoppedError, failures

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value
    from penstock.workflows.gateway.ended import Ended
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint
    from penstock.workflows.gateway.http import Headers, HttpRequest, Upstream, UpstreamReply
    from penstock.workflows.gateway.prompt import Prompt
    from penstock.workflows.gateway.verdict_replies import VerdictReplies

ERROR = 400
"""The least status of an error."""

_MOST_BYTES = 64 * 2**20


class ProviderCall:
    """The call of a provider in one exchange. Lives as long as it, and is ended with `end`."""

    def __init__(
        self, endpoint: Endpoint, request: HttpRequest, upstream: Upstream, replies: VerdictReplies, ended: Ended
    ) -> None:
        self._endpoint = endpoint
        self._request = request
        self._upstream = upstream
        self._replies = replies
        self._ended = ended
        self._sending: AbstractAsyncContextManager[UpstreamReply] | None = None

    async def end(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """End the provider's answer, however far it came."""
        sending, self._sending = self._sending, None
        if sending is not None:
            await sending.__aexit__(kind, error, trace)

    async def reply(self, run: Run, prompt: Prompt) -> UpstreamReply:
        """Ask the provider, again where error processors say so; return its reply."""
        reply: UpstreamReply | None = None
        while True:
            body = prompt.written()
            sending = self._upstream.send(
                self._request if body is self._request.body else self._request.with_body(body)
            )
            began = time.monotonic()
            try:
                reply = await sending.__aenter__()
            except UpstreamError as error:
                failed: ModelError = _model_error(prompt.model, error)
                problem: UpstreamError | None = error
            else:
                self._sending = sending
                self._ended.upstream_seconds = time.monotonic() - began
                if reply.status < ERROR or not run.serves("process_api_error"):
                    return reply
                failed, problem = ModelError(prompt.model, "answered with an error", status=reply.status), None
            with failures():
                outcome = await run.process_api_error(failed, model=ProviderModel(prompt.model))
            if outcome.blocked and not outcome.retry_granted and outcome.tripwire is not None:
                raise StoppedError(self._replies.refusal(outcome.tripwire))
            if not outcome.retry_granted:
                if problem is None and reply is not None:
                    return reply
                raise self._replies.upstream_stopped(problem or UpstreamError("broken", "the provider sent no answer"))
            await self.end()
            if outcome.retry is not None and outcome.retry.after:
                await anyio.sleep(outcome.retry.after)

    async def error_reply(self, run: Run, reply: UpstreamReply) -> HttpReply:
        """Return an error of the provider, read by the guards like any value."""
        self._ended.status, self._ended.error = reply.status, "provider"
        try:
            body = await read_all(reply)
            value: Value = read_json(body)
        except (UpstreamError, ValueError, RecursionError):
            return self._endpoint.refused(
                reply.status, "provider_error", "the provider answered with an error", self._replies.headers()
            )
        left: Value = None
        with failures():
            async with run.process_output_chunks([Chunk(VALUES, payload=freeze({"data": value}))]) as chunks:
                async for chunk in chunks:
                    if chunk.type == VALUES:
                        left = thaw(chunk.payload["data"])
        if left is None:
            return self._endpoint.refused(
                reply.status, "provider_error", "the provider answered with an error", self._replies.headers()
            )
        headers = (*JSON_HEADERS, *self._replies.headers(), *passed_on(reply.headers))
        return HttpReply(reply.status, headers, body if left == value else write_json(left))


async def read_all(reply: UpstreamReply) -> bytes:
    """Return the body of a reply.

    Raises:
        UpstreamError: the provider breaks off, or sends too much.
    """
    pieces: list[bytes] = []
    size = 0
    given = reply.pieces()
    try:
        async for piece in given:
            size += len(piece)
            if size > _MOST_BYTES:
                raise UpstreamError("too_large", f"the answer of the provider is longer than {_MOST_BYTES} bytes")
            pieces.append(piece)
    finally:
        await given.aclose()
    return b"".join(pieces)


_PASSED_ON = ("retry-after", "x-request-id", "request-id", "openai-processing-ms")


def passed_on(headers: Headers) -> Headers:
    """Return the provider's headers that a client uses; without those that say more than a count, a time or an id."""
    return tuple(
        [
            (name, value)
            for name, value in headers
            if (name in _PASSED_ON or (name.startswith("x-ratelimit-") and is_word(name))) and is_term(value)
        ]
    )


def _model_error(model: str, error: UpstreamError) -> ModelError:
    return ModelError(model, str(error), code=error.kind, retry_after=error.retry_after, retryable=True)
