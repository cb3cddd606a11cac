"""Conditions built from other conditions, for the edges of a graph. They are compared by value.

The edges of a graph have conditions, but no ``else``. So the edge to the second arm of a branch has the condition "not
the first, but the second", and the edge past both arms "neither". Two edges between the same steps become one with the
condition "this or that".
"""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.graph.nodes import Condition
from penstock.engine.processor.processor import is_async
from penstock.engine.processor.stages import WrongReturnError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from penstock.engine.processor.context import View

Term: TypeAlias = tuple[Condition, bool]
"""A condition, and whether it must hold (True) or must not (False)."""


@dataclass(frozen=True, slots=True)
class Every:
    """A condition that holds if all of its terms do; evaluated in order, up to the first that does not."""

    terms: tuple[Term, ...]

    def __call__(self, view: View) -> bool | Awaitable[bool]:
        """Evaluate the terms; the result is awaitable if a condition that was evaluated is async."""
        return _all_hold(self.terms, view)


@dataclass(frozen=True, slots=True)
class Either:
    """A condition that holds if one of its alternatives does; evaluated in order, up to the first that does."""

    alternatives: tuple[Condition, ...]

    def __call__(self, view: View) -> bool | Awaitable[bool]:
        """Evaluate the alternatives; the result is awaitable if one that was evaluated is async."""
        return _negated(_all_hold(tuple((one, False) for one in self.alternatives), view))


class AsyncEvery(Every):
    """An `Every` with an async condition; a coroutine function, so that its plan is not taken for a sync one."""

    __slots__ = ()

    async def __call__(self, view: View) -> bool:
        """Evaluate the terms."""
        return await _resolved(_all_hold(self.terms, view))


class AsyncEither(Either):
    """An `Either` with an async condition; a coroutine function, so that its plan is not taken for a sync one."""

    __slots__ = ()

    async def __call__(self, view: View) -> bool:
        """Evaluate the alternatives."""
        return not await _resolved(_all_hold(tuple((one, False) for one in self.alternatives), view))


def truth(held: object) -> bool:
    """Return the result of a condition.

    Raises:
        WrongReturnError: it is not a bool. A forgotten ``return`` must not count as *false*, nor a message as *true*.
    """
    if not isinstance(held, bool):
        kind = "None" if held is None else f"a value of the type {type(held).__name__}"
        cure = "ctx.get(KEY, False)" if held is None else "bool(...)"
        raise WrongReturnError(f"the condition returned {kind}; return True or False, for example with {cure}")
    return held


def every(terms: Iterable[Term]) -> Condition | None:
    """Return the condition that holds if all terms do; None (always) for no terms, and a single one as it is."""
    flat: list[Term] = []
    for condition, wanted in terms:
        flat.extend(condition.terms if wanted and isinstance(condition, Every) else [(condition, wanted)])
    if not flat:
        return None
    if len(flat) == 1 and flat[0][1]:
        return flat[0][0]
    return (AsyncEvery if any(is_async(condition) for condition, _ in flat) else Every)(tuple(flat))


def either(alternatives: Iterable[Condition | None]) -> Condition | None:
    """Return the condition that holds if one of these does; None (always) if one of them is None."""
    kept: list[Condition] = []
    for one in alternatives:
        if one is None:
            return None
        kept.extend(each for each in alternatives_of(one) if each not in kept)
    if len(kept) == 1:
        return kept[0]
    return (AsyncEither if any(map(is_async, kept)) else Either)(tuple(kept))


def alternatives_of(when: Condition) -> tuple[Condition, ...]:
    """Return the alternatives of an `Either`; of any other condition, itself alone."""
    return when.alternatives if isinstance(when, Either) else (when,)


def exclusive(one: Condition | None, other: Condition | None) -> bool:
    """Return whether two conditions can never both hold for the same payload."""
    if one is None or other is None:
        return False
    pairs = itertools.product(alternatives_of(one), alternatives_of(other))
    return all(_contradict(terms_of(this), terms_of(that)) for this, that in pairs)


def terms_of(when: Condition) -> tuple[Term, ...]:
    """Return the terms of an `Every`; of any other condition, itself, which must hold."""
    return when.terms if isinstance(when, Every) else ((when, True),)


def _contradict(one: tuple[Term, ...], other: tuple[Term, ...]) -> bool:
    return any((condition, not wanted) in other for condition, wanted in one)


def _all_hold(terms: tuple[Term, ...], view: View) -> bool | Awaitable[bool]:
    for index, (condition, wanted) in enumerate(terms):
        holds = condition(view)
        if inspect.isawaitable(holds):
            return _awaited(holds, terms[index:], view)
        if truth(holds) is not wanted:
            return False
    return True


async def _awaited(first: Awaitable[bool], terms: tuple[Term, ...], view: View) -> bool:
    """Evaluate the terms; ``first`` is the awaitable that the first of them has returned."""
    if truth(await first) is not terms[0][1]:
        return False
    return await _resolved(_all_hold(terms[1:], view))


def _negated(holds: bool | Awaitable[bool]) -> bool | Awaitable[bool]:  # noqa: FBT001 - what a condition gave
    return _denied(holds) if inspect.isawaitable(holds) else not truth(holds)


async def _denied(holds: Awaitable[bool]) -> bool:
    return not truth(await holds)


async def _resolved(holds: bool | Awaitable[bool]) -> bool:  # noqa: FBT001 - what a condition gave
    return truth(await holds if inspect.isawaitable(holds) else holds)
