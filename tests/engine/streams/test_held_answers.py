"""Answers whose chunks are held for a later stage: what a client sees of them, and when. Nothing is sent twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Chunk, OutputResultContext, OutputStepContext, Processor, Workflow
from penstock.engine import StepFailedError, UsageError
from penstock.engine.values.messages import ImagePart, StepStartPart, TextPart, UnknownPart
from penstock.testing import run_stream
from tests.engine.streams.toys import message_of


class Judge(Processor):
    """Judges answers at the end of their step, or of the run; what it does is given."""

    role = "guard"
    edits = "anything"

    def __init__(self, judge: Callable[[Any], Any], stage: str = "process_output_step") -> None:
        self.stages = (stage,)
        self.judge = judge

    def process_output_step(self, ctx: OutputStepContext) -> Any:
        """Judge."""
        return self.judge(ctx)

    def process_output_result(self, ctx: OutputResultContext) -> Any:
        """Judge."""
        return self.judge(ctx)


def passed(ctx: Any) -> None:
    """Let it pass."""


def hidden(ctx: Any) -> Any:
    """Hide a word of its texts."""
    return ctx.message_list.map_text(lambda text: text.replace("secret", "[X]"), ctx.message_list.response)


def dropped(ctx: Any) -> Any:
    """Take the answer away."""
    return ctx.message_list.remove(*(message.id for message in ctx.message_list.response))


def angry(ctx: Any) -> None:
    """Ask for another answer than a bad one."""
    if any("bad" in message.text for message in ctx.message_list.response):
        ctx.abort("a bad word", retry=True)


def flow(judge: Callable[[Any], Any] = passed, stage: str = "process_output_step") -> Workflow:
    """Return a workflow of one judge."""
    return Workflow("w").then(Judge(judge, stage))


def types(chunks: Any) -> list[str]:
    """Return the types of chunks."""
    return [chunk.type for chunk in chunks]


CALL = Chunk("tool-call", id="c", payload={"call_id": "c", "name": "look", "arguments": {"at": "it"}})
EVERYTHING = [
    Chunk("start"),
    Chunk("reasoning-delta", "why", "r"),
    Chunk("text-start", id="t"),
    Chunk("text-delta", "a secret", "t"),
    Chunk("text-end", id="t"),
    CALL,
    Chunk("tool-result", id="c", payload={"call_id": "c", "result": {"found": 1}}),
    Chunk("tool-call", id="d", payload={"call_id": "d", "name": "look", "arguments": {}}),
    Chunk("tool-error", id="d", payload={"call_id": "d", "error": "not there"}),
    Chunk("tool-call", id="e", payload={"call_id": "e", "name": "look", "arguments": {}}),
    Chunk("source", payload={"id": "s", "url": "https://example.com", "title": "A page"}),
    Chunk("file", payload={"data": "AAAA", "media_type": "image/png", "name": "a.png"}),
    Chunk("file", payload={"data": "BBBB", "media_type": "audio/wav", "transcript": "what is said"}),
    Chunk("data-note", payload={"data": {"of": "mine"}}),
    Chunk("data-fleeting", payload={"data": 1}, transient=True),
    Chunk("raw", payload={"provider_part": {"type": "strange"}}),
    Chunk("finish", payload={"reason": "stop", "echo": "a secret"}),
]


def test_an_edited_answer_is_sent_anew_part_by_part() -> None:
    """Each part that the message has, in its order; what ends the answer ends it, and repeats nothing of it."""
    run = flow(hidden).start_sync()
    with run.process_output_stream(EVERYTHING) as chunks:
        left = list(chunks)

    assert "secret" not in repr([(chunk.text, chunk.payload) for chunk in left])
    assert message_of(left).parts == tuple(part for part in chunks.message.parts if part.type != "unknown")
    assert [part.type for part in chunks.message.parts][-1] == "unknown"  # only its provider can read it
    assert types(left) == [
        *("start", "data-fleeting"),
        *("reasoning-start", "reasoning-delta", "reasoning-end", "text-start", "text-delta", "text-end"),
        *("tool-call", "tool-result", "tool-call", "tool-error", "tool-call", "source", "file", "file", "data-note"),
        "finish",
    ]
    assert dict(left[-1].payload) == {"reason": "stop"}
    assert len({chunk.id for chunk in left if chunk.type in ("text-delta", "reasoning-delta")}) == 2


def test_an_answer_that_nobody_changed_is_sent_as_it_came() -> None:
    """Chunk by chunk, with all that they say."""
    left, outcome = run_stream(flow(), EVERYTHING)
    assert left == EVERYTHING
    assert outcome.stage == "process_output_step"


def test_an_answer_that_a_step_wrote_is_sent_as_what_can_be_sent() -> None:
    """An image goes as a file; what only marks a step, or only its provider can read, does not go."""
    parts = (
        StepStartPart(),
        ImagePart(data="AAAA", media_type="image/png"),
        TextPart("see there"),
        UnknownPart({"a": 1}),
    )

    def written(ctx: Any) -> Any:
        return ctx.message_list.replace(*(dataclasses.replace(m, parts=parts) for m in ctx.message_list.response))

    left, _ = run_stream(flow(written), ["an answer"])
    assert [(part.type, getattr(part, "data", None)) for part in message_of(left).parts] == [
        ("file", "AAAA"),
        ("text", None),
    ]


def test_a_text_that_was_taken_away_whole_leaves_no_empty_one() -> None:
    """Neither its start nor its end."""
    left, _ = run_stream(
        flow(lambda ctx: ctx.message_list.map_text(lambda _: "", ctx.message_list.response)),
        ["all of it", Chunk("data-note", payload={"data": 1}), Chunk("finish")],
    )
    assert types(left) == ["data-note", "finish"]


@pytest.mark.parametrize("release", ["step", "result"])
def test_an_answer_that_was_removed_leaves_only_its_end(release: Any) -> None:
    """The client still learns that the answer is over."""
    source = [Chunk("start"), Chunk("text-delta", "an answer", "t"), Chunk("finish", payload={"reason": "stop"})]
    left, outcome = run_stream(flow(dropped), source, release=release)
    assert types(left) == ["start", "finish"]
    assert not outcome.blocked
    assert outcome.text == ""


def test_a_release_that_is_none_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match="release must be one of auto, live, step, result, not 'later'"):
        flow().start_sync().process_output_stream(["a"], release="later")  # type: ignore[arg-type]


def test_a_judge_is_told_why_the_model_stopped_and_what_it_calls() -> None:
    """By the chunks that are held, in whichever words; what the caller says beyond that counts more."""
    seen: list[Any] = []

    def look(ctx: Any) -> None:
        seen.append((ctx.finish_reason, [call.call_id for call in ctx.tool_calls or ()]))

    run_stream(flow(look), [CALL, Chunk("step-finish", payload={"finishReason": "tool-calls"})])
    run_stream(flow(look), ["a", Chunk("step-finish"), Chunk("data-last", payload={"data": 1})])
    run_stream(flow(look), ["a"])
    with flow(look).start_sync().process_output_stream(["a"], finish_reason="length") as chunks:
        list(chunks)
    assert seen == [("tool-calls", ["c"]), (None, []), (None, []), ("length", [])]


@pytest.mark.parametrize("release", ["step", "result"])
def test_of_a_source_that_breaks_nothing_that_is_held_leaves(release: Any) -> None:
    """Nobody has judged it; the error comes where the chunks are read."""

    def source() -> Iterator[str]:
        yield "half an ans"
        raise OSError("the line is dead")

    run = flow().start_sync()
    left: list[Chunk] = []
    with run.process_output_stream(source(), release=release) as chunks, pytest.raises(OSError, match="dead"):
        left.extend(chunks)
    assert left == []
    assert chunks.outcome is None


@pytest.mark.parametrize("stage", ["process_output_step", "process_output_result"])
async def test_a_caller_that_holds_an_answer_itself_is_not_warned(caplog: Any, stage: str) -> None:
    """Another one is, once, also behind one that holds."""
    workflow = flow(stage=stage)
    for held, warnings in ((True, 0), (False, 1), (False, 1), (True, 1)):
        async with workflow.start() as run, run.process_output_stream(["a"], release="live", held=held) as chunks:
            assert [chunk.text async for chunk in chunks if chunk.text] == ["a"]
        assert caplog.text.count(f"answers leave before {stage} has judged them") == warnings


def test_what_was_held_for_the_end_of_the_run_leaves_there_once() -> None:
    """Each answer that called tools with the last one; each as the end of the run left it."""
    run = flow(hidden, "process_output_result").start_sync()
    first = [Chunk("text-delta", "a secret call", "t"), CALL, Chunk("step-finish", payload={"reason": "tool-calls"})]
    with run.process_output_stream(first) as chunks:
        assert types(chunks) == []
    assert chunks.outcome is not None
    assert (chunks.outcome.stage, chunks.outcome.blocked) == ("process_output_step", False)
    run.process_tool_result("look", {"found": 1}, call_id="c")

    with run.process_output_stream([Chunk("text-delta", "an answer", "t"), Chunk("finish")]) as chunks:
        left = list(chunks)
    assert [chunk.text or chunk.type for chunk in left] == [
        *("text-start", "a [X] call", "text-end", "tool-call", "step-finish"),
        *("an answer", "finish"),
    ]
    assert chunks.outcome is not None
    assert chunks.outcome.stage == "process_output_result"
    assert types(run.process_output_result().chunks) == []


def test_a_verdict_at_the_end_of_the_run_lets_nothing_that_was_held_out() -> None:
    """One tripwire, in the stream; nothing is taken back, since nothing was out."""
    run = flow(angry, "process_output_result").start_sync()
    with run.process_output_stream([Chunk("text-delta", "a bad call", "t"), CALL]) as chunks:
        assert types(chunks) == []
    with run.process_output_stream([Chunk("text-delta", "an answer", "t")]) as chunks:
        assert types(chunks) == ["tripwire"]
    assert chunks.text == ""
    assert run.tripwire is not None


def test_a_rejected_attempt_that_was_held_leaves_nothing_and_the_next_one_all() -> None:
    """A held answer that is to be made again was never out: nothing is retracted."""
    run = flow(angry).start_sync(max_processor_retries=1)
    with run.process_output_stream([Chunk("text-delta", "a bad one", "t")], release="result") as chunks:
        told = list(chunks)
    assert types(told) == ["step-finish"]
    assert told[0].payload["reason"] == "retry"
    assert chunks.outcome is not None
    assert chunks.outcome.retry_granted

    with run.process_output_stream([Chunk("text-delta", "a good one", "t")], release="result") as chunks:
        assert [chunk.text for chunk in chunks] == ["a good one"]
    assert not run.process_output_result().blocked


def test_a_retry_keeps_what_was_accepted_before_it() -> None:
    """The answer that called a tool is still held, and leaves with the second attempt at the last one."""
    run = flow(angry).start_sync(max_processor_retries=1)
    for source in ([Chunk("text-delta", "a call", "t"), CALL], [Chunk("text-delta", "a bad one", "u")]):
        with run.process_output_stream(source, release="result") as chunks:
            told = types(chunks)
    assert told == ["step-finish"]
    with run.process_output_stream([Chunk("text-delta", "a good one", "v")], release="result") as chunks:
        assert [chunk.text or chunk.type for chunk in chunks] == ["a call", "tool-call", "a good one"]


def test_only_what_a_verdict_rejects_is_taken_back() -> None:
    """An accepted answer stays when the next one is to be made again; the verdict at the end takes all of it back."""
    late = flow(lambda ctx: ctx.abort("all of it"), "process_output_result").then(Judge(angry))
    run = late.start_sync(max_processor_retries=1)
    told: list[list[Any]] = []
    for text, id in (("a call", "t"), ("a bad one", "u"), ("a good one", "v")):
        with run.process_output_stream([Chunk("text-delta", text, id), CALL], release="live") as chunks:
            list(chunks)
        told.append(
            [chunk.payload.get("blocks", chunk.type) for chunk in run.process_output_step(chunks.message).chunks]
        )
    assert told == [[], [("u",), "step-finish"], []]
    end = run.process_output_result()
    assert [chunk.payload.get("blocks", chunk.type) for chunk in end.chunks] == [("t", "v"), "tripwire"]


def test_what_left_after_its_step_is_taken_back_by_the_end_of_the_run() -> None:
    """Under the ids that the client saw, also where the answer was sent anew."""
    run = flow(hidden).then(Judge(lambda ctx: ctx.abort("all of it"), "process_output_result")).start_sync()
    with run.process_output_stream([Chunk("text-delta", "a secret", "t")], release="step") as chunks:
        ids = {chunk.id for chunk in chunks if chunk.text}
    end = run.process_output_result()
    assert types(end.chunks) == ["retract", "tripwire"]
    assert set(end.chunks[0].payload["blocks"]) == ids


def test_what_is_held_can_be_read_nowhere_before_it_is_judged() -> None:
    """Neither while it comes in, nor when the later stage breaks instead of judging."""
    seen: list[tuple[str, int, object]] = []

    def broken(ctx: Any) -> None:
        seen.append((chunks.text, len(chunks.message.parts), chunks.outcome))
        raise ZeroDivisionError

    with flow(broken).start_sync().process_output_stream(["a secret"], release="step") as chunks:
        with pytest.raises(StepFailedError):
            list(chunks)
        assert (chunks.text, chunks.message.parts, chunks.outcome) == ("", (), None)
    assert seen == [("", 0, None)]


def test_what_was_held_when_the_source_broke_can_be_read_nowhere() -> None:
    """Nobody judged it."""

    def breaking() -> Iterator[str]:
        yield "a secret"
        raise ZeroDivisionError

    with flow().start_sync().process_output_stream(breaking(), release="step") as chunks:
        with pytest.raises(ZeroDivisionError):
            list(chunks)
        assert (chunks.text, chunks.message.parts, chunks.outcome) == ("", (), None)


def emptied(ctx: Any) -> Any:
    """Leave an answer that says nothing."""
    return ctx.message_list.replace(*(dataclasses.replace(one, parts=()) for one in ctx.message_list.response))


def test_an_answer_that_is_left_without_parts_is_not_kept() -> None:
    """No provider takes a message that says nothing."""
    run = flow(emptied).start_sync()
    with run.process_output_stream([Chunk("text-delta", "a secret", "t"), Chunk("finish")]) as chunks:
        assert [chunk.type for chunk in chunks] == ["finish"]
    assert run.message_list.conversation == ()


class JudgeOfResponses(Judge):
    """Judges what a provider answered."""

    def process_llm_response(self, ctx: Any) -> Any:
        """Judge."""
        return self.judge(ctx)


@pytest.mark.parametrize("judge", [passed, angry])
def test_what_judges_responses_judges_those_that_are_held_too(judge: Any) -> None:
    """Before those that judge answers do."""
    workflow = Workflow("w").then(JudgeOfResponses(judge, "process_llm_response")).then(Judge(passed))
    left, outcome = run_stream(workflow, [Chunk("text-delta", "a bad word", "t"), Chunk("finish")])
    assert "".join(chunk.text for chunk in left) == ("" if judge is angry else "a bad word")
    assert outcome.blocked is (judge is angry)
