"""What a streaming client is sent beside the answer: one verdict, what is taken back, and nothing twice."""

from __future__ import annotations

from penstock import Chunk, OutputStepContext, Processor, Workflow, processor
from penstock.engine.processor.context import InputContext, OutputStreamContext


@processor(edits="nothing")
def calm(ctx: OutputStepContext) -> None:
    """Refuse shouting."""
    if "!" in ctx.text:
        ctx.abort("no shouting", retry=True)


class Quick(Processor):
    """Refuses a word in the stream."""

    edits = "nothing"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if "bad" in chunk.text:
            ctx.abort("bad word", retry=True)
        return chunk


@processor(edits="nothing")
def closed(ctx: InputContext) -> None:
    """Refuse everything."""
    ctx.abort("closed")


def types(chunks: object) -> list[str]:
    """Return the types of chunks."""
    return [chunk.type for chunk in chunks]  # type: ignore[attr-defined]


def test_what_is_out_is_retracted_before_the_tripwire() -> None:
    """The stage that rejects an answer that was let out says so, once; later stages say nothing."""
    run = Workflow("w").then(calm).start_sync()
    with run.process_output_stream([Chunk("text-delta", "Hi!", "t1")], release="live") as chunks:
        assert [chunk.text for chunk in chunks] == ["Hi!"]
    outcome = run.process_output_step(chunks.message)
    assert types(outcome.chunks) == ["retract", "tripwire"]
    assert outcome.chunks[0].payload["blocks"] == ("t1",)
    assert outcome.chunks[1].payload["reason"] == "no shouting"
    assert run.process_output_result().blocked
    assert types(run.process_output_result().chunks) == []


def test_a_retry_is_told_as_a_step_that_ended() -> None:
    """The client takes the attempt back, and no tripwire is sent."""
    run = Workflow("w").then(Quick()).start_sync(max_processor_retries=1)
    source = [Chunk("text-delta", "good ", "t1"), Chunk("text-delta", "bad", "t1"), Chunk("text-delta", "more", "t1")]
    with run.process_output_stream(source) as chunks:
        assert types(chunks) == ["text-delta", "retract", "step-finish"]
    assert chunks.outcome is not None
    assert (chunks.outcome.retry_granted, chunks.text, run.run.tripwire) == (True, "", None)
    with run.process_output_stream(source) as chunks:
        told = list(chunks)
    assert types(told) == ["text-delta", "retract", "tripwire"]
    assert told[-1].payload["processor_id"] == "quick"


def test_the_stage_that_gives_the_verdict_tells_it() -> None:
    """Without a stream too; a stream of a stopped run tells it as its only chunk."""
    run = Workflow("w").then(closed).then(Quick()).start_sync()
    assert types(run.process_input("hi").chunks) == ["tripwire"]
    with run.process_output_stream(["never read"]) as chunks:
        assert types(chunks) == ["tripwire"]


def test_nothing_was_out_so_nothing_is_taken_back() -> None:
    """A held answer that is rejected was never seen."""
    run = Workflow("w").then(calm).start_sync()
    with run.process_output_stream(["Hi!"]) as chunks:
        assert types(chunks) == ["tripwire"]
    assert chunks.judged is not None
    assert chunks.judged.stage == "process_output_step"


@processor(edits="spans")
def tidy(ctx: OutputStepContext) -> object:
    """Hide a word in answers that are whole."""
    return ctx.message_list.map_text(lambda text: text.replace("secret", "[X]"), ctx.message_list.response)


def test_a_held_answer_is_seen_as_it_was_judged() -> None:
    """Neither text nor message nor outcome shows what a later stage has taken away."""
    run = Workflow("w").then(tidy).start_sync()
    with run.process_output_stream([Chunk("text-delta", "a se", "t"), Chunk("text-delta", "cret", "t")]) as chunks:
        assert [chunk.text for chunk in chunks if chunk.text] == ["a [X]"]
    assert chunks.outcome is not None
    assert (chunks.text, chunks.message.text, chunks.outcome.text) == ("a [X]", "a [X]", "a [X]")
    assert chunks.message.id in [message.id for message in run.run.message_list.response]


def test_a_blocked_answer_is_empty_everywhere() -> None:
    """What had left before the verdict is no answer."""
    run = Workflow("w").then(Quick()).start_sync()
    with run.process_output_stream(["good ", "bad"]) as chunks:
        assert [chunk.text for chunk in chunks if chunk.text] == ["good "]
    assert chunks.outcome is not None
    assert (chunks.text, chunks.message.parts, chunks.outcome.text) == ("", (), "")
