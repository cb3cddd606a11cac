"""Guards: which messages and parts they look at, what they may do to messages, and how they judge beside each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from penstock import Chunk, Edit, Message, TextGuard, Workflow
from penstock.engine.tasks import gather
from penstock.engine.text_guards.components import Search
from penstock.engine.text_guards.scope import choose_texts
from penstock.engine.text_guards.window import PartStart, TextWindow
from penstock.engine.values.errors import OptionError, ProcessorError
from penstock.engine.values.messages import FilePart, ImagePart, TextPart
from penstock.engine.values.texts import TextPlace
from penstock.engine.values.tripwire import Tripwire, TripwireSignal
from penstock.testing import run_stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Found
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.message_list import MessageList


class Hider(TextGuard):
    """Hides the word ``secret``."""

    reach = 6

    def __init__(self, **options: object) -> None:
        choose_texts(self, "all", None, system="none", **options)

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit] | None:
        at = text.find("secret")
        return [Edit(at, at + 6, "***", "redact")] if at >= 0 else None


class Whole(Hider):
    """Hides it also where it stands in two parts, which are read as one only."""

    read_parts_separately = False


def test_the_last_message_alone_is_looked_at_if_asked() -> None:
    """The others pass unread."""
    messages = [Message.user("a secret"), Message.user("my secret")]
    outcome = run_stage(Hider(last_message_only=True), "process_input", messages)
    assert [message.text for message in outcome.messages] == ["a secret", "my ***"]


PICTURE = Message("user", (TextPart("look"), ImagePart(url="https://x/y.png"), FilePart(data="/9j/4A==", name="a.jpg")))


def test_bodies_that_cannot_be_read_stop_the_run_unless_said_otherwise() -> None:
    """They are noted, or pass; the reason says what to set."""
    assert not run_stage(Hider(unscanned="allow"), "process_input", [PICTURE]).blocked
    flagged = run_stage(Hider(unscanned="flag"), "process_input", [PICTURE])
    assert not flagged.blocked
    assert flagged.records[0].details["unscanned"] == {"image": 1, "file": 1}
    blocked = run_stage(Hider(), "process_input", [PICTURE])
    assert blocked.tripwire is not None
    assert "unscanned='flag'" in blocked.tripwire.reason
    assert [part["kind"] for part in blocked.tripwire.metadata["unscanned"]] == ["image", "file"]
    with pytest.raises(OptionError, match="unscanned"):
        Hider(unscanned="perhaps")


def test_a_file_in_a_stream_is_stopped_too() -> None:
    """Nothing of it leaves."""
    file = Chunk("file", payload={"data": "/9j/4A==", "media_type": "image/jpeg"})
    with Workflow("w").then(Hider()).start_sync().process_output_stream([file]) as chunks:
        assert [chunk.type for chunk in chunks] == ["tripwire"]


def test_neighbouring_parts_can_be_read_as_one_text_only() -> None:
    """In messages and in streams."""
    message = Message("user", (TextPart("a sec"), TextPart("ret b")))
    outcome = run_stage(Whole(), "process_input", [message])
    assert [part.text for part in outcome.messages[0].parts] == ["a ***", " b"]
    pieces = [
        piece
        for id, text in (("1", "a sec"), ("2", "ret b"))
        for piece in (Chunk("text-start", id=id), Chunk("text-delta", text, id=id), Chunk("text-end", id=id))
    ]
    with Workflow("w").then(Whole()).start_sync().process_output_stream(pieces) as chunks:
        out = [(chunk.id, chunk.text) for chunk in chunks]
    assert ["".join(text for id, text in out if id == block) for block in "12"] == ["a ***", " b"]


class Asks(Hider):
    """Hides ``secret`` by itself, and asks somebody about other words, which are read where parts are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def scan(self, window: TextWindow, ctx: AnyContext) -> tuple[list[Edit], int]:
        found = [Edit(at, at + 6, "***", "redact") for at in [window.text.find("secret")] if at >= 0]
        if window.final and not window.separate:
            self.asked.append(window.text)
            found += [Edit(at, at + 3, "?", "redact") for at in [window.text.find("who")] if at >= 0]
        return found, len(window.text) if window.final else window.start

    def joined_only(self, found: Found) -> bool:
        return isinstance(found, Edit) and found.text == "?"


@pytest.mark.parametrize(
    ("texts", "hidden"), [(("a secret", "who"), ("a ***", "?")), (("w", "ho sec", "ret"), ("?", " ***", ""))]
)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_asked_about_joined_parts_alone_counts_where_it_stands(
    texts: tuple[str, ...], hidden: tuple[str, ...], streamed: bool
) -> None:
    """Within a part and across parts; it is asked about once."""
    guard = Asks()
    if streamed:
        with (
            Workflow("w")
            .then(guard)
            .start_sync()
            .process_output_stream(
                [Chunk("text-delta", text, str(number)) for number, text in enumerate(texts)]
            ) as chunks
        ):
            out = [(chunk.id, chunk.text) for chunk in chunks]
        left = tuple("".join(text for id, text in out if id == str(number)) for number in range(len(texts)))
    else:
        message = Message("user", tuple(map(TextPart, texts)))
        left = tuple(
            part.text
            for part in run_stage(guard, "process_input", [message]).messages[0].parts
            if isinstance(part, TextPart)
        )
    assert left == hidden
    assert guard.asked == ["".join(texts)]


def test_a_window_tells_where_parts_begin_between_two_places() -> None:
    """Not at the places themselves."""
    parts = [PartStart(at, TextPlace("m", number)) for number, at in enumerate((0, 3, 3, 7, 9))]
    window = TextWindow("4567890", base=3, parts=parts)
    assert [window.borders(0, 6), window.borders(0, 7), window.borders(-1, 7)] == [[4], [4, 6], [0, 0, 4, 6]]


def test_parts_that_are_far_away_cost_nothing() -> None:
    """Each of many windows looks for its own borders only."""

    class Counted(list[PartStart]):
        looks = 0

        def __getitem__(self, at: Any) -> Any:
            self.looks += 1
            return super().__getitem__(at)

        def __iter__(self) -> Iterator[PartStart]:
            raise AssertionError

    parts = Counted([PartStart(at * 10, TextPlace("m", at)) for at in range(10_000)])
    window = TextWindow("a" * 100_000, parts=parts)
    assert [window.borders(at * 10 - 5, at * 10 + 5) for at in (1, 5_000, 9_999)] == [[10], [50_000], [99_990]]
    assert parts.looks < 100


def test_a_guard_may_leave_messages_out_and_set_their_metadata() -> None:
    """Both count as less than editing anything, so that it can run beside other guards."""

    class Marker(Hider):
        id = "marker"

        def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
            gone = {place.message_id for place in edits}
            kept = [replace(m, metadata={"seen": True}) for m in ctx.messages if m.id not in gone]
            return ctx.message_list.remove(*gone).replace(*kept)

    workflow = Workflow("w").parallel(Marker(), Hider())
    outcome = workflow.start_sync().process_input([Message.user("a secret"), Message.user("hello")])
    assert [(m.text, dict(m.metadata)) for m in outcome.messages] == [("hello", {"seen": True})]


async def test_what_is_done_together_gives_its_results_in_order() -> None:
    """Whatever ends first."""
    gate = anyio.Event()

    async def slow() -> int:
        await gate.wait()
        return 1

    async def quick() -> int:
        gate.set()
        return 2

    with anyio.fail_after(60):
        assert await gather([slow, quick]) == [1, 2]


async def test_a_verdict_beats_an_error_and_cancels_the_others() -> None:
    """Of those that raised, the verdict comes out."""

    async def breaks() -> int:
        raise KeyError

    async def trips() -> int:
        raise TripwireSignal(Tripwire("no", "p", "process_input"))

    async def hangs() -> int:
        await anyio.sleep_forever()
        return 0

    async def quick() -> int:
        return 1

    with anyio.fail_after(60):
        with pytest.raises(TripwireSignal):
            await gather([hangs, breaks, trips])
        with pytest.raises(KeyError):
            await gather([breaks, quick])


@pytest.mark.parametrize("name", ["scope", "search", "action"])
def test_an_attribute_with_the_name_of_a_component_is_refused_when_the_guard_is_placed(name: str) -> None:
    """A guard of somebody else's may have called its own things so."""
    as_method = type("Named", (TextGuard,), {"reach": 6, "find": Hider.find, name: lambda self: None})()
    as_attribute = Hider()
    vars(as_attribute)[name] = "block"
    for guard in (as_method, as_attribute):
        with pytest.raises(ProcessorError, match=f"{name} must be a .*; give yours another name"):
            Workflow("w").then(guard)


@pytest.mark.parametrize("name", ["system", "unread", "runs", "edits_of"])
def test_what_belongs_to_a_component_is_refused_on_the_guard_itself(name: str) -> None:
    """It would be ignored without a word, and let texts pass."""

    class Own(TextGuard):
        reach = 6

        def find(self, text: str, ctx: Any, *, final: bool) -> None:
            return None

    setattr(Own, name, "all")
    with pytest.raises(ProcessorError, match=f"{name} on the guard itself has no effect"):
        Workflow("w").then(Own())


class AsyncSearch(Search):
    """Finds the word ``secret``, and waits for it."""

    async def scan(self, window: TextWindow, ctx: AnyContext) -> tuple[list[Edit], int]:
        await anyio.lowlevel.checkpoint()
        at = window.text.find("secret", window.start)
        hold = len(window.text) if window.final else max(window.start, len(window.text) - 5)
        return [Edit(at, at + 6, "***", "redact")] if at >= 0 else [], max(hold, at + 6) if at >= 0 else hold


class SetOnClass(TextGuard):
    """Has the search as an attribute of the class."""

    search = AsyncSearch()


class SetOnInstance(TextGuard):
    """Sets the search in the constructor."""

    def __init__(self) -> None:
        self.search = AsyncSearch()


@pytest.mark.parametrize("guard", [SetOnClass, SetOnInstance])
async def test_a_search_may_be_async_for_whole_texts_and_in_streams(guard: type[TextGuard]) -> None:
    """The guard then waits, as one with an async `find` does."""
    assert guard().awaits
    outcome = await Workflow("w").then(guard()).check("my secret", stage="process_output_result")
    assert [message.text for message in outcome.messages] == ["my ***"]
    async with Workflow("w").then(guard()).start() as run:
        chunks = [Chunk("text-delta", text) for text in ("my sec", "ret is", " out")]
        async with run.process_output_stream(chunks) as made:
            text = "".join([chunk.text async for chunk in made])
    assert text == "my *** is out"
