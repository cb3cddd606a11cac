"""What a reviewer found: ways past a verdict that lie around the graph, each closed."""

import asyncio
from collections.abc import Callable

import anyio
import pytest

from penstock import (
    Answer,
    APIErrorContext,
    InputContext,
    InputStepContext,
    Key,
    LLMRequestContext,
    LLMResponseContext,
    Message,
    MessageList,
    OutputResultContext,
    OutputStepContext,
    Processor,
    ToolCallContext,
    Workflow,
    WorkflowError,
    member,
    processor,
)
from penstock.engine import MessageError, ProcessorError, StepFailedError, UsageError
from penstock.engine.execution import executor
from penstock.engine.graph.plan import PlanSteps
from penstock.engine.values.tripwire import BlockedError
from penstock.testing import VirtualClock
from tests.waiting import cancelled_when_all_wait

SECRET = "s3cret"


@processor(edits="nothing", on_error="block")
async def idle(ctx: InputContext) -> None:
    """Let others go first."""
    await anyio.lowlevel.checkpoint()


@processor(edits="nothing")
def idle_too(ctx: InputContext) -> None:
    """Look, and let it pass."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_branch_that_somebody_else_cancels_has_not_passed() -> None:
    """A watchdog that kills a guard's task gives no verdict for it."""

    @processor(edits="nothing", id="killed")
    async def killed(ctx: InputContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.sleep_forever()

    with pytest.raises(StepFailedError, match=r"killed.*cancelled from outside"):
        await Workflow("w").parallel(killed, idle).check(SECRET)


async def test_overlapping_checks_stay_due_until_they_gave_a_verdict() -> None:
    """A model call that breaks does not make them disappear."""

    @processor(edits="nothing", id="late")
    async def late(ctx: InputContext) -> None:
        if ctx.state.setdefault("asked", 0):
            ctx.abort("no")
        ctx.state["asked"] += 1
        await anyio.sleep_forever()

    async def answer() -> str:
        return "answer"

    async with Workflow("w").then(late, overlap="model").start(overlap=True) as run:
        await run.process_input(SECRET)
        async with cancelled_when_all_wait():
            await run.call_model(answer)
        second = await run.call_model(answer)
    assert (second.blocked, second.value) == (True, None)
    assert SECRET not in str([message.text for message in run.message_list])


async def test_a_call_beside_one_that_trips_does_not_pass() -> None:
    """Two tools at once: the verdict on one stops the other's."""
    tripped = anyio.Event()

    @processor(edits="nothing", id="gate")
    async def gate(ctx: ToolCallContext) -> None:
        if ctx.tool_name == "bad":
            tripped.set()
            ctx.abort("no")
        await tripped.wait()

    run = Workflow("w").then(gate).start()
    outcomes = {}

    async def call(name: str) -> None:
        outcomes[name] = await run.process_tool_call(name, {})

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(call, "good")
            group.start_soon(call, "bad")
    assert all(outcome.blocked for outcome in outcomes.values())


async def test_calls_beside_each_other_keep_both_edits() -> None:
    """Each redacts another message of the one conversation."""
    both = anyio.Event()

    def hide(word: str) -> Callable[..., object]:
        async def step(ctx: ToolCallContext) -> MessageList | None:
            if ctx.tool_name != word:
                return None
            if word == "two":
                both.set()
            await both.wait()
            return ctx.message_list.map_text(lambda text: text.replace(word, "[X]"))

        return step

    workflow = Workflow("w")
    for word in ("one", "two"):
        workflow = workflow.then(processor("process_tool_call", id=word, edits="anything")(hide(word)))
    run = workflow.start()
    await run.process_input([Message.user("one"), Message.user("two")])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for word in ("one", "two"):
                group.start_soon(run.process_tool_call, word, {})
    assert [message.text for message in run.message_list] == ["[X]", "[X]"]


async def test_a_rejected_answer_is_gone_even_if_no_input_step_ran() -> None:
    """It came in by an earlier stage."""

    @processor(edits="nothing")
    def looks(ctx: LLMResponseContext) -> None:
        """Look."""

    @processor(edits="nothing")
    def rejects(ctx: OutputStepContext) -> None:
        ctx.abort("again", retry=True)

    run = Workflow("w").then(looks).then(rejects).start(max_processor_retries=1)
    await run.process_input("x")
    await run.process_llm_response("BAD")
    outcome = await run.process_output_step()
    assert (outcome.blocked, outcome.retry_granted) == (True, True)
    assert [message.text for message in run.message_list] == ["x"]


async def test_a_verdict_in_a_group_of_errors_is_a_verdict() -> None:
    """Of a workflow that a hook ran in a task group of its own."""

    @processor(edits="nothing", on_error="allow", id="outer")
    async def outer(ctx: InputContext) -> None:
        try:
            (await Workflow("inner").then(refuse).check(ctx.messages)).unwrap()
        except BlockedError as error:
            raise ExceptionGroup("several", [ValueError("other"), error]) from None

    @processor(edits="nothing", id="refuse")
    def refuse(ctx: InputContext) -> None:
        ctx.abort("no")

    outcome = await Workflow("w").then(outer).check(SECRET)
    assert outcome.blocked


async def test_a_condition_that_says_nothing_is_a_failure() -> None:
    """A forgotten return must not skip the guard."""

    def forgets(ctx: object) -> None:
        """Return nothing."""

    with pytest.raises(StepFailedError, match="condition returned None"):
        await Workflow("w").branch((forgets, idle)).check("hi")  # type: ignore[arg-type]


def test_a_failure_says_where_it_was_raised() -> None:
    """File, line and function; never the text."""

    @processor(edits="nothing", id="boom")
    def boom(ctx: InputContext) -> None:
        raise ValueError(ctx.text)

    with pytest.raises(StepFailedError, match=r"ValueError was raised \(test_review.py:\d+ in boom\)") as caught:
        Workflow("w").then(boom).check_sync(SECRET)
    assert SECRET not in str(caught.value)


def test_an_error_of_penstocks_own_kind_that_a_step_raises_is_not_quoted() -> None:
    """Anybody may raise a `UsageError`, with the text in it; only what Penstock itself raises is shown."""

    @processor(edits="nothing", id="boom")
    def boom(ctx: InputContext) -> None:
        raise UsageError(f"cannot read {ctx.text}")

    with pytest.raises(StepFailedError, match=r"UsageError was raised \(test_review.py:\d+ in boom\)") as caught:
        Workflow("w").then(boom).check_sync(SECRET)
    assert SECRET not in str(caught.value)


def test_what_is_misspelt_is_refused_when_it_is_placed() -> None:
    """A claim, and a hook that could not be called."""
    with pytest.raises(ProcessorError, match="unknown option 'edit'; did you mean 'edits'"):
        processor("process_input", edit="nothing")(lambda ctx: None)  # type: ignore[call-overload]

    @processor("process_input", on_error="allow", id="two")
    def two(ctx: InputContext, other: object) -> None:
        ctx.abort("no")

    with pytest.raises(ProcessorError, match="process_input must accept"):
        Workflow("w").then(two)


def test_two_messages_with_one_id_are_refused() -> None:
    """Neither is dropped in silence."""
    with pytest.raises(MessageError, match=r"messages\[1\].*same id as messages\[0\]"):
        Workflow("w").check_sync([Message.user("a", id="1"), Message.user("b", id="1")])


def test_an_outcome_is_neither_true_nor_false() -> None:
    """Whoever writes `if outcome:` means `if not outcome.blocked:`, or not."""
    with pytest.raises(UsageError, match=r"use outcome\.blocked"):
        bool(Workflow("w").check_sync("hi"))


async def test_facts_of_overlapping_checks_do_not_go_back() -> None:
    """What a later stage put stands."""
    key = Key[int]("k")

    @processor("process_input", edits="nothing", provides=[key], id="first")
    async def first(ctx: InputContext) -> None:
        """Put nothing: what it saw is older than what comes."""
        await anyio.lowlevel.checkpoint()

    @processor("process_input_step", edits="nothing", provides=[key], id="second")
    def second(ctx: InputStepContext) -> None:
        ctx.put(key, 2)

    async def answer() -> str:
        return "answer"

    async with Workflow("w").then(first, overlap="model").then(second).start(overlap=True) as run:
        await run.process_input("hi")
        await run.process_input_step()
        await run.call_model(answer)
    assert run.facts[key] == 2


async def test_of_two_answers_in_parallel_the_first_declared_counts() -> None:
    """As in a sequence, whatever ends first."""
    ended = anyio.Event()

    @processor("process_llm_request", edits="anything", role="transform", id="slow")
    async def slow(ctx: LLMRequestContext) -> Answer:
        await ended.wait()
        return Answer("slow")

    @processor("process_llm_request", edits="anything", role="transform", id="quick")
    async def quick(ctx: LLMRequestContext) -> Answer:
        ended.set()
        return Answer("quick")

    workflow = Workflow("w").parallel(slow, quick, merge=lambda conflict: None)
    with anyio.fail_after(60):
        outcome = await workflow.check("hi", stage="process_llm_request")
    assert outcome.answer == "slow"


def test_a_sync_run_refuses_async_steps_before_any_runs() -> None:
    """No task is left behind, and the cure is named."""
    with pytest.raises(UsageError, match=r"async steps \(idle\); use `await run.process_input"):
        Workflow("w").then(idle).start_sync().process_input("hi")


@pytest.mark.parametrize("stage", ["process_input", "process_output_result"])
def test_a_check_of_nothing_is_refused(stage: str) -> None:
    """It would pass, and have checked nothing."""
    with pytest.raises(UsageError, match="nothing to check"):
        Workflow("w").check_sync(None, stage=stage)


def test_a_virtual_clock_goes_on_when_told() -> None:
    """By so many seconds, and not by itself."""
    clock = VirtualClock()
    before = clock.now()
    clock.advance(1.5)
    assert (clock.now() - before).total_seconds() == 1.5


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_member_of_a_dag_that_somebody_else_cancels_has_not_passed() -> None:
    """As in a parallel."""

    @processor(edits="nothing", id="killed")
    async def killed(ctx: InputContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.sleep_forever()

    with pytest.raises(StepFailedError, match=r"killed.*cancelled from outside"):
        await Workflow("w").dag(member(killed), member(idle)).check(SECRET)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_stands_behind_a_condition_that_somebody_else_cancels_has_not_passed() -> None:
    """Also where the member itself has nothing to do with the stage: a guard may come after it."""

    class Later(Processor):
        """Has nothing to do with what is sent."""

        edits = "nothing"

        def process_output_step(self, ctx: OutputStepContext) -> None:
            """Look."""

    async def killed(view: object) -> bool:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.sleep_forever()
        return True

    @processor(edits="nothing", id="guard")
    def guard(ctx: InputContext) -> None:
        ctx.abort("no")

    later = member(Later(), id="later", after={"first": killed})
    workflow = Workflow("w").dag(member(idle, id="first"), later, member(guard, after="later"))
    with pytest.raises(StepFailedError, match=r"later.*cancelled from outside"):
        await workflow.check(SECRET)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("victim", ["check", "model"])
async def test_what_is_cancelled_beside_the_model_call_has_given_nothing(victim: str) -> None:
    """Neither a check without a verdict nor a model without an answer passes for one."""

    async def maybe_killed(role: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        if role == victim:
            task.cancel()
        await anyio.lowlevel.checkpoint()

    @processor(edits="nothing", id="check")
    async def check(ctx: InputContext) -> None:
        await maybe_killed("check")

    async def model() -> str:
        await maybe_killed("model")
        return "answer"

    run = Workflow("w").then(check, overlap="model").start(overlap=True)
    await run.process_input("hi")
    with pytest.raises((StepFailedError, UsageError), match="cancelled from outside"):
        await run.call_model(model)


async def test_a_shadow_that_breaks_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where what breaks is not a hook."""

    def broken(*_: object) -> object:
        raise ValueError(SECRET)

    monkeypatch.setitem(executor._RUNNERS, PlanSteps, broken)
    outcome = await Workflow("w").then(idle, mode="shadow").check(SECRET)
    assert not outcome.blocked
    assert "a shadow broke (ValueError)" in caplog.text
    assert SECRET not in caplog.text


async def test_a_run_that_is_cancelled_takes_its_shadows_along() -> None:
    """They end with it, and the cancellation goes on."""
    ended = anyio.Event()

    @processor(edits="nothing", id="beside")
    async def beside(ctx: InputContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with cancelled_when_all_wait(), Workflow("w").then(beside, mode="shadow").start() as run:
        await run.process_input("hi")
        await anyio.sleep_forever()
    assert ended.is_set()


def test_a_retry_asked_for_by_abort_on_an_error_uses_the_budget_for_errors() -> None:
    """And tells the model nothing about an answer that there was not."""

    @processor("process_api_error", edits="nothing", id="again")
    def again(ctx: APIErrorContext) -> None:
        ctx.abort("again", retry=True)

    run = Workflow("w").then(again).start_sync(max_error_retries=1)
    assert run.process_api_error(ValueError()).retry_granted
    run.process_input_step("hi")
    assert run.run.message_list.system == ()
    assert not run.process_api_error(ValueError()).retry_granted


def test_a_misspelt_claim_of_a_class_is_refused() -> None:
    """With a suggestion."""
    with pytest.raises(ProcessorError, match="unknown class attribute 'edit'; did you mean 'edits'"):
        type("Wrong", (Processor,), {"edit": "nothing"})


def test_an_overlap_of_what_is_no_input_check_is_refused() -> None:
    """It could never run beside the model call."""

    @processor("process_output_result", edits="nothing", id="late")
    def late(ctx: OutputResultContext) -> None:
        """Look."""

    with pytest.raises(WorkflowError, match="it has no input stage"):
        Workflow("w").then(late, overlap="model").validate()


async def test_checks_beside_a_model_call_do_not_undo_a_verdict_that_came_meanwhile() -> None:
    """Another call of the run was stopped: nothing of the answer is given out."""

    @processor(edits="nothing")
    def look(ctx: InputContext) -> None:
        """Look."""

    @processor(edits="nothing")
    def refuse(ctx: ToolCallContext) -> None:
        ctx.abort("no such tool")

    run = Workflow("w").then(look, overlap="model").then(refuse).start(overlap=True)

    async def model() -> str:
        await run.process_tool_call("rm", {})
        return "an answer"

    await run.process_input("hi")
    outcome = await run.call_model(model)
    assert (outcome.value, outcome.blocked) == (None, True)
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "no such tool"


def test_what_is_in_already_can_be_judged_once_more() -> None:
    """Without anything new."""
    run = Workflow("w").then(idle_too).start_sync(records=True)
    run.process_input("hi")
    assert run.process_input().text == "hi"
    assert [record.status for record in run.records] == ["passed", "passed"]
