"""The life of a run: state, facts, budgets, feedback, roll-back, overlap, shadow, records, cancellation."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import (
    Answer,
    APIErrorContext,
    Chunk,
    InputContext,
    InputStepContext,
    Key,
    LLMRequestContext,
    LLMResponseContext,
    Message,
    MessageList,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    Processor,
    Retry,
    Run,
    ToolCallContext,
    ToolResultContext,
    Workflow,
    processor,
)
from penstock.engine import Outcome, Overrides, Record, StepFailedError, UsageError, tasks as background
from penstock.testing import CountingIds, RecordingObserver, VirtualClock

SECRET = "hunter2-the-secret"
FACT = Key[str]("fact")


class Diary(Processor[list[str]]):
    """Writes into its state where it was, and tells its state as a fact."""

    edits = "nothing"
    provides = FACT

    def new_state(self) -> list[str]:
        """Return an empty diary."""
        return []

    def _write(self, ctx: Any) -> None:
        ctx.state.append(ctx.stage)
        ctx.put(FACT, " ".join(ctx.state))

    process_input = process_input_step = process_llm_request = process_llm_response = _write
    process_output_step = process_output_result = process_tool_call = process_tool_result = _write


class Guard(Processor):
    """Rejects an answer that holds the secret, and asks for another."""

    edits = "nothing"

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Look."""
        ctx.state["calls"] = ctx.state.get("calls", 0) + 1
        if SECRET in ctx.text:
            ctx.abort("it tells the secret", retry=True)


def started(item: Any, **options: Any) -> Run:
    """A run of one step."""
    return Workflow("w").then(item).start(**options)


async def test_the_state_of_a_step_is_the_same_in_all_stages_and_facts_go_with_it() -> None:
    """One object for each request; the next one starts anew."""
    for _ in range(2):
        run = started(Diary())
        await run.process_input("hi")
        await run.process_input_step()
        await run.process_llm_request()
        await run.process_llm_response("hello")
        await run.process_output_step()
        await run.process_tool_call("t", {})
        await run.process_tool_result("t", 1)
        outcome = await run.process_output_result()
        stages = "input input_step llm_request llm_response output_step tool_call tool_result output_result"
        assert outcome.fact(FACT) == run.facts[FACT] == " ".join(f"process_{name}" for name in stages.split())


async def test_the_request_context_is_one_mapping_for_the_whole_run() -> None:
    """What a hook sets, later ones and the caller see."""

    @processor(edits="nothing")
    def note(ctx: InputContext) -> None:
        ctx.request_context["seen"] = ctx.run_id

    mine: dict[str, Any] = {}
    run = started(note, request_context=mine, run_id="r1")
    await run.process_input("hi")
    assert mine == {"seen": "r1"} == run.request_context
    assert run.request_context is mine


async def test_ids_and_times_come_from_the_ports() -> None:
    """So that a test knows them."""
    clock = VirtualClock()
    run = started(Diary(), ids=CountingIds(), clock=clock)
    assert run.run_id == "id-1"
    outcome = await run.process_input("hi")
    assert (outcome.messages[0].id, outcome.messages[0].created_at) == ("id-2", clock.now())


# Retries


async def test_each_run_begins_with_nothing_said() -> None:
    """Whatever steps of another run have added, put and written."""

    class Adds(Processor):
        id = "adds"
        provides = (FACT,)

        def process_input(self, ctx: InputContext) -> MessageList:
            ctx.put(FACT, "put")
            ctx.writer.write(Chunk("data-seen", payload={"data": 1}))
            return ctx.message_list.add("more")

    workflow = Workflow("w").then(Adds())
    for _ in range(2):
        run = workflow.start()
        assert (len(run.message_list), run.facts) == (0, {})
        outcome = await run.process_input("hi")
        assert [message.text for message in run.message_list] == ["hi", "more"]
        assert len(outcome.data) == 1


async def test_a_rejected_answer_is_rolled_back_and_the_reason_reaches_the_model_once() -> None:
    """As a system message for that retry only; the counters count."""
    run = started(Guard(), max_processor_retries=2)
    await run.process_input("hi")
    first = await run.process_input_step()
    assert first.message_list.system == ()
    rejected = await run.process_output_step(f"it is {SECRET}")
    assert (rejected.blocked, rejected.retry_granted, run.tripwire) == (True, True, None)
    assert SECRET not in "".join(message.text for message in run.message_list)
    assert (run.retry_count, run.step_number) == (1, 0)
    second = await run.process_input_step()
    assert ["it tells the secret" in message.text for message in second.message_list.system] == [True]
    assert run.step_number == 1
    accepted = await run.process_output_step("it is none of your business")
    assert not accepted.blocked
    assert run.message_list.system == ()
    third = await run.process_input_step()
    assert (third.message_list.system, run.retry_count, run.step_number) == ((), 0, 2)
    assert [message.text for message in run.message_list] == ["hi", "it is none of your business"]


async def test_a_budget_that_ends_on_a_rejection_ends_the_run() -> None:
    """The verdict carries its wish; no hook runs any more."""
    guard = Guard()
    run = started(guard, max_processor_retries=1, records=True)
    await run.process_input("hi")
    for granted in (True, False):
        await run.process_input_step()
        outcome = await run.process_output_step(SECRET)
        assert outcome.retry_granted is granted
    assert run.tripwire is outcome.tripwire
    assert run.tripwire is not None
    assert run.tripwire.retry
    records = len(run.records)
    again = await run.process_output_result("anything")
    assert (again.tripwire, again.text, len(run.records)) == (run.tripwire, "", records)
    assert SECRET not in "".join(message.text for message in run.message_list)


async def test_without_a_budget_a_wish_for_a_retry_is_a_plain_tripwire() -> None:
    """And so it is where the stage cannot retry."""
    outcome = await started(Guard()).process_output_step(SECRET)
    assert outcome.blocked
    assert not outcome.retry_granted

    @processor(edits="nothing")
    def wish(ctx: InputContext) -> None:
        ctx.abort("no", retry=True)

    run = started(wish, max_processor_retries=5)
    outcome = await run.process_input("hi")
    assert (outcome.retry_granted, run.tripwire) == (False, outcome.tripwire)


async def test_the_budget_is_renewed_after_acceptance() -> None:
    """Every step of the model has it whole."""
    run = started(Guard(), max_processor_retries=1)
    await run.process_input("hi")
    for _ in range(3):
        await run.process_input_step()
        assert (await run.process_output_step(SECRET)).retry_granted
        await run.process_input_step()
        assert not (await run.process_output_step("fine")).blocked


async def test_a_failed_model_call_may_be_made_again() -> None:
    """As often as the budget of its own allows; messages may be changed for it."""

    @processor
    def again(ctx: APIErrorContext) -> Retry:
        assert isinstance(ctx.error, TimeoutError)
        return Retry(after=ctx.retry_count + 1.5)

    run = started(again, max_error_retries=2)
    retries = [(await run.process_api_error(TimeoutError())).retry for _ in range(3)]
    assert retries == [Retry(1.5), Retry(2.5), None]  # told how often it was made again


async def test_the_first_retry_wins_and_nothing_further_runs() -> None:
    """In a sequence."""
    ran: list[str] = []

    def saying(name: str, result: Any) -> Processor[Any]:
        @processor("process_api_error", id=name)
        def step(ctx: APIErrorContext) -> Any:
            ran.append(name)
            return result

        return step

    workflow = Workflow("w").then(saying("a", None)).then(saying("b", Retry(1))).then(saying("c", Retry(2)))
    outcome = await workflow.start().process_api_error(ValueError())
    assert (outcome.retry, ran) == (Retry(1), ["a", "b"])


# Messages


async def test_what_a_step_does_to_system_messages_holds_for_that_step_only() -> None:
    """Untagged ones are as process_input left them, each time anew."""

    @processor
    def remind(ctx: InputStepContext) -> MessageList:
        assert [message.text for message in ctx.system_messages] == ["be nice"]
        return ctx.message_list.replace_system("be very nice")

    run = started(remind)
    await run.process_input([Message.system("be nice"), Message.user("hi")])
    for _ in range(2):
        outcome = await run.process_input_step()
        assert [message.text for message in outcome.message_list.system] == ["be very nice"]


async def test_a_prompt_is_changed_for_its_call_only() -> None:
    """Or answered from a cache; the first answer wins."""

    def answering(name: str) -> Processor[Any]:
        @processor("process_llm_request", id=name)
        def step(ctx: LLMRequestContext) -> Any:
            assert ctx.answer in (None, "a")
            return Answer(name)

        return step

    @processor(id="cut")
    def cut(ctx: LLMRequestContext) -> MessageList:
        return ctx.message_list.map_text(lambda _: "short")

    run = Workflow("w").then(cut).then(answering("a")).then(answering("b")).start()
    await run.process_input("a long story")
    outcome = await run.process_llm_request(model="m")
    assert (outcome.text, outcome.answer) == ("short", "a")
    assert [message.text for message in run.message_list] == ["a long story"]
    other = await run.process_llm_request([Message.user("only this")])
    assert other.text == "short"
    assert len(other.message_list) == 1


async def test_overrides_hold_for_the_step() -> None:
    """Mappings are laid over, others replaced; unknown settings are refused."""

    @processor
    def cool(ctx: InputStepContext) -> Overrides:
        assert ctx.model == "big"
        assert ctx.tools is None
        return Overrides(model="small", model_settings={"temperature": 0}, active_tools=["a"], messages=ctx.messages)

    outcome = await started(cool).process_input_step("hi", model="big", model_settings={"seed": 1})
    assert outcome.overrides == {
        "model": "small",
        "model_settings": {"seed": 1, "temperature": 0},
        "active_tools": ("a",),
    }
    with pytest.raises(UsageError, match="colour"):
        await started(cool).process_input_step("hi", colour="red")


async def test_a_tools_call_and_result_are_changed_or_answered() -> None:
    """As JSON values, frozen for the hooks."""

    @processor
    def call(ctx: ToolCallContext) -> Any:
        assert (ctx.tool_name, ctx.call_id) == ("search", "c1")
        with pytest.raises(TypeError):
            ctx.arguments["q"] = "x"
        return {"q": "better"} if ctx.arguments["q"] == "good" else Answer({"from": "cache"})

    @processor
    def result(ctx: ToolResultContext) -> Any:
        assert ctx.arguments == {"q": 1}
        return [*ctx.result, "more"]

    run = Workflow("w").then(call).then(result).start()
    assert (await run.process_tool_call("search", {"q": "good"}, call_id="c1")).arguments == {"q": "better"}
    outcome = await run.process_tool_call("search", {"q": "bad"}, call_id="c1")
    assert (outcome.answer, outcome.arguments) == ({"from": "cache"}, {"q": "bad"})
    changed = await run.process_tool_result("search", ["one"], arguments={"q": 1})
    assert changed.result == ("one", "more")
    assert changed.text == '["one", "more"]'


async def test_the_answer_at_hand_is_what_came_with_the_call() -> None:
    """Not the answers before."""
    texts: list[str] = []

    @processor
    def look(ctx: LLMResponseContext) -> None:
        texts.append(ctx.text)

    run = started(look)
    await run.process_llm_response("first")
    await run.process_llm_response([Message.assistant("second"), Message.assistant("third")])
    await run.process_llm_response()
    assert texts == ["first", "second\nthird", "third"]


async def test_what_is_blocked_at_the_end_leaves_the_history() -> None:
    """All that the model said, and nothing of what it was asked."""

    @processor(edits="nothing")
    def block(ctx: OutputResultContext) -> None:
        ctx.abort("no")

    run = started(block)
    await run.process_input("hi")
    await run.process_output_step(f"it is {SECRET}")
    outcome = await run.process_output_result()
    assert outcome.blocked
    assert [message.text for message in run.message_list] == ["hi"]
    assert SECRET not in repr([message.text for message in outcome.message_list])


async def test_a_failure_leaves_the_run_as_it_was() -> None:
    """Nothing of the stage is kept, and the caller may decide to go on."""

    @processor
    def broken(ctx: InputContext) -> MessageList:
        raise ValueError

    run = started(broken)
    with pytest.raises(StepFailedError):
        await run.process_input(SECRET)
    assert (len(run.message_list), run.tripwire) == (0, None)


# Overlap


class Check(Processor):
    """An input check that takes its time."""

    edits = "nothing"
    provides = FACT

    def __init__(self, verdict: str, **claims: Any) -> None:
        self.verdict = verdict
        self.started = anyio.Event()
        self.go = anyio.Event()
        for name, value in claims.items():
            setattr(self, name, value)

    async def process_input(self, ctx: InputContext) -> None:
        """Wait for the word, and give a verdict."""
        self.started.set()
        await self.go.wait()
        if self.verdict == "trip":
            ctx.abort("no")
        if self.verdict == "fail":
            raise ValueError(ctx.text)
        ctx.put(FACT, "checked")


def overlapping(check: Check, **options: Any) -> Run:
    """A run in which the check may run beside the model."""
    return Workflow("w").then(check, overlap="model").start(overlap=True, **options)


async def test_an_overlapping_check_runs_beside_the_model() -> None:
    """The model has begun before the check has ended; its answer is held until then."""
    check = Check("pass")
    run = overlapping(check)

    async def model() -> str:
        await check.started.wait()
        check.go.set()
        return "hello"

    async with run:
        assert not (await run.process_input("hi")).blocked
        with anyio.fail_after(60):
            answer = await run.call_model(model)
    assert (answer.unwrap(), answer.blocked, answer.tripwire) == ("hello", False, None)
    assert run.facts[FACT] == "checked"


async def test_a_trip_cancels_the_model_and_takes_the_input_back() -> None:
    """As it would have in line: nothing of it is in the history."""
    check = Check("trip")
    run = overlapping(check)
    ended: list[str] = []

    async def model() -> str:
        await check.started.wait()
        check.go.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")
        return SECRET

    async with run:
        await run.process_input(SECRET)
        with anyio.fail_after(60):
            answer = await run.call_model(model)
    assert (answer.value, answer.blocked, ended) == (None, True, ["cancelled"])
    assert run.tripwire is answer.tripwire
    assert answer.outcome is not None
    shown = [*run.message_list, *answer.outcome.message_list]
    assert SECRET not in "".join(message.text for message in shown)
    assert (await run.call_model(model)).blocked
    assert ended == ["cancelled"]


async def test_a_trip_after_the_model_has_answered_still_holds_the_answer_back() -> None:
    """The verdict decides, whoever was first."""
    check = Check("trip")
    run = overlapping(check)

    async def model() -> str:
        check.go.set()
        return SECRET

    async with run:
        await run.process_input("hi")
        answer = await run.call_model(model)
    assert answer.value is None


async def test_a_verdict_beats_the_models_error_and_so_does_a_failure() -> None:
    """What the model raises comes out only where every check has passed."""

    async def model() -> str:
        raise ConnectionError

    for verdict, error in (("trip", None), ("fail", StepFailedError), ("pass", ConnectionError)):
        check = Check(verdict)
        check.go.set()
        run = overlapping(check)
        await run.process_input("hi")
        if error is None:
            assert (await run.call_model(model)).blocked
        else:
            with pytest.raises(error):
                await run.call_model(model)


async def test_checks_that_did_not_overlap_run_before_anything_passes_them() -> None:
    """A stage behind the model call waits for their verdict."""
    for verdict, blocked in (("trip", True), ("pass", False)):
        check = Check(verdict)
        check.go.set()
        run = overlapping(check)
        await run.process_input(SECRET)
        outcome = await run.process_output_step("hello")
        assert outcome.blocked is blocked
        if blocked:
            assert SECRET not in "".join(message.text for message in run.message_list)
        else:
            assert run.facts[FACT] == "checked"


async def test_a_run_must_not_end_with_checks_that_never_ran() -> None:
    """That would be a model call past the engine."""
    with pytest.raises(UsageError, match="call_model"):
        async with overlapping(Check("trip")) as run:
            await run.process_input("hi")


async def test_a_check_runs_in_line_where_nobody_overlaps() -> None:
    """Run alone."""
    check = Check("trip")
    check.go.set()
    assert (await Workflow("w").then(check, overlap="model").check("hi")).blocked


async def test_facts_put_meanwhile_are_kept_beside_those_of_the_check() -> None:
    """What a later step put in line is not lost to a check that was queued before."""
    other = Key[str]("other")

    @processor(edits="nothing", provides=other)
    def later(ctx: InputStepContext) -> None:
        ctx.put(other, "there")

    check = Check("pass")
    check.go.set()
    run = Workflow("w").then(check, overlap="model").then(later).start(overlap=True)
    await run.process_input("hi")
    await run.process_input_step()

    async def model() -> str:
        return "hello"

    assert (await run.call_model(model)).unwrap() == "hello"
    assert (run.facts[other], run.facts[FACT]) == ("there", "checked")


async def test_a_model_call_without_checks_is_just_that() -> None:
    """Value or error."""

    async def model() -> str:
        return "hello"

    answer = await started(Diary()).call_model(model)
    assert (answer.value, answer.outcome, answer.tripwire, answer.unwrap()) == ("hello", None, None, "hello")


# Shadow


class Shadowed(Processor):
    """Would redact, abort or break."""

    def __init__(self, what: str, *, waits: bool) -> None:
        self.what = what
        setattr(self, "process_input", self._later if waits else self._now)  # noqa: B010

    def _now(self, ctx: InputContext) -> Any:
        ctx.request_context["shadow"] = "was here"
        if self.what == "trip":
            ctx.abort("no")
        if self.what == "fail":
            raise ValueError
        return ctx.message_list.map_text(str.upper)

    async def _later(self, ctx: InputContext) -> Any:
        await anyio.lowlevel.checkpoint()
        return self._now(ctx)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("what", "status", "words"),
    [("edit", "edited", "would edit"), ("trip", "tripped", "would trip"), ("fail", "failed", "failed (shadow)")],
)
async def test_a_shadow_changes_nothing_and_is_recorded(what: str, status: str, words: str, waits: bool) -> None:
    """Not the text, not the request context, not the outcome."""
    context: dict[str, Any] = {}
    workflow = Workflow("w").then(Shadowed(what, waits=waits), mode="shadow").then(Diary())
    outcome = await workflow.check("hi", request_context=context)
    assert (outcome.text, outcome.blocked, context) == ("hi", False, {})
    by_step = {record.step: record for record in outcome.records}
    assert (by_step["shadowed"].status, by_step["shadowed"].shadow) == (status, True)
    assert by_step["shadowed"].status_text == words
    assert by_step["diary"].status_text == "passed"


async def test_a_shadow_delays_nothing_and_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage is over while it still runs; what takes too long is cancelled at the end."""
    monkeypatch.setattr(background, "SHADOW_SECONDS", 0.0)
    ended: list[str] = []

    @processor(edits="nothing")
    async def hang(ctx: InputContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("ended")

    with anyio.fail_after(60):
        async with Workflow("w").then(hang, mode="shadow").start() as run:
            await run.process_input("hi")
            await anyio.lowlevel.checkpoint()
            assert ended == []
    assert ended == ["ended"]


async def test_a_verdict_ends_what_goes_on_beside() -> None:
    """No background step goes on after a tripwire."""
    ended: list[str] = []

    @processor(id="hang", edits="nothing")
    async def hang(ctx: InputContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("ended")

    @processor(id="trip", edits="nothing")
    async def trip(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        ctx.abort("no")

    with anyio.fail_after(60):
        async with Workflow("w").then(hang, mode="shadow").then(trip).start() as run:
            assert (await run.process_input("hi")).blocked
    assert ended == ["ended"]


async def test_an_async_shadow_needs_room_to_run_in() -> None:
    """An error that says how."""
    run = Workflow("w").then(Shadowed("edit", waits=True), mode="shadow").start()
    with pytest.raises(UsageError, match="async with"):
        await run.process_input("hi")


# Records


async def test_an_outcome_tells_what_happened_in_its_own_call() -> None:
    """Not what happened in earlier calls of the same stage; the run tells all."""
    run = started(Guard(), records=True, max_processor_retries=3)
    for number in range(3):
        outcome = await run.process_output_step(SECRET)
        assert len(outcome.records) == 1
        assert len(run.records) == number + 1


async def test_observers_are_told_as_it_happens() -> None:
    """Also where nobody asked for records."""
    observer = RecordingObserver()
    run = started(Guard(), observers=[observer])
    outcome = await run.process_output_step(SECRET)
    (record,) = observer.of("guard")
    assert isinstance(record, Record)
    assert (record.status, record.tripwire, record.seconds > 0) == ("tripped", outcome.tripwire, True)
    assert (outcome.records, run.records) == ((), ())
    assert SECRET not in repr(record)


async def test_a_record_is_made_once_whoever_asks_for_it() -> None:
    """Observers get it at once; the outcome and the run show the same one later."""
    observer = RecordingObserver()
    run = started(Guard(), records=True, observers=[observer])
    outcome = await run.process_output_step(SECRET)
    (record,) = observer.records
    assert outcome.records[0] is record
    assert run.records[0] is record


async def test_the_records_of_an_outcome_do_not_change_later() -> None:
    """Those of a shadow that ends after its stage belong to the run, not to the outcome, whenever that is read."""
    goes_on = anyio.Event()

    @processor
    async def slow(ctx: InputContext) -> None:
        await goes_on.wait()

    with anyio.fail_after(60):
        async with Workflow("w").then(slow, mode="shadow").start(records=True) as run:
            outcome = await run.process_input("hi")
            goes_on.set()
    assert [record.shadow for record in run.records] == [True]
    assert outcome.records == ()


@pytest.mark.parametrize("records", [True, False])
def test_a_run_leaves_nothing_for_the_garbage_collector(records: bool) -> None:
    """What a request made is freed with its outcome: a collection takes long in a large program."""
    logs: list[weakref.ref[Any]] = []

    @processor
    def looks(ctx: InputContext) -> None:
        logs.append(weakref.ref(ctx.usage_log))

    gc.disable()
    try:
        outcome = Workflow("w").then(looks).check_sync("hi", records=records)
        assert len(outcome.records) == int(records)
        del outcome
        assert [log() for log in logs] == [None]
    finally:
        gc.enable()


async def test_a_record_holds_edits_and_notes_but_not_the_text() -> None:
    """Where; what now stands there only of redactions, since a guard may refuse other words yet."""

    @processor(id="hide", edits="spans")
    def hide(ctx: InputContext) -> MessageList:
        ctx.note(found=1)
        ctx.note(kind="password")
        return ctx.message_list.map_text(lambda text: text.replace(SECRET, "[S]"))

    outcome = await Workflow("w").then(hide).check(f"it is {SECRET}")
    (record,) = outcome.records
    assert (record.status, dict(record.details)) == ("edited", {"found": 1, "kind": "password"})
    ((place, edit),) = record.edits
    assert (place.path, edit.start, edit.end, edit.text, edit.step) == (("text",), 6, 6 + len(SECRET), "···", "hide")
    assert SECRET not in repr(outcome.records)


class Meets(Processor):
    """Waits in each stage until as many hooks as it is told of have begun."""

    edits = "nothing"

    def __init__(self, id: str, hooks: int) -> None:
        self.id = id
        self._left = hooks
        self._all = anyio.Event()

    async def _meet(self, ctx: Any) -> None:
        ctx.note(what=getattr(ctx, "tool_name", ctx.stage))
        self._left -= 1
        if not self._left:
            self._all.set()
        await self._all.wait()

    process_input = process_tool_call = process_tool_result = _meet


def whats(records: Sequence[Record]) -> list[object]:
    """What the steps noted."""
    return [record.details.get("what") for record in records]


async def test_each_of_several_stages_at_once_has_its_own_records() -> None:
    """Also those of one name: tools run side by side."""
    calls = [("process_tool_call", "one"), ("process_tool_call", "two"), ("process_tool_result", "three")]
    outcomes: dict[str, Outcome] = {}
    workflow = Workflow("w").parallel(Meets("first", len(calls)), Meets("second", len(calls)))

    async with workflow.start(records=True) as run:

        async def use(stage: str, tool: str) -> None:
            outcomes[tool] = await run.stage(stage, {}, tool_name=tool)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for call in calls:
                    tasks.start_soon(use, *call)
    for stage, tool in calls:
        records = outcomes[tool].records
        assert whats(records) == [tool, tool]
        assert [record.stage for record in records] == [stage, stage]
        assert sorted(record.step for record in records) == ["first", "second"]
        assert len([span for span in outcomes[tool].trace.spans if span.kind == "step"]) == 2
    assert len(run.records) == 6


async def test_checks_beside_the_model_do_not_get_the_records_of_what_the_model_call_runs() -> None:
    """Their outcome is about them."""
    check = Meets("check", 2)
    workflow = Workflow("w").then(check, overlap="model")
    async with workflow.start(records=True, overlap=True) as run:
        first = await run.process_input("x")

        async def model() -> None:
            await run.process_tool_call("tool", {})

        with anyio.fail_after(60):
            outcome = (await run.call_model(model)).outcome
    assert whats(first.records) == []
    assert set(whats(run.records)) == {"process_input", "tool"}
    assert outcome is not None
    assert whats(outcome.records) == ["process_input"]


async def test_a_stream_has_the_records_of_its_own_stage() -> None:
    """If an answer is held, the outcome and its records are those of the stage that it is held for."""

    class Both(Processor):
        edits = "nothing"

        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            return chunk

        def process_output_step(self, ctx: OutputStepContext) -> None:
            ctx.abort("no")

    for release, judged in (("live", "process_output_stream"), ("step", "process_output_step")):
        run = Workflow("w").then(Both()).start(records=True)
        async with run, run.process_output_stream(["text"], release=release) as chunks:
            assert [chunk.type async for chunk in chunks]
            assert chunks.outcome is not None
            assert [record.stage for record in chunks.outcome.records] == [judged]


# Use


async def test_stages_by_name() -> None:
    """Those that are, and those that run another way."""
    run = started(Diary())
    assert (await run.stage("process_input", "hi")).text == "hi"
    assert (await run.stage("process_tool_result", 1, tool_name="t")).result == 1
    with pytest.raises(UsageError, match="process_inptu"):
        await run.stage("process_inptu", "hi")
    with pytest.raises(UsageError, match="handles a stream"):
        await run.stage("process_output_stream", "hi")


async def test_a_list_of_messages_stands_for_the_whole_conversation() -> None:
    """What is new in it is the answer at hand."""
    run = started(Guard())
    messages = MessageList([Message.user("hi")]).add(Message.assistant(SECRET))
    assert (await run.process_output_step(messages)).blocked
    same = started(Guard())
    same.message_list = messages
    assert (await same.process_output_step(same.message_list)).blocked


def test_sync_runs_need_no_event_loop() -> None:
    """Every stage in sync form, on one run."""
    run = Workflow("w").then(Diary()).start_sync()
    run.process_input("hi")
    run.process_input_step(model="m")
    run.process_llm_request()
    run.process_llm_response("hello")
    run.process_output_step()
    run.process_tool_call("t", {})
    run.process_tool_result("t", 1)
    run.process_api_error(ValueError())
    assert "process_tool_result" in str(run.process_output_result().fact(FACT))


async def test_a_model_call_can_be_cancelled_from_outside() -> None:
    """With its checks, and nothing is left behind."""
    check = Check("pass")
    run = overlapping(check)
    ended: list[str] = []

    async def model() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("model")
        return ""

    await run.process_input("hi")
    with anyio.move_on_after(5) as fuse, anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await check.started.wait()
                scope.cancel()

            group.start_soon(cancel)
            await run.call_model(model)
    assert (ended, fuse.cancel_called) == (["model"], False)
