"""The stated rules of scenarios that are kept back: verdicts, errors and retries (B, C)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import BlockedError, Message, Retry, Run, Tripwire, Workflow
from penstock.engine import StepFailedError, UsageError
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.tripwire import TripwireSignal
from tests.conformance.runtime.driver import HONEST, Hooks, Talk, chain, conversation
from tests.conformance.runtime.shapes import entry_of
from tests.conformance.runtime.verdicts import ALL_STAGES, at_stage, spy

TOOL = [{"text": "let me see", "tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "x"}}]}, {"text": "done"}]
WITH_TOOL_CALL = (*ALL_STAGES[:6], "process_tool_call", *ALL_STAGES[6:])


def aborting(stage: str, **options: Any) -> Hooks:
    """Return a processor that aborts at one stage."""
    return Hooks("A", **at_stage(stage, lambda ctx: ctx.abort("no", **options)))


@pytest.mark.parametrize("stage", WITH_TOOL_CALL)
async def test_nothing_runs_after_a_verdict(stage: str) -> None:
    """B02–B10: no further hook, no tool, no model call, one verdict, the text empty, the reason *other*."""
    log: list[Any] = []
    used: list[str] = []
    workflow = chain(spy("Y", log, *WITH_TOOL_CALL), aborting(stage), spy("Z", log, *WITH_TOOL_CALL))
    tools = {"lookup": lambda **_: used.append("used") or {"answer": 42}}
    talk = await Talk(HONEST.start(workflow), TOOL, tools=tools).play(conversation("Hi"))
    streams = stage == "process_output_stream"
    assert log[-1] == (f"Y.{stage}:step-start" if streams else f"Y.{stage}")
    assert bool(used) == (stage in ("process_tool_result", "process_output_result"))
    assert talk.tripwire == Tripwire("no", "A", stage)
    ended = talk.result()
    assert (ended["text"], ended["finishReason"]) == ("", "other")


@pytest.mark.parametrize("stage", WITH_TOOL_CALL[3:])
async def test_the_judged_answer_is_nowhere(stage: str) -> None:
    """B05–B10: neither in the outcome nor in the history."""
    talk = await Talk(HONEST.start(aborting(stage)), TOOL).play(conversation("Hi"))
    assert talk.came is not None
    assert (talk.text, talk.came.response.messages, talk.came.status) == ("", (), "blocked")
    assert [entry_of(message) for message in talk.history] == [{"role": "user", "parts": ["Hi"]}]
    assert not [step.text for step in talk.came.steps if step.tripwire is not None and step.text]
    assert "let me see" not in repr((talk.came.steps[-1:], talk.came.message_list))


@pytest.mark.parametrize("later", WITH_TOOL_CALL)
async def test_no_later_stage_can_turn_a_verdict_into_a_retry(later: str) -> None:
    """B06, B13: a stopped run answers every stage with its verdict and calls no hook."""
    called: list[str] = []

    def ask_again(ctx: Any) -> None:
        called.append(later)
        ctx.abort("again", retry=True)

    stop = Hooks("stop", process_input=lambda ctx: ctx.abort("first"))
    run = chain(stop, Hooks("late", **at_stage(later, ask_again))).start(max_processor_retries=3)
    await run.process_input("Hi")
    called.clear()
    outcome = await _stage(run, later)
    assert called == []
    assert outcome.tripwire == run.tripwire == Tripwire("first", "stop", "process_input")
    assert not outcome.retry_granted


async def _stage(run: Run, name: str) -> Any:
    if name == "process_tool_call":
        return await run.process_tool_call("lookup", {"q": "x"})
    if name == "process_tool_result":
        return await run.process_tool_result("lookup", {"answer": 42})
    if name == "process_output_stream":
        async with run.process_output_stream(["ans", "wer"]) as chunks:
            left = [chunk async for chunk in chunks]
        assert [chunk.type for chunk in left].count("tripwire") == int(chunks.outcome.blocked)
        return chunks.outcome
    return await getattr(run, name)()


@pytest.mark.parametrize("stage", [name for name, row in STAGES.items() if not row.retries and not row.streams])
async def test_where_no_retry_is_possible_the_flag_is_only_told(stage: str) -> None:
    """C12: the verdict carries retry=True, and nothing is tried again."""
    run = chain(aborting(stage, retry=True)).start(max_processor_retries=3)
    outcome = await _stage(run, stage)
    assert outcome.tripwire is not None
    assert outcome.tripwire.retry
    assert not outcome.retry_granted
    assert run.tripwire is outcome.tripwire


async def test_abort_without_a_reason_names_the_processor_everywhere() -> None:
    """B10, B11: the default reason."""
    for stage in WITH_TOOL_CALL:
        outcome = await _stage(chain(Hooks("the-guard", **at_stage(stage, lambda ctx: ctx.abort()))).start(), stage)
        assert outcome.tripwire is not None
        assert "the-guard" in outcome.tripwire.reason


async def test_a_verdict_raised_directly_is_a_verdict() -> None:
    """B21: a tripwire that comes out of a workflow run inside a hook counts as this run's."""
    given = Tripwire("from inside", "inner", "process_input")

    def signal(_ctx: Any) -> None:
        raise TripwireSignal(given)

    def blocked(_ctx: Any) -> None:
        raise BlockedError(given)

    for hook in (signal, blocked):
        outcome = await chain(Hooks("A", process_input=hook)).check("Hi")
        assert outcome.tripwire == given


async def test_an_abort_cannot_be_swallowed() -> None:
    """B22: a hook that catches its own verdict, whatever way, is stopped all the same."""

    def swallow(ctx: Any) -> Any:
        try:
            ctx.abort("no")
        except BaseException:  # noqa: BLE001 - what a careless hook does
            return None

    assert (await chain(Hooks("A", process_input=swallow)).check("Hi")).blocked


async def test_the_callers_cancellation_is_neither_verdict_nor_failure() -> None:
    """B23: cancelled by the caller, the run ends without a tripwire, and nothing is added to the history."""
    begun = anyio.Event()

    async def hang(_ctx: Any) -> None:
        begun.set()
        await anyio.sleep_forever()

    run = chain(Hooks("A", process_output_step=hang)).start()
    await run.process_input("Hi")
    ended: list[Any] = []

    async def step() -> None:
        ended.append(await run.process_output_step("partial answer"))

    async with anyio.create_task_group() as group:
        group.start_soon(step)
        await begun.wait()
        group.cancel_scope.cancel()
    assert ended == []
    assert run.tripwire is None
    assert [message.text for message in run.message_list.conversation] == ["Hi"]


@pytest.mark.parametrize("stage", WITH_TOOL_CALL)
async def test_an_ordinary_error_is_raised_with_its_cause(stage: str) -> None:
    """B14: closed at every stage; the original exception object is the cause."""
    boom = ValueError("boom")

    def broken(_ctx: Any) -> None:
        raise boom

    with pytest.raises(StepFailedError) as caught:
        await _stage(chain(Hooks("A", **at_stage(stage, broken))).start(), stage)
    assert caught.value.__cause__ is boom
    assert (caught.value.processor_id, caught.value.stage) == ("A", stage)
    assert "boom" not in str(caught.value)  # an error's own words may quote what was judged


@pytest.mark.parametrize("stage", WITH_TOOL_CALL)
async def test_a_guard_that_breaks_blocks(stage: str) -> None:
    """B14: with on_error="block" the failure is a verdict, and the run is stopped."""

    def broken(_ctx: Any) -> None:
        raise ValueError("boom")

    run = chain(Hooks("A", claims={"on_error": "block"}, **at_stage(stage, broken))).start()
    outcome = await _stage(run, stage)
    assert outcome.blocked
    assert run.tripwire is not None
    assert run.tripwire.metadata["failed"] is True


async def test_removing_everything_is_said_by_name() -> None:
    """B16, A12: an empty list is refused at every stage that takes messages; `clear` empties."""
    for stage in ("process_input", "process_input_step", "process_output_step", "process_output_result"):
        run = chain(Hooks("A", **{stage: lambda _ctx: []})).start()
        run.message_list = conversation("Hi").add(Message.assistant("answer"))
        with pytest.raises(StepFailedError, match=r"clear"):
            await _stage(run, stage)
        assert [message.text for message in run.message_list.conversation] == ["Hi", "answer"]
    cleared = await chain(Hooks("A", process_input=lambda ctx: ctx.message_list.clear("input"))).check("Hi")
    assert cleared.messages == ()


# Retries


@pytest.mark.parametrize("limit", [None, 0])
async def test_without_a_budget_no_attempt_is_granted(limit: int | None) -> None:
    """C01, C03: no limit and a limit of 0 are the same."""
    run = chain(aborting("process_output_step", retry=True)).start(max_processor_retries=limit)
    outcome = await run.process_output_step("answer")
    assert not outcome.retry_granted
    assert run.tripwire is not None


async def test_the_retry_count_starts_again_after_an_accepted_step() -> None:
    """C08: counted from the last accepted step, the budget too."""
    seen: list[int] = []

    def judge(ctx: Any) -> None:
        seen.append(ctx.retry_count)
        if ctx.text.startswith("bad"):
            ctx.abort("no", retry=True)

    calls = {"tool_calls": [{"id": "c1", "name": "lookup", "args": {}}]}
    turns = [{"text": "bad"}, {"text": "good", **calls}, {"text": "bad"}, {"text": "good"}]
    start = HONEST.start(Hooks("A", process_output_step=judge), max_processor_retries=1)
    talk = await Talk(start, turns).play(conversation("Hi"))
    assert seen == [0, 1, 0, 1]
    assert talk.text == "goodgood"
    assert talk.came is not None
    assert talk.came.message_list.system == talk.came.message_list.tagged(None)


async def test_a_rejected_tool_call_uses_up_the_budget() -> None:
    """Tool calls rejected with retry end after the budget, though the answers themselves were accepted."""
    counts: list[int] = []

    def judge(ctx: Any) -> None:
        counts.append(ctx.retry_count)
        ctx.abort("not this tool", retry=True)

    run = chain(Hooks("A", process_tool_call=judge, process_output_step=lambda _ctx: None)).start(
        max_processor_retries=2
    )
    await run.process_input("Hi")
    for granted in (True, True, False):
        await run.process_input_step()
        await run.process_output_step("let me see")
        outcome = await run.process_tool_call("lookup", {})
        assert outcome.retry_granted is granted
        assert [message.text for message in run.message_list.conversation] == ["Hi"]
    assert run.retry_count == 2
    assert run.tripwire is not None


async def test_error_retries_have_a_budget_of_their_own() -> None:
    """C15–C21: three by default, whatever processors asked for; then the error stands."""
    run = chain(Hooks("A", process_api_error=lambda _ctx: Retry())).start(max_processor_retries=1)
    granted = [(await run.process_api_error(ValueError("down"))).retry is not None for _ in range(4)]
    assert granted == [True, True, True, False]


async def test_a_verdict_on_a_model_error_is_an_ordinary_one() -> None:
    """C19: abort in process_api_error stops the run."""
    run = chain(aborting("process_api_error")).start()
    outcome = await run.process_api_error(ValueError("down"))
    assert outcome.blocked
    assert run.tripwire is outcome.tripwire


async def test_a_run_that_is_used_wrongly_says_so() -> None:
    """G04: what no stage knows is an error, at once."""
    with pytest.raises(UsageError):
        Workflow("w").start().process_input_step(temperature=1)
