"""Whatever holds chunks back and asks to be woken: timers, failures, fallbacks, shadows, and who leaves early."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio.testing

from penstock import BatchPartsProcessor, Chunk, Edit, OutputStreamContext, Processor, Workflow
from penstock.engine.text_guards.text_guard import TextGuard

Event = float | str | Chunk | Exception
FINISH = Chunk("finish")


class Slow(Processor):
    """Waits when it sees an x, and breaks when it sees a y."""

    edits = "anything"
    role = "transform"

    def __init__(self, seconds: float = 100) -> None:
        self.seconds = seconds

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Wait, break, or give it back."""
        del ctx
        await anyio.lowlevel.checkpoint()
        if "x" in chunk.text:
            await anyio.sleep(self.seconds)
        if "y" in chunk.text:
            raise ValueError(chunk.type)
        return chunk


class Keeps(Processor):
    """Keeps all text to the end of its block; breaks when it sees a y, which it may keep before."""

    edits = "anything"
    role = "transform"
    on_error = "allow"
    timed = True

    def __init__(self, *, first: bool = False) -> None:
        self.first = first

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk | None:
        """Keep it."""
        if chunk.type != "text-delta":
            return chunk
        if self.first:
            ctx.state.setdefault("kept", []).append(chunk)
        if "y" in chunk.text:
            raise ValueError(chunk.type)
        if not self.first:
            ctx.state.setdefault("kept", []).append(chunk)
        ctx.wake_after(1)
        return None

    def flush(self, ctx: OutputStreamContext) -> list[Chunk]:
        """Give all back."""
        kept: list[Chunk] = ctx.state.pop("kept", [])
        return kept

    def wake(self, ctx: OutputStreamContext) -> list[Chunk]:
        """Break."""
        raise ValueError(ctx.step_path)


class Word(TextGuard):
    """Takes the word away."""

    role = "guard"
    edits = "spans"

    def __init__(self, *, id: str = "word") -> None:
        self.id = id

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find it."""
        del ctx, final
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("secret", text)]

    def hold(self, text: str, start: int) -> int:
        """Hold what may become the word."""
        at = text.find("s", max(start, len(text) - 5))
        return len(text) if at < 0 else at


class Trips(Processor):
    """Refuses a z, and asks for another answer."""

    edits = "nothing"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Look for it."""
        if "z" in chunk.text:
            ctx.abort("a z", retry=True)
        return chunk


def shown(chunks: Iterable[Chunk]) -> list[str]:
    """Return texts as they are, and the types of other chunks."""
    return [chunk.text or chunk.type for chunk in chunks]


async def left_by(workflow: Workflow, events: Sequence[Event]) -> list[tuple[float, str]]:
    """Return what leaves and when; a number among the events is a silence, an error breaks the source."""
    began = anyio.current_time()
    left: list[tuple[float, str]] = []

    async def source() -> AsyncIterator[Chunk | str]:
        for event in events:
            if isinstance(event, (int, float)):
                await anyio.sleep(event)
            elif isinstance(event, Exception):
                raise event
            else:
                yield event

    try:
        async with workflow.start() as run, run.process_output_stream(source()) as chunks:
            async for chunk in chunks:
                left.append((round(anyio.current_time() - began, 3), chunk.text or chunk.type))  # noqa: PERF401
    except OSError as error:
        left.append((round(anyio.current_time() - began, 3), repr(error)))
    return left


def timed(workflow: Workflow, *events: Event) -> list[tuple[float, str]]:
    """Run it where time passes as soon as nothing else can happen."""
    limited = "timeout=" in workflow.draw("text")  # sync hooks run in threads then, which the clock does not see
    options = {"clock": trio.testing.MockClock(autojump_threshold=0.1 if limited else 0)}
    return anyio.run(left_by, workflow, events, backend="trio", backend_options=options)


def pieces(text: str, block: str = "t") -> Iterator[Chunk]:
    """Yield a text letter by letter."""
    yield Chunk("text-start", id=block)
    for letter in text:
        yield Chunk("text-delta", letter, block)
    yield Chunk("text-end", id=block)


def batcher(**options: Any) -> BatchPartsProcessor:
    """Return one that waits for two seconds at most."""
    return BatchPartsProcessor(max_wait_time=2, **options)


# Timers


@pytest.mark.parametrize(
    "placed",
    [
        lambda: Workflow("w").then(batcher()),
        lambda: Workflow("w").then(Workflow("inner").then(batcher())),
        lambda: Workflow("w").then(Workflow("inner").then(batcher()).then(Slow()), timeout=1),
        lambda: Workflow("w").branch((lambda _: True, batcher())),
        lambda: Workflow("w").branch((lambda _: False, Slow()), otherwise=Workflow("o").then(batcher()).then(Slow())),
        lambda: Workflow("w").parallel(batcher(), Word(), merge="sequence"),
    ],
)
def test_timers_run_out_wherever_their_step_is_placed(placed: Callable[[], Workflow]) -> None:
    """While the source is silent; each batch has its own."""
    left = [(2, "ab"), (61, "c"), (61, "finish")]
    assert timed(placed(), "a", "b", 60, "c", 1, FINISH) == left


def test_a_source_that_breaks_is_told_after_what_was_held() -> None:
    """Its error is its own."""
    assert timed(Workflow("w").then(batcher()), "a", 1, "b", OSError("x")) == [(1, "ab"), (1, "OSError('x')")]


def test_two_timers_in_a_row_run_out_one_after_the_other() -> None:
    """What the first lets go starts the second."""
    workflow = Workflow("w").then(batcher()).then(BatchPartsProcessor(max_wait_time=3))
    assert timed(workflow, "a", 1, "b", 50, "c", FINISH) == [(5, "ab"), (51, "c"), (51, "finish")]


def test_a_fallback_has_its_own_timer() -> None:
    """Though the step that it stands in for has none."""
    workflow = Workflow("w").then(Slow(), timeout=1, on_error=batcher(id="spare"))
    assert timed(workflow, "a", "x", "b", 50, "c", FINISH) == [(0, "a"), (3, "xb"), (51, "c"), (51, "finish")]


def test_a_shadow_that_is_busy_is_woken_once_for_each_timer() -> None:
    """It takes no time from the stream, and does not keep it spinning."""
    shadow = Workflow("inner").then(batcher(batch_sentences=True)).then(Slow(30))
    workflow = Workflow("w").then(shadow, mode="shadow")
    assert timed(workflow, "x. a", 1, "b", 50, FINISH) == [(0, "x. a"), (1, "b"), (51, "finish")]


def test_without_an_event_loop_timers_are_looked_at_with_each_chunk() -> None:
    """Before it, so that it joins nothing that is late."""

    def source() -> Iterator[str]:
        yield "a"
        until = time.monotonic() + 0.002
        while time.monotonic() < until:
            pass
        yield "b"
        yield "c"

    workflow = Workflow("w").then(BatchPartsProcessor(max_wait_time=0.001, batch_size=2))
    with workflow.start_sync().process_output_stream(source()) as chunks:
        assert shown(chunks) == ["a", "bc"]


# Guards


@pytest.mark.parametrize("guard_first", [True, False])
def test_a_guard_before_or_behind_a_batcher_lets_nothing_through(guard_first: bool) -> None:
    """However the time cuts the batches."""
    word, batches = Workflow("word").then(Word()), Workflow("batches").then(batcher(batch_size=3))
    workflow = word.then(batches) if guard_first else batches.then(word)
    left = timed(workflow, *"a se", 5, "c", 5, *"ret b", 9, FINISH)
    assert "".join(text for _, text in left) == "a * bfinish"


# Failures


@pytest.mark.parametrize("first", [True, False])
def test_what_a_step_held_when_it_broke_is_passed_on(first: bool) -> None:
    """In its place, once; the step is back for the next text."""
    workflow = Workflow("w").then(Keeps(first=first))
    given = [*pieces("abycd"), *pieces("ef", "u"), FINISH]
    with workflow.start_sync().process_output_stream(given) as chunks:
        assert list(chunks) == given


def test_a_step_that_breaks_when_it_is_woken_passes_on_what_it_held() -> None:
    """And is not woken again."""
    assert timed(Workflow("w").then(Keeps()), "a", "b", 9, "c", 9, FINISH) == [
        (1, "a"),
        (1, "b"),
        (9, "c"),
        (18, "finish"),
    ]


def test_a_step_behind_a_batcher_that_breaks_loses_no_batch() -> None:
    """The chunk at hand is the batch."""
    workflow = Workflow("w").then(BatchPartsProcessor(batch_size=3)).then(Slow(), on_error="allow")
    assert [text for _, text in timed(workflow, *"abycdefg", FINISH)] == ["aby", "cde", "fg", "finish"]


def row(*steps: Processor[Any] | Workflow) -> Workflow:
    """Return a workflow of steps one after another."""
    made = Workflow("row")
    for step in steps:
        made = made.then(step)
    return made


@pytest.mark.parametrize(
    ("inner", "left"),
    [
        (row(BatchPartsProcessor(), Slow()), ["abcdx", "f", "g"]),
        (row(Slow(), BatchPartsProcessor()), ["abcd", "x", "f", "g"]),
        (row(BatchPartsProcessor(batch_size=3), Slow()), ["abc", "dxf", "g"]),
        (row(BatchPartsProcessor(batch_size=2), Slow(), BatchPartsProcessor(batch_size=3)), ["abcd", "xf", "g"]),
        (row(BatchPartsProcessor(batch_size=None), Slow()), ["abcdxfg"]),
        (row(BatchPartsProcessor(), Workflow("inmost").then(Slow())), ["abcdx", "f", "g"]),
    ],
)
@pytest.mark.parametrize("policy", ["allow", Slow(0)])
def test_a_row_that_fails_loses_and_moves_nothing(inner: Workflow, left: list[str], policy: Any) -> None:
    """What its steps held, or had on the way between them, goes on in its place; the next text is theirs again."""
    workflow = Workflow("w").then(inner, timeout=1, on_error=policy)
    after = ["text-start", "h", "text-end", "finish"]
    found = [text for _, text in timed(workflow, *pieces("abcdxfg"), *pieces("h", "u"), FINISH)]
    assert found == ["text-start", *left, "text-end", *after]


def test_a_row_that_fails_when_it_is_woken_loses_nothing() -> None:
    """Though the source is silent."""
    workflow = Workflow("w").then(row(batcher(), Slow()), timeout=1, on_error="allow")
    assert timed(workflow, "a", "x", 9, "b", 9, FINISH) == [(3, "ax"), (9, "b"), (18, "finish")]


class SlowWord(Word):
    """Finds the word, but is in no hurry."""

    async def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:  # type: ignore[override]
        """Wait when there is an x."""
        await anyio.sleep(100 if "x" in text else 0)
        return super().find(text, ctx, final=final)


@pytest.mark.parametrize("inner", [row(batcher(batch_size=3), SlowWord()), row(SlowWord(), batcher(batch_size=3))])
def test_a_fallback_judges_what_the_guard_before_it_had_not_let_go(inner: Workflow) -> None:
    """From where that left off: nothing twice, nothing unseen, nothing left for the next text."""
    workflow = Workflow("w").then(inner, timeout=1, on_error=Word(id="spare"))
    found = [text for _, text in timed(workflow, *pieces("a secretx b secret"), *pieces("a secret", "u"), FINISH)]
    assert "".join(found) == "text-starta *x b *text-endtext-starta *text-endfinish"


# Who leaves, and who is stopped


@pytest.mark.anyio
async def test_a_verdict_takes_along_what_was_held() -> None:
    """The next attempt begins with nothing."""
    workflow = Workflow("w").then(Trips()).then(BatchPartsProcessor(max_wait_time=60))
    async with workflow.start(max_processor_retries=1) as run:
        async with run.process_output_stream([*"abz"]) as chunks:
            assert shown([chunk async for chunk in chunks]) == ["step-finish"]
        async with run.process_output_stream([*"cd"]) as chunks:
            assert shown([chunk async for chunk in chunks]) == ["cd"]


@pytest.mark.anyio
async def test_a_consumer_that_breaks_or_is_cancelled_leaves_nothing_running() -> None:
    """While a timer runs, and the source is silent; its own error is what it sees."""
    closed: list[str] = []
    silent = anyio.Event()

    async def source() -> AsyncIterator[str]:
        try:
            yield "abcde"
            yield "f"
            silent.set()
            await anyio.sleep_forever()
        finally:
            closed.append("source")

    workflow = Workflow("w").then(BatchPartsProcessor(batch_characters=5, max_wait_time=60))

    async def breaks() -> None:
        async with workflow.start() as run, run.process_output_stream(source()) as chunks:
            async for _ in chunks:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await breaks()

    async def reads() -> None:
        async with workflow.start() as run, run.process_output_stream(source()) as chunks:
            async for _ in chunks:
                pass
        pytest.fail("the stream ended")

    async with anyio.create_task_group() as group:
        group.start_soon(reads)
        await silent.wait()
        group.cancel_scope.cancel()
    assert closed == ["source"] * 2


@pytest.mark.rest
@pytest.mark.anyio
async def test_a_thousand_streams_at_once_leave_no_task() -> None:
    """Read to the end, left early, or broken."""
    workflow = Workflow("w").then(BatchPartsProcessor(max_wait_time=0.001))
    open_sources: set[int] = set()

    async def source(number: int) -> AsyncIterator[str]:
        open_sources.add(number)
        try:
            yield "a"
            if number % 3 == 0:
                await anyio.sleep_forever()
            if number % 3 == 1:
                raise OSError
            yield "b"
        finally:
            open_sources.discard(number)

    async def read(number: int) -> None:
        try:
            async with workflow.start() as run, run.process_output_stream(source(number)) as chunks:
                async for chunk in chunks:
                    assert chunk.text in {"a", "b", "ab"}
                    if number % 3 == 0:
                        break
        except OSError:
            assert number % 3 == 1

    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(read, number)
    assert not open_sources
