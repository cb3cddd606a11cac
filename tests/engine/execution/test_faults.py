"""Fault injection: steps that break in every way, in every place of a graph, on both event loops.

Whatever happens, what should be blocked does not get out, no task stays behind, and the error names the culprit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import Edit, InputContext, Key, Message, MessageList, Outcome, Processor, Workflow, member, processor
from penstock.engine import JudgeError, Record, StepFailedError

SECRET = "hunter2-the-secret"
FACT = Key[str]("fact")
Check = Callable[[InputContext], Coroutine[Any, Any, Any]]


class Faulty(Processor):
    """Does what it is told to, as a guard that undeclared code would be."""

    id = "culprit"

    def __init__(self, act: Check, **claims: Any) -> None:
        self.act = act
        for name, value in {"edits": "spans", "provides": (FACT,), **claims}.items():
            setattr(self, name, value)

    async def process_input(self, ctx: InputContext) -> Any:
        """Do it."""
        return await self.act(ctx)


class Neighbour(Processor):
    """A well-behaved async step beside, before or behind the culprit."""

    edits = "spans"

    async def process_input(self, ctx: InputContext) -> MessageList:
        """Let others run, and redact something of its own."""
        await anyio.lowlevel.checkpoint()
        place = next(iter(ctx.message_list.texts(ctx.messages)))[0]
        return ctx.message_list.edit_text({place: [Edit(0, 2, "[N]", "redact")]})


def in_sequence(step: Processor[Any], **policy: Any) -> Workflow:
    """Between two others."""
    return Workflow("w").then(Neighbour()).then(step, **policy).then(Neighbour())


def in_parallel(step: Processor[Any], **policy: Any) -> Workflow:
    """Beside two others."""
    return Workflow("w").parallel(Neighbour(), Workflow("in").then(step, **policy), Neighbour())


def in_branch(step: Processor[Any], **policy: Any) -> Workflow:
    """In the arm that is taken."""
    return Workflow("w").branch((lambda _: True, Workflow("in").then(step, **policy)), otherwise=Neighbour())


def in_all_arms(step: Processor[Any], **policy: Any) -> Workflow:
    """In one of two arms that are taken."""
    inside = Workflow("in").then(step, **policy)
    return Workflow("w").branch((lambda _: True, Neighbour()), (lambda _: True, inside), match="all")


def in_dag(step: Processor[Any], **policy: Any) -> Workflow:
    """In the middle of a diamond."""
    return Workflow("w").dag(
        member(Neighbour(), id="a"),
        member(step, id="culprit", after="a", **policy),
        member(Neighbour(), id="b", after="a"),
        member(Neighbour(), id="c", after=["culprit", "b"]),
    )


def nested(step: Processor[Any], **policy: Any) -> Workflow:
    """In a parallel in a branch in a workflow."""
    return Workflow("w").then(Workflow("outer").branch((lambda _: True, in_parallel(step, **policy))))


PLACES = [in_sequence, in_parallel, in_branch, in_all_arms, in_dag, nested]
each_place = pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)


def tasks_alive() -> int:
    """The number of tasks on the event loop that runs."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio

        return trio.lowlevel.current_statistics().tasks_living


@contextlib.asynccontextmanager
async def tidy() -> AsyncIterator[None]:
    """After this, no task is left that was not there before; and before long, as a fuse."""
    before = tasks_alive()
    with anyio.fail_after(60):
        try:
            yield
        finally:
            await anyio.lowlevel.checkpoint()
            assert tasks_alive() == before


def assert_nothing_gets_out(outcome: Outcome, caplog: pytest.LogCaptureFixture) -> None:
    """The secret is nowhere: not in texts, records, reprs or logs."""
    assert outcome.blocked
    assert outcome.text == ""
    assert outcome.messages == ()
    shown = [repr(outcome), repr(outcome.message_list), repr(outcome.records), repr(outcome.tripwire), caplog.text]
    shown.append(f"{outcome.failure} {outcome.failure!r}")
    shown += [message.text for message in outcome.message_list]
    assert not any(SECRET in text for text in shown)


async def blocked(workflow: Workflow, caplog: pytest.LogCaptureFixture) -> Outcome:
    """The outcome of a check that must block."""
    async with tidy():
        outcome = await workflow.check(f"my {SECRET} is out")
    assert_nothing_gets_out(outcome, caplog)
    return outcome


async def failed(workflow: Workflow, caplog: pytest.LogCaptureFixture) -> StepFailedError:
    """The error of a check that must raise."""
    with pytest.raises(StepFailedError) as caught:
        async with tidy():
            await workflow.check(f"my {SECRET} is out")
    assert SECRET not in str(caught.value) + repr(caught.value) + caplog.text
    assert "culprit" in caught.value.step
    assert "culprit" in str(caught.value)
    return caught.value


# Verdicts that a hook tries to lose


async def abort(ctx: InputContext) -> None:
    """Abort as one should."""
    ctx.abort("stop")


async def abort_and_swallow(ctx: InputContext) -> None:
    """A bare except around an abort."""
    try:
        ctx.abort("stop")
    except BaseException:  # noqa: BLE001
        return


async def abort_and_return_messages(ctx: InputContext) -> Any:
    """Swallow it and answer something else."""
    with contextlib.suppress(BaseException):
        ctx.abort("stop")
    return ctx.messages


async def abort_and_raise_another(ctx: InputContext) -> None:
    """Lose it to another error."""
    try:
        ctx.abort("stop")
    finally:
        raise ValueError(ctx.text)


async def abort_twice(ctx: InputContext) -> None:
    """The first verdict holds."""
    with contextlib.suppress(BaseException):
        ctx.abort("stop")
    ctx.abort("another reason")


async def abort_in_a_child(ctx: InputContext) -> None:
    """From a task of its own, in a group."""
    async with anyio.create_task_group() as group:
        group.start_soon(abort, ctx)
        group.start_soon(anyio.sleep_forever)


async def abort_in_a_child_and_swallow_the_group(ctx: InputContext) -> None:
    """The group's exception never comes out."""
    with contextlib.suppress(BaseException):
        async with anyio.create_task_group() as group:
            group.start_soon(abort, ctx)


async def abort_among_other_errors(ctx: InputContext) -> None:
    """An exception group of a verdict and a failure."""

    async def broken() -> None:
        raise ValueError(ctx.text)

    async with anyio.create_task_group() as group:
        group.start_soon(broken)
        group.start_soon(abort, ctx)


async def abort_later(ctx: InputContext) -> None:
    """After having waited."""
    await anyio.lowlevel.checkpoint()
    ctx.abort("stop")


async def abort_in_a_cancelled_scope(ctx: InputContext) -> None:
    """While being cancelled by a scope of its own."""
    with anyio.move_on_after(0):
        try:
            await anyio.sleep_forever()
        finally:
            ctx.abort("stop")


async def abort_with_odd_metadata(ctx: InputContext) -> None:
    """Metadata that refers to itself cannot be frozen; the verdict must hold all the same."""
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with contextlib.suppress(Exception):
        ctx.abort("stop", metadata=loop)


ABORTS = [
    abort,
    abort_and_swallow,
    abort_and_return_messages,
    abort_and_raise_another,
    abort_twice,
    abort_in_a_child,
    abort_in_a_child_and_swallow_the_group,
    abort_among_other_errors,
    abort_later,
    abort_in_a_cancelled_scope,
    abort_with_odd_metadata,
]


@each_place
@pytest.mark.parametrize("act", ABORTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("on_error", ["raise", "allow"])
async def test_a_verdict_is_never_lost(place: Any, act: Check, on_error: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the hook does with its own abort, and whatever its failure would mean."""
    outcome = await blocked(place(Faulty(act), on_error=on_error), caplog)
    assert outcome.tripwire is not None
    assert (outcome.tripwire.processor_id, outcome.tripwire.reason) == ("culprit", "stop")


@pytest.mark.parametrize("act", [abort_in_a_child, abort_among_other_errors], ids=lambda act: act.__name__)
async def test_gather_does_not_lose_a_verdict(
    anyio_backend_name: str, caplog: pytest.LogCaptureFixture, act: Check
) -> None:
    """asyncio.gather(return_exceptions=True) hands the signal over as a value."""
    if anyio_backend_name == "trio":
        return

    async def gathered(ctx: InputContext) -> None:
        await asyncio.gather(act(ctx), return_exceptions=True)

    await blocked(in_parallel(Faulty(gathered)), caplog)


@each_place
async def test_a_verdict_that_was_swallowed_survives_a_timeout(
    place: Any, caplog: pytest.LogCaptureFixture, time_is_up: Callable[[], None]
) -> None:
    """Abort, swallow, hang: the timeout's policy (allow) is about failures, and this is a verdict."""

    async def act(ctx: InputContext) -> None:
        with contextlib.suppress(BaseException):
            ctx.abort("stop")
        time_is_up()
        await anyio.sleep_forever()

    outcome = await blocked(place(Faulty(act), timeout=0.01, on_error="allow"), caplog)
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "stop"


async def test_a_nested_runs_verdict_is_the_steps_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """A hook that runs a workflow itself, and unwraps a blocked outcome, has judged."""
    inner = Workflow("inner").then(Faulty(abort))

    async def act(ctx: InputContext) -> None:
        (await inner.check(ctx.text)).unwrap()

    await blocked(in_parallel(Faulty(act), on_error="allow"), caplog)


# Failures


class OddError(BaseException):
    """Caught by no `except Exception`."""


async def raise_error(ctx: InputContext) -> None:
    """An ordinary error that quotes the text."""
    raise ValueError(ctx.text)


async def raise_base(ctx: InputContext) -> None:
    """An error that is none."""
    raise OddError(ctx.text)


async def raise_cancelled(ctx: InputContext) -> None:
    """A cancellation that nobody asked for."""
    raise asyncio.CancelledError(ctx.text)


async def raise_group(ctx: InputContext) -> None:
    """Several at once."""
    raise BaseExceptionGroup(ctx.text, [ValueError(ctx.text), OddError(ctx.text)])


async def raise_stop(ctx: InputContext) -> None:
    """What a generator uses to end."""
    raise StopAsyncIteration(ctx.text)


async def forget_to_return(ctx: InputContext) -> None:
    """Derive a list, and return nothing."""
    ctx.message_list.remove(ctx.messages[0].id)


async def return_foreign(ctx: InputContext) -> MessageList:
    """A list made of nothing."""
    return MessageList(ctx.text)


async def return_nonsense(ctx: InputContext) -> Any:
    """A number."""
    return 42


async def return_text(ctx: InputContext) -> Any:
    """The text itself, where messages are wanted."""
    return ctx.text


async def return_strings(ctx: InputContext) -> Any:
    """Texts in a list."""
    return [ctx.text]


async def return_empty(ctx: InputContext) -> Any:
    """An empty list."""
    return []


async def return_same_twice(ctx: InputContext) -> Any:
    """One message two times."""
    return [*ctx.messages, *ctx.messages]


async def return_coroutine(ctx: InputContext) -> Any:
    """Something to be awaited."""
    return raise_error(ctx)


async def return_generator(ctx: InputContext) -> Any:
    """A generator of messages."""
    return (message for message in ctx.messages)


async def return_true(ctx: InputContext) -> Any:
    """A verdict as a bool, as other libraries have it."""
    return True


async def put_undeclared(ctx: InputContext) -> None:
    """A fact that it does not provide."""
    ctx.put(Key("other"), ctx.text)


async def edit_beyond(ctx: InputContext) -> Any:
    """An edit behind the end of the text."""
    place = next(iter(ctx.message_list.texts(ctx.messages)))[0]
    return ctx.message_list.edit_text({place: [Edit(0, 10_000, "x")]})


async def mutate_text(ctx: InputContext) -> None:
    """Write to a frozen part."""
    ctx.messages[0].parts[0].text = "x"  # type: ignore[union-attr, misc]


async def mutate_metadata(ctx: InputContext) -> None:
    """Write to a frozen mapping."""
    ctx.messages[0].metadata["x"] = ctx.text  # type: ignore[index]


async def note_itself(ctx: InputContext) -> None:
    """Tell a record something that refers to itself."""
    loop: list[Any] = []
    loop.append(loop)
    ctx.note(loop=loop)


async def change_a_role(ctx: InputContext) -> Any:
    """Change more than stretches of text."""
    return [Message("assistant", m.parts, id=m.id, created_at=m.created_at) for m in ctx.messages]


FAILURES = [
    raise_error,
    raise_base,
    raise_cancelled,
    raise_group,
    raise_stop,
    forget_to_return,
    return_foreign,
    return_nonsense,
    return_text,
    return_strings,
    return_empty,
    return_same_twice,
    return_coroutine,
    return_generator,
    return_true,
    put_undeclared,
    edit_beyond,
    mutate_text,
    mutate_metadata,
    note_itself,
    change_a_role,
]
each_failure = pytest.mark.parametrize("act", FAILURES, ids=lambda act: act.__name__)


@each_place
@each_failure
async def test_a_failure_blocks_where_the_policy_says_so(
    place: Any, act: Check, caplog: pytest.LogCaptureFixture
) -> None:
    """A verdict that says what it is; the error names the culprit; the record says failed."""
    outcome = await blocked(place(Faulty(act), on_error="block"), caplog)
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "culprit"
    assert outcome.tripwire.metadata["failed"] is True
    failure = outcome.failure
    assert isinstance(failure, StepFailedError)
    assert failure.step.endswith("culprit")
    mine = [record for record in outcome.records if record.processor_id == "culprit"]
    assert [record.status for record in mine] == ["failed"]


@each_place
@each_failure
async def test_a_failure_raises_by_default(place: Any, act: Check, caplog: pytest.LogCaptureFixture) -> None:
    """Undeclared code fails closed, and names the culprit; the original is the cause."""
    error = await failed(place(Faulty(act)), caplog)
    assert error.__cause__ is not None


@each_place
@each_failure
async def test_a_failure_that_is_allowed_changes_nothing(
    place: Any, act: Check, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on as if the step were not there, and the log says so once, without the text."""
    async with tidy():
        outcome = await place(Faulty(act), on_error="allow").check(f"my {SECRET} is out")
    assert not outcome.blocked
    assert SECRET in outcome.text
    assert [r.status for r in outcome.records if r.processor_id == "culprit"] == ["failed"]
    assert SECRET not in caplog.text + repr(outcome.records)
    assert sum("culprit" in message for message in caplog.messages) == 1


@each_place
@each_failure
async def test_a_fallback_stands_in(place: Any, act: Check, caplog: pytest.LogCaptureFixture) -> None:
    """What the culprit should have hidden, the fallback hides."""

    @processor("process_input", edits="spans", id="stand-in")
    def redact(ctx: InputContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace(SECRET, "[S]"))

    async with tidy():
        outcome = await place(Faulty(act), on_error=redact).check(f"my {SECRET} is out")
    assert "[S]" in outcome.text
    assert SECRET not in outcome.text + caplog.text


@each_place
async def test_a_fallback_that_fails_too_fails_closed(place: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The second failure means what the fallback says: here, to raise."""
    second = Faulty(raise_base, id="second-culprit")
    error = await failed(place(Faulty(raise_error), on_error=second), caplog)
    assert isinstance(error.__cause__, OddError)


@each_place
@pytest.mark.parametrize("swallows", [False, True])
async def test_a_hook_that_hangs_is_stopped_by_its_timeout(
    place: Any, swallows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It has failed, also when it swallows the cancellation and answers late."""

    async def act(ctx: InputContext) -> Any:
        try:
            await anyio.sleep_forever()
        except BaseException:
            if not swallows:
                raise
        return ctx.messages

    outcome = await blocked(place(Faulty(act), timeout=0.01, on_error="block"), caplog)
    assert outcome.failure.__cause__.__class__ is TimeoutError
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "culprit"


# What comes from outside


@each_place
async def test_a_cancellation_from_outside_propagates(place: Any) -> None:
    """It is neither verdict nor failure: no outcome, no error, and nothing stays behind."""
    entered = anyio.Event()
    ended: list[str] = []

    async def act(ctx: InputContext) -> None:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("ended")

    async def check() -> None:
        await place(Faulty(act), on_error="allow").check("hi")
        ended.append("came back")

    async with tidy(), anyio.create_task_group() as group:
        group.start_soon(check)
        await entered.wait()
        group.cancel_scope.cancel()
    assert ended == ["ended"]


@each_place
async def test_a_tasks_own_cancellation_propagates(place: Any, anyio_backend_name: str) -> None:
    """task.cancel(), as asyncio has it."""
    if anyio_backend_name == "trio":
        return
    entered = asyncio.Event()

    async def act(ctx: InputContext) -> None:
        entered.set()
        await anyio.sleep_forever()

    task = asyncio.create_task(place(Faulty(act), on_error="block").check("hi"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    ("backend", "place"),
    # In a task of its own an interrupt stops asyncio's loop at once, whoever started the task: nothing of ours runs.
    [("asyncio", in_sequence), ("asyncio", in_branch), *(("trio", place) for place in PLACES)],
)
def test_an_interrupt_in_a_hook_comes_out(interrupt: type[BaseException], backend: str, place: Any) -> None:
    """Ctrl-C stops the program; no policy turns it into a verdict."""

    async def act(ctx: InputContext) -> None:
        raise interrupt

    def innermost(error: BaseException) -> BaseException:
        return innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error

    with pytest.raises((interrupt, BaseExceptionGroup)) as caught:
        anyio.run(place(Faulty(act), on_error="allow").check, "hi", backend=backend)
    assert type(innermost(caught.value)) is interrupt


# Siblings


async def test_a_tripwire_cancels_its_slower_siblings() -> None:
    """They do not run to their end, and their edits and data are gone."""
    cancelled = []

    @processor(edits="nothing")
    async def slow(ctx: InputContext) -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            cancelled.append(ctx.step_path)
            raise

    async with tidy():
        outcome = await Workflow("w").parallel(slow, Faulty(abort_later), slow).check("hi")
    assert outcome.blocked
    assert sorted(cancelled) == ["slow", "slow#2"]
    assert {record.step: record.status for record in outcome.records} == {
        "slow": "skipped",
        "culprit": "tripped",
        "slow#2": "skipped",
    }


def graph_of(kind: str, *steps: Processor[Any]) -> Workflow:
    """Steps beside each other, in a parallel, a branch, or a dag."""
    if kind == "parallel":
        return Workflow("w").parallel(*steps)
    if kind == "branch":
        return Workflow("w").branch(*[(lambda _: True, step) for step in steps], match="all")
    return Workflow("w").dag(*[member(step) for step in steps])


each_kind = pytest.mark.parametrize("kind", ["parallel", "branch", "dag"])


@each_kind
async def test_among_siblings_that_tripped_declared_order_decides(kind: str) -> None:
    """The first one trips while it is being cancelled by the second."""

    @processor(id="first", edits="nothing")
    async def first(ctx: InputContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ctx.abort("first")

    @processor(id="second", edits="nothing")
    async def second(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()
        ctx.abort("second")

    async with tidy():
        outcome = await graph_of(kind, first, second).check("hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "first"


@each_kind
@pytest.mark.parametrize("first_to_end", [0, 1])
async def test_a_tripwire_beats_an_ordinary_error(kind: str, first_to_end: int) -> None:
    """Whichever comes first."""
    gone = anyio.Event()

    @processor(id="fails", edits="nothing")
    async def fails(ctx: InputContext) -> None:
        if first_to_end == 1:
            await gone.wait()
        gone.set()
        raise ValueError

    @processor(id="trips", edits="nothing")
    async def trips(ctx: InputContext) -> None:
        if first_to_end == 0:
            await gone.wait()
        gone.set()
        ctx.abort("tripped")

    async with tidy():
        outcome = await graph_of(kind, fails, trips).check("hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "tripped"


@each_kind
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_of_two_failures_the_first_declared_is_raised(kind: str, order: tuple[int, int]) -> None:
    """Whichever ended first."""
    done = [anyio.Event(), anyio.Event()]

    def broken(index: int) -> Processor[Any]:
        @processor("process_input", id=f"s{index}", edits="nothing")
        async def fails(ctx: InputContext) -> None:
            if order[0] != index:
                await done[1 - index].wait()
            done[index].set()
            raise ValueError

        return fails

    with pytest.raises(StepFailedError) as caught:
        async with tidy():
            await graph_of(kind, broken(0), broken(1)).check("hi")
    assert caught.value.step == "s0"


# Conditions


async def _hang(_: Any) -> bool:
    await anyio.sleep_forever()
    return True


def _quote(ctx: Any) -> bool:
    raise ValueError(ctx.text)


async def _quote_later(ctx: Any) -> bool:
    await anyio.lowlevel.checkpoint()
    raise OddError(ctx.text)


def _abort(ctx: Any) -> bool:
    return bool(ctx.abort("a condition cannot"))


@pytest.mark.parametrize("condition", [_quote, _quote_later, _abort], ids=lambda condition: condition.__name__)
@pytest.mark.parametrize("match", ["first", "all"])
async def test_a_condition_that_breaks_is_a_failure_not_false(
    condition: Any, match: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Raised or blocked, as the branch says, and no arm runs."""
    ran: list[str] = []

    @processor(edits="nothing")
    def arm(ctx: InputContext) -> None:
        ran.append(ctx.step_path)

    arms = ((lambda _: False, arm), (condition, arm))
    workflow = Workflow("w").branch(*arms, otherwise=arm, match=match)
    with pytest.raises(StepFailedError) as caught:
        await workflow.check(SECRET)
    assert "branch[1]" in caught.value.step
    assert SECRET not in str(caught.value) + caplog.text
    outcome = await blocked(Workflow("w").branch(*arms, otherwise=arm, match=match, on_error="block"), caplog)
    assert outcome.records[-1].status == "failed"
    assert ran == []


async def test_a_condition_that_breaks_in_a_dag_names_its_member() -> None:
    """The way it guards is not taken."""
    workflow = Workflow("w").dag(member(Neighbour(), id="a"), member(Neighbour(), id="b", after={"a": _quote}))
    with pytest.raises(StepFailedError) as caught:
        await workflow.check(SECRET)
    assert caught.value.step == "dag/b[when]"
    assert SECRET not in str(caught.value)


async def test_a_condition_that_hangs_is_stopped_by_the_workflows_timeout(caplog: pytest.LogCaptureFixture) -> None:
    """A nested workflow's timeout holds for its conditions."""
    inner = Workflow("culprit").branch((_hang, Neighbour()))
    await blocked(Workflow("w").then(inner, timeout=0.01, on_error="block"), caplog)


# Others


async def test_an_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the run goes on."""

    class Broken:
        def on_record(self, record: Record) -> None:
            raise ValueError

    async with in_parallel(Faulty(abort)).start(observers=[Broken()], records=True) as run:
        outcome = await run.process_input("hi")
    assert outcome.blocked
    assert "an observer failed" in caplog.text


async def test_a_context_kept_for_later_is_of_no_use(caplog: pytest.LogCaptureFixture) -> None:
    """What is put there later does not count, and a verdict given there is one of the step that gives it."""
    kept: list[InputContext] = []

    async def keep(ctx: InputContext) -> None:
        kept.append(ctx)

    @processor("process_input", id="later", edits="nothing", on_error="allow")
    async def later(ctx: InputContext) -> None:
        kept[0].put(FACT, "late")
        kept[0].abort("late")

    outcome = await Workflow("w").then(Faulty(keep)).then(later).check(SECRET)
    assert_nothing_gets_out(outcome, caplog)
    assert outcome.fact(FACT) is None


async def test_a_stale_list_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A list kept from before a redaction would bring back what was redacted."""
    kept: list[MessageList] = []

    @processor(edits="nothing")
    async def keep(ctx: InputContext) -> None:
        kept.append(ctx.message_list)

    @processor(edits="spans")
    async def redact(ctx: InputContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace(SECRET, "[S]"))

    async def bring_back(ctx: InputContext) -> MessageList:
        return kept[0].add(Message.user("hello"))

    workflow = Workflow("w").then(keep).then(redact).then(Faulty(bring_back, edits="anything"))
    await failed(workflow, caplog)


async def test_a_sync_hook_that_returns_a_coroutine_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    """And the coroutine is closed, so that nobody is warned of it."""

    class Forgetful(Processor):
        id = "culprit"

        def process_input(self, ctx: InputContext) -> Any:
            return raise_error(ctx)

    error = await failed(Workflow("w").then(Forgetful()), caplog)
    assert "async def" in str(error)
    with pytest.raises(StepFailedError):
        Workflow("w").then(Forgetful()).check_sync("hi")


async def test_a_step_that_fails_in_an_inner_run_is_not_mistaken_for_the_culprit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The step whose hook ran the other workflow is the one that failed here."""

    async def act(ctx: InputContext) -> None:
        await Workflow("inner").then(Faulty(raise_error, id="inner-step")).check(ctx.text)

    error = await failed(Workflow("w").then(Faulty(act)), caplog)
    assert error.step == "culprit"


@pytest.mark.parametrize("role", ["guard", "transform"])
async def test_a_conflict_blocks_if_a_guard_is_in_it(role: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Else it is raised; both culprits are named, and the text is not."""

    def rewriting(number: int) -> Processor[Any]:
        async def act(ctx: InputContext) -> MessageList:
            return ctx.message_list.map_text(lambda _: f"rewritten by {number}")

        return Faulty(act, id=f"culprit-{number}", role=role)

    workflow = Workflow("culprits").parallel(rewriting(1), rewriting(2))
    if role == "guard":
        outcome = await blocked(workflow, caplog)
        error: Any = outcome.failure
    else:
        with pytest.raises(StepFailedError) as caught:
            await workflow.check(f"my {SECRET} is out")
        error = caught.value
    assert error.culprits == ("culprit-1", "culprit-2")
    assert SECRET not in str(error)


async def test_a_merge_function_that_breaks_is_a_failure_of_the_join(caplog: pytest.LogCaptureFixture) -> None:
    """It blocks, since guards are in it; the error names the join, never the text."""

    def broken(conflict: Any) -> Any:
        raise ValueError(conflict.base)

    async def act(ctx: InputContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: ctx.step_path)

    workflow = Workflow("w").parallel(Faulty(act, id="a"), Faulty(act, id="b"), merge=broken)
    outcome = await blocked(workflow, caplog)
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "parallel"


async def test_a_run_with_shadows_ends_with_the_error_itself() -> None:
    """The room made for shadows wraps no error in a group."""

    @processor(edits="nothing")
    async def watch(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()

    workflow = Workflow("w").then(watch, mode="shadow").then(Faulty(raise_error))
    with pytest.raises(StepFailedError):
        await workflow.check("hi")


async def test_shadows_that_break_are_only_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """In every way a step can break."""
    for act in [*FAILURES, *ABORTS]:
        outcome = await Workflow("w").then(Faulty(act), mode="shadow").check("hi")
        assert not outcome.blocked
        assert [record.status for record in outcome.records] == ["tripped" if act in ABORTS else "failed"]


def test_the_log_is_the_penstock_logger() -> None:
    """What fails open is said there."""
    assert logging.getLogger("penstock").name == "penstock"


def test_a_judge_that_gives_no_verdict_is_named_with_why() -> None:
    """In what stops the run, and in the error where the policy is to raise; nothing says what was judged."""

    @processor(edits="nothing", on_error="block")
    def ask(ctx: InputContext) -> None:
        raise JudgeError("openai/x", "refused", "it would not say", attempts=2)

    outcome = Workflow("w").then(ask).check_sync("a secret")
    assert outcome.tripwire is not None
    assert dict(outcome.tripwire.metadata) == {
        "failed": True,
        "error": "JudgeError",
        "judge": "openai/x",
        "why": "refused",
    }
    with pytest.raises(StepFailedError) as raised:
        Workflow("w").then(ask, on_error="raise").check_sync("a secret")
    told = "judge 'openai/x' gave no verdict after 2 attempts: it would not say (refused)"
    assert str(raised.value.__cause__) == told
