"""Chunks for the client that are not part of an answer: data from hooks and tools, the ends of steps, held answers.

`end_request` runs the last stage, which judges the whole request, and emits the chunks that were held for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.call_ids import call_id_of
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import DataPart
from penstock.engine.values.usage import total_usage
from penstock.workflows.agent.late_guards import read_before
from penstock.workflows.agent.questions import AskedStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import ToolPart
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.progress import RequestProgress
    from penstock.workflows.agent.questions import StoredStage


def is_for_client(chunk: Chunk) -> bool:
    """Return whether the client gets a chunk: the model's own ``finish`` and ``response-metadata`` stay inside."""
    return chunk.type not in ("finish", "response-metadata")


def call_chunk(call: ToolPart, run_id: str) -> Chunk:
    """Return a tool call as one chunk."""
    payload = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
    return Chunk("tool-call", id=call.call_id, payload={**payload, "provider_metadata": call.metadata}, run_id=run_id)


def judged_chunks(held: Sequence[Chunk], calls: Sequence[ToolPart], run_id: str) -> Iterator[Chunk]:
    """Yield the chunks of calls that were held for `process_tool_call`.

    Args:
        held: the chunks as the stream stage left them.
        calls: the calls as `process_tool_call` left them; each leaves in one chunk. Other calls leave if the provider
            has run them itself.
        run_id: the id of the run.
    """
    ids = {call_id_of(chunk) for chunk in held}
    run_by_provider = {call_id_of(chunk) for chunk in held if chunk.type in ("tool-result", "tool-error")}
    yield from (chunk for chunk in held if call_id_of(chunk) in run_by_provider)
    yield from (call_chunk(call, run_id) for call in calls if call.call_id in ids - run_by_provider)


class SentChunks(NamedTuple):
    """Chunks outside an answer, after the stream stage.

    Attributes:
        chunks: the chunks that may leave now.
        accepted: the chunks that the guards accepted; they leave now, or after an answer that is held.
        outcome: the outcome of the stage, if it ran.
    """

    chunks: Sequence[Chunk]
    accepted: Sequence[Chunk] = ()
    outcome: Outcome | None = None

    @property
    def blocked(self) -> bool:
        """Whether a guard blocked them."""
        return self.outcome is not None and self.outcome.blocked


async def send_chunks(run: Run, chunks: Iterable[Chunk]) -> SentChunks:
    """Run `process_output_stream` on chunks that are not part of an answer."""
    left = list(chunks)
    if not left:
        return SentChunks(())
    outcome = None
    if run.serves("process_output_stream"):
        async with run.process_output_chunks(left) as stream:
            left = [chunk async for chunk in stream]
        outcome = stream.outcome
    if outcome is not None and outcome.blocked:
        return SentChunks(left, (), outcome)
    return SentChunks(run.releasable(left), left, outcome)


def keep_data(run: Run, answer: str, chunks: Iterable[Chunk], *, before: Iterable[Chunk] = ()) -> None:
    """Store data chunks as parts of an answer, except transient ones.

    Args:
        run: the run whose conversation holds the answer.
        answer: the id of the answer's message; nothing is stored if there is no such message.
        chunks: stored after the parts of the answer.
        before: stored before them.
    """
    first, last = _data_parts(before), _data_parts(chunks)
    message = run.message_list.get(answer) if first or last else None
    if message is not None:
        run.message_list = run.message_list.replace(message.with_parts((*first, *message.parts, *last)))


def _data_parts(chunks: Iterable[Chunk]) -> tuple[DataPart, ...]:
    return tuple(
        [
            DataPart(chunk.type.removeprefix("data-"), chunk.payload.get("data", chunk.payload))
            for chunk in chunks
            if chunk.is_data and not chunk.transient
        ]
    )


async def end_request(
    run: Run, progress: RequestProgress, out: Emitter[Chunk], asked: StoredStage | None = None
) -> None:
    """Run `process_output_result`, and emit the chunks that were held for it; a ``tripwire`` if it objects.

    Args:
        run: the run.
        progress: how far the request has come.
        out: where the chunks go.
        asked: the stage, if it waited for persons; only its rest runs.
    """
    steps = progress.current(run.message_list)
    usage = total_usage(step.usage for step in steps)
    before = run.message_list
    try:
        told: dict[str, Value] = {"finish_reason": progress.finish_reason, "usage": usage, "steps": steps}
        if asked is None and (read := read_before(run, progress)):
            outcome = await run.resume_stage("process_output_result", EMPTY, read, **told)
        else:
            outcome = await (run.process_output_result(**told) if asked is None else asked.resume(run, **told))
    except BaseException:  # nothing stays that the last stage has not checked
        said = {step.message_id for step in progress.steps}
        run.forget(said.intersection(_answers(before)))
        raise
    if outcome.blocked:
        await out.emit_all(filter(is_for_client, outcome.chunks))
        return
    if outcome.suspended:
        progress.asked = (AskedStage(outcome, EMPTY if asked is None else asked.answers),)
    if outcome.message_list is not before:
        progress.follow_ids(_answers(before), _answers(outcome.message_list))
    if outcome.suspended:
        progress.finish_reason = "other"
        return
    await _emit_held(run, progress, outcome.chunks, out)
    if outcome.data:
        left = await send_chunks(run, outcome.data)
        keep_data(run, progress.last_answer, left.accepted)
        await out.emit_all(left.chunks)


async def _emit_held(run: Run, progress: RequestProgress, chunks: Iterable[Chunk], out: Emitter[Chunk]) -> None:
    """Emit the chunks of held answers. If the reader leaves, answers that were not sent whole are removed."""
    sent = 0
    try:
        for sent, chunk in enumerate(chunks, 1):  # noqa: B007 - it is read where the reader leaves
            if is_for_client(chunk):
                progress.answering = chunk.type != "step-finish"
                await out.emit(chunk)
    except BaseException:
        run.drop_unsent(sent)
        raise


def _answers(messages: MessageList) -> list[str]:
    """Return the ids of the answers in a conversation."""
    return [message.id for message in messages.response]
