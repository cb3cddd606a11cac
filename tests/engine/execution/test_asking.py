"""Stages that a step suspends with a question, and that are resumed with a person's answer."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any, cast

import pytest

from penstock import Chunk, Key, OutputStreamContext, Processor, Workflow, member
from penstock.engine import Outcome, StepFailedError, UsageError
from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.stages import STAGES
from tests.engine.asking import (
    EDITING,
    SECRET,
    WHOLE,
    Adds,
    Asks,
    Hides,
    Log,
    Scripted,
    Watches,
    called,
    chain,
    runs,
    waiting,
)

pytestmark = pytest.mark.anyio
FOUND = Key[str]("found")


def answers(outcome: Outcome, answer: str = "!") -> dict[str, Any]:
    """Answer every question of an outcome."""
    return {one.id: answer for one in outcome.questions}


async def resumed(run: Any, outcome: Outcome, answer: str = "!") -> Outcome:
    """Resume the stage in the same run."""
    return await run.resume_stage(outcome.stage, answers(outcome, answer), outcome.finished)


# Every stage


@pytest.mark.parametrize("stage", WHOLE)
@pytest.mark.parametrize("wait", [False, True])
async def test_any_stage_asks_and_goes_on_with_the_answer(stage: str, wait: bool) -> None:
    """Guards run before the question, the rest behind the answer."""
    log, made = Log(), (stage,)
    steps = [Adds("before", log, made), Asks("asks", log, made), Adds("behind", log, made), Hides("hides", log, made)]
    run = runs(chain(*[waiting(step, made) if wait else step for step in steps]))
    outcome = await called(run, stage)
    assert outcome.suspended
    assert not outcome.blocked
    assert log == ["before", "hides"]
    assert outcome.finished == ("before", "hides")
    assert outcome.stage == stage
    assert SECRET not in outcome.text or STAGES[stage].read_only
    question = outcome.questions[0]
    assert (question.step, question.processor_id, question.stage, question.reason) == ("asks", "asks", stage, "asks 0")
    assert question.shown == {"text": outcome.text}
    assert question.call_id == ("c1" if STAGES[stage].value else "")
    with pytest.raises(UsageError, match="waits for a person"):
        await run.process_input("more")
    end = await resumed(run, outcome)
    assert not end.suspended
    assert not end.blocked
    assert log == ["before", "hides", "asks", "behind", *(["hides"] if stage in EDITING else [])]
    if stage in EDITING:
        assert "!+behind" in end.text
        assert "[X]" in end.text


# Where a step may stand


def _said(ctx: Any) -> bool:
    return SECRET in ctx.text


def _parallel(log: Log) -> Workflow:
    arms = (Asks("asks", log), Hides("hides", log), Watches("sees", log))
    return chain(Hides("first", log)).parallel(*arms, merge="first").then(Adds("behind", log))


def _nested(log: Log) -> Workflow:
    inner = chain(Hides("first", log), Asks("asks", log), Adds("behind", log))
    return chain(inner, Hides("hides", log), Watches("sees", log))


def _first(log: Log) -> Workflow:
    taken = chain(Hides("first", log), Asks("asks", log), Adds("behind", log))
    return (
        chain()
        .branch((_said, taken), otherwise=chain(Adds("other", log)), match="first")
        .then(Hides("hides", log))
        .then(Watches("sees", log))
    )


def _every(log: Log) -> Workflow:
    return (
        chain()
        .branch(
            (_said, chain(Hides("first", log), Asks("asks", log), Adds("behind", log))),
            (_said, Hides("hides", log)),
            (lambda ctx: SECRET not in ctx.text, Adds("other", log)),
            match="all",
            merge="first",
        )
        .then(Watches("sees", log))
    )


def _dag(log: Log) -> Workflow:
    return chain().dag(
        member(Hides("first", log), id="first"),
        member(Adds("other", log), id="other", after={"first": _said}),
        member(Asks("asks", log), id="asks", after="first"),
        member(Hides("hides", log), id="hides", after="first"),
        member(Adds("behind", log), id="behind", after="asks"),
        member(Watches("sees", log), id="sees", after=["behind", "hides"]),
        merge="first",
    )


SHAPES = [_parallel, _nested, _first, _every, _dag]
ALL = {"first", "asks", "hides", "sees", "behind"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("wait", [False, True])
async def test_siblings_and_guards_go_on_and_the_rest_waits(shape: Any, wait: bool) -> None:
    """In every shape of graph."""
    log = Log()
    workflow: Workflow = shape(log)
    if wait:
        for step in steps_of(workflow.root):
            waiting(cast("Scripted", step.processor))
    run = runs(workflow)
    outcome = await run.process_input(f"say {SECRET}")
    assert outcome.suspended
    assert set(log) == {"first", "hides"} | ({"sees"} if shape is _parallel else set())
    assert not log.twice()
    assert outcome.text == "say [X]"
    assert outcome.questions[0].shown == {"text": "say [X]"}
    end = await resumed(run, outcome)
    assert not end.suspended
    assert set(log) == ALL
    assert log.twice() <= {"first", "hides"}  # the guards read what the answer has brought
    assert end.text == "say [X]!+behind"


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_answer_that_changes_nothing_runs_no_finished_step_again(shape: Any) -> None:
    """Only a transform behind it makes guards run again."""
    log = Log()
    run = runs(shape(log))
    outcome = await run.process_input("hello " + SECRET)
    end = await resumed(run, outcome, "")
    assert not end.suspended
    assert set(log) == ALL
    assert log.twice() <= {"hides"} if shape in (_nested, _first) else not log.twice()
    assert end.text == "hello [X]+behind"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("said", ["forbidden", f"forbidden {SECRET}"])
async def test_a_verdict_of_any_guard_beats_the_question(shape: Any, said: str) -> None:
    """It spares the question."""
    run = runs(shape(Log()))
    outcome = await run.process_input(said + " " + SECRET)
    assert outcome.blocked
    assert not outcome.suspended
    assert outcome.questions == ()
    assert run.tripwire is not None
    assert run.tripwire.reason == "forbidden"


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_person_writes_is_judged_by_every_guard(shape: Any) -> None:
    """Also by those in front of the step."""
    run = runs(shape(Log()))
    outcome = await run.process_input(f"say {SECRET}")
    hidden = await resumed(run, outcome, f" and {SECRET}")
    assert SECRET not in hidden.text
    run = runs(shape(Log()))
    outcome = await run.process_input(f"say {SECRET}")
    blocked = await resumed(run, outcome, " forbidden")
    assert blocked.blocked
    assert blocked.text == ""
    assert not run.message_list.input


@pytest.mark.parametrize("shape", SHAPES)
async def test_another_run_goes_on_with_what_was_stored(shape: Any) -> None:
    """With the messages, and the names of what had finished."""
    log = Log()
    first = runs(shape(log))
    outcome = await first.process_input(f"say {SECRET}")
    other = runs(shape(log))
    other.message_list = outcome.message_list
    end = await other.resume_stage("process_input", answers(outcome), outcome.finished, fresh=outcome.fresh)
    assert end.text == "say [X]!+behind"
    assert set(log) == ALL
    blocked = runs(shape(log))
    blocked.message_list = outcome.message_list
    await blocked.resume_stage("process_input", answers(outcome, "forbidden"), outcome.finished, fresh=outcome.fresh)
    assert blocked.tripwire is not None
    assert not blocked.message_list.input


# Where nobody may be asked


@pytest.mark.parametrize("on_error", ["block", "raise", "allow"])
async def test_a_run_that_may_not_wait_is_blocked(on_error: str) -> None:
    """Whatever the policy for failures says: it is none."""
    log = Log()
    workflow = chain(Asks("asks", log, on_error=on_error), Adds("behind", log))
    outcome = await workflow.check("hello")
    assert outcome.blocked
    assert outcome.failure is None
    assert outcome.tripwire is not None
    assert "nobody can be asked" in outcome.tripwire.reason
    assert outcome.tripwire.processor_id == "asks"
    assert outcome.tripwire.metadata == {"suspended": True}
    assert not outcome.suspended
    assert outcome.finished == ()
    assert workflow.check_sync("hello").blocked
    assert log == []


@pytest.mark.parametrize("claims", [(False, True), (True, False)])
async def test_a_step_that_does_not_declare_it_fails(claims: tuple[bool, bool]) -> None:
    """The error says what to declare; one that asks by its answers only does not suspend."""

    class Undeclared(Asks):
        asks, suspends = claims

    outcome = await runs(chain(Undeclared("asks", Log()))).process_input("hello")
    assert outcome.blocked
    assert isinstance(outcome.failure, StepFailedError)
    assert "declare asks = True" in str(outcome.failure)


async def test_a_fallback_cannot_ask() -> None:
    """It stands in for a step that failed."""

    class Breaks(Adds):
        role = "guard"

        def act(self, ctx: Any) -> Any:
            raise ValueError

    workflow = chain().then(Breaks("breaks", Log()), on_error=Asks("asks", Log()))
    outcome = await runs(workflow).process_input("hello")
    assert outcome.blocked
    assert "a fallback has to end" in str(outcome.failure)


async def test_a_stream_does_not_wait() -> None:
    """The step fails, and nothing is sent."""

    class InStream(Processor):
        asks = True
        on_error = "block"

        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            ctx.suspend("a question")
            return chunk

    run = runs(chain(InStream()))
    async with run.process_output_stream(["hello"]) as chunks:
        sent = [chunk async for chunk in chunks]
    assert not [chunk for chunk in sent if chunk.text]
    assert run.tripwire is not None


async def test_a_shadow_step_only_records_its_question() -> None:
    """It changes and delays nothing."""
    log = Log()
    workflow = chain().then(Asks("asks", log), mode="shadow").then(Adds("behind", log))
    run = runs(workflow, records=True)
    outcome = await run.process_input("hello")
    assert not outcome.suspended
    assert outcome.text == "hello+behind"
    assert [(one.step, one.status, dict(one.details)) for one in outcome.records if one.shadow] == [
        ("asks", "skipped", {"suspended": True})
    ]


# What a hook does


@pytest.mark.parametrize("wait", [False, True])
async def test_a_hook_cannot_lose_its_question(wait: bool) -> None:
    """However it handles errors."""

    class Swallows(Asks):
        def act(self, ctx: Any) -> Any:
            for _ in range(2):
                with contextlib.suppress(BaseException):
                    super().act(ctx)
            return ctx.message_list.map_text(str.upper)

    step = Swallows("asks", Log())
    run = runs(chain(waiting(step) if wait else step))
    outcome = await run.process_input("hello")
    assert [one.reason for one in outcome.questions] == ["asks 0"]
    assert outcome.text == "hello"


async def test_a_verdict_behind_a_question_counts() -> None:
    """It beats the question of the same hook."""

    class Aborts(Asks):
        def act(self, ctx: Any) -> Any:
            try:
                super().act(ctx)
            except BaseException:  # noqa: BLE001 - what a careless hook does
                ctx.abort("no")

    outcome = await runs(chain(Aborts("asks", Log()))).process_input("hello")
    assert outcome.blocked


async def test_a_second_question_is_asked_behind_the_first() -> None:
    """The answers so far are given again."""
    log = Log()
    run = runs(chain(Asks("asks", log, questions=2), Adds("behind", log)))
    first = await run.process_input("hello")
    assert [one.id for one in first.questions] == ["process_input/asks//1"]
    given = {first.questions[0].id: " one"}
    second = await run.resume_stage("process_input", given, first.finished)
    assert [one.id for one in second.questions] == ["process_input/asks//2"]
    end = await run.resume_stage("input", {**given, second.questions[0].id: " two"}, second.finished)
    assert end.text == "hello one two+behind"
    assert log == ["asks", "behind"]


async def test_steps_that_ask_wait_for_each_other() -> None:
    """The second is asked about the text that the first one left."""
    log = Log()
    run = runs(chain(Asks("one", log), Asks("two", log), Adds("behind", log)))
    first = await run.process_input("hello")
    assert [one.processor_id for one in first.questions] == ["one"]
    second = await resumed(run, first)
    assert [one.processor_id for one in second.questions] == ["two"]
    assert second.questions[0].shown == {"text": "hello!"}
    assert second.finished == ("one",)
    assert (await resumed(run, second)).text == "hello!!+behind"
    assert log == ["one", "two", "behind"]


async def test_questions_side_by_side_are_asked_at_once() -> None:
    """Each may be answered by itself."""
    log = Log()
    run = runs(chain().parallel(Asks("one", log), Asks("two", log), merge="last").then(Adds("behind", log)))
    outcome = await run.process_input("hello")
    assert [one.processor_id for one in outcome.questions] == ["one", "two"]
    only_one = {outcome.questions[0].id: "1"}
    left = await run.resume_stage("process_input", only_one, outcome.finished)
    assert [one.processor_id for one in left.questions] == ["two"]
    assert left.questions[0].shown == {"text": "hello1"}  # what the first answer made of it
    end = await run.resume_stage("process_input", {**only_one, left.questions[0].id: "2"}, left.finished)
    assert end.text == "hello12+behind"
    assert log == ["one", "two", "behind"]


async def test_an_answer_must_fit_the_schema() -> None:
    """Another one is a failure of the step, and is not quoted."""

    class Picky(Asks):
        def act(self, ctx: Any) -> Any:
            ctx.suspend("which?", schema={"enum": ["a", "b"]}, expires_in=60)

    run = runs(chain(Picky("asks", Log())))
    outcome = await run.process_input("hello")
    question = outcome.questions[0]
    assert question.expires_in == 60
    assert question.check("a") == "a"
    with pytest.raises(UsageError, match="must be one of 'a', 'b'"):
        question.check(f"c {SECRET}")
    blocked = await resumed(run, outcome, "c")
    assert blocked.blocked
    assert "does not fit" in str(blocked.failure)


async def test_facts_put_before_the_question_are_dropped_and_those_behind_it_stay() -> None:
    """A step that asks leaves nothing behind."""

    class Puts(Asks):
        provides = (FOUND,)

        def act(self, ctx: Any) -> Any:
            ctx.put(FOUND, "before")
            ctx.put(FOUND, ctx.suspend("what?"))

    run = runs(chain(Puts("asks", Log()), Hides("hides", log := Log())))
    outcome = await run.process_input("hello")
    assert outcome.fact(FOUND) is None
    end = await resumed(run, outcome, "answer")
    assert end.fact(FOUND) == "answer"
    assert log == ["hides", "hides"]  # a fact is a change that a guard may look at


# Policies


@pytest.mark.parametrize("policy", [{"retries": 2}, {"timeout": 60}, {"on_error": "allow"}, {"on_error": "block"}])
@pytest.mark.parametrize("nested", [False, True])
async def test_a_question_is_no_failure(policy: dict[str, Any], nested: bool) -> None:
    """No policy retries it, times it out or lets it pass."""
    log = Log()
    step = waiting(Asks("asks", log, on_error="raise", role="transform"))
    item = Workflow("n").then(step) if nested else step
    run = runs(chain().then(item, **policy).then(Adds("behind", log)))
    outcome = await run.process_input("hello")
    assert outcome.suspended
    assert (await resumed(run, outcome)).text == "hello!+behind"
    assert log == ["asks", "behind"]


async def test_a_question_within_a_workflow_that_fails_is_not_asked() -> None:
    """Its fallback runs in its place."""

    class Breaks(Hides):
        on_error = "raise"

        def act(self, ctx: Any) -> Any:
            raise ValueError

    log = Log()
    failing = Workflow("n").then(Asks("asks", log)).then(Breaks("breaks", log))
    run = runs(chain().then(failing, on_error=Adds("stand-in", log), retries=1).then(Adds("behind", log)))
    outcome = await run.process_input("hello")
    assert not outcome.suspended
    assert outcome.text == "hello+stand-in+behind"


async def test_a_failed_resume_can_be_made_again() -> None:
    """The stage still waits."""

    class Once(Asks):
        on_error = "raise"
        failed = False

        def act(self, ctx: Any) -> Any:
            made = super().act(ctx)
            if not self.failed:
                self.failed = True
                raise ValueError
            return made

    run = runs(chain(Once("asks", Log())))
    outcome = await run.process_input("hello")
    with pytest.raises(StepFailedError):
        await resumed(run, outcome)
    assert (await resumed(run, outcome)).text == "hello!"


async def test_checks_that_wait_for_the_model_run_before_a_person_is_asked() -> None:
    """A verdict of theirs spares the question."""
    log = Log()
    guard = Hides("hides", log, edits="nothing", role="guard")
    workflow = chain().then(guard, overlap="model").then(Asks("asks", log))
    run = runs(workflow, overlap=True)
    outcome = await run.process_input("forbidden")
    assert outcome.blocked
    assert not run.message_list.input
    run = runs(workflow, overlap=True)
    outcome = await run.process_input("hello")
    assert outcome.suspended
    assert log == ["hides"]
    assert outcome.finished == ("hides",)
    assert (await resumed(run, outcome)).text == "hello!"
    assert log == ["hides", "asks", "hides"]  # the answer has changed the text


# Calls of tools


async def test_each_call_of_a_tool_waits_for_itself() -> None:
    """Other calls go on, other stages do not."""
    log, made = Log(), ("process_tool_call",)
    run = runs(chain(Asks("asks", log, made), Adds("behind", log, made)))
    await run.process_input("hello")
    outcomes = [await run.process_tool_call("pay", {"to": one}, call_id=one) for one in ("a", "b")]
    assert all(outcome.suspended for outcome in outcomes)
    assert [outcome.questions[0].call_id for outcome in outcomes] == ["a", "b"]
    with pytest.raises(UsageError, match="process_tool_call waits for a person"):
        await run.process_output_result()
    with pytest.raises(UsageError):
        await run.process_tool_call("pay", {"to": "a"}, call_id="a")
    for one, outcome in zip("ab", outcomes, strict=True):
        end = await run.resume_stage("process_tool_call", answers(outcome), outcome.finished, call_id=one)
        assert end.arguments == {"to": f"{one}!+behind"}
    await run.process_output_result()
    other = runs(chain(Asks("asks", log, made), Adds("behind", log, made)))
    waiting_for, given = outcomes[0], {"tool_name": "pay", "call_id": "a"}
    end = await other.resume_stage(
        "process_tool_call", answers(waiting_for), waiting_for.finished, waiting_for.arguments, **given
    )
    assert end.arguments == {"to": "a!+behind"}


# The rest of a run


async def test_the_sync_run_waits_too() -> None:
    """With records, and as a value that can be stored."""
    log = Log()
    run = chain(Asks("asks", log), Adds("behind", log)).start_sync(may_suspend=True, records=True)
    outcome = run.process_input("hello")
    assert outcome.suspended
    assert repr(outcome) == "Outcome(process_input, suspended by 'asks')"
    assert [(one.step, one.status) for one in outcome.records] == [("asks", "skipped")]
    with pytest.raises(UsageError, match="waits for a person"):
        outcome.unwrap()
    end = run.resume_stage("process_input", answers(outcome), outcome.finished)
    assert end.text == "hello!+behind"
    assert pickle.loads(pickle.dumps(outcome)).questions == outcome.questions  # noqa: S301 - our own


async def test_a_resumed_step_counts_once() -> None:
    """It is the same attempt of the model."""
    made = ("process_input_step",)
    run = runs(chain(Asks("asks", Log(), made)))
    await run.process_input("hello")
    outcome = await run.process_input_step(model="small")
    assert outcome.suspended
    end = await resumed(run, outcome)
    assert run.step_number == 0
    assert end.overrides == {"model": "small"}
    await run.process_input_step()
    assert run.step_number == 1


async def test_an_answer_is_held_until_a_person_has_looked() -> None:
    """Nothing of it is streamed before."""
    made = ("process_output_result",)
    run = runs(chain(Asks("asks", Log(), made)))
    await run.process_input("hello")
    await run.process_input_step()
    async with run.process_output_stream(["the answer"]) as chunks:
        sent = [chunk async for chunk in chunks]
    assert not [chunk for chunk in sent if chunk.text]
    assert chunks.outcome is not None
    assert chunks.outcome.suspended
    end = await resumed(run, chunks.outcome, "")
    assert "".join(chunk.text for chunk in end.chunks) == "the answer"


async def test_a_stage_that_cannot_be_suspended_is_not_resumed() -> None:
    """The error names those that can."""
    run = runs(chain(Asks("asks", Log())))
    for name in ("process_output_stream", "nothing"):
        with pytest.raises(UsageError, match="can be suspended"):
            await run.resume_stage(name, {}, ())


async def test_no_condition_is_asked_twice() -> None:
    """Although a guard behind it has changed the text on which it depends."""

    def hidden(ctx: Any) -> bool:
        return SECRET not in ctx.text

    log = Log()
    dag = chain().dag(
        member(Watches("sees", log), id="sees"),
        member(Asks("asks", log), id="asks", after={"sees": _said}),
        member(Adds("other", log), id="other", after={"sees": hidden}),
        merge="first",
    )
    branch = chain().branch((hidden, Adds("other", log)), (_said, Asks("asks", log)))
    for workflow in (dag, branch):
        log.clear()
        run = runs(workflow.then(Hides("hides", log)))
        outcome = await run.process_input(f"say {SECRET}")
        assert outcome.text == "say [X]"
        assert (await resumed(run, outcome)).text == "say [X]!"
        assert "other" not in log
