"""`JudgedAnswer`: an answer on its way from the provider through the guards to the client."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.model import ModelRequest
from penstock.workflows.gateway.answer_reading import AGAIN
from penstock.workflows.gateway.budget import as_usage, text_of
from penstock.workflows.gateway.http import each_of
from penstock.workflows.gateway.prompt import ProviderModel
from penstock.workflows.gateway.whole_answer import only_text, reads_texts_only

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.streams.sources import Source
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import Usage
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.gateway.answer import Offer, PatchedAnswer
    from penstock.workflows.gateway.answer_calls import AnswerCalls
    from penstock.workflows.gateway.budget import Budget
    from penstock.workflows.gateway.prompt import Prompt
    from penstock.workflows.gateway.reviewing import AskedCall, RequestReviews

FLUSH = Chunk("data-gateway-flush", transient=True)
"""The chunk behind a piece of the provider's stream: what is ready leaves before the next piece is waited for."""


class JudgedAnswer:
    """An answer between the provider and the client.

    Attributes:
        answer: the answer.
        refused: whether it may not leave.
        verdict: the verdict that stopped it; None if it may leave, or if a processor answered in the place of a tool.
        tokens: the tokens of prompt and answer as they were spent; None before that, or if nobody knows them.
    """

    def __init__(
        self,
        run: Run,
        prompt: Prompt,
        answer: PatchedAnswer,
        *,
        held: bool,
        budget: Budget | None,
        reviews: RequestReviews | None,
        calls: AnswerCalls | None,
        kind: str,
        stored: bool,
        watched: bool,
    ) -> None:
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
        self._used: Usage | None = None
        self._out: list[bytes] = []
        self._chunks: list[Chunk] | None = [] if run.serves("process_llm_response") else None
        self._calls = calls
        self._reviews = reviews if held or calls is not None else None
        self._kind = kind
        self._stored = stored
        self._watched = watched
        self._gone: list[bytes] | None = None if self._reviews is None else []  # what has left, to be stored
        self._reads_all = self._chunks is not None or budget is not None or self._gone is not None
        self._stream: OutputStream | None = None
        self._told: dict[str, Value] | None = None

    async def pieces(self, source: AsyncGenerator[Chunk], more: Callable[[], bool]) -> AsyncGenerator[bytes]:
        """Yield the bytes that may leave.

        Args:
            source: the texts of the answer.
            more: returns whether more events are at hand, so that those which are ready can wait for them.
        """
        answer, out = self.answer, self._out
        if self._reads_all:
            source = self._kept(source)
        async with self._streamed(source) as stream:
            self._stream = stream
            async for chunk in stream:
                if chunk.type == "tripwire":
                    continue
                if chunk.type != FLUSH.type:
                    answer.take(chunk)
                if self._held:
                    continue
                out += answer.ready()
                if out and (chunk.type == FLUSH.type or not more()):
                    yield self.rest()
        await self._end(stream)
        if out:
            yield self.rest()

    def _streamed(self, source: Source) -> OutputStream:
        return self._run.process_output_stream(source, release="live", held=self._held, last=False, **self._info())

    async def _end(self, stream: OutputStream) -> None:
        """Run the stages behind the stream; then all may leave that was not refused."""
        run, answer = self._run, self.answer
        if run.tripwire is not None:
            self._stop(run.tripwire)
        else:
            await self._judge(run.message_list.completed(stream.message))
        if not self.refused:
            answer.over()
            self._out += answer.ready()

    async def whole(self, chunks: Sequence[Chunk]) -> bytes:
        """Return the bytes of a whole answer as it may leave; empty if it is refused.

        Args:
            chunks: the texts of the answer.
        """
        answer = self.answer
        source: Source = self._kept(each_of(chunks)) if self._reads_all else self._shortest(chunks)
        async with self._streamed(source) as stream:
            async for chunk in stream:
                if chunk.type != "tripwire":
                    answer.take(chunk)
        await self._end(stream)
        return b"" if self.refused else self.rest()

    def _shortest(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Return the chunks of a whole answer without those that nobody sees."""
        plain = not self._watched and reads_texts_only(self._run.plans)
        return only_text(chunks) if plain else chunks

    @property
    def offer(self) -> Offer | None:
        """The function that judges pieces of text at once; None where all of them are read or held for later."""
        stream = self._stream
        return None if stream is None or self._held or self._reads_all else stream.offer

    def rest(self) -> bytes:
        """Return the bytes that may leave and have not: a verdict or an error comes behind them."""
        rest = b"".join(self._out)
        self._out.clear()
        if self._gone is not None:
            self._gone.append(rest)
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
                if chunk.type != FLUSH.type and self._chunks is not None:
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
            if self._stored:
                self.tokens = 0, 0
            self._used = as_usage(self.tokens)
            self._run.spend(self._prompt.model, self._used)

    async def _judge(self, message: Message) -> None:
        """Run the stages behind the stream; take over the answer as they changed it, if nothing of it has left."""
        run, answer = self._run, self.answer
        self.spend()
        usage = self._used
        if not answer.in_words:
            return
        calls = tuple([part for part in message.parts if part.type == "tool"])
        info: Values = FrozenDict(
            {**self._info(), "finish_reason": answer.finish_reason, "usage": usage, "tool_calls": calls or None}
        )
        outcome = await run.judge_step(message, info)
        if outcome.blocked:
            self._stop(outcome.tripwire)
            return
        after = self._taken(message, run.message_list.get(message.id)) if self._held else message
        asked = () if self.refused else await self._judge_calls()
        if self.refused:
            return
        ended = await run.process_output_result(None, finish_reason=answer.finish_reason, usage=usage)
        if ended.suspended and (self._reviews is None or not self._held):
            ended = run.refuse_question(ended)
        if ended.blocked:
            self._stop(ended.tripwire)
            return
        if self._held or asked or ended.suspended:
            after = self._taken(after, run.message_list.get(message.id))
        await self._settle(asked, ended, after)

    async def _settle(self, asked: Sequence[AskedCall], ended: Outcome, message: Message) -> None:
        """Let the answer leave, if need be as an operator has decided about it and its calls."""
        if self.refused:
            return
        if asked or ended.suspended:
            await self._ask(asked, ended, message)
        if self._reviews is not None and not self.refused:
            await self._reviews.claims.use()
        self.answer.settle()

    async def _ask(self, calls: Sequence[AskedCall], ended: Outcome, message: Message) -> None:
        """Take over the decisions of an operator about the answer and its calls.

        Raises:
            NotDecidedError: it waits, or was rejected.
        """
        run = self._run
        assert self._reviews is not None  # noqa: S101 - else nothing is asked
        reply = self._kind, self._whole_bytes
        outcome, decisions = await self._reviews.answer(run, ended, calls, message.text, reply)
        if outcome.blocked:
            self._stop(outcome.tripwire)
            return
        self._taken(message, run.message_list.get(message.id))
        if self._calls is not None and not self.refused:
            await self._calls.approve(calls, decisions)
            self._note_refused(self._calls)

    def _taken(self, before: Message, after: Message | None) -> Message:
        """Take over a changed answer; one that cannot be written in place is refused."""
        if self._held and not self.answer.replace(before, after):
            self.refused = True
        return before if after is None else after

    async def _judge_calls(self) -> Sequence[AskedCall]:
        calls = self._calls
        if calls is None:
            return ()
        asked = await calls.judge()
        self._note_refused(calls)
        return asked

    def _note_refused(self, calls: AnswerCalls) -> None:
        if calls.refused:
            self._stop(calls.verdict)

    def _whole_bytes(self) -> bytes:
        """Return the whole answer as it would leave now; then nothing more of it leaves."""
        state, before = self.answer.state, self.answer.left()
        self.answer.settle()
        self.answer.over()
        made = b"".join([*(self._gone or ()), *self._out, *self.answer.ready()])
        state.set_back(before)
        return made
