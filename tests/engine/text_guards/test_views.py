"""Views of texts that the guards of a stage share."""

import weakref
from collections import Counter
from typing import ClassVar

import pytest

from penstock.engine.processor.context import AnyContext, InputContext
from penstock.engine.processor.processor import Processor
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.text_guards.views import MOST, TextViews, view_of
from penstock.engine.workflow import Workflow


class Words(list[str]):
    """A view that can be observed: a list of words."""


class Reader(TextGuard):
    """Asks for the words of each text, and keeps count of how often they are made."""

    edits = "nothing"
    reach = 1
    made: ClassVar[Counter[str]] = Counter()
    seen: ClassVar[list[weakref.ref[Words]]] = []

    def __init__(self, id: str) -> None:
        self.id = id

    @staticmethod
    def words(text: str) -> Words:
        """Return the words of a text."""
        Reader.made[text] += 1
        return Words(text.split())

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> None:
        """Look at the words."""
        del ctx, final
        self.seen.append(weakref.ref(view_of(text, self.words)))


class Waiting(Reader):
    """The same, in a task of its own."""

    async def find(self, text: str, ctx: AnyContext, *, final: bool) -> None:  # type: ignore[override]
        """Look at the words."""
        super().find(text, ctx, final=final)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    Reader.made.clear()
    Reader.seen.clear()


TWO = Workflow("w").parallel(Reader("a"), Reader("b")).then(Reader("c"))


def test_guards_of_a_stage_make_a_view_once():
    """Side by side, and one after the other."""
    TWO.check_sync("one two")
    assert Reader.made == {"one two": 1}
    assert len(Reader.seen) == 3


async def test_guards_in_tasks_of_their_own_share_views():
    """A task has the variables of the one that started it."""
    await Workflow("w").parallel(Waiting("a"), Waiting("b")).check("one two")
    assert Reader.made == {"one two": 1}


def test_no_view_outlives_its_request():
    """Neither is it kept, nor does another request with the same text get it."""
    TWO.check_sync("one two")
    assert all(words() is None for words in Reader.seen)
    TWO.check_sync("one two")
    assert Reader.made == {"one two": 2}


def test_a_view_of_another_text_is_another():
    """Whatever was asked for before."""
    with TextViews():
        assert view_of("one", Reader.words) == ["one"]
        assert view_of("two", Reader.words) == ["two"]
        assert view_of("two", len) == 3


def test_outside_a_stage_each_asks_for_its_own():
    """Detectors can be used by themselves."""
    view_of("one", Reader.words)
    view_of("one", Reader.words)
    assert Reader.made == {"one": 2}


def test_a_stage_within_a_stage_has_views_of_its_own():
    """When the inner one has ended, the outer one goes on with what it had."""
    with TextViews():
        view_of("one", Reader.words)
        with TextViews():
            view_of("one", Reader.words)
        view_of("one", Reader.words)
    assert Reader.made == {"one": 2}


def test_views_are_bounded():
    """When they are too many, they begin anew; a text that is too long by itself is not remembered."""
    half = "a" * (MOST // 2 + 1)
    with TextViews():
        for text in ("one", half, half + "b", "one", half + half, half + half):
            view_of(text, Reader.words)
    assert Reader.made == {"one": 2, half: 1, half + "b": 1, half + half: 2}


class Glancing(Processor):
    """Is no guard over texts, but asks for the words all the same."""

    def process_input(self, ctx: InputContext) -> None:
        """Look at the words."""
        view_of(ctx.text, Reader.words)


def test_only_steps_that_search_texts_have_views_opened():
    """A plan knows whether it has such a step; without one, nothing is opened, and views are made as elsewhere."""
    plain = Workflow("w").then(Glancing(), id="a").then(Glancing(), id="b")
    plain.check_sync("one two")
    assert Reader.made == {"one two": 2}
    Reader.made.clear()
    plain.then(Reader("c")).check_sync("one two")
    assert Reader.made == {"one two": 1}
