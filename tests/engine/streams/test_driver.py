"""The driver of a stream: sources, back-pressure, leaving early, cancellation, many and long streams."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import Chunk, InputContext, OutputStreamContext, Processor, Workflow
from penstock.engine import StepFailedError, UsageError
from penstock.engine.streams import sources
from tests.engine.streams.toys import AsyncToy, Rule, Toy, others_of

REDACTED = Workflow("w").then(Toy(Rule("secret", "redact", "***")))
PIECES = ["a sec", "ret, and ", "more"]


class Keep(Processor):
    """Gives every chunk back."""

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Return it."""
        return chunk


class Timed(Keep):
    """Asks to be woken, far off."""

    timed = True

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Ask, and return the chunk."""
        ctx.wake_after(3_600)
        return chunk

    def wake(self, ctx: OutputStreamContext) -> None:
        """Have nothing to say."""


class DropAll(Processor):
    """Drops every chunk."""

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> None:
        """Drop it."""


GRAPHS = {
    "nothing": Workflow("w"),
    "hooks": Workflow("w").then(Keep()),
    "guard": REDACTED,
    "async guard": Workflow("w").then(AsyncToy(Rule("secret", "redact", "***"))),
    "timed": Workflow("w").then(Timed()).then(Toy(Rule("secret", "redact", "***"))),
}
graphs = pytest.mark.parametrize("graph", GRAPHS)


async def agen(pieces: list[Any]) -> AsyncIterator[Any]:
    """Give them as an async generator."""
    for piece in pieces:
        await anyio.lowlevel.checkpoint()
        yield piece


class AsyncOnly:
    """An async iterator that cannot be closed."""

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = iter(pieces)

    def __aiter__(self) -> AsyncOnly:
        """Return itself."""
        return self

    async def __anext__(self) -> Any:
        """Return the next."""
        for piece in self.pieces:
            return piece
        raise StopAsyncIteration


SOURCES: dict[str, Any] = {
    "a list": list,
    "a generator": lambda pieces: (piece for piece in pieces),
    "an iterator": iter,
    "an async generator": agen,
    "an async iterator": AsyncOnly,
    "chunks": lambda pieces: [Chunk("text-delta", piece) for piece in pieces],
}


@graphs
@pytest.mark.parametrize("kind", SOURCES)
async def test_a_source_is_any_iterable_of_chunks_or_str(kind: str, graph: str) -> None:
    """Sync or async, closable or not."""
    async with GRAPHS[graph].start() as run, run.process_output_stream(SOURCES[kind](PIECES)) as chunks:
        out = [chunk async for chunk in chunks]

    text = "".join(PIECES)
    assert "".join(chunk.text for chunk in out) == (text.replace("secret", "***") if "guard" in graph else text) or (
        graph == "timed"
    )
    assert chunks.outcome is not None
    assert chunks.text == chunks.outcome.text == "".join(chunk.text for chunk in out)


@pytest.mark.parametrize("source", ["a text", b"bytes", 7, None])
async def test_what_cannot_be_a_source_is_refused_at_once(source: Any) -> None:
    """A str by itself would be read character by character."""
    async with REDACTED.start() as run:
        with pytest.raises(UsageError, match="iterable of chunks"):
            run.process_output_stream(source)


@graphs
@pytest.mark.parametrize("item", [7, None, {"type": "text-delta"}, b"x"])
async def test_an_item_that_is_no_chunk_is_an_error(item: Any, graph: str) -> None:
    """It names the type, never what it was; the source is closed."""
    closed = False

    async def source() -> AsyncIterator[Any]:
        nonlocal closed
        try:
            yield "a"
            yield item
        finally:
            closed = True

    async with GRAPHS[graph].start() as run:
        with pytest.raises(UsageError, match="must yield Chunk or str items"):
            async with run.process_output_stream(source()) as chunks:
                _ = [chunk async for chunk in chunks]

    assert closed


async def test_a_stream_must_be_entered() -> None:
    """Else nobody would close it."""
    async with REDACTED.start() as run:
        with pytest.raises(UsageError, match=r"async with run\.process_output_stream"):
            _ = [chunk async for chunk in run.process_output_stream(["a"])]
    with pytest.raises(UsageError, match="enter the stream"):
        list(REDACTED.start_sync().process_output_stream(["a"]))


@graphs
async def test_what_was_read_is_not_read_again(graph: str) -> None:
    """A second loop over the same stream is told so."""
    async with GRAPHS[graph].start() as run, run.process_output_stream(["a", "b"]) as chunks:
        first = [chunk.text async for chunk in chunks]
        with pytest.raises(UsageError):
            _ = [chunk.text async for chunk in chunks]

    assert "".join(first) == "ab"


@graphs
async def test_the_source_is_never_pulled_ahead(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is asked for when all that came of the last has been taken, unless a guard looks for long."""
    monkeypatch.setattr(sources, "READ_AHEAD_AFTER", 60.0)
    given: list[int] = []

    async def source() -> AsyncIterator[str]:
        for number in range(20):
            given.append(number)
            yield f"word number {number} in a row, with enough behind it. "

    async with GRAPHS[graph].start() as run, run.process_output_stream(source()) as chunks:
        taken = 0
        async for _ in chunks:
            taken += 1
            await anyio.wait_all_tasks_blocked()
            assert len(given) <= taken + 1


@graphs
async def test_a_stream_that_is_left_closes_its_source(graph: str) -> None:
    """Whether it was read, half read, or failed in the consumer's hands."""
    closed: list[str] = []

    async def source(name: str) -> AsyncIterator[str]:
        try:
            for _ in range(100):
                yield "some words and more of them. "
        finally:
            closed.append(name)

    run = GRAPHS[graph].start()
    async with run, run.process_output_stream(source("half")) as chunks:
        async for _ in chunks:
            break

    async def failing() -> None:
        async with GRAPHS[graph].start() as run, run.process_output_stream(source("failed")) as chunks:
            async for _ in chunks:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()

    assert closed == ["half", "failed"]


@graphs
async def test_a_stream_that_is_cancelled_from_outside_ends(graph: str) -> None:
    """Neither a verdict nor a failure: the source is closed, and the run is not stopped."""
    closed = anyio.Event()
    started = anyio.Event()

    async def source() -> AsyncIterator[str]:
        try:
            yield "some words and more of them. "
            started.set()
            await anyio.Event().wait()
        finally:
            closed.set()

    run = GRAPHS[graph].start(records=True)

    async def read() -> None:
        async with run.process_output_stream(source()) as chunks:
            async for _ in chunks:
                pass

    with anyio.fail_after(60):
        async with run, anyio.create_task_group() as group:
            group.start_soon(read)
            await started.wait()
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    assert closed.is_set()
    assert run.tripwire is None
    assert {record.status for record in run.records} <= {"passed", "edited"}


async def test_a_source_that_will_not_close_does_not_hide_how_the_stream_ended() -> None:
    """What it raises then is logged."""

    class Stubborn(AsyncOnly):
        async def aclose(self) -> None:
            """Fail."""
            raise OSError("will not close")

    async with REDACTED.start() as run, run.process_output_stream(Stubborn(PIECES)) as chunks:
        out = [chunk.text async for chunk in chunks]

    assert "".join(out) == "a ***, and more"


CONTROLS = ["start", "step-start", "response-metadata", "step-finish", "finish"]


async def test_control_chunks_cannot_be_dropped() -> None:
    """Content can."""
    source = [Chunk("start"), Chunk("step-start"), Chunk("response-metadata"), Chunk("text-delta", "a")]
    source += [Chunk("data-x", payload={"data": 1}), Chunk("step-finish"), Chunk("finish")]
    async with Workflow("w").then(DropAll()).start() as run, run.process_output_stream(source) as chunks:
        out = [chunk async for chunk in chunks]

    assert [chunk.type for chunk in out] == CONTROLS


async def test_other_chunks_wait_behind_held_text_and_transient_data_overtake() -> None:
    """Order given is order kept, but for what is shown and not kept."""
    source = [
        Chunk("text-delta", "a sec"),
        Chunk("data-fleeting", payload={"data": 1}, transient=True),
        Chunk("data-kept", payload={"data": 1}),
        Chunk("text-delta", "ret"),
        Chunk("finish"),
    ]
    async with REDACTED.start() as run, run.process_output_stream(source) as chunks:
        out = [chunk async for chunk in chunks]

    assert others_of(out) == ["data-fleeting", "data-kept", "finish"]
    types = [chunk.type for chunk in out]
    assert types.index("data-fleeting") < len(types) - 2
    assert "".join(chunk.text for chunk in out) == "a ***"


@graphs
def test_many_megabytes_pass_with_little_memory(graph: str) -> None:
    """What has left is kept once, as the answer; what is held stays small."""
    if graph in ("async guard", "timed"):
        pytest.skip("driven without a loop here")
    piece = "ten letters " * 512
    count = 10_000_000 // len(piece)

    def source() -> Iterator[str]:
        for _ in range(count):
            yield piece

    tracemalloc.start()
    try:
        with GRAPHS[graph].start_sync().process_output_stream(source()) as chunks:
            size = sum(len(chunk.text) for chunk in chunks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert size == count * len(piece)
    assert peak < 12 * size  # the answer as text (1 to 4 bytes a character), built from its pieces


@pytest.mark.rest
async def test_a_thousand_streams_at_once_do_not_meet() -> None:
    """Each has its own state, text and verdict."""
    workflow = Workflow("w").then(AsyncToy(Rule("secret", "redact", "***"))).then(Toy(Rule("#", "block")))
    found: dict[int, tuple[str, bool]] = {}

    async def one(number: int) -> None:
        pieces = [f"{number}: a sec", "ret ", "#" if number % 7 == 0 else "."]
        async with workflow.start() as run, run.process_output_stream(agen(pieces)) as chunks:
            text = "".join([chunk.text async for chunk in chunks])
            found[number] = (text, run.tripwire is not None)

    async with anyio.create_task_group() as group:
        for number in range(1_000):
            group.start_soon(one, number)

    assert len(found) == 1_000
    for number, (text, blocked) in found.items():
        assert blocked == (number % 7 == 0)
        assert f"{number}: a ***".startswith(text.split(" ***")[0])
        assert blocked or text == f"{number}: a *** ."


class Check(Processor):
    """A check beside the model: it waits to be let go, and trips if it is told to."""

    edits = "nothing"
    role = "guard"

    def __init__(self, *, trips: bool = False, breaks: bool = False) -> None:
        self.go = anyio.Event()
        self.trips = trips
        self.breaks = breaks

    async def process_input(self, ctx: InputContext) -> None:
        """Wait, and judge."""
        await self.go.wait()
        if self.trips:
            ctx.abort("not this question")
        if self.breaks:
            raise ValueError("broken")


@pytest.mark.parametrize("guard", [None, Toy(Rule("secret", "redact", "***"))])
async def test_an_answer_is_held_until_the_checks_beside_have_let_it_pass(guard: Toy | None) -> None:
    """It is read meanwhile; then it goes on as it comes."""
    check = Check()
    workflow = Workflow("w").then(check, overlap="model")
    workflow = workflow if guard is None else workflow.then(guard)
    out: list[str] = []
    more = anyio.Event()

    async def source() -> AsyncIterator[str]:
        yield "the first words of it. "
        check.go.set()
        await more.wait()
        yield "the last words of it. "

    with anyio.fail_after(60):
        async with workflow.start(overlap=True) as run:
            await run.process_input("a question")
            async with run.process_output_stream(source()) as chunks:
                async for chunk in chunks:
                    assert check.go.is_set()
                    out.append(chunk.text)
                    more.set()

    assert "".join(out) == "the first words of it. the last words of it. "


@pytest.mark.parametrize("when", ["while it is silent", "behind its end"])
async def test_a_check_beside_that_trips_stops_the_answer(when: str) -> None:
    """Nothing of it leaves; the source is closed; one tripwire."""
    check = Check(trips=True)
    closed = False

    async def source() -> AsyncIterator[str]:
        nonlocal closed
        try:
            yield "an answer"
            check.go.set()
            if when == "while it is silent":
                await anyio.Event().wait()
        finally:
            closed = True

    with anyio.fail_after(60):
        async with Workflow("w").then(check, overlap="model").start(overlap=True) as run:
            await run.process_input("a question")
            async with run.process_output_stream(source()) as chunks:
                out = [chunk async for chunk in chunks]

    assert [chunk.type for chunk in out] == ["tripwire"]
    assert closed
    assert run.tripwire is not None
    assert chunks.outcome is not None
    assert chunks.outcome.blocked
    assert chunks.text == ""


async def test_a_check_beside_that_breaks_lets_nothing_pass() -> None:
    """Its error comes where the chunks are read, or it blocks."""
    check = Check(breaks=True)
    check.go.set()
    check.on_error = "raise"
    out: list[Chunk] = []

    async def read() -> None:
        async with Workflow("w").then(check, overlap="model").start(overlap=True) as run:
            await run.process_input("a question")
            async with run.process_output_stream(["an answer"]) as chunks:
                out.extend([chunk async for chunk in chunks])

    with pytest.raises(StepFailedError, match="check"):
        await read()

    assert out == []


class Hangs(Processor[dict[str, Any]]):
    """Waits for ever in one of its hooks; lets a check beside the model go on when it does."""

    edits = "nothing"

    def __init__(self, check: Check, where: str, *, breaks: bool = False) -> None:
        self.check = check
        self.where = where
        self.breaks = breaks
        self.calls: list[str] = []

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Give it back."""
        await self._called("a piece")
        return chunk

    async def flush(self, ctx: OutputStreamContext) -> None:
        """Give nothing."""
        await self._called("the end")

    async def _called(self, where: str) -> None:
        self.calls.append(where)
        if where == self.where:
            try:
                self.check.go.set()
                await anyio.sleep_forever()
            finally:
                self.calls.append("cancelled")
                if self.breaks:
                    raise ZeroDivisionError


@pytest.mark.parametrize("where", ["a piece", "the end"])
@pytest.mark.parametrize("breaks", [True, False])
async def test_a_check_beside_that_trips_does_not_wait_for_a_hook(where: str, *, breaks: bool) -> None:
    """The hook is cancelled at once, and no other is called; what it raises then counts for nothing."""
    check = Check(trips=True)
    hangs = Hangs(check, where, breaks=breaks)
    hangs.on_error = "raise"
    with anyio.fail_after(60):
        workflow = Workflow("w").then(check, overlap="model").then(hangs)
        async with workflow.start(overlap=True, records=True) as run:
            await run.process_input("a question")
            async with run.process_output_stream(["an answer"]) as chunks:
                out = [chunk.type async for chunk in chunks]

    assert (out, chunks.text, run.tripwire) == (["tripwire"], "", chunks.tripwire)
    told = [record.status for record in run.records]
    assert told == ["tripped", *(["failed"] if breaks else [])]  # it has not passed
    assert hangs.calls == ["a piece", *(["the end"] if where == "the end" else []), "cancelled"]


async def test_a_check_beside_that_breaks_does_not_wait_for_a_hook() -> None:
    """Its error comes at once."""
    check = Check(breaks=True)
    check.on_error = "raise"
    hangs = Hangs(check, "a piece")

    async def read() -> None:
        async with Workflow("w").then(check, overlap="model").then(hangs).start(overlap=True) as run:
            await run.process_input("a question")
            async with run.process_output_stream(["an answer"]) as chunks:
                assert [chunk async for chunk in chunks] == []

    with anyio.fail_after(60), pytest.raises(StepFailedError, match="check"):
        await read()
    assert hangs.calls == ["a piece", "cancelled"]


@pytest.mark.parametrize("trips", [True, False])
async def test_a_caller_who_cancels_gets_no_verdict_of_a_check_beside(*, trips: bool) -> None:
    """Though a hook waits, and the check trips when it is cancelled: the cancellation goes on to the caller."""
    check = Check(trips=trips)
    hangs = Hangs(Check(), "a piece")

    async def cancels() -> None:
        await hangs.check.go.wait()
        scope.cancel()
        if trips:
            check.go.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(cancels)
            with anyio.CancelScope() as scope:
                async with Workflow("w").then(check, overlap="model").then(hangs).start(overlap=True) as run:
                    await run.process_input("a question")
                    async with run.process_output_stream(["an answer"]) as chunks:
                        assert [chunk async for chunk in chunks] == []
    assert (scope.cancelled_caught, chunks.outcome, run.tripwire) == (True, None, None)
    assert hangs.calls == ["a piece", "cancelled"]


@pytest.mark.parametrize("graph", ["nothing", "hooks", "guard"])
async def test_a_text_that_is_announced_waits_while_another_goes_on(graph: str) -> None:
    """Its start leaves before its first piece; a second start for a text that is being written does, too."""
    source = [
        Chunk("text-start", id="a"),
        Chunk("text-delta", "one. ", id="a"),
        Chunk("text-start", id="b"),
        Chunk("text-delta", "two. ", id="a"),
        Chunk("text-start", id="a"),
        Chunk("text-delta", "three. ", id="a"),
        Chunk("text-delta", "four. ", id="b"),
        Chunk("text-end", id="b"),
        Chunk("text-end", id="a"),
        Chunk("text-start", id="c"),
        Chunk("text-end", id="c"),
    ]
    async with GRAPHS[graph].start() as run, run.process_output_stream(source) as chunks:
        left = [(chunk.type, chunk.id, chunk.text) async for chunk in chunks]
    starts = [place for place, (kind, _, _) in enumerate(left) if kind == "text-start"]
    assert [left[place][1] for place in starts] == ["a", "a", "b"]
    assert all(left[place + 1][:2] == ("text-delta", left[place][1]) for place in starts)
    assert "".join(text for _, id, text in left if id == "a") == "one. two. three. "
    assert "".join(text for _, id, text in left if id == "b") == "four. "
    assert not [kind for kind, id, _ in left if id == "c"]


async def _offered(graph: Workflow, pieces: list[str]) -> tuple[list[Chunk], str]:
    """Return what leaves a stream whose source offers its chunks, in order, and the text that it notes."""
    left: list[Chunk] = []

    async def source() -> AsyncIterator[Chunk]:
        for at, piece in enumerate(pieces):
            chunk = Chunk("text-delta", piece, "t", run_id=str(at))
            made = stream.offer(chunk)
            if made is False:
                yield chunk
            elif made is not None:
                left.extend(made if isinstance(made, list) else [made])
        yield Chunk("text-end", id="t")

    async with graph.start() as run, run.process_output_stream(source(), release="live") as stream:
        async for chunk in stream:
            left.append(chunk)  # noqa: PERF401 - in the order in which both kinds leave
    return left, stream.text


@graphs
@pytest.mark.parametrize("pieces", [PIECES, ["a", " secret", "s", "e", "c", "r", "et", ""], ["x" * 300, "y"], []])
async def test_chunks_that_a_source_offers_leave_as_those_that_it_yields(graph: str, pieces: list[str]) -> None:
    """Text, the events that it came from, and what the stream notes are the same in both ways."""
    chunks = [Chunk("text-delta", piece, "t", run_id=str(at)) for at, piece in enumerate(pieces)]
    source = [*chunks, Chunk("text-end", id="t")]
    async with GRAPHS[graph].start() as run, run.process_output_stream(source, release="live") as stream:
        yielded = [chunk async for chunk in stream]
    offered, text = await _offered(GRAPHS[graph], pieces)
    assert offered == yielded
    assert text == stream.text


async def test_a_chunk_that_is_offered_after_a_verdict_does_not_leave() -> None:
    """The guard stops the run at the secret; what the source offers behind it is not even read."""
    offered, _ = await _offered(Workflow("w").then(Toy(Rule("secret", "block", ""))), ["a ", "secret", " more"])
    assert [chunk.type for chunk in offered][-1] == "tripwire"
    assert "secret" not in "".join(chunk.text for chunk in offered)
