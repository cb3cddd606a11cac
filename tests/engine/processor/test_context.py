"""What hooks and conditions are given: read-only views, and the few ways to act."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Chunk,
    InputContext,
    InputStepContext,
    Key,
    Message,
    OutputResultContext,
    Processor,
    Workflow,
    processor,
)
from penstock.engine import StepFailedError, UsageError, View
from penstock.engine.processor.context import Context
from penstock.engine.processor.stages import STAGES

FACT = Key[int]("fact")


def test_a_hook_sees_the_messages_its_stage_shows() -> None:
    """What the caller sent; all but the system's; what the model answered."""
    seen: dict[str, list[str]] = {}

    class Look(Processor):
        edits = "nothing"

        def look(self, ctx: Any) -> None:
            seen[ctx.stage] = [message.text for message in ctx.messages]
            assert [message.text for message in ctx.system_messages] == ["rules"]
            assert len(ctx.message_list) == 4
            assert ctx.stage_name == ctx.stage

        process_input = process_input_step = process_llm_request = process_output_result = look

    from penstock import MessageList

    messages = (
        MessageList([Message.user("asked")])
        .add(Message.user("remembered"), source="memory")
        .add(Message.assistant("answered"))
        .add(Message.system("rules"))
    )
    for stage in ("process_input", "process_input_step", "process_llm_request", "process_output_result"):
        Workflow("w").then(Look()).check_sync(messages, stage=stage)
    assert seen == {
        "process_input": ["asked"],
        "process_input_step": ["asked", "remembered", "answered"],
        "process_llm_request": ["rules", "asked", "remembered", "answered"],
        "process_output_result": ["answered"],
    }


def test_a_hook_is_told_about_its_step_and_run() -> None:
    """Path, ids, counters, and what the caller told about this call."""
    told: list[Any] = []

    @processor(edits="nothing")
    def look(ctx: OutputResultContext) -> None:
        told.extend([ctx.step_path, ctx.retry_count, ctx.step_number, ctx.finish_reason, ctx.usage, ctx.steps])
        assert ctx.run_id

    Workflow("w").then(Workflow("n").then(look)).check_sync("hi", stage="process_output_result", finish_reason="stop")
    assert told == ["n/look", 0, 0, "stop", None, None]


def test_facts_put_are_there_at_once_for_the_hook_itself_and_later_ones() -> None:
    """With defaults for those that are not."""

    @processor("process_input", edits="nothing", provides=FACT)
    def put(ctx: InputContext) -> None:
        assert ctx.get(FACT) is None
        assert ctx.get(FACT, 7) == 7
        ctx.put(FACT, 1)
        assert ctx.get(FACT) == 1
        assert ctx.get(Key("other"), 3) == 3

    @processor("process_input", edits="nothing", requires=FACT)
    def get(ctx: InputContext) -> None:
        assert ctx.get(FACT) == 1

    outcome = Workflow("w").then(put).then(get).check_sync("hi")
    assert (outcome.fact(FACT), dict(outcome.facts)) == (1, {FACT: 1})


def test_a_fact_must_be_declared() -> None:
    """So that the graph can be checked for it."""

    @processor(edits="nothing")
    def put(ctx: InputContext) -> None:
        ctx.put(FACT, 1)

    with pytest.raises(StepFailedError) as caught:
        Workflow("w").then(put).check_sync("hi")
    assert "does not declare it in provides" in str(caught.value.__cause__)


def test_an_abort_without_a_reason_names_the_step() -> None:
    """Metadata is frozen, and the first verdict holds."""

    @processor(edits="nothing")
    def stop(ctx: InputContext) -> None:
        ctx.abort(metadata={"list": [1]})

    tripwire = Workflow("w").then(stop).check_sync("hi").tripwire
    assert tripwire is not None
    assert (tripwire.reason, tripwire.metadata, tripwire.retry) == ("stopped by stop", {"list": (1,)}, False)


def test_data_is_written_for_the_client() -> None:
    """Chunks of an application's own; what a blocked step wrote is not sent."""

    @processor(edits="nothing")
    def write(ctx: InputContext) -> None:
        ctx.writer.write(Chunk("data-one", payload={"n": 1}))
        ctx.writer.write(Chunk("data-two"))
        with pytest.raises(UsageError, match="'text-delta'"):
            ctx.writer.write(Chunk("text-delta", "hi"))
        if ctx.text == "stop":
            ctx.abort("no")

    workflow = Workflow("w").then(write)
    assert [chunk.type for chunk in workflow.check_sync("hi").data] == ["data-one", "data-two"]
    assert workflow.check_sync("stop").data == ()


def test_a_condition_looks_but_cannot_act() -> None:
    """It is given a view of the payload as edited so far, and its facts."""
    seen: list[View] = []

    @processor("process_input_step", edits="anything", provides=FACT)
    def shout(ctx: InputStepContext) -> Any:
        ctx.put(FACT, 2)
        ctx.request_context["loud"] = True
        return ctx.message_list.map_text(str.upper)

    def condition(ctx: View) -> bool:
        seen.append(ctx)
        assert (ctx.text, ctx.get(FACT), ctx.get(Key("other"), 0)) == ("HI", 2, 0)
        assert [message.text for message in ctx.messages] == ["HI"]
        assert (ctx.system_messages, ctx.request_context, ctx.stage_name) == ((), {"loud": True}, "process_input_step")
        assert (ctx.retry_count, ctx.step_number) == (0, 0)
        assert ctx.run_id
        return False

    workflow = Workflow("w").then(shout).branch((condition, shout))
    assert workflow.check_sync("hi", stage="process_input_step").text == "HI"
    assert len(seen) == 1
    assert not any(hasattr(seen[0], name) for name in ("abort", "put", "state", "writer", "note", "message_list"))


def test_what_a_hook_derives_must_be_returned() -> None:
    """Deriving one list to look at it, and returning another, is fine."""

    @processor("process_input", id="look")
    def look(ctx: InputContext) -> Any:
        ctx.message_list.remove(ctx.messages[0].id)
        return ctx.messages

    assert Workflow("w").then(look).check_sync("hi").text == "hi"

    @processor("process_input", id="forget")
    def forget(ctx: InputContext) -> Any:
        ctx.message_list.map_text(str.upper)

    with pytest.raises(StepFailedError, match="did you forget to return it"):
        Workflow("w").then(forget).check_sync("hi")


def test_the_executor_makes_contexts_as_their_class_does() -> None:
    """It sets what `Context` sets, without calling the class: no context of a stage that it runs may set more."""
    for stage in STAGES.values():
        if not stage.streams:
            assert stage.context.__init__ is Context.__init__
    made: list[Any] = []

    @processor
    def keep(ctx: InputContext) -> None:
        made.append(ctx)

    Workflow("w").then(keep).check_sync("hi")
    for name in (*View.__slots__, *Context.__slots__):
        assert hasattr(made[0], name)
