"""Long texts are read in a worker thread, and time limits hold for sync hooks: what a run shows of it, and what not."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import from_thread

from penstock import (
    Chunk,
    Edit,
    InputContext,
    Key,
    Message,
    OutputStreamContext,
    Processor,
    TextPart,
    Workflow,
    processor,
)
from penstock.engine import workers
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values import message_list
from penstock.engine.values.errors import StepFailedError
from penstock.engine.values.texts import with_part_texts
from penstock.engine.values.tripwire import Record
from penstock.engine.workers import LONG, AbandonedError, checkpoint, run_in_worker

FOUND = Key[int]("found")
NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")
LONG_TEXT = "a secret " * (LONG // 6)
MANY = LONG // 20


class Marks(TextGuard):
    """Hides the word secret; remembers the threads in which it looks."""

    reach = 20
    provides = (FOUND,)

    def __init__(self, *, stops: bool = False) -> None:
        self.stops = stops
        self.threads: set[int] = set()

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find the word."""
        del final
        self.threads.add(threading.get_ident())
        ctx.note(name=NAME.get())
        ctx.put(FOUND, text.count("secret"))
        if self.stops:
            ctx.abort("no")
        starts = [at for at in range(len(text)) if text.startswith("secret", at)]
        return [Edit(at, at + len("secret"), "***", "redact") for at in starts]

    def __eq__(self, other: object) -> bool:
        """Be equal to itself only."""
        return self is other

    __hash__ = None  # type: ignore[assignment]


class Hangs(Processor):
    """Waits for an event in its hooks, without the loop."""

    edits = "nothing"

    def __init__(self, go: threading.Event, *, stops: bool = False, hangs: Callable[[], None] = lambda: None) -> None:
        self.go = go
        self.stops = stops
        self.hangs = hangs

    def process_input(self, ctx: InputContext) -> None:
        """Give a verdict or none, and wait."""
        try:
            if self.stops:
                ctx.abort("no")
        finally:
            self.hangs()
            self.go.wait()

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Wait."""
        del ctx
        self.go.wait()
        return chunk


@processor("process_input", edits="nothing")
async def reads_not(_ctx: InputContext) -> None:
    """Wait for the loop."""
    await anyio.lowlevel.checkpoint()


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """Let all that waits go on in the end."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_long_text_is_read_off_the_loop() -> None:
    """And a short one on it; both are edited alike."""
    guard = Marks()
    workflow = Workflow("w").then(guard)
    assert (await workflow.check("a secret")).text == "a ***"
    assert guard.threads == {threading.get_ident()}
    guard.threads.clear()
    assert (await workflow.check(LONG_TEXT)).text == LONG_TEXT.replace("secret", "***")
    assert threading.get_ident() not in guard.threads


async def test_a_long_message_that_is_edited_there_is_made_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a branch, too, where it is only made for the step behind, which runs on the loop."""
    threads: list[int] = []

    def made(part: Any, texts: Any) -> Any:
        threads.append(threading.get_ident())
        return with_part_texts(part, texts)

    @processor("process_input", edits="nothing")
    async def reads(ctx: InputContext) -> None:
        await anyio.lowlevel.checkpoint()
        assert "secret" not in ctx.text

    monkeypatch.setattr(message_list, "with_part_texts", made)
    workflow = Workflow("w").parallel(Workflow("branch").then(Marks()).then(reads), Workflow("other").then(reads_not))
    assert (await workflow.start().process_input(LONG_TEXT)).text == LONG_TEXT.replace("secret", "***")
    assert threads
    assert threading.get_ident() not in threads


async def test_what_a_hook_does_in_a_worker_counts() -> None:
    """Facts, notes, records, observers on the loop's thread, the caller's context variables."""
    told: list[tuple[int, str]] = []

    class Watches:
        def on_record(self, record: Record) -> None:
            told.append((threading.get_ident(), record.status))

    NAME.set("Ada")
    async with Workflow("w").then(Marks()).start(records=True, observers=[Watches()]) as run:
        outcome = await run.process_input(LONG_TEXT)
    assert outcome.fact(FOUND)
    assert outcome.records[0].details["name"] == "Ada"
    assert told == [(threading.get_ident(), "edited")]


async def test_a_verdict_in_a_worker_stops_the_run() -> None:
    """As one on the loop does."""
    outcome = await Workflow("w").parallel(Marks(stops=True), Marks()).check(LONG_TEXT)
    assert outcome.blocked
    assert outcome.text == ""


def test_without_a_loop_everything_stays_in_its_thread() -> None:
    """`check_sync` is sync, whatever the length."""
    guard = Marks()
    assert Workflow("w").then(guard).check_sync(LONG_TEXT).text == LONG_TEXT.replace("secret", "***")
    assert guard.threads == {threading.get_ident()}


async def test_a_guard_that_must_stay_on_the_loop_stays() -> None:
    """It says so."""

    class Stays(Marks):
        offloadable = False

    guard = Stays()
    await Workflow("w").then(guard).check(LONG_TEXT)
    assert guard.threads == {threading.get_ident()}


async def test_a_long_chunk_of_a_stream_is_judged_off_the_loop() -> None:
    """The text is that of the whole."""
    guard = Marks()
    async with Workflow("w").then(guard).start() as run, run.process_output_stream([LONG_TEXT]) as chunks:
        left = "".join([chunk.text async for chunk in chunks])
    assert left == LONG_TEXT.replace("secret", "***")
    assert threading.get_ident() not in guard.threads


async def test_context_variables_set_in_a_worker_are_set_behind_it() -> None:
    """As behind a call."""
    await run_in_worker(lambda: NAME.set("Grace"))
    assert NAME.get() == "Grace"


async def test_work_whose_caller_has_left_ends_at_its_next_piece(go: threading.Event) -> None:
    """It is not needed any more."""
    ended = threading.Event()

    def work() -> None:
        from_thread.run_sync(scope.cancel)
        go.wait()
        try:
            checkpoint()
        except AbandonedError:
            ended.set()

    with anyio.CancelScope() as scope:
        await run_in_worker(work)
    go.set()
    assert await anyio.to_thread.run_sync(ended.wait, 60)


def limited(go: threading.Event, **given: Any) -> list[Workflow]:
    """Return a sync hook under a time limit, by itself and in a workflow."""
    policy = {"timeout": 0.01, "on_error": "block", **given}
    return [
        Workflow("w").then(Hangs(go), **policy),
        Workflow("w").then(Workflow("n").then(Hangs(go)), **policy),
        Workflow("w").parallel(Hangs(go), Hangs(go), **policy),
    ]


@pytest.mark.parametrize("index", range(3))
async def test_a_time_limit_holds_for_a_sync_hook(index: int, go: threading.Event) -> None:
    """Alone, in a nested workflow, in parallel; its failure is that of any hook."""
    outcome = await limited(go)[index].check("hi")
    assert outcome.blocked
    assert isinstance(outcome.failure, Exception)
    assert "within 0.01 s" in str(outcome.failure)


@pytest.mark.parametrize("index", range(3))
def test_a_time_limit_holds_without_a_loop(index: int, go: threading.Event) -> None:
    """In `check_sync` too."""
    outcome = limited(go)[index].check_sync("hi")
    assert outcome.blocked
    assert "within 0.01 s" in str(outcome.failure)


async def test_a_verdict_given_before_the_time_is_up_holds(go: threading.Event, time_is_up: Callable[[], None]) -> None:
    """Though the hook did not return."""
    hangs = Hangs(go, stops=True, hangs=lambda: from_thread.run_sync(time_is_up))
    outcome = await Workflow("w").then(hangs, timeout=0.01, on_error="allow").check("hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "no"


def test_a_verdict_given_before_the_time_is_up_holds_without_a_loop(
    go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up once the hook hangs, however busy the machine is."""
    hung = threading.Event()
    monkeypatch.setattr(threading.Thread, "join", lambda *_: hung.wait())
    hangs = Hangs(go, stops=True, hangs=hung.set)
    outcome = Workflow("w").then(hangs, timeout=0.01, on_error="allow").check_sync("hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "no"


@pytest.mark.parametrize("stops", [True, False])
async def test_sync_and_async_steps_under_one_time_limit_run_in_their_order(stops: bool) -> None:
    """The sync ones where they can be left, the async ones on the loop; a verdict ends the rest."""
    ran: list[tuple[str, bool]] = []

    def note(name: str) -> None:
        ran.append((name, threading.get_ident() == loop))

    class Sync(Processor):
        def process_input(self, ctx: InputContext) -> None:
            note("sync")
            if stops and len(ran) > 1:
                ctx.abort("no")

    class Async(Processor):
        async def process_input(self, ctx: InputContext) -> None:
            await anyio.lowlevel.checkpoint()
            note("async")

    loop = threading.get_ident()
    steps = Workflow("n").then(Sync()).then(Async()).then(Sync()).then(Async())
    outcome = await Workflow("w").then(steps, timeout=30).check("hi")
    whole = [("sync", False), ("async", True), ("sync", False), ("async", True)]
    assert ran == (whole[:3] if stops else whole)
    assert outcome.blocked is stops


def test_a_step_that_fails_under_a_time_limit_leaves_its_record_without_a_loop() -> None:
    """What it has told before counts, as without the limit."""

    @processor
    def fails(ctx: InputContext) -> None:
        ctx.note(seen=1)
        raise KeyError

    run = Workflow("w").then(fails, timeout=30).start_sync(records=True)
    with pytest.raises(StepFailedError):
        run.process_input("hi")
    assert [(record.status, record.details["seen"]) for record in run.records] == [("failed", 1)]


async def test_a_time_limit_holds_for_a_sync_hook_in_a_stream(go: threading.Event) -> None:
    """It applies to each call."""
    async with limited(go)[0].start() as run, run.process_output_stream(["hi"]) as chunks:
        assert [chunk.type async for chunk in chunks] == ["tripwire"]


def test_a_time_limit_holds_for_a_stream_without_a_loop(go: threading.Event) -> None:
    """As for one with it."""
    with limited(go)[0].start_sync().process_output_stream(["hi"]) as chunks:
        assert [chunk.type for chunk in chunks] == ["tripwire"]


async def test_messages_and_values_are_read_off_the_loop_too() -> None:
    """Their texts come out as they went in."""
    workflow = Workflow("w").then(Marks())
    outcome = await workflow.check([{"role": "user", "content": "a secret"}] * MANY)
    assert {message.text for message in outcome.messages} == {"a ***"}
    rows = [{"of": "a secret"}] * MANY
    result = (await workflow.check(rows, stage="process_tool_result", tool_name="t")).result
    assert set(map(str, result)) == {"{'of': 'a ***'}"}


@pytest.mark.parametrize("noted", ["message", "part"])
async def test_metadata_are_read_off_the_loop_too(noted: str) -> None:
    """Many values of them count as a long text, wherever they stand; few stay on the loop."""
    guard = Marks()
    workflow = Workflow("w").then(guard)
    for many, moved in ((1, False), (MANY, True)):
        guard.threads.clear()
        notes = {"notes": [f"v{number}" for number in range(many)]}
        part = TextPart("hello", notes if noted == "part" else {})
        await workflow.check([Message("user", (part,), metadata=notes if noted == "message" else {})])
        assert (threading.get_ident() not in guard.threads) is moved


async def test_parts_that_end_off_the_loop_are_merged() -> None:
    """Where some arms wait and others do not."""

    class Waits(Processor):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            await anyio.lowlevel.checkpoint()

    outcome = await Workflow("w").parallel(Marks(), Waits()).check([Message.user(LONG_TEXT)])
    assert outcome.text == LONG_TEXT.replace("secret", "***")


def test_a_long_text_is_judged_under_a_time_limit_where_no_event_loop_runs() -> None:
    """The step is in a thread already, so it is not moved to another."""
    workflow = Workflow("limited").then(Marks(), timeout=30)
    assert workflow.check_sync(LONG_TEXT).text == LONG_TEXT.replace("secret", "***")


async def test_a_worker_that_computes_rests_between_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets go of the interpreter for a moment when it has computed for some time, and only if a loop waits."""
    rests: list[float] = []
    monkeypatch.setattr(workers.time, "sleep", rests.append)

    def work() -> None:
        for _ in range(3):
            checkpoint()

    monkeypatch.setattr(workers, "_BUSY", 60.0)
    await run_in_worker(work)
    assert rests == []
    monkeypatch.setattr(workers, "_BUSY", 0.0)
    await run_in_worker(work)
    assert len(rests) == 3
    workers.run_with_limit(work, 10)
    assert len(rests) == 3  # no event loop waits for that one
