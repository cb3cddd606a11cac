"""Check an answer of a model: as a stream, at its end, its calls of tools, and as the result of the request.

A stream carries the parts of an answer. What else a message holds (its name, fields that only one format knows, parts
that nobody knows) goes through it as data beside the parts, so that guards read and edit that, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING

from penstock.engine.graph.plan import plan_steps
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_mapping, thaw
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.terms import SEAL_KEYS, is_code, without_keys
from penstock.engine.values.texts import TextPlace
from penstock.formats.wire import has_text
from penstock.workflows.gateway.checks.core import FAILED, CheckResult, blocked, changed, guarded, listed
from penstock.workflows.web.whole import chunks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Part
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json

_OWN = token_hex(8)
_BESIDE, _UNKNOWN = f"beside-{_OWN}", f"unknown-{_OWN}-"
"""The names of data parts: for what stands beside the parts, and for parts that nobody knows, with their number. Nobody
can send a part of such a name."""


async def check_answer(
    guards: Workflow,
    answer: Message,
    *,
    asked: Sequence[Message] = (),
    context: Json | None = None,
    records: bool = False,
    streams: bool = False,
) -> CheckResult:
    """Check an answer of a model: its stream, its end, its calls of tools, and the end of the request.

    Its text goes through the stream as one piece. Guards of streams treat that as they treat any other cut of it.
    `CheckResult.released` says how much of it would have left before the end.

    Args:
        guards: the policy.
        answer: the answer, with its calls of tools.
        asked: the conversation that it belongs to, which some guards compare it with. It is not checked.
        context: the request context of the run.
        records: whether the result has edits and records.
        streams: whether the answer may be the beginning of one that is checked again with more text. The guards of its
            stream then have the last word about the text, unless others decide about it later: a second reading may
            not change text that the first one has released.

    Raises:
        MessageError: the answer has an id in no form of one, which nobody would read; or two messages have one id.
    """
    if answer.id and not is_code(answer.id):
        raise MessageError("id", "is no id of letters, digits and signs; send such a one, or none")
    run = guards.start(request_context=context, records=records)
    if asked:  # they are context, and nobody's word that has to be read
        run.message_list = listed([replace(message, from_client=False) for message in asked])
    given = run.message_list.completed(replace(answer, role="assistant", id=""))
    check = _AnswerCheck(run, given, _Stages.of(guards), records=records, streams=streams)
    return await guarded(run, check.result(), records=records)


@dataclass(frozen=True, slots=True)
class _Stages:
    """The steps of a policy that judge answers in their stream alone, or behind it alone.

    Attributes:
        live: whether there are steps of the first kind. Only the stream has their edits.
        late: whether there are steps of the second kind. The text that a stream releases is then not final.
    """

    live: bool
    late: bool

    @classmethod
    def of(cls, guards: Workflow) -> _Stages:
        """Return those of a policy."""
        plans = guards.plans
        live = {step.processor_id for step in plan_steps(plans.stage("process_output_stream"))}
        late = {
            step.processor_id
            for stage in ("process_llm_response", "process_output_step", "process_output_result")
            for step in plan_steps(plans.stage(stage), fallbacks=True)
        }
        return cls(not late.issuperset(live), plans.release != "live" or not live.issuperset(late))


class _AnswerCheck:
    """One answer on its way through the stages."""

    def __init__(self, run: Run, given: Message, stages: _Stages, *, records: bool, streams: bool) -> None:
        self._run = run
        self._stages = stages
        self._streams = streams
        self._given = given
        self._whole = in_parts(given)
        self._records = records
        self._source = _AnswerSource(self._whole)

    async def result(self) -> CheckResult:
        """Run the stages."""
        async with self._run:
            answer, outcome = await self._judged()
        if outcome is None:
            return CheckResult(verdict="blocked", tripwire=FAILED, failed=True)
        if outcome.blocked:
            return blocked(self._run, outcome, records=self._records)
        late = self._stages.late
        final = answer if self._streams and not late else outcome.message_list.get(answer.id)
        left = None if final is None else self._restored(final)
        text = "" if left is None else left.text
        held = "" if late or not text.startswith(self._source.released) else self._source.released
        streamed = [
            TextPlace(self._given.id, number)
            for number, part in enumerate(self._given.parts)
            if isinstance(part, (TextPart, ReasoningPart)) and part.text
        ]
        return changed(
            [self._given], [left], (), self._run, records=self._records, released=len(held), streamed=streamed
        )

    def _restored(self, final: Message) -> Message:
        untouched = final.parts in (self._whole.parts, self._source.sent.message.parts)
        return self._given if untouched else restored(final, self._given)

    async def _judged(self) -> tuple[Message, Outcome | None]:
        """Run all stages; return the answer that the later ones got, and how the last stage that ran has ended."""
        outcome, answer = await self._streamed()
        if outcome is not None and not outcome.blocked:
            outcome = await self._calls_judged(answer) or outcome
        if outcome is not None and not outcome.blocked:
            outcome = await self._run.process_output_result(finish_reason="stop", steps=())
        return answer, outcome

    async def _streamed(self) -> tuple[Outcome | None, Message]:
        """Run the stream and the stages at its end; return how they ended, and the answer that went in there.

        That is the given one, in its own shape, where the later stages make all edits of the stream, too.
        """
        stream = self._run.process_output_stream(self._source.chunks(), last=False)
        async with stream:
            async for chunk in stream:
                if chunk.type == "text-delta":
                    self._source.left.append(chunk.text)
        outcome, answer = stream.outcome, self._run.message_list.completed(stream.message)
        if stream.judged is None and outcome is not None and not outcome.blocked:
            from_stream = self._stages.live and answer.parts != self._source.sent.message.parts
            if not (self._streams or from_stream):
                answer = self._whole
            outcome = await self._run.judge_step(answer, FrozenDict(finish_reason="stop", steps=()))
        return outcome, answer

    async def _calls_judged(self, answer: Message) -> Outcome | None:
        """Judge the calls of tools of an answer, and put the guarded version of them into the conversation.

        Return a verdict, if there is one.
        """
        run = self._run
        stored = run.message_list.get(answer.id)
        if stored is None:
            return None
        judged = stored
        for call in stored.parts:
            if isinstance(call, ToolPart):
                outcome = await run.process_tool_call(call.name, thaw(call.arguments), call_id=call.call_id)
                if outcome.blocked:
                    return outcome
                judged = _with_call(judged, call, outcome)
        if judged != stored:
            run.message_list = run.message_list.replace(judged)
        return None


class _AnswerSource:
    """An answer as the chunks of a model. Notes the text that has left before its first text ends.

    Attributes:
        left: the pieces of text that have left so far.
        sent: the answer as its chunks alone say it.
        released: the text that had left when the first text of the answer was about to end.
    """

    def __init__(self, answer: Message) -> None:
        self.left: list[str] = []
        self.sent = Assembly()
        self.released = ""
        self._answer = answer
        self._ended = False

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks."""
        for chunk in chunks_of(self._answer):
            if chunk.type == "text-end" and not self._ended:
                self._ended = True
                self.released = "".join(self.left)
            self.sent.add(chunk)
            yield chunk


def _with_call(message: Message, call: ToolPart, outcome: Outcome) -> Message:
    """Return an answer with a call as it was left; one that a processor has answered is removed from it."""
    if outcome.answered:
        return message.with_parts([part for part in message.parts if part is not call])
    left = replace(call, arguments=outcome.overrides.get("arguments", EMPTY))
    return message.with_parts([left if part is call else part for part in message.parts])


# What a stream does not carry


def in_parts(answer: Message) -> Message:
    """Return an answer with all of its texts in parts that a stream carries."""
    parts: list[Part] = [
        DataPart(f"{_UNKNOWN}{number}", part.raw) if isinstance(part, UnknownPart) else replace(part, metadata=EMPTY)
        for number, part in enumerate(answer.parts)
    ]
    metadata, of_parts = thaw(dict(answer.metadata)), [thaw(dict(part.metadata)) for part in answer.parts]
    if answer.name or has_text(metadata) or any(map(has_text, of_parts)):
        beside = {"name": answer.name, "metadata": metadata, "parts": of_parts}
        parts.append(DataPart(_BESIDE, beside))
    return replace(answer, parts=tuple(parts), name=None, metadata=EMPTY)


@dataclass
class _Restored:
    """The parts of an answer while they are restored: the given ones that were not found yet, and the restored ones."""

    given: list[Part]
    metadata: list[Value]
    made: list[Part] = field(default_factory=list["Part"])

    def take(self, now: Part) -> None:
        """Add a part: the given one if it was not changed, else with the metadata of the given one."""
        at = next((place for place, part in enumerate(self.given) if _is_like(now, part)), None)
        if at is None:
            self.made.append(now)
            return
        was, metadata = self.given[at], self.metadata[at]
        del self.given[: at + 1], self.metadata[: at + 1]
        if isinstance(now, DataPart) and isinstance(was, UnknownPart):
            now = UnknownPart(now.data)
        if isinstance(now, FilePart) and _body_of(now) == _body_of(was):
            now = was
        same = replace(now, metadata=was.metadata) == was
        bare = metadata if same else without_keys(metadata, SEAL_KEYS)
        self.made.append(was if same and metadata == was.metadata else replace(now, metadata=bare))


def _is_like(now: Part, was: Part) -> bool:
    """Return whether a part that left a stream can be one that went in; files of all kinds leave as files."""
    if isinstance(now, DataPart) and now.name.startswith(_UNKNOWN):
        return isinstance(was, UnknownPart)
    return type(now) is type(was) or (isinstance(now, FilePart) and isinstance(was, (ImagePart, AudioPart)))


def _body_of(part: Part) -> tuple[Value, ...]:
    names = ("url", "data", "media_type", "name", "transcript")
    return tuple(getattr(part, name, None) or None for name in names)


def restored(final: Message, given: Message) -> Message:
    """Return an answer as the guards left it, in the shape that it was given in."""
    data = next((part.data for part in final.parts if isinstance(part, DataPart) and part.name == _BESIDE), None)
    beside = data if is_mapping(data) else None
    if beside is None:  # it was not sent, or a guard removed it
        sent = any(isinstance(part, DataPart) and part.name == _BESIDE for part in in_parts(given).parts)
        name, metadata, of_parts = (None, EMPTY, [EMPTY] * len(given.parts)) if sent else _beside_of(given)
    else:
        name, metadata, of_parts = beside.get("name"), beside.get("metadata", EMPTY), list(beside.get("parts", ()))
    of_parts = [item if is_mapping(item) else EMPTY for item in of_parts]
    of_parts += [EMPTY] * (len(given.parts) - len(of_parts))
    work = _Restored(list(given.parts), of_parts)
    for part in final.parts:
        if not isinstance(part, StepStartPart) and not (isinstance(part, DataPart) and part.name == _BESIDE):
            work.take(part)
    fresh = FrozenDict(metadata) if is_mapping(metadata) else EMPTY
    return replace(
        given, parts=tuple(work.made), name=name, metadata=given.metadata if fresh == given.metadata else fresh
    )


def _beside_of(given: Message) -> tuple[str | None, Value, list[Value]]:
    return given.name, given.metadata, [part.metadata for part in given.parts]
