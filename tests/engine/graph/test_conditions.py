"""Conditions made of conditions: what they hold for, what they ask, and how they compare."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from penstock.engine.graph.conditions import AsyncEither, AsyncEvery, Either, Every, either, every, exclusive
from penstock.engine.processor.stages import WrongReturnError


class Says:
    """A condition that says what it was told to, and counts how often it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    def __call__(self, _view: Any) -> Any:
        """Answer."""
        self.asked += 1
        return self.answer


class Promises(Says):
    """The same, as a sync function that returns an awaitable."""

    def __call__(self, view: Any) -> Any:
        """Promise an answer."""
        return self.answered(view)

    async def answered(self, view: Any) -> Any:
        """Answer."""
        return super().__call__(view)


async def yes(_view: Any) -> bool:
    """An async condition."""
    return True


VIEW: Any = None


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True), (False, False)])
def test_every_holds_where_each_term_is_as_wanted(first, second) -> None:
    """Wanted or unwanted."""
    assert Every(((Says(first), True), (Says(second), False)))(VIEW) is (first and not second)
    assert Every(((Says(first), True), (Says(second), True)))(VIEW) is (first and second)


@pytest.mark.parametrize("said", [None, 0, 1, "yes", "", (), re.search("x", "x")])
async def test_what_is_no_bool_is_a_failure(said) -> None:
    """A match, a count or a forgotten return are neither *true* nor *false*, however conditions are combined."""
    for kind in (Says, Promises):
        for whole in (Every(((kind(said), True),)), Every(((kind(said), False),)), Either((kind(said),))):
            with pytest.raises(WrongReturnError, match="the condition returned"):
                await _resolved(whole)


async def _resolved(condition: Any) -> bool:
    held = condition(VIEW)
    return await held if inspect.isawaitable(held) else held


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True), (False, False)])
def test_either_holds_where_one_does(first, second) -> None:
    """The one, the other, or both."""
    assert Either((Says(first), Says(second)))(VIEW) is (first or second)


def test_nothing_is_asked_that_does_not_matter_any_more() -> None:
    """A condition may be dear, or break where an earlier one does not hold."""
    late = Says(answer=True)
    Every(((Says(answer=False), True), (late, True)))(VIEW)
    Either((Says(answer=True), late))(VIEW)
    assert late.asked == 0


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
async def test_awaitables_are_awaited_wherever_they_stand(first, second) -> None:
    """Never taken for true because they are objects."""
    both = Every(((Promises(first), True), (Promises(second), False)))
    one = Either((Promises(first), Promises(second)))
    assert await both(VIEW) is (first and not second)  # type: ignore[misc]
    assert await one(VIEW) is (first or second)  # type: ignore[misc]


async def test_what_holds_an_async_condition_is_async_itself() -> None:
    """So that a plan knows it before it runs."""
    both, one = every([(yes, True), (Says(answer=True), False)]), either([Says(answer=False), yes])
    assert (type(both), type(one)) == (AsyncEvery, AsyncEither)
    assert (await both(VIEW), await one(VIEW)) == (False, True)
    assert await every([(Says(answer=True), True), (yes, True)])(VIEW)
    assert not await every([(Says(answer=False), True), (yes, True)])(VIEW)
    assert await either([Says(answer=True), yes])(VIEW)


def test_conditions_compare_by_what_they_hold() -> None:
    """And a lone condition stays what it is."""
    one, other = Says(answer=True), Says(answer=True)
    assert every([(one, True), (other, False)]) == every([(one, True), (other, False)])
    assert every([(one, True), (other, False)]) != every([(other, True), (one, False)])
    assert every([]) is None
    assert every([(one, True)]) is one
    assert every([(one, False)]) == Every(((one, False),))
    assert every([(every([(one, False), (other, True)]), True), (one, True)]) == Every(
        ((one, False), (other, True), (one, True))
    )
    assert either([one, None]) is None
    assert either([one, one]) is one
    assert either([one, either([other, one])]) == Either((one, other))


def test_conditions_exclude_each_other_where_one_wants_what_the_other_does_not() -> None:
    """In all of their ways; unrelated conditions may both hold."""
    one, other = Says(answer=True), Says(answer=True)
    without = every([(one, False)])
    assert exclusive(one, without)
    assert exclusive(every([(one, False), (other, True)]), one)
    assert exclusive(either([every([(one, False), (other, True)]), every([(one, False), (other, False)])]), one)
    assert not exclusive(one, other)
    assert not exclusive(one, None)
    assert not exclusive(None, None)
    assert not exclusive(either([without, other]), one)
