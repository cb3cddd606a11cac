"""Many inputs through one stage: order, bounds, and inputs that break."""

import anyio
import anyio.lowlevel
import pytest

from penstock import InputContext, Processor, Workflow
from penstock.engine import MessageError
from penstock.workflows.batch import HELD_PER_JOB, Call, Checked, check_all, check_concurrently, check_each, is_sync


class Upper(Processor):
    """Writes in capitals, blocks 'stop', breaks on 'break'."""

    def process_input(self, ctx: InputContext):
        """Judge one text."""
        if ctx.text == "stop":
            ctx.abort("stopped")
        if ctx.text == "break":
            raise ValueError(ctx.text)
        return ctx.message_list.map_text(str.upper, ctx.messages) if ctx.text.islower() else None


class Gate(Processor):
    """Lets the inputs out in the order the test says."""

    edits = "nothing"

    def __init__(self) -> None:
        self._under_way: dict[str, anyio.Event] = {}

    async def process_input(self, ctx: InputContext) -> None:
        """Wait until it is opened."""
        self._under_way[ctx.text] = anyio.Event()
        await self._under_way[ctx.text].wait()

    @property
    def waiting(self) -> list[str]:
        """Who waits."""
        return [text for text, event in self._under_way.items() if not event.is_set()]

    def open(self, text: str) -> None:
        """Let one out."""
        self._under_way[text].set()


upper = Workflow("upper").then(Upper())


def test_each_input_has_its_status() -> None:
    """One that breaks stops none of the others."""
    checked = list(check_each(upper, ["low", "HIGH", "stop", "break", "low"]))
    assert [one.status for one in checked] == ["edited", "passed", "blocked", "failed", "edited"]
    assert checked[0].outcome is not None
    assert checked[0].outcome.text == "LOW"
    assert checked[3].outcome is None
    assert checked[3].records[0].status == "failed"


def test_an_input_that_is_malformed_is_invalid() -> None:
    """Whether the reader or the stage finds it."""

    def as_call(item: str) -> Call:
        if item == "bad":
            raise MessageError("text", "expected more")
        return Call([{"role": "nobody", "content": "x"}])

    assert [one.status for one in check_each(upper, ["bad", "worse"], as_call=as_call)] == ["invalid", "invalid"]


def test_sync_steps_need_no_event_loop() -> None:
    """And inputs are drawn one at a time, each when the last one is done."""
    log: list[str] = []

    def inputs():
        for text in ("a", "b"):
            log.append(f"draw {text}")
            yield text

    assert is_sync(upper, "process_input")
    check_all(upper, inputs(), lambda checked: log.append(f"emit {checked.item}"))
    assert log == ["draw a", "emit a", "draw b", "emit b"]


async def until(condition) -> None:
    """Let others run until the condition holds."""
    with anyio.fail_after(60):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def test_results_come_in_the_order_of_the_inputs() -> None:
    """However they finish."""
    gate, emitted = Gate(), []
    async with anyio.create_task_group() as tasks:
        work = Workflow("w").then(gate)
        tasks.start_soon(lambda: check_concurrently(work, "abc", lambda one: emitted.append(one.item), jobs=3))
        await until(lambda: len(gate.waiting) == 3)
        gate.open("c")
        gate.open("b")
        await anyio.wait_all_tasks_blocked()
        assert emitted == []
        gate.open("a")
    assert emitted == ["a", "b", "c"]


async def test_no_more_than_the_jobs_are_under_way() -> None:
    """The next one begins when one has ended."""
    gate = Gate()
    async with anyio.create_task_group() as tasks:
        work = Workflow("w").then(gate)
        tasks.start_soon(lambda: check_concurrently(work, "abcd", lambda _: None, jobs=2))
        await until(lambda: gate.waiting == ["a", "b"])
        await anyio.wait_all_tasks_blocked()
        assert gate.waiting == ["a", "b"]
        gate.open("b")
        await until(lambda: gate.waiting == ["a", "c"])
        for text in "acd":
            await until(lambda text=text: text in gate.waiting)
            gate.open(text)


async def test_a_slow_first_input_bounds_what_is_drawn() -> None:
    """What waits behind it does not grow with the input."""
    gate, drawn = Gate(), []

    def inputs():
        for number in range(1_000):
            drawn.append(number)
            yield str(number)

    async with anyio.create_task_group() as tasks:
        work = Workflow("w").then(gate)
        tasks.start_soon(lambda: check_concurrently(work, inputs(), lambda _: None, jobs=2))
        for number in range(1, HELD_PER_JOB * 2):
            await until(lambda number=number: str(number) in gate.waiting)
            gate.open(str(number))
        await anyio.wait_all_tasks_blocked()
        assert len(drawn) <= HELD_PER_JOB * 2 + 2 + 1  # held, and drawn ahead
        tasks.cancel_scope.cancel()


async def test_what_emit_raises_ends_it_and_comes_out_bare() -> None:
    """A broken pipe must look like one."""

    def emit(_: Checked[str]) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await check_concurrently(upper, iter(["a", "b", "c"]), emit, jobs=2)


async def test_what_the_inputs_raise_comes_out_after_those_under_way() -> None:
    """What was read is judged all the same."""
    emitted: list[str] = []

    def inputs():
        yield "a"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await check_concurrently(upper, inputs(), lambda one: emitted.append(one.item))
    assert emitted == ["a"]


def test_async_steps_run_under_check_all() -> None:
    """It brings the event loop."""

    class Slow(Processor):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            await anyio.lowlevel.checkpoint()
            if ctx.text == "3":
                raise ValueError

    emitted: list[tuple[str, str]] = []
    work = Workflow("w").then(Slow())
    check_all(work, map(str, range(50)), lambda one: emitted.append((one.item, one.status)), jobs=4)
    assert emitted == [(str(n), "failed" if n == 3 else "passed") for n in range(50)]
