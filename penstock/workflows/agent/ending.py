"""The last stage of a request: `process_output_result` judges the whole, and what was held for it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.usage import total_usage
from penstock.workflows.agent.client_chunks import is_for_client, keep_data, send_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.run.run import Run
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.message_list import MessageList
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.request import RequestProgress


async def end_request(run: Run, progress: RequestProgress, out: Emitter[Chunk]) -> None:
    """Run `process_output_result`, and emit the chunks that were held for it; a ``tripwire`` if it objects."""
    steps = progress.current(run.message_list)
    usage = total_usage(step.usage for step in steps)
    before = run.message_list
    try:
        outcome = await run.process_output_result(finish_reason=progress.finish_reason, usage=usage, steps=steps)
    except BaseException:  # nothing stays that the last stage has not checked
        said = {step.message_id for step in progress.steps}
        run.forget(said.intersection(_answers(before)))
        raise
    if outcome.blocked:
        await out.emit_all(filter(is_for_client, outcome.chunks))
        return
    if outcome.message_list is not before:
        progress.follow_ids(_answers(before), _answers(outcome.message_list))
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
