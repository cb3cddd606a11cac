"""`exchange`: one request through guards, provider and guards, and the reply for the client.

Nothing is logged here: who runs a gateway gets an `Ended` for each exchange.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from penstock.engine.tasks import Pace
from penstock.formats.wire import is_object
from penstock.workflows.gateway.answer import PatchedAnswer
from penstock.workflows.gateway.answer_calls import AnswerCalls
from penstock.workflows.gateway.claims import NotDecidedError
from penstock.workflows.gateway.ended import Ended
from penstock.workflows.gateway.endpoints.endpoint import JSON_HEADERS, STREAM_HEADERS
from penstock.workflows.gateway.frames import Frames
from penstock.workflows.gateway.http import HttpReply, StreamedBody, UpstreamError, header_of
from penstock.workflows.gateway.json_text import read_json
from penstock.workflows.gateway.judged_answer import FLUSH, JudgedAnswer
from penstock.workflows.gateway.prompt import FieldError, Prompt
from penstock.workflows.gateway.provider_call import ERROR, ProviderCall, passed_on, read_all
from penstock.workflows.gateway.reviewing import EVENTS
from penstock.workflows.gateway.verdict_replies import StoppedError, VerdictReplies, failures

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from penstock.engine.run.run import Run
    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.gateway.answer import Offer
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint, Refusal
    from penstock.workflows.gateway.guards import Guards
    from penstock.workflows.gateway.http import Headers, HttpRequest, Upstream, UpstreamReply
    from penstock.workflows.gateway.reviewing import StoredReply

_OK, _REDIRECT = 200, 300
_ASKING = ("process_input", "process_tool_result", "process_output_result")  # the stages that wait for an operator
_MANY = 16  # events in one piece of a stream, after which the loop may have its turn


def exchange(
    endpoint: Endpoint, request: HttpRequest, guards: Guards, upstream: Upstream
) -> AbstractAsyncContextManager[HttpReply]:
    """Run one exchange; the reply is sent within the block. Leaving the block ends everything, however far it came.

    Args:
        endpoint: the protocol.
        request: the client's request.
        guards: what guards it.
        upstream: the provider behind.
    """
    return _Exchange(endpoint, request, guards, upstream)


class _Exchange:
    """One exchange. Lives as long as it."""

    def __init__(self, endpoint: Endpoint, request: HttpRequest, guards: Guards, upstream: Upstream) -> None:
        self._endpoint = endpoint
        self._request = request
        self._guards = guards
        self._began = time.monotonic()
        self._ended = Ended(endpoint.name, request.route)
        self._answer: PatchedAnswer | None = None
        self._more = False  # whether the piece of the provider's stream at hand holds further events
        self._unsent: Exception | None = None  # the error of sending to the client
        self._run: Run | None = None
        self._replies = VerdictReplies(endpoint, guards, self._ended)
        self._provider = ProviderCall(endpoint, request, upstream, self._replies, self._ended)
        self._judged: JudgedAnswer | None = None
        client = str(guards.request_context.get("resource_id") or "")
        self._reviews = None if guards.reviews is None else guards.reviews.of(endpoint.name, client)

    async def __aenter__(self) -> HttpReply:
        """Return the reply."""
        try:
            return await self._reply()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the provider's answer and the run, and tell the operator."""
        try:
            self._spend()  # also if the client leaves, or a verdict ends it: the provider has worked
        finally:
            try:
                await self._provider.end(kind, error, trace)
            finally:
                try:
                    if self._run is not None:
                        await self._run.__aexit__(kind, error, trace)
                finally:
                    await self._close_reviews()
                    self.report()

    def report(self) -> None:
        """Tell the operator how it ended."""
        answer, ended = self._answer, self._ended
        if answer is not None:
            ended.usage = ended.usage or answer.usage
            ended.edited = ended.edited or answer.edited
            ended.unknown = (*ended.unknown, *answer.unknown)
            answer.close()
        ended.seconds = time.monotonic() - self._began
        if self._guards.on_end is not None:
            self._guards.on_end(self._ended)

    async def _reply(self) -> HttpReply:
        try:
            prompt = self._prompt()
            run = self._run = await self._started().__aenter__()
            self._ended.run_id, self._ended.run = run.run_id, run
            await self._judge_prompt(run, prompt)
            return await self._answered(run, prompt)
        except NotDecidedError as error:
            refused = self._refused(self._replies.undecided(error))
        except StoppedError as stopped:
            if stopped.__cause__ is not None:
                self._ended.cause = stopped.__cause__
            refused = self._refused(stopped)
        await self._close_reviews()  # before the reply: the client may send the request again at once
        return refused

    def _refused(self, stopped: StoppedError) -> HttpReply:
        return self._replies.refused(stopped, None if self._answer is None else self._answer.state)

    def _refusal_of(self, judged: JudgedAnswer) -> Refusal:
        return self._guards.refusal if judged.verdict is None else self._replies.refusal(judged.verdict)

    async def _judge_prompt(self, run: Run, prompt: Prompt) -> None:
        with failures():
            try:
                verdict = await prompt.judge(run, self._reviews)
            except FieldError as error:
                raise _field_refused(error) from None
        self._ended.edited, self._ended.unknown = prompt.is_changed, prompt.unknown
        if verdict is not None:
            raise StoppedError(self._replies.refusal(verdict))

    def _prompt(self) -> Prompt:
        try:
            body = read_json(self._request.body)
        except (ValueError, RecursionError) as error:
            raise StoppedError(
                None, (400, "invalid_json", f"the body is no JSON in UTF-8, or ambiguous: {_plain(error)}")
            ) from None
        if not is_object(body):
            raise StoppedError(None, (400, "invalid_json", "the body is no JSON object; send one")) from None
        try:
            guards = self._guards
            prompt = Prompt(self._endpoint, body, self._request.body, strict=guards.strict, permits=guards.permits)
        except FieldError as error:
            raise _field_refused(error) from None
        self._ended.model, self._ended.streamed = prompt.model, self._endpoint.streams(body)
        return prompt

    def _started(self) -> Run:
        guards = self._guards
        return guards.workflow.start(
            request_context=dict(guards.request_context),
            observers=guards.observers,
            records=guards.records,
            may_suspend=() if guards.reviews is None else _ASKING,
        )

    # The provider

    async def _answered(self, run: Run, prompt: Prompt) -> HttpReply:
        stored = await self._stored_reply()
        reply = await self._provider.reply(run, prompt) if stored is None else stored
        theirs = reply.headers
        kind = (header_of(theirs, "content-type") or "").partition(";")[0].strip().lower()
        if reply.status >= ERROR:
            await self._close_reviews()
            return await self._provider.error_reply(run, reply)
        if not _OK <= reply.status < _REDIRECT:
            answered = UpstreamError("malformed", f"the provider answered with the status {reply.status}")
            raise self._replies.upstream_stopped(answered)
        held, judges_calls = run.releases != "live", run.serves("process_tool_call")
        self._answer = PatchedAnswer(
            self._endpoint,
            prompt.body,
            prompt.sent,
            strict=self._guards.strict,
            holds_calls=judges_calls,
            held=held,
        )
        headers = (*self._replies.headers(), *passed_on(theirs))
        calls: AnswerCalls | None = None
        if judges_calls:
            calls = AnswerCalls(run, self._answer, may_ask=self._reviews is not None)
        judged = self._judged = JudgedAnswer(
            run,
            prompt,
            self._answer,
            held=held,
            budget=self._guards.budget,
            reviews=self._reviews,
            calls=calls,
            kind=kind,
            stored=stored is not None,
            watched=bool(self._guards.observers) or self._guards.records,
        )
        if kind == EVENTS and self._endpoint.events:
            await self._use_approvals()
            body = StreamedBody(lambda body: self._streamed(judged, reply, body))
            return HttpReply(reply.status, (*STREAM_HEADERS, *headers), body)
        return await self._whole(judged, reply, headers)

    async def _close_reviews(self) -> None:
        """Let go of the approvals that it has claimed: used up, if anything has left that they let through."""
        if self._reviews is not None:
            left = self._ended.first_byte is not None
            await self._reviews.claims.close(left=left, waits=bool(self._ended.standing))
            self._ended.review = self._ended.review or self._reviews.claims.used

    async def _use_approvals(self) -> None:
        """Use up the approvals that let this request pass, before anything of its answer leaves."""
        if self._reviews is not None:
            with failures():
                await self._reviews.claims.use()

    async def _stored_reply(self) -> StoredReply | None:
        """Return the answer that waited for an operator, if its calls are approved; None: ask the provider."""
        if self._reviews is None:
            return None
        with failures():
            return await self._reviews.reply(streamed=self._ended.streamed)

    def _spend(self) -> None:
        if self._judged is not None:
            self._judged.spend()
            self._ended.usage = self._judged.tokens

    # Answers

    async def _whole(self, judged: JudgedAnswer, reply: UpstreamReply, headers: Headers) -> HttpReply:
        try:
            body = await read_all(reply)
        except UpstreamError as error:
            raise self._replies.upstream_stopped(error) from None
        try:
            chunks = [*judged.answer.whole(body), *judged.answer.end()]
        except UpstreamError as error:
            raise self._replies.upstream_stopped(error) from None
        with failures():
            out = await judged.whole(chunks)
        if judged.refused:
            raise StoppedError(self._refusal_of(judged))
        await self._use_approvals()
        self._ended.status, self._ended.first_byte = reply.status, time.monotonic() - self._began
        return HttpReply(reply.status, (*JSON_HEADERS, *headers), out)

    async def _streamed(self, judged: JudgedAnswer, reply: UpstreamReply, body: StreamedBody) -> AsyncGenerator[bytes]:
        """Yield the bytes of a stream as they may leave; a verdict or an error ends it in the client's language."""
        sent = judged.answer.state
        last: Sequence[bytes] = ()
        try:
            async with aclosing(judged.pieces(self._events(judged, reply, body), lambda: self._more)) as pieces:
                async for piece in pieces:
                    self._note_first_byte()
                    yield piece
            if judged.refused:
                last = self._replies.last_events(self._refusal_of(judged), sent)
        except NotDecidedError as error:
            last = self._replies.last_events(self._replies.undecided(error).refusal or self._guards.refusal, sent)
        except UpstreamError as error:
            self._ended.error = f"upstream_{error.kind}"
            last = self._endpoint.error_events(f"upstream_{error.kind}", str(error), sent)
        except Exception as error:
            if error is self._unsent:
                raise
            # The client is told that it failed, and nothing more.
            self._ended.error, self._ended.cause = "guard_failed", error
            last = self._endpoint.error_events("guard_failed", "a guard could not do its work", sent)
        for piece in (judged.rest(), *last):
            if piece:
                yield piece

    async def _events(self, judged: JudgedAnswer, reply: UpstreamReply, body: StreamedBody) -> AsyncGenerator[Chunk]:
        """Yield the texts of a stream's events, as they come. Bytes that may leave are sent before the next are read.

        Args:
            judged: the answer.
            reply: the provider's stream.
            body: what the client reads.
        """
        frames, answer, send, offer = Frames(), judged.answer, body.send, judged.offer
        pace = Pace()
        async with aclosing(reply.pieces()) as pieces:
            async for piece in pieces:
                made = None if send is None or offer is None or frames.held else answer.feed_next(piece, offer)
                if made is True and send is not None:  # as almost all do
                    await self._sent(send, piece)
                    continue
                for chunk in self._read(frames, answer, piece, offer) if made is None or made is True else made:
                    if chunk is not None:
                        yield chunk
                    else:
                        await pace.rest()
                self._more = False
                if judged.has_ready():
                    if send is None:
                        yield FLUSH
                    else:
                        await self._sent(send, judged.rest())
        for frame in frames.end():
            for chunk in answer.feed(frame):
                yield chunk
        for chunk in answer.end():
            yield chunk

    def _read(self, frames: Frames, answer: PatchedAnswer, piece: bytes, offer: Offer | None) -> Iterator[Chunk | None]:
        """Yield the texts of all events of a piece of the stream; None where the event loop may have its turn."""
        found = list(frames.feed(piece))
        for at, frame in enumerate(found, 1):
            self._more = at < len(found)
            yield from answer.feed(frame, offer)
            if not at % _MANY:
                yield None

    async def _sent(self, send: Callable[[bytes], Awaitable[None]], piece: bytes) -> None:
        """Send a piece to the client, from within the source of the guards' stream."""
        if self._ended.first_byte is None:
            self._note_first_byte()
        try:
            await send(piece)
        except Exception as error:
            self._unsent = error  # no failure of the provider or a guard, as which the stream would take it
            raise

    def _note_first_byte(self) -> None:
        if self._ended.first_byte is None:
            self._ended.first_byte = time.monotonic() - self._began


def _field_refused(error: FieldError) -> StoppedError:
    return StoppedError(None, (400, error.code, str(error)))


def _plain(error: Exception) -> str:
    """Return the fault of a JSON text, without quoting it."""
    place = getattr(error, "lineno", None)
    return f"line {place}, column {getattr(error, 'colno', 0)}" if place else type(error).__name__
