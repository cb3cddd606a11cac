"""`ModelAttempt`: one call of a model, or an answer in its place; and `AnsweredAttempt`, an earlier process's."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.streams.chunk_texts import sent
from penstock.engine.streams.sources import as_chunk, close_source, failure_of
from penstock.engine.tracing.enclosing import EnclosedIterator
from penstock.engine.values.answer_builder import Assembly, usage_of
from penstock.engine.values.call_ids import OF_CALLS, CallIds
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import PenstockError, UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, is_items
from penstock.engine.values.messages import Message
from penstock.engine.values.model import FINISH_REASONS
from penstock.engine.values.terms import is_code, is_model, without_repeats
from penstock.engine.values.usage import is_unbilled, usage_payload
from penstock.workflows.agent.client_chunks import is_for_client
from penstock.workflows.agent.joined_chunks import JoinedChunks
from penstock.workflows.agent.results import reasoning_of, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from penstock.engine.run.run import Run
    from penstock.engine.tracing.enclosing import Scope
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelRequest, Usage
    from penstock.engine.values.protocols import Model
    from penstock.workflows.agent.request import StepRequest


class ModelAttempt:
    """One call of a model, or an answer that a processor gave in its place. Lives as long as the step.

    Args:
        run: the run of the request. It gets the usage of the call, however the call ends; not if the provider refused
            the request, or it was not sent: that costs nothing.
        path: the path of the call in the events of the request.
        model: the model to call.
        request: the request to send.
        answer: the answer of a processor, or None.

    Attributes:
        model: the model to call.
        request: the request to send.
        chunks: the chunks that it sent, unprocessed, except that each tool call has an id of its own. Unless a
            processor reads them when the answer has ended, the pieces of a text are joined as they come.
        error: the error that ended it, or None.
        from_cache: whether a processor answered in place of the model.
        usage: the tokens of the call when it has ended; None if unknown, and for an answer of a processor.
        held_calls: the chunks of tool calls that left the stream and wait for `process_tool_call`.
    """

    def __init__(self, run: Run, path: str, model: Model, request: ModelRequest, answer: Value) -> None:
        self.model = model
        self.request = request
        self.chunks: list[Chunk] | JoinedChunks = [] if run.serves("process_llm_response") else JoinedChunks()
        self.error: Exception | None = None
        self.from_cache = answer is not None
        self.usage: Usage | None = None
        self.held_calls: list[Chunk] = []
        self._run = run
        self._path = path
        self._call_ids: CallIds | None = None  # made with the first call
        self._holds_calls = run.judges_calls_late  # their chunks wait for `process_tool_call`
        self._answer = answer
        self._released_end: Values = EMPTY  # of the ``finish`` that left the guards
        self._metadata: Values | None = None  # of the ``response-metadata`` that left the guards

    async def source(self) -> AsyncGenerator[Chunk]:
        """Yield the chunks of the answer. The model is called when the first chunk is requested.

        Raises:
            UsageError: the model, or the processor that answers in its place, sent something that is no chunk.
        """
        yield Chunk("step-start")
        keep = self.chunks.append
        try:
            if self.from_cache:
                for chunk in map(self._with_own_id, _answer_chunks(self._answer)):
                    keep(chunk)
                    yield chunk
            else:
                with self._run.span("model", self._path, self.model.name, request=self.request) as span:
                    stream: AsyncIterator[object] = self._opened(None if span is None else span.scope)
                    failed: BaseException | None = None
                    try:
                        async for sent in stream:
                            chunk = sent if type(sent) is Chunk else as_chunk(sent)
                            keep(chunk := self._with_own_id(chunk) if chunk.type in OF_CALLS else chunk)
                            yield chunk
                    except PenstockError as error:
                        failed = error
                        raise
                    finally:
                        await self._end_call(stream, failed)
                    if span is not None:
                        span.note(**self._details(stream))
            if not self.end:
                yield Chunk("finish", payload={"reason": "other"})
        except BaseException as error:
            self.error = failure_of(error, self.model.name)
            if self.error is error:
                raise
            raise self.error from error

    def _with_own_id(self, chunk: Chunk) -> Chunk:
        """Return a chunk with an id of its own for its tool call, if it belongs to one."""
        if self._call_ids is None:
            self._call_ids = CallIds(lambda: self._run.message_list.call_ids)
        return self._call_ids.own(chunk)

    def _opened(self, scope: Scope | None) -> AsyncIterator[Chunk]:
        """Return the stream of the model, within what observers put around its calls."""
        if scope is None:
            return self.model.stream(self.request)
        with scope():
            return EnclosedIterator(self.model.stream(self.request), scope)

    def _details(self, stream: object) -> dict[str, object]:
        """Return what observers are told of an answer that is complete."""
        reason = _known_reason(self.end)
        told: dict[str, object] = {"finish_reason": reason, "usage": usage_payload(self.usage)}
        if isinstance(stream, EnclosedIterator):
            known = self._terms
            told |= {f"response_{name}": known[name] for name in ("id", "model") if known.get(name)}
            told["first_chunk"] = stream.first_chunk
        return told

    async def _end_call(self, stream: object, failed: BaseException | None) -> None:
        """Close the model's stream and report the usage, unless the call cost nothing."""
        try:
            await close_source(stream)
        finally:
            self.usage = _usage(self.end.get("usage"))
            if failed is None or self.chunks or not is_unbilled(failed):
                self._run.spend(self.model.name, self.usage)

    def note(self, chunk: Chunk) -> bool:
        """Note a chunk that leaves the stream; return whether the client gets it."""
        kind = chunk.type
        if self._holds_calls and kind in OF_CALLS:
            self.held_calls.append(chunk)
            return False
        if kind == "finish":
            self._released_end = chunk.payload
        elif kind == "response-metadata":
            self._metadata = chunk.payload
        return is_for_client(chunk)

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def end(self) -> Values:
        """The payload of the model's ``finish``; empty if there is none."""
        return next((chunk.payload for chunk in reversed(self.chunks) if chunk.type == "finish"), EMPTY)

    @property
    def called(self) -> bool:
        """Whether the model called a tool, even if the call was removed later."""
        return any(chunk.type == "tool-call" for chunk in self.chunks)

    @property
    def finish_reason(self) -> str:
        """Why the answer ended: from the ``finish`` that left the guards, else the model's if it is a known word."""
        return str(self._released_end.get("reason") or _known_reason(self.end))

    def metadata_of(self, answer: Message | None) -> Values:
        """Return the provider's report about an answer, without what may repeat its text if that was changed."""
        metadata = self._report
        bare = without_repeats(metadata)
        if bare == metadata:
            return metadata
        sent = Assembly()
        for chunk in self.chunks:
            sent.add(chunk)
        same = text_of(answer) == sent.message.text and reasoning_of(answer) == reasoning_of(sent.message)
        return metadata if same else bare

    @property
    def _report(self) -> Values:
        """The provider's report about the answer, after the guards; while they hold it, only id, model and time."""
        end = self._released_end
        known = self._terms if self._metadata is None else self._metadata
        return FrozenDict({**known, **(end.get("provider_terms") or {}), **(end.get("metadata") or {})})

    @property
    def _terms(self) -> Values:
        """The id, the model and the time that the provider reports, if they have the form of such."""
        sent = next((chunk.payload for chunk in self.chunks if chunk.type == "response-metadata"), EMPTY)
        id, model, created = (sent.get(name) for name in ("id", "model", "created"))
        known = {
            "id": id if isinstance(id, str) and is_code(id) else None,
            "model": model if isinstance(model, str) and is_model(model) else None,
            "created": created if isinstance(created, (int, float)) else None,
        }
        return {name: value for name, value in known.items() if value is not None}


def _known_reason(end: Values) -> str:
    """Return the reason in the payload of a ``finish`` that no guard has read; ``other`` if it is no known word."""
    reason = end.get("reason")
    return reason if reason in FINISH_REASONS else "other"


def _usage(reported: Value) -> Usage | None:
    """Return the usage that the model reported; None if that is no usage: the answer does not fail for it."""
    try:
        return usage_of(reported)
    except TypeError:
        return None


def _answer_chunks(answer: Value) -> Sequence[Chunk]:
    """Return the answer of a processor as chunks.

    Raises:
        UsageError: it is not a str, message or list of chunks.
    """
    if isinstance(answer, str):
        answer = Message.assistant(answer)
    if isinstance(answer, Message):
        calls = any(part.type == "tool" for part in answer.parts)
        return [*sent(answer), Chunk("finish", payload={"reason": "tool-calls" if calls else "stop"})]
    if is_items(answer) and all(isinstance(chunk, Chunk) for chunk in answer):
        return cast("Sequence[Chunk]", answer)
    kind = type(answer).__name__
    raise UsageError(f"process_llm_request answered with a {kind}; Answer(...) takes a str, a message, or chunks")


class AnsweredAttempt(ModelAttempt):
    """The answer of a model in an earlier process, as guards left it.

    Args:
        run: the run of the request.
        path: the path of the call.
        ask: the request of the step.
        opened: the answer as it is stored; see `open_answer`.
    """

    def __init__(self, run: Run, path: str, ask: StepRequest, opened: Values) -> None:
        super().__init__(run, path, ask.model, ask.request, None)
        self._stored = opened
        self._answer_read = run.message_list.get(opened["id"])
        self.chunks = [] if self._answer_read is None else sent(self._answer_read, run.run_id)
        self.from_cache = opened["from_cache"]
        self.usage = _usage(opened["usage"])

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return str(self._stored["model"])

    @property
    def called(self) -> bool:
        """Whether the model called a tool, even if the call was removed later."""
        return bool(self._stored["called"])

    @property
    def finish_reason(self) -> str:
        """Why the answer ended."""
        return str(self._stored["reason"])

    @property
    def call_chunks(self) -> Sequence[Chunk]:
        """The chunks of its calls that wait for `process_tool_call`."""
        return [chunk for chunk in self.chunks if chunk.type in OF_CALLS] if self._holds_calls else ()

    def metadata_of(self, answer: Message | None) -> Values:
        """Return the provider's report about the answer, without what may repeat its text if that was changed."""
        metadata: Values = self._stored["metadata"]
        same = answer is not None and answer == self._answer_read
        return metadata if same else without_repeats(metadata)


def open_answer(attempt: ModelAttempt, message: Message | None, reason: str) -> Values:
    """Return an answer that is not accepted yet as it is stored; its text and calls are those of its message.

    Args:
        attempt: the answer.
        message: its message in the conversation.
        reason: why it ended.
    """
    return FrozenDict(
        id="" if message is None else message.id,
        model=attempt.model_name,
        usage=usage_payload(attempt.usage),
        from_cache=attempt.from_cache,
        reason=reason,
        metadata=freeze(dict(attempt.metadata_of(message))),
        called=attempt.called,
        sent=False,
        texts=(),
        accepted=False,
        judged=EMPTY,
    )
