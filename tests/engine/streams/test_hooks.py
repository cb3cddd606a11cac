"""Hooks that take chunks, one after another: claims, last words, failures, shadows and conditions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest

from penstock import Chunk, InputContext, OutputStreamContext, Processor, Workflow, WorkflowError, member, processor
from penstock.engine import StepFailedError, UsageError
from penstock.engine.streams.policy import MOST_WAITING, ShadowWork
from penstock.testing import run_stream
from tests.engine.streams.breaking import AsyncBreakingGuard, BreakingGuard, raised
from tests.engine.streams.toys import Rule, Toy, message_of


class Makes(Processor):
    """Makes of a chunk what it is told to."""

    role = "transform"
    on_error: Any = "raise"

    def __init__(self, make: Callable[[Chunk], Any], edits: Any = "anything") -> None:
        self.id = "makes"
        self.make = make
        self.edits = edits

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Any:
        """Make it."""
        return self.make(chunk)


def upper(chunk: Chunk) -> Chunk:
    """Return it in capitals."""
    return chunk.with_text(chunk.text.upper())


def given(chunk: Chunk) -> Chunk:
    """Return it."""
    return chunk


async def awaited(chunk: Chunk) -> Chunk:
    """Return it, when awaited."""
    return chunk


def broken(chunk: Chunk) -> Chunk:
    """Break at a y."""
    if "y" in chunk.text:
        raise ValueError("broken")
    return chunk


given_as = pytest.mark.parametrize("piece", [str, lambda text: Chunk("text-delta", text, "t")], ids=["str", "chunk"])


@given_as
@pytest.mark.parametrize("edits", ["spans", "anything"])
def test_a_hook_that_edits_stretches_of_text_may_change_the_text(piece: Any, edits: Any) -> None:
    """Of each piece."""
    _, outcome = run_stream(Makes(upper, edits), [piece("a piece, "), piece("and more")])
    assert outcome.text == "A PIECE, AND MORE"
    assert [record.status for record in outcome.records] == ["edited"]


@given_as
def test_what_a_hook_notes_of_a_piece_is_on_record(piece: Any) -> None:
    """Whether it changes the piece or not."""

    class Notes(Processor):
        """Notes the length of a piece."""

        edits = "nothing"

        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            """Note it."""
            ctx.note(length=len(chunk.text))
            return chunk

    _, outcome = run_stream(Notes(), [piece("a piece")])
    assert (outcome.text, outcome.records[0].details["length"]) == ("a piece", 7)


class OwnChunk(Chunk):
    """A chunk of a class of one's own."""


def test_a_chunk_of_a_class_of_ones_own_is_a_chunk() -> None:
    """Hooks are shown it, too."""
    _, outcome = run_stream(Makes(upper), [OwnChunk("text-delta", "a piece", "t")])
    assert outcome.text == "A PIECE"


def test_a_source_that_breaks_raises_when_all_that_came_has_left() -> None:
    """Whether it gives chunks or pieces of text."""

    def source() -> Iterator[Chunk]:
        yield Chunk("text-delta", "a piece", "t")
        raise ConnectionError

    left = []
    stream = Workflow("w").then(Makes(upper)).start_sync().process_output_stream(source())
    with pytest.raises(ConnectionError), stream as chunks:
        left.extend(chunk.text for chunk in chunks)
    assert left == ["A PIECE"]


async def test_a_stream_ends_when_another_call_of_its_run_is_stopped() -> None:
    """Nothing more leaves of what is on its way."""

    @processor(edits="nothing")
    def refuses(ctx: InputContext) -> None:
        ctx.abort("no")

    run = Workflow("w").then(refuses).then(Makes(upper)).start()

    async def source() -> AsyncIterator[Chunk]:
        yield Chunk("text-delta", "a piece", "t")
        await run.process_input("hi")
        yield Chunk("text-delta", "another", "t")

    async with run.process_output_stream(source()) as chunks:
        left = [chunk.text or chunk.type async for chunk in chunks]
    assert left == ["A PIECE", "retract", "tripwire"]


@given_as
@pytest.mark.parametrize(
    ("make", "edits", "told"),
    [
        (upper, "nothing", "edits='nothing', but did not return the chunk unchanged"),
        (lambda chunk: [chunk, chunk], "nothing", "edits='nothing'"),
        (lambda chunk: chunk.with_id("other"), "spans", "changed more of the chunk"),
        (lambda chunk: Chunk("reasoning-delta", chunk.text), "spans", "changed more of the chunk"),
        (awaited, "anything", "returned an awaitable; declare the hook `async def`"),
    ],
)
def test_a_hook_that_does_more_than_it_declares_has_failed(make: Any, edits: Any, told: str, piece: Any) -> None:
    """Whichever claim it breaks."""
    with pytest.raises(StepFailedError, match=told):
        run_stream(Makes(make, edits), [piece("a piece")])


class Last(Processor):
    """Has last words, and waits before it says them."""

    role = "transform"
    on_error = "allow"
    edits = "anything"

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks
        self.said = False

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Return it."""
        return chunk

    async def flush(self, ctx: OutputStreamContext) -> Chunk | None:
        """Say them once, or break."""
        await anyio.lowlevel.checkpoint()
        if self.breaks:
            raise ValueError("broken")
        said, self.said = self.said, True
        return None if said else Chunk("data-last", payload={"data": 1})


async def left_by(workflow: Workflow, source: Any) -> list[str]:
    """Return what leaves: texts as they are, and the types of other chunks."""
    async with workflow.start() as run, run.process_output_stream(source) as chunks:
        return [chunk.text or chunk.type async for chunk in chunks]


@pytest.mark.parametrize("breaks", [False, True])
async def test_last_words_may_take_their_time_and_may_fail(*, breaks: bool) -> None:
    """A step that breaks as it says them is out; what it was given has left."""
    left = await left_by(Workflow("w").then(Last(breaks=breaks)), ["a", Chunk("finish")])
    assert left == (["a", "finish"] if breaks else ["a", "data-last", "finish"])


async def test_two_that_break_beside_each_other_raise_the_first_failure() -> None:
    """Async or sync: where nothing is to be blocked, the first as declared comes out."""
    for kind in (BreakingGuard, AsyncBreakingGuard):
        both = [kind(raised), kind(raised)]
        for number, guard in enumerate(both):
            guard.id, guard.on_error = f"guard{number}", "raise"
        with pytest.raises(StepFailedError, match="guard0"):
            await left_by(Workflow("w").parallel(*both), ["all is well and then @"])


async def test_a_nested_workflow_that_takes_too_long_and_says_no_more_raises() -> None:
    """No policy says that it may be left out."""

    class Hangs(Last):
        """Hangs."""

        async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:  # type: ignore[override]
            """Never come back."""
            await anyio.Event().wait()
            return chunk

    workflow = Workflow("w").then(Workflow("inner").then(Hangs()), timeout=0.001)
    with pytest.raises(StepFailedError, match="inner"):
        await left_by(workflow, ["a"])


class SlowlyShown(Processor):
    """Sees a chunk, and waits to be let go."""

    edits = "nothing"
    role = "observer"

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.seen = 0

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Wait, and count."""
        await self.go.wait()
        self.seen += 1
        return chunk


async def test_a_shadow_that_falls_too_far_behind_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """The stream goes on; the log says so, once, and what waits is forgotten."""
    slow = SlowlyShown()
    async with Workflow("w").then(slow, mode="shadow").start() as run:
        async with run.process_output_stream(["a"] + ["b"] * (MOST_WAITING + 100)) as chunks:
            count = 0
            async for _ in chunks:
                count += 1
                await anyio.lowlevel.checkpoint()
        slow.go.set()
    assert count == MOST_WAITING + 101
    assert slow.seen == 1
    assert caplog.text.count("a shadow fell") == 1


async def test_a_shadow_that_breaks_in_a_way_that_nobody_foresaw_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it raises stays aside, and it is not shown anything more."""
    shown: list[int] = []

    async def work() -> None:
        shown.append(1)
        raise LookupError("a secret")

    aside = ShadowWork(None)
    await aside(work)
    await aside(work)
    assert shown == [1]
    assert "LookupError" in caplog.text
    assert "secret" not in caplog.text


def no(view: Any) -> bool:
    """Break."""
    raise ValueError("broken")


@pytest.mark.parametrize(("policy", "left"), [("block", ["tripwire"]), (None, None), ("raise", None)])
def test_a_condition_that_breaks_is_dealt_with_as_its_branch_says(policy: Any, left: Any) -> None:
    """Blocked, or raised."""
    policies = {} if policy is None else {"on_error": policy}
    workflow = Workflow("w").branch((no, Makes(upper)), **policies)
    if left is None:
        with pytest.raises(StepFailedError, match="ValueError"):
            run_stream(workflow, ["a"])
        return
    chunks, _ = run_stream(workflow, ["a"])
    assert [chunk.text or chunk.type for chunk in chunks] == left


async def test_a_condition_that_is_cancelled_from_outside_is_no_failure() -> None:
    """The stream ends, and the run is not stopped."""
    asked = anyio.Event()

    async def never(view: Any) -> bool:
        asked.set()
        await anyio.Event().wait()
        return True

    run = Workflow("w").branch((never, Makes(upper))).start(records=True)

    async def read() -> None:
        async with run.process_output_stream(["a"]) as chunks:
            async for _ in chunks:
                pass

    with anyio.fail_after(60):
        async with run, anyio.create_task_group() as group:
            group.start_soon(read)
            await asked.wait()
            group.cancel_scope.cancel()
    assert run.tripwire is None
    assert run.records == ()


def beside_a_guard(hook: Processor) -> Workflow:
    """Return a graph where a hook stands beside a guard of texts."""
    return Workflow("w").parallel(hook, Toy(Rule("secret", "redact", "***")))


def test_a_hook_beside_a_guard_that_breaks_is_out_for_the_text() -> None:
    """Where its policy lets the stream go on; the guard judges on."""
    hook = Makes(broken, "nothing")
    hook.on_error = "allow"
    _, outcome = run_stream(beside_a_guard(hook), ["y", " a secret"])
    assert outcome.text == "y a ***"


def test_a_hook_beside_a_guard_must_give_back_what_it_was_given() -> None:
    """It declared that it edits nothing."""
    with pytest.raises(StepFailedError, match="edits='nothing', but did not return the chunk unchanged"):
        run_stream(beside_a_guard(Makes(upper, "nothing")), ["a"])


def test_two_guards_that_conflict_and_only_transform_raise() -> None:
    """Nobody's check is at stake, so it is no verdict."""
    toys = [Toy(Rule("secret", "replace", text)) for text in ("one", "two")]
    for number, toy in enumerate(toys):
        toy.id, toy.role, toy.on_error = f"toy{number}", "transform", "raise"
    with pytest.raises(StepFailedError):
        run_stream(Workflow("w").parallel(*toys), ["a secret there"])


def test_hooks_that_change_chunks_run_one_after_the_other_where_they_say_so() -> None:
    """Also before a graph in which steps run beside each other."""
    both = Workflow("w").parallel(Makes(upper), Workflow("p").then(Makes(given)), merge="sequence")
    _, outcome = run_stream(both.dag(member(Toy(Rule("SECRET", "redact")), id="a")), ["a secret"])
    assert outcome.text == "A *"


def test_an_answer_of_sound_and_strange_parts_is_kept_as_it_is() -> None:
    """As parts of the message."""
    source = [
        Chunk("file", payload={"url": "https://example.com/a", "transcript": "hello"}),
        Chunk("raw", payload={"provider_part": {"type": "strange"}}),
        Chunk("tool-call", id="c", payload={"toolCallId": "c", "toolName": "look", "input": {}}),
        Chunk("tool-error", id="c", payload={"error": "not there"}),
    ]
    with Workflow("w").start_sync().process_output_stream(source) as chunks:
        assert list(chunks) == source
    assert [part.type for part in chunks.message.parts] == ["audio", "unknown", "tool"]
    assert chunks.message.parts == message_of(source).parts
    assert chunks.message.parts[-1].state == "error"  # type: ignore[union-attr]


class Wakes(Makes):
    """Asks to be woken, in a way that is refused."""

    def __init__(self, seconds: Any, *, timed: bool) -> None:
        super().__init__(given)
        self.timed = timed
        self.seconds = seconds

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Any:
        """Ask."""
        ctx.wake_after(self.seconds)
        return chunk

    def wake(self, ctx: OutputStreamContext) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("seconds", "timed", "told"),
    [(1, False, "declare timed = True"), (-1, True, "not -1"), (float("nan"), True, "nan")],
)
def test_a_time_that_cannot_be_is_refused(seconds: Any, told: str, *, timed: bool) -> None:
    """With what to write."""
    with pytest.raises(StepFailedError) as caught:
        run_stream(Wakes(seconds, timed=timed), ["a"])
    assert isinstance(caught.value.__cause__, UsageError)
    assert told in str(caught.value)


def fallback() -> Toy:
    """A guard that stands in."""
    guard = Toy(Rule("secret", "redact", "***"))
    guard.id = "fallback"
    return guard


def test_what_a_guard_holds_goes_to_what_stands_in_for_its_workflow() -> None:
    """Across neighbouring texts, with what came between them."""
    source = [
        Chunk("text-start", id="1"),
        Chunk("text-delta", "a sec", "1"),
        Chunk("text-end", id="1"),
        Chunk("text-start", id="2"),
        Chunk("text-delta", "ret y", "2"),
        Chunk("text-end", id="2"),
    ]
    inner = Workflow("inner").then(Makes(broken)).then(Toy(Rule("secret", "redact", "*")))
    left, outcome = run_stream(Workflow("w").then(inner, on_error=fallback()), source)
    assert outcome.text == "a *** y"
    assert [chunk.type for chunk in left if chunk.type != "text-delta"] == [
        chunk.type for chunk in source if chunk.type != "text-delta"
    ]


def test_what_a_workflow_in_a_workflow_holds_is_not_lost_when_the_outer_one_fails() -> None:
    """It goes to what stands in for the outer one, behind what was on its way."""
    inmost = Workflow("inmost").then(Makes(given)).then(Toy(Rule("secret", "redact", "*")))
    inner = Workflow("inner").then(inmost, on_error=fallback()).then(Makes(broken))
    _, outcome = run_stream(Workflow("w").then(inner, on_error=fallback()), ["y and a sec", "ret"])
    assert outcome.text == "y and a ***"


def test_who_breaks_when_it_is_to_give_up_what_it_holds_has_nothing_to_give() -> None:
    """What others hold, and what was on its way, leaves."""
    breaking = Last(breaks=True)
    breaking.on_error = "raise"
    inner = Workflow("inner").then(breaking).then(Makes(broken))
    _, outcome = run_stream(Workflow("w").then(inner, on_error="allow"), ["a", "y", "z"])
    assert outcome.text == "ayz"


def test_a_hook_that_changes_chunks_beside_others_is_refused() -> None:
    """Nobody could merge that; one after the other they are fine."""
    beside = Workflow("w").parallel(Makes(upper), fallback())
    with pytest.raises(WorkflowError, match=r"'makes' changes chunks in process_output_stream beside other steps"):
        beside.validate()
    Workflow("w").parallel(Makes(upper), fallback(), merge="sequence").validate()


def test_a_shadow_beside_a_guard_is_shown_each_chunk_once() -> None:
    """Though the guard also judges what a chunk says side_payload its text."""
    seen: list[str] = []
    watching = Makes(lambda chunk: seen.append(chunk.text), "nothing")
    workflow = Workflow("w").parallel(fallback(), Workflow("aside").then(watching, mode="shadow"))
    _, outcome = run_stream(workflow, [Chunk("text-delta", "my secret", "t", payload={"note": "a secret"})])
    assert (outcome.text, "".join(seen)) == ("my ***", "my secret")


def test_every_hook_sees_a_piece_without_text() -> None:
    """One that the source sends for its payload, and one that an earlier hook has emptied, guards between or not."""
    seen: list[tuple[str, Any]] = []

    def note(chunk: Chunk) -> Chunk:
        if chunk.type == "text-delta":
            seen.append((chunk.text, chunk.payload.get("n")))
        return chunk

    def emptied(chunk: Chunk) -> Chunk:
        return chunk.with_text(chunk.text.replace("no", ""))

    last = Makes(note)
    last.id = "last"
    workflow = Workflow("w").then(Makes(emptied)).then(Toy(Rule("#", "redact"))).then(last)
    pieces = [
        Chunk("text-delta", "a", "t"),
        Chunk("text-delta", "", "t", {"n": 1}),
        Chunk("text-delta", "no", "t"),
        Chunk("text-delta", "b", "t"),
    ]
    chunks, _ = run_stream(workflow, pieces)
    assert seen == [("a", None), ("", 1), ("", None), ("b", None)]
    assert [chunk.text for chunk in chunks] == ["a", "b"]
