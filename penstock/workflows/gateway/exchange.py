"""`exchange`: one request through guards, provider and guards, and the reply for the client.

Nothing is logged here: who runs a gateway gets an `Ended` for each exchange.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from penstock.engine.tasks import Pace
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import ModelError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw
from penstock.engine.values.model import ModelRequest
from penstock.engine.values.terms import is_word
from penstock.formats.wire import is_object
from penstock.workflows.gateway.answer import AGAIN, VALUES, PatchedAnswer
from penstock.workflows.gateway.blocks import frozen_arguments
from penstock.workflows.gateway.budget import as_usage, text_of
from penstock.workflows.gateway.endpoints.endpoint import JSON_HEADERS, STREAM_HEADERS, Refusal
from penstock.workflows.gateway.frames import Frames
from penstock.workflows.gateway.http import HttpReply, HttpRequest, StreamedBody, UpstreamError, header_of
from penstock.workflows.gateway.json_text import read_json, write_json
from penstock.workflows.gateway.prompt import FieldError, Prompt, ProviderModel
from penstock.workflows.gateway.tables import is_term

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

    from penstock.engine.run.run import Run
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import Usage
    from penstock.engine.values.protocols import Observer
    from penstock.engine.values.tripwire import Tripwire
    from penstock.engine.workflow import Workflow
    from penstock.workflows.gateway.answer import Offer
    from penstock.workflows.gateway.budget import Budget
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint, SentEvents
    from penstock.workflows.gateway.http import Headers, Upstream, UpstreamReply

FLUSH = "data-gateway-flush"
"""The chunk behind a piece of the provider's stream: what is ready leaves before the next piece is waited for."""

REFUSAL = Refusal("I can't help with that request.")
"""The reply to a client after a verdict, unless the operator says something else."""

_OK, _REDIRECT, _ERROR = 200, 300, 400
_MOST_BYTES = 64 * 2**20
_MANY = 16  # events in one piece of a stream, after which the loop may have its turn


@dataclass(slots=True)
class Ended:
    """How an exchange ended, without any of its texts.

    Attributes:
        endpoint: the name of the protocol.
        route: the name of the route.
        model: the model that the client asked for, if it has the form of a model's name.
        status: the HTTP status of the reply.
        verdict: the verdict that stopped it, or None.
        error: a word for the fault, or empty.
        reason: the fault in words for the operator, if it has more to say than that word.
        cause: the exception behind it. Its text may quote a text: show its class only.
        streamed: whether the answer was streamed.
        edited: whether the guards changed the request or the answer.
        unknown: the fields and events that the table does not know.
        usage: the tokens of prompt and answer, if the provider reported them, or a budget counted them.
        seconds: how long it took.
        first_byte: how long the client waited for the first byte of the answer; None if none came.
        upstream_seconds: how long the provider took until its first byte; None if it was not asked.
        run_id: the id of the run.
        run: the run, with its records and traces if these were asked for; None if the request was refused before it.
    """

    endpoint: str
    route: str = ""
    model: str = ""
    status: int = 200
    verdict: Tripwire | None = None
    error: str = ""
    reason: str = ""
    cause: BaseException | None = field(default=None, repr=False, compare=False)
    streamed: bool = False
    edited: bool = False
    unknown: tuple[str, ...] = ()
    usage: tuple[int, int] | None = None
    seconds: float = 0.0
    first_byte: float | None = None
    upstream_seconds: float | None = None
    run_id: str = ""
    run: Run | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards of the exchanges of a route, with their settings. Immutable: a reload makes another one.

    Attributes:
        workflow: the guards.
        name: its name, for headers and logs.
        fingerprint: the fingerprint of its policy, for headers and caches.
        strict: whether fields and events that the tables do not know are refused; if not, guards read them as values.
        permits: what clients may use although it escapes the guards: words of `Field.permit` in the tables.
        refusal: the reply to a client after a verdict.
        budget: the budget of the route; None: there is none.
        request_context: the values that hooks share in one request.
        observers: objects with ``on_record`` and ``on_event``.
        records: whether each step is recorded.
        on_end: is called when an exchange has ended.
    """

    workflow: Workflow
    name: str = "guard"
    fingerprint: str = ""
    strict: bool = True
    permits: frozenset[str] = frozenset()
    refusal: Refusal = REFUSAL
    budget: Budget | None = None
    request_context: Mapping[str, Value] = EMPTY
    observers: Sequence[Observer] = ()
    records: bool = False
    on_end: Callable[[Ended], None] | None = None

    def of_request(
        self, workflow: Workflow, context: Mapping[str, Value], on_end: Callable[[Ended], None] | None
    ) -> Guards:
        """Return the guards of one request."""
        return Guards(
            workflow, self.name, self.fingerprint, self.strict, self.permits, self.refusal, self.budget, context,
            self.observers, self.records, on_end,
        )  # fmt: skip


@asynccontextmanager
async def exchange(
    endpoint: Endpoint, request: HttpRequest, guards: Guards, upstream: Upstream
) -> AsyncGenerator[HttpReply]:
    """Run one exchange; the reply is sent within the block. Leaving the block ends everything, however far it came.

    Args:
        endpoint: the protocol.
        request: the client's request.
        guards: what guards it.
        upstream: the provider behind.
    """
    made = _Exchange(endpoint, request, guards, upstream)
    try:
        async with AsyncExitStack() as stack:
            yield await made.reply(stack)
    finally:
        made.report()


class _StoppedError(Exception):
    """The exchange ends with this reply in place of the answer."""

    def __init__(
        self, refusal: Refusal | None, error: tuple[int, str, str] | None = None, headers: Headers = ()
    ) -> None:
        self.refusal = refusal
        self.error = error
        self.headers = headers
        super().__init__()


class _Exchange:
    """One exchange. Lives as long as it."""

    def __init__(self, endpoint: Endpoint, request: HttpRequest, guards: Guards, upstream: Upstream) -> None:
        self._endpoint = endpoint
        self._request = request
        self._guards = guards
        self._upstream = upstream
        self._began = time.monotonic()
        self._ended = Ended(endpoint.name, request.route)
        self._answer: PatchedAnswer | None = None
        self._more = False  # whether the piece of the provider's stream at hand holds further events
        self._unsent: Exception | None = None  # the error of sending to the client

    def report(self) -> None:
        """Tell the operator how it ended."""
        answer, ended = self._answer, self._ended
        if answer is not None:
            ended.usage = ended.usage or answer.usage
            ended.edited = ended.edited or answer.edited
            ended.unknown = (*ended.unknown, *answer.unknown)
        ended.seconds = time.monotonic() - self._began
        if self._guards.on_end is not None:
            self._guards.on_end(self._ended)

    def _note(self, **known: Value) -> None:
        for name, value in known.items():
            setattr(self._ended, name, value)

    async def reply(self, stack: AsyncExitStack) -> HttpReply:
        """Return the reply; everything that it needs is entered into the stack."""
        try:
            prompt = self._prompt()
            run = await stack.enter_async_context(self._run())
            self._ended.run_id, self._ended.run = run.run_id, run
            await self._judge_prompt(run, prompt)
            return await self._answered(stack, run, prompt)
        except _StoppedError as stopped:
            if stopped.__cause__ is not None:
                self._note(cause=stopped.__cause__)
            return self._refused(stopped)

    async def _judge_prompt(self, run: Run, prompt: Prompt) -> None:
        with _failures():
            verdict = await prompt.judge(run)
        self._ended.edited, self._ended.unknown = prompt.is_changed, prompt.unknown
        if verdict is not None:
            raise _StoppedError(self._refusal(verdict))

    def _prompt(self) -> Prompt:
        try:
            body = read_json(self._request.body)
        except (ValueError, RecursionError) as error:
            raise _StoppedError(
                None, (400, "invalid_json", f"the body is no JSON in UTF-8, or ambiguous: {_plain(error)}")
            ) from None
        if not is_object(body):
            raise _StoppedError(None, (400, "invalid_json", "the body is no JSON object; send one")) from None
        try:
            guards = self._guards
            prompt = Prompt(self._endpoint, body, self._request.body, strict=guards.strict, permits=guards.permits)
        except FieldError as error:
            raise _StoppedError(None, (400, error.code, str(error))) from None
        self._ended.model, self._ended.streamed = prompt.model, self._endpoint.streams(body)
        return prompt

    def _run(self) -> Run:
        guards = self._guards
        return guards.workflow.start(
            request_context=dict(guards.request_context), observers=guards.observers, records=guards.records
        )

    # The provider

    async def _answered(self, stack: AsyncExitStack, run: Run, prompt: Prompt) -> HttpReply:
        reply = await self._asked(stack, run, prompt)
        kind = (header_of(reply.headers, "content-type") or "").partition(";")[0].strip().lower()
        if reply.status >= _ERROR:
            return await self._provider_error(run, reply)
        if not _OK <= reply.status < _REDIRECT:
            answered = UpstreamError("malformed", f"the provider answered with the status {reply.status}")
            raise self._upstream_stopped(answered)
        held = run.releases != "live"
        self._answer = PatchedAnswer(
            self._endpoint,
            prompt.body,
            prompt.sent,
            strict=self._guards.strict,
            holds_calls=run.serves("process_tool_call"),
            held=held,
        )
        headers = (*self._headers(), *_passed_on(reply.headers))
        judged = _JudgedAnswer(run, prompt, self._answer, held=held, budget=self._guards.budget)
        stack.callback(self._spend, judged)  # also if the client leaves, or a verdict ends it: the provider has worked
        if kind == "text/event-stream" and self._endpoint.events:
            body = StreamedBody(lambda body: self._streamed(judged, reply, body))
            return HttpReply(reply.status, (*STREAM_HEADERS, *headers), body)
        return await self._whole(judged, reply, headers)

    def _spend(self, judged: _JudgedAnswer) -> None:
        judged.spend()
        self._ended.usage = judged.tokens

    async def _asked(self, stack: AsyncExitStack, run: Run, prompt: Prompt) -> UpstreamReply:
        """Ask the provider, again where error processors say so; return its reply."""
        reply: UpstreamReply | None = None
        while True:
            sending = AsyncExitStack()
            stack.push_async_exit(sending)
            began = time.monotonic()
            try:
                reply = await sending.enter_async_context(
                    self._upstream.send(self._request.with_body(prompt.written()))
                )
            except UpstreamError as error:
                failed: ModelError = _model_error(prompt.model, error)
                problem: UpstreamError | None = error
            else:
                self._ended.upstream_seconds = time.monotonic() - began
                if reply.status < _ERROR or not run.serves("process_api_error"):
                    return reply
                failed, problem = ModelError(prompt.model, "answered with an error", status=reply.status), None
            with _failures():
                outcome = await run.process_api_error(failed, model=ProviderModel(prompt.model))
            if outcome.blocked and not outcome.retry_granted and outcome.tripwire is not None:
                raise _StoppedError(self._refusal(outcome.tripwire))
            if not outcome.retry_granted:
                if problem is None and reply is not None:
                    return reply
                raise self._upstream_stopped(problem or UpstreamError("broken", "the provider sent no answer"))
            await sending.aclose()
            if outcome.retry is not None and outcome.retry.after:
                await anyio.sleep(outcome.retry.after)

    def _upstream_stopped(self, error: UpstreamError) -> _StoppedError:
        self._note(error=f"upstream_{error.kind}")
        return _StoppedError(None, (error.status, f"upstream_{error.kind}", str(error)))

    async def _provider_error(self, run: Run, reply: UpstreamReply) -> HttpReply:
        """Return an error of the provider, read by the guards like any value."""
        self._note(status=reply.status, error="provider")
        try:
            body = await _read_all(reply)
            value: Value = read_json(body)
        except (UpstreamError, ValueError, RecursionError):
            return self._endpoint.refused(
                reply.status, "provider_error", "the provider answered with an error", self._headers()
            )
        left: Value = None
        with _failures():
            async with run.process_output_chunks([Chunk(VALUES, payload=freeze({"data": value}))]) as chunks:
                async for chunk in chunks:
                    if chunk.type == VALUES:
                        left = thaw(chunk.payload["data"])
        if left is None:
            return self._endpoint.refused(
                reply.status, "provider_error", "the provider answered with an error", self._headers()
            )
        headers = (*JSON_HEADERS, *self._headers(), *_passed_on(reply.headers))
        return HttpReply(reply.status, headers, body if left == value else write_json(left))

    # Answers

    async def _whole(self, judged: _JudgedAnswer, reply: UpstreamReply, headers: Headers) -> HttpReply:
        try:
            body = await _read_all(reply)
        except UpstreamError as error:
            raise self._upstream_stopped(error) from None
        try:
            chunks = [*judged.answer.whole(body), *judged.answer.end()]
        except UpstreamError as error:
            raise self._upstream_stopped(error) from None
        with _failures():
            out = [piece async for piece in judged.pieces(_each(chunks), lambda: False)]
        if judged.refused:
            raise _StoppedError(self._refusal_of(judged))
        self._ended.status, self._ended.first_byte = reply.status, time.monotonic() - self._began
        return HttpReply(reply.status, (*JSON_HEADERS, *headers), b"".join(out))

    async def _streamed(self, judged: _JudgedAnswer, reply: UpstreamReply, body: StreamedBody) -> AsyncGenerator[bytes]:
        """Yield the bytes of a stream as they may leave; a verdict or an error ends it in the client's language."""
        sent = judged.answer.state
        last: Sequence[bytes] = ()
        try:
            async with aclosing(judged.pieces(self._events(judged, reply, body), lambda: self._more)) as pieces:
                async for piece in pieces:
                    self._note_first_byte()
                    yield piece
            if judged.refused:
                last = self._last_events(self._refusal_of(judged), sent)
        except UpstreamError as error:
            self._note(error=f"upstream_{error.kind}")
            last = self._endpoint.error_events(f"upstream_{error.kind}", str(error), sent)
        except Exception as error:
            if error is self._unsent:
                raise
            self._note(error="guard_failed", cause=error)  # the client is told that it failed, and nothing more
            last = self._endpoint.error_events("guard_failed", "a guard could not do its work", sent)
        for piece in (judged.rest(), *last):
            if piece:
                yield piece

    def _last_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        if refusal.style == "error":
            return self._endpoint.error_events(refusal.code, refusal.text, sent)
        return self._endpoint.refusal_events(refusal, sent)

    async def _events(self, judged: _JudgedAnswer, reply: UpstreamReply, body: StreamedBody) -> AsyncGenerator[Chunk]:
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
                        yield _FLUSH
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
            self._note(first_byte=time.monotonic() - self._began)

    # Verdicts

    def _refusal(self, verdict: Tripwire) -> Refusal:
        self._note(verdict=verdict)
        budget = self._guards.budget
        if budget is not None and budget.blocks(verdict):
            raise self._over_budget(budget, verdict)
        return replace(self._guards.refusal, tripwire=verdict)

    def _over_budget(self, budget: Budget, verdict: Tripwire) -> _StoppedError:
        """Return the error for a client whose budget is spent, or for one that nobody can reckon."""
        if failure := budget.failure(verdict):
            self._note(verdict=None, reason=failure)
            return _StoppedError(None, (500, "guard_failed", "a guard could not do its work"))
        after = budget.retry_after(verdict)
        told = "the budget is spent, or what is left of it does not cover this request"
        headers: Headers = () if after is None else (("retry-after", str(after)),)
        return _StoppedError(None, (429, "insufficient_quota", told), headers)

    def _refusal_of(self, judged: _JudgedAnswer) -> Refusal:
        return self._guards.refusal if judged.verdict is None else self._refusal(judged.verdict)

    def _headers(self, refusal: Refusal | None = None) -> Headers:
        guards = self._guards
        made = [
            ("x-penstock-policy", f"{guards.name}{f'; {guards.fingerprint}' if guards.fingerprint else ''}"),
            ("x-penstock-coverage", f"{self._endpoint.name}; {'strict' if guards.strict else 'unknown=read'}"),
        ]
        if refusal is not None and refusal.tripwire is not None:
            made.append(
                (
                    "x-penstock-verdict",
                    f"blocked; {refusal.tripwire.processor_id}" if refusal.details else "blocked",
                )
            )
        return tuple(made)

    def _refused(self, stopped: _StoppedError) -> HttpReply:
        if stopped.refusal is None:
            status, code, message = stopped.error or (500, "guard_failed", "a guard could not do its work")
            self._note(status=status, error=self._ended.error or code)
            return self._endpoint.refused(status, code, message, (*self._headers(), *stopped.headers))
        refusal = stopped.refusal
        headers = self._headers(refusal)
        if refusal.style == "error" or not self._endpoint.has_answer:
            self._note(status=refusal.status)
            return self._endpoint.refused(refusal.status, refusal.code, refusal.text, headers)
        if self._ended.streamed:
            sent = self._endpoint.begin(self._ended.model) if self._answer is None else self._answer.state
            events = self._endpoint.refusal_events(refusal, sent)
            return HttpReply(200, (*STREAM_HEADERS, *headers), _each(events))
        body = write_json(self._endpoint.refusal(refusal, self._ended.model))
        return HttpReply(200, (*JSON_HEADERS, *headers), body)


_FLUSH = Chunk(FLUSH, transient=True)


class _JudgedAnswer:
    """An answer between the provider and the client.

    Attributes:
        answer: the answer.
        refused: whether it may not leave.
        verdict: the verdict that stopped it; None if it may leave, or if a processor answered in the place of a tool.
        tokens: the tokens of prompt and answer as they were spent; None before that, or if nobody knows them.
    """

    def __init__(self, run: Run, prompt: Prompt, answer: PatchedAnswer, *, held: bool, budget: Budget | None) -> None:
        self.answer = answer
        self.refused = False
        self.verdict: Tripwire | None = None
        self.tokens: tuple[int, int] | None = None
        self._run = run
        self._prompt = prompt
        self._held = held
        self._budget = budget
        self._texts: list[str] = []  # for a budget, should the provider report no usage
        self._spent = False
        self._out: list[bytes] = []
        self._chunks: list[Chunk] | None = [] if run.serves("process_llm_response") else None
        self._reads_all = self._chunks is not None or budget is not None
        self._stream: OutputStream | None = None
        self._told: dict[str, Value] | None = None

    async def pieces(self, source: AsyncGenerator[Chunk], more: Callable[[], bool]) -> AsyncGenerator[bytes]:
        """Yield the bytes that may leave.

        Args:
            source: the texts of the answer.
            more: returns whether more events are at hand, so that those which are ready can wait for them.
        """
        answer, run, out = self.answer, self._run, self._out
        if self._reads_all:
            source = self._kept(source)
        async with run.process_output_stream(source, release="live", last=False, **self._info()) as stream:
            self._stream = stream
            async for chunk in stream:
                if chunk.type == "tripwire":
                    continue
                if chunk.type != FLUSH:
                    answer.take(chunk)
                if self._held:
                    continue
                out += answer.ready()
                if out and (chunk.type == FLUSH or not more()):
                    yield self.rest()
        if run.tripwire is not None:
            self._stop(run.tripwire)
        else:
            await self._judge(run.message_list.completed(stream.message))
        if not self.refused:
            answer.over()
            out += answer.ready()
        if out:
            yield self.rest()

    @property
    def offer(self) -> Offer | None:
        """The function that judges pieces of text at once; None where all of them are read or held for later."""
        stream = self._stream
        return None if stream is None or self._held or self._reads_all else stream.offer

    def rest(self) -> bytes:
        """Return the bytes that may leave and have not: a verdict or an error comes behind them."""
        rest = b"".join(self._out)
        self._out.clear()
        return rest

    def _stop(self, verdict: Tripwire | None) -> None:
        self.refused, self.verdict = True, verdict

    def has_ready(self) -> bool:
        """Return whether bytes could leave that have not yet."""
        if not self._held:
            self._out += self.answer.ready()
        return bool(self._out)

    async def _kept(self, source: AsyncGenerator[Chunk]) -> AsyncGenerator[Chunk]:
        async with aclosing(source):
            async for chunk in source:
                if chunk.type != FLUSH and self._chunks is not None:
                    self._chunks.append(chunk)
                if self._budget is not None and chunk.run_id != AGAIN:
                    self._texts.append(text_of(chunk))
                yield chunk

    def _info(self) -> dict[str, Value]:
        if self._told is None:
            prompt = self._prompt
            request = ModelRequest(tuple(prompt.messages))
            model = ProviderModel(prompt.model)
            self._told = {"model": model, "request": request, "chunks": self._chunks, "from_cache": False}
        return self._told

    def spend(self) -> None:
        """Record the tokens of the answer, once; a budget counts those that nobody reported."""
        if not self._spent:
            self._spent = True
            budget, answer = self._budget, self.answer
            self.tokens = answer.usage if budget is None else budget.usage(self._prompt, answer, self._texts)
            self._run.spend(self._prompt.model, self._usage())

    def _usage(self) -> Usage | None:
        return as_usage(self.tokens if self._spent else self.answer.usage)

    async def _judge(self, message: Message) -> None:
        """Run the stages behind the stream; take over the answer as they changed it, if nothing of it has left."""
        run, answer = self._run, self.answer
        self.spend()
        usage = self._usage()
        if not answer.in_words:
            return
        calls = tuple(part for part in message.parts if part.type == "tool")
        info: Values = FrozenDict(
            {**self._info(), "finish_reason": answer.finish_reason, "usage": usage, "tool_calls": calls or None}
        )
        outcome = await run.judge_step(message, info)
        if outcome.blocked:
            self._stop(outcome.tripwire)
            return
        after = self._taken(message, run.message_list.get(message.id))
        if not self.refused:
            await self._judge_calls()
        if self.refused:
            return
        ended = await run.process_output_result(None, finish_reason=answer.finish_reason, usage=usage)
        if ended.blocked:
            self._stop(ended.tripwire)
            return
        self._taken(after, run.message_list.get(message.id))
        answer.settle()

    def _taken(self, before: Message, after: Message | None) -> Message:
        """Take over a changed answer; one that cannot be written in place is refused."""
        if self._held and not self.answer.replace(before, after):
            self.refused = True
        return before if after is None else after

    async def _judge_calls(self) -> None:
        """Judge the calls of tools before any of them leaves; one that a guard answers or asks about is refused."""
        run = self._run
        if not run.serves("process_tool_call"):
            return
        for call in self.answer.calls:
            outcome = await run.process_tool_call(call.tool, frozen_arguments(call), call_id=call.id)
            if outcome.blocked:
                self._stop(outcome.tripwire)
                return
            if outcome.answered:  # also by a question: nobody can be asked here
                self.refused = True
                return
            call.back = outcome.arguments


class _failures:  # noqa: N801 - used like a function
    """Turns the failure of a guard into a reply that says nothing of it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (_StoppedError, UpstreamError)):
            raise _StoppedError(None, (500, "guard_failed", "a guard could not do its work")) from error


async def _each(items: Sequence[Value]) -> AsyncGenerator[Value]:
    for item in items:
        yield item


async def _read_all(reply: UpstreamReply) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async with aclosing(reply.pieces()) as given:
        async for piece in given:
            size += len(piece)
            if size > _MOST_BYTES:
                raise UpstreamError("too_large", f"the answer of the provider is longer than {_MOST_BYTES} bytes")
            pieces.append(piece)
    return b"".join(pieces)


_PASSED_ON = ("retry-after", "x-request-id", "request-id", "openai-processing-ms")


def _passed_on(headers: Headers) -> Headers:
    """Return the provider's headers that a client uses; without those that say more than a count, a time or an id."""
    return tuple((name, value) for name, value in headers if _is_passed_on(name) and is_term(value))


def _is_passed_on(name: str) -> bool:
    return name in _PASSED_ON or (name.startswith("x-ratelimit-") and is_word(name))


def _model_error(model: str, error: UpstreamError) -> ModelError:
    return ModelError(model, str(error), code=error.kind, retry_after=error.retry_after, retryable=True)


def _plain(error: Exception) -> str:
    """Return the fault of a JSON text, without quoting it."""
    place = getattr(error, "lineno", None)
    return f"line {place}, column {getattr(error, 'colno', 0)}" if place else type(error).__name__
