"""`RunStreams`: what a run is to its streams: what they start from, what they leave, and who judges what they hold."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.execution.boundary import log
from penstock.engine.execution.executor import overlapped
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import StageCall
from penstock.engine.run.conversation import NONE_FRESH
from penstock.engine.run.stages import Held, RunCore
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict
from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.processor.payload import Payload
    from penstock.engine.processor.stages import Stage
    from penstock.engine.streams.stream import Hold, StreamHost
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Record, Tripwire

Release = Literal["auto", "live", "step", "result"]

_STREAM = STAGES["process_output_stream"]
_LLM_RESPONSE = STAGES["process_llm_response"]
_OUTPUT_STEP = STAGES["process_output_step"]
_OUTPUT_RESULT = STAGES["process_output_result"]


class RunStreams(RunCore):
    """A run that streams."""

    def _host(self, info: dict[str, Value], *, last: bool, sync: bool) -> StreamHost:
        from penstock.engine.streams.stream import StreamHost  # loaded where an answer is streamed

        checks = self._checks_first if sync else self._run_checks
        return StreamHost(
            lambda: self.tripwire,
            checks if self._state.pending else None,
            self._stream_begins,
            self._stream_passed,
            self._stream_stopped,
            functools.partial(self._answer_judged, info, last),
        )

    def _held_until(self, release: Release) -> Hold:
        if release not in get_args(Release):
            raise UsageError(f"release is one of {', '.join(get_args(Release))}, not {release!r}")
        needed = self._plans.release
        if release == "auto":
            return needed
        if release == "live" and needed != "live" and not self._plans.told_live:
            self._plans.told_live = True
            log.warning(
                "%s: answers leave before process_output_%s has judged them; what it rejects is retracted (said once)",
                self._plans.name,
                needed,
            )
        return release

    def let_out(self, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
        """Return what of chunks that belong to no answer may leave now: all, unless an answer before them is held.

        Those leave behind it, when `process_output_result` has judged it; results of tools it is sent with anyway.
        """
        if not self._held:
            return tuple(chunks)
        self._held[-1].behind.extend(chunk for chunk in chunks if chunk.type not in ("tool-result", "tool-error"))
        return ()

    async def _run_checks(self) -> Outcome:
        """Run the checks that wait for the model, beside its stream."""
        pending, mark = self._take_pending(), self._mark()
        try:
            _, end = await overlapped(pending, _nothing)
        except BaseException:
            self._state.pending = pending  # they gave no verdict, so they still have to
            raise
        return self._checked(pending, end, mark)

    async def _checks_first(self) -> Outcome:
        """Run those checks before the stream: in sync form nothing runs beside it."""
        await self._drained()
        return self._stopped(STAGES["process_input"])

    def _stream_begins(self) -> tuple[StageCall, Payload]:
        self._stream_mark = self._mark()
        return StageCall(self._state, _STREAM, EMPTY, NONE_FRESH), self._ledger.begin(_STREAM, self._state)

    def _stream_passed(self, call: StageCall, before: Payload, end: Payload, out: Sequence[str]) -> Outcome:
        if out:
            self._shown.append((len(before.message_list.response), out))
        return self._ended(_STREAM, call, before, end, self._stream_mark)

    def _stream_stopped(
        self, call: StageCall, before: Payload, tripwire: Tripwire, failure: Exception | None
    ) -> Outcome:
        if self.tripwire is not None:
            return self._stopped(_STREAM)
        records = () if self._state.records is None else self._state.records[self._stream_mark :]
        return self._blocked(_STREAM, call, before, before.stopped(tripwire, failure), records)

    async def _answer_judged(
        self,
        told: dict[str, Value],
        last: bool,  # noqa: FBT001 - of a partial
        answer: Message,
        hold: Hold,
        held: list[Chunk],
    ) -> tuple[Outcome, Message | None, list[Chunk]]:
        """Run the stages that an answer's chunks are held for; with calls to tools, another answer is to come."""
        earlier = len(self.message_list.response)
        answer = self.message_list.completed(answer)
        info: Values = FrozenDict({**_finish(held), "tool_calls": _calls(answer) or None, **told})
        outcome = await self._step_judged(answer, info)
        if outcome.blocked:
            return outcome, None, []
        after = outcome.message_list.get(answer.id)
        leaving = _resent(held, answer, after)
        if after is not None and not after.parts:  # it was judged, but no provider takes a message that says nothing
            self.message_list = self.message_list.remove(after.id)
        if hold == "step":
            self._shown.append((earlier, _texts_of(leaving)))
            return outcome, after, leaving
        judged = answer if after is None else after  # one that was removed still has an end that is sent
        self._held.append(Held(judged, leaving, []))
        if not last or (after is not None and _calls(after)):
            return outcome, after, []
        outcome = await self._run(_OUTPUT_RESULT, None, EMPTY, info)
        return outcome, outcome.message_list.get(answer.id), [] if outcome.blocked else list(outcome.chunks)

    async def _step_judged(self, answer: Message, info: Values) -> Outcome:
        """Run what judges an answer at the end of its step."""
        if self._plans.stage(_LLM_RESPONSE.name) is None:
            return await self._run(_OUTPUT_STEP, answer, EMPTY, info)
        outcome = await self._run(_LLM_RESPONSE, answer, EMPTY, info)
        return outcome if outcome.blocked else await self._run(_OUTPUT_STEP, None, EMPTY, info)

    # What a client is told when a later stage has judged

    def _ended(self, stage: Stage, call: StageCall, before: Payload, end: Payload, mark: int) -> Outcome:
        outcome = super()._ended(stage, call, before, end, mark)
        if stage is _OUTPUT_RESULT and self._held and not outcome.blocked:
            held, self._held = self._held, []
            messages = outcome.message_list
            sent = [
                chunk
                for message, chunks, behind in held
                for chunk in (*_resent(chunks, message, messages.get(message.id)), *behind)
            ]
            return outcome.with_stream((), tuple(sent))
        return outcome

    def _blocked(
        self, stage: Stage, call: StageCall, before: Payload, end: Payload, records: Sequence[Record]
    ) -> Outcome:
        outcome = super()._blocked(stage, call, before, end, records)
        if stage.order < _STREAM.order or (stage is _STREAM and not outcome.retry_granted):
            return outcome
        accepted = 0 if stage is _OUTPUT_RESULT else len(outcome.message_list.response)
        out = [block for earlier, blocks in self._shown if earlier >= accepted for block in blocks]
        self._shown = [shown for shown in self._shown if shown[0] < accepted]
        kept = outcome.message_list if outcome.retry_granted else ()
        self._held = [held for held in self._held if held.message.id in kept]
        return outcome.with_stream(out)


def _texts_of(chunks: Sequence[Chunk]) -> Sequence[str]:
    """Return the ids of the texts that chunks are pieces of."""
    return tuple(dict.fromkeys([chunk.id for chunk in chunks if chunk.type in ("text-delta", "reasoning-delta")]))


def _resent(chunks: list[Chunk], before: Message, after: Message | None) -> list[Chunk]:
    from penstock.engine.streams.chunk_texts import resent  # loaded where an answer is streamed

    return resent(chunks, before, after)


async def _nothing() -> None:
    """Be done: what a check beside a stream runs beside."""


def _calls(answer: Message) -> tuple[ToolPart, ...]:
    """Return the calls to tools in an answer that have no result yet."""
    return tuple(part for part in answer.parts if isinstance(part, ToolPart) and part.state == "call")


def _finish(chunks: Sequence[Chunk]) -> dict[str, Value]:
    """Return why the model stopped, and the tokens it took, as its last chunks tell."""
    for chunk in reversed(chunks):
        if chunk.type in ("step-finish", "finish"):
            reason = next((chunk.payload[name] for name in _REASONS if name in chunk.payload), None)
            return {"finish_reason": None if reason is None else str(reason), "usage": _usage(chunk.payload)}
    return {"finish_reason": None}


def _usage(end: Values) -> Value:
    """Return the tokens that the end of an answer tells of, as they stand where they are told in another form."""
    from penstock.engine.values.answers import usage_of  # loaded where an answer is streamed

    try:
        return usage_of(end.get("usage"))
    except TypeError:
        return end["usage"]


_REASONS = ("reason", "finish_reason", "finishReason")
