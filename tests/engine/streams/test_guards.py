"""Guards of texts in a stream: claims, failures between neighbours, who takes over, and how they are called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import anyio.lowlevel
import pytest

from penstock import Chunk, Edit, OutputStreamContext, Processor, TextGuard, Workflow
from penstock.engine import StepFailedError, UsageError
from penstock.engine.text_guards.components import Search
from penstock.engine.text_guards.window import TextWindow
from penstock.engine.values.edits import unite_overlaps
from penstock.engine.values.errors import EditError
from penstock.testing import run_stage, run_stream
from tests.engine.streams.toys import AsyncToy, Rule, Toy


class Watch(TextGuard):
    """Looks for a word, and edits nothing unless it is told to."""

    edits = "nothing"
    reach = 6

    def __init__(self, made: Any = ()) -> None:
        self.id = "watch"
        self.made = made

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Find the word."""
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("secret", text)]

    def act(self, hits: Any, ctx: Any) -> Any:
        """Return what is given."""
        return [self.made for _ in hits]


def test_a_guard_that_edits_nothing_may_report_what_it_found() -> None:
    """The text passes."""
    _, outcome = run_stream(Watch(), ["a sec", "ret, and more of it"])
    assert outcome.text == "a secret, and more of it"


@pytest.mark.parametrize(
    ("edits", "made", "told"),
    [
        ("nothing", [Edit(0, 1, "*")], "it declares edits='nothing', but it returned edits"),
        ("spans", [Edit(0, 22, "*")], "it edits text that is not decided yet"),
    ],
)
def test_a_guard_that_does_more_than_it_may_has_failed(edits: str, made: Any, told: str) -> None:
    """Nothing it has not decided leaves."""
    guard = Watch(made)
    guard.edits = edits  # type: ignore[assignment]
    guard.on_error = "raise"
    with pytest.raises(StepFailedError, match=told):
        run_stream(guard, ["a secret, and more of it"])


class Fails(TextGuard):
    """Breaks when a text with a y in it ends."""

    reach = 2
    on_error: Any = "allow"

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Break, or find an x."""
        if final and "y" in text:
            raise ValueError("broken")
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("x", text)]


class FailsLater(Fails):
    """Does so behind a checkpoint."""

    async def find(self, text: str, ctx: Any, *, final: bool) -> Any:  # type: ignore[override]
        """Wait a turn."""
        await anyio.lowlevel.checkpoint()
        return super().find(text, ctx, final=final)


def blocks(*texts: str) -> list[Chunk]:
    """Return neighbouring texts, as chunks."""
    made: list[Chunk] = []
    for number, text in enumerate(texts):
        id = f"t{number}"
        made += [Chunk("text-start", id=id), Chunk("text-delta", text, id), Chunk("text-end", id=id)]
    return made


def test_a_guard_that_breaks_between_neighbours_goes_on_behind_that() -> None:
    """Only the text on which it failed passes, since its policy says so."""
    left, outcome = run_stream(Fails(), [*blocks("x y", "x z", "x"), Chunk("data-x", payload={"data": 1})])
    assert outcome.text == "* y* z*"
    assert [chunk.type for chunk in left].count("text-end") == 3


@pytest.mark.parametrize("instead", [False, True])
async def test_a_guard_under_a_policy_that_breaks_between_neighbours_is_replaced_or_goes_on(*, instead: bool) -> None:
    """Who takes over begins with what had not left, and knows the border."""
    policy: Any = Toy(Rule("y", "redact", "#")) if instead else "allow"
    failing = FailsLater()
    failing.on_error = "raise"
    workflow = Workflow("w").then(failing, on_error=policy, timeout=5)
    async with workflow.start() as run, run.process_output_stream(blocks("x y", "x y")) as chunks:
        left = [chunk.text async for chunk in chunks]
    assert "".join(left) == ("* #x #" if instead else "* y* y")


def test_one_chunk_alone_is_not_judged() -> None:
    """Who calls the hook himself is told what to do."""
    with pytest.raises(UsageError, match="run the guard in a workflow"):
        Watch().process_output_stream(Chunk("text-delta", "a"), None)  # type: ignore[arg-type]


def test_what_is_not_written_cannot_be_called() -> None:
    """A guard that only scans has no `find` of its own, and a component that finds must write `scan`."""
    with pytest.raises(NotImplementedError):
        TextGuard().find("", None, final=True)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        Search().scan(TextWindow(""), None)  # type: ignore[arg-type]


def test_findings_that_overlap_are_united_if_all_of_them_hide() -> None:
    """Else it is a mistake of the guard."""
    hidden = unite_overlaps([Edit(0, 4, "a", "redact"), Edit(2, 6, "b", "redact")])
    assert [(edit.start, edit.end) for edit in hidden] == [(0, 6)]
    with pytest.raises(EditError, match="overlap"):
        unite_overlaps([Edit(0, 4, "a", "replace"), Edit(2, 6, "b", "replace")])


class Long(TextGuard):
    """Finds runs of letters, each as long as it can be seen."""

    reach = 4
    lookback = 2

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Find up to four a's."""
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("a{2,4}", text)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_a_search_never_begins_within_what_is_decided(size: int) -> None:
    """What it looks back at may be the end of a finding."""
    text = "aaaaaaaaaaaaaab" * 3
    whole = run_stage(Long(), "process_output_step", text).text
    _, outcome = run_stream(Long(), [text[at : at + size] for at in range(0, len(text), size)])
    assert outcome.text == whole


def test_a_guard_with_a_state_of_its_own_judges_too() -> None:
    """What is no mapping is left alone."""

    class Counts(Watch):
        """Keeps a list."""

        state = list

    workflow = Workflow("w").then(Counts([Edit(0, 1, "*")]))
    assert workflow.check_sync("no such word").text == "no such word"


class Hook(Processor):
    """Breaks at a y."""

    role = "guard"
    edits = "anything"
    on_error: Any = "raise"

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Break, or give it back."""
        if "y" in chunk.text:
            raise ValueError("broken")
        return chunk


async def left_by(workflow: Workflow, source: list[Any]) -> list[str]:
    """Return what leaves: texts as they are, and the types of other chunks."""
    async with workflow.start() as run, run.process_output_stream(source) as chunks:
        return [chunk.text or chunk.type async for chunk in chunks]


@pytest.mark.parametrize("shape", ["row", "nested", "shadow"])
async def test_what_was_held_between_steps_that_fail_together_is_judged_by_what_stands_in(shape: str) -> None:
    """In part decided, held, or on its way: all of it, once, in order."""
    held = Toy(Rule("secret", "redact", "***"), min_hold=4)
    inner = Workflow("inner").then(held)
    if shape == "nested":
        held = AsyncToy(held.rule, min_hold=4)
        inner = Workflow("inner").then(Workflow("deep").then(held).then(Toy(Rule("z", "redact"))), timeout=5)
    if shape == "shadow":
        inner = inner.then(Watch(), mode="shadow")
    workflow = Workflow("w").then(inner.then(Hook()), on_error=Toy(Rule("secret", "redact", "###")), timeout=5)
    left = await left_by(workflow, ["a secret is ", "not y", " a secret", Chunk("finish")])
    assert "".join(left) == "a *** is not y a ###finish"


def test_one_who_only_watches_holds_nothing_back() -> None:
    """Each piece leaves as it comes; what is found is told when it is decided."""
    seen: list[str] = []

    class Watcher(TextGuard):
        """Looks for long words, which it must see whole."""

        role = "observer"
        edits = "nothing"
        on_error = "allow"

        def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
            """Find them."""
            return [Edit(at.start(), at.end(), "", "redact") for at in re.finditer(r"\w{5,}", text)]

        def hold(self, text: str, start: int) -> int:
            """Wait for a space."""
            return max(text.rfind(" ") + 1, start)

        def act(self, hits: Any, ctx: Any) -> Any:
            """Note them."""
            seen.extend(hit.window.text[item.start : item.end] for hit in hits for item in hit.found)
            return [()] * len(hits)

    with (
        Workflow("w").then(Watcher()).start_sync().process_output_stream(["quite", "a lo", "ngish w", "ord"]) as chunks
    ):
        pairs = [(chunk.text, tuple(seen)) for chunk in chunks if chunk.text]
    found = ("quitea", "longish")
    assert pairs == [("quite", ()), ("a lo", found[:1]), ("ngish w", found), ("ord", found)]


@pytest.mark.parametrize("size", [7, 300, 3_000])
def test_what_is_looked_back_at_begins_no_other_finding(size: int) -> None:
    """Of a long text, the beginning is forgotten; the next finding begins behind the last, a part of which is seen."""
    text = "a" * 5_001 + " b"
    toy = Toy(Rule("aa", "redact", "*"), lookback=1)
    _, outcome = run_stream(toy, [text[at : at + size] for at in range(0, len(text), size)])
    assert outcome.text == text.replace("aa", "*")
