"""Conditions made of conditions, compared by value: what the edges of a graph carry; this module knows no graph.

A graph has no `if … else`, only edges that are taken or not. So the edge to the second arm of a branch says "not the
first condition, but the second", the one around it "neither", and two edges between the same steps become one that says
"this or that".
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.graph.nodes import Condition
from penstock.engine.processor.processor import is_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from penstock.engine.processor.context import View

Term: TypeAlias = tuple[Condition, bool]
"""A condition, and whether it must hold (True) or must not (False)."""


@dataclass(frozen=True, slots=True)
class Every:
    """Holds where all of its terms do; asked in order, and no further than the first that does not."""

    terms: tuple[Term, ...]

    def __call__(self, view: View) -> bool | Awaitable[bool]:
        """Ask the terms; awaitable from the first condition on that is."""
        return _every(self.terms, view)


@dataclass(frozen=True, slots=True)
class Either:
    """Holds where one of its conditions does; asked in order, and no further than the first that does."""

    ways: tuple[Condition, ...]

    def __call__(self, view: View) -> bool | Awaitable[bool]:
        """Ask the conditions; awaitable from the first on that is."""
        return _negated(_every(tuple((way, False) for way in self.ways), view))


class AsyncEvery(Every):
    """An `Every` with an async condition in it, declared as one, so that no plan takes it for sync."""

    __slots__ = ()

    async def __call__(self, view: View) -> bool:
        """Ask the terms."""
        return await _settled(_every(self.terms, view))


class AsyncEither(Either):
    """An `Either` with an async condition in it, declared as one, so that no plan takes it for sync."""

    __slots__ = ()

    async def __call__(self, view: View) -> bool:
        """Ask the conditions."""
        return not await _settled(_every(tuple((way, False) for way in self.ways), view))


def every(terms: Iterable[Term]) -> Condition | None:
    """Return the condition that holds where all terms do; None (always) for no terms, and a lone condition as it is."""
    flat: list[Term] = []
    for condition, wanted in terms:
        flat.extend(condition.terms if wanted and isinstance(condition, Every) else [(condition, wanted)])
    if not flat:
        return None
    if len(flat) == 1 and flat[0][1]:
        return flat[0][0]
    return (AsyncEvery if any(is_async(condition) for condition, _ in flat) else Every)(tuple(flat))


def either(ways: Iterable[Condition | None]) -> Condition | None:
    """Return the condition that holds where one does; None (always) if one of them is None."""
    kept: list[Condition] = []
    for way in ways:
        if way is None:
            return None
        kept.extend(one for one in ways_of(way) if one not in kept)
    if len(kept) == 1:
        return kept[0]
    return (AsyncEither if any(map(is_async, kept)) else Either)(tuple(kept))


def ways_of(when: Condition) -> tuple[Condition, ...]:
    """Return the conditions of which one suffices."""
    return when.ways if isinstance(when, Either) else (when,)


def exclusive(one: Condition | None, other: Condition | None) -> bool:
    """Tell whether two conditions, asked about the same payload, can never both hold."""
    if one is None or other is None:
        return False
    return all(_contradict(_terms(this), _terms(that)) for this in ways_of(one) for that in ways_of(other))


def _terms(when: Condition) -> tuple[Term, ...]:
    return when.terms if isinstance(when, Every) else ((when, True),)


def _contradict(one: tuple[Term, ...], other: tuple[Term, ...]) -> bool:
    return any((condition, not wanted) in other for condition, wanted in one)


def _every(terms: tuple[Term, ...], view: View) -> bool | Awaitable[bool]:
    for index, (condition, wanted) in enumerate(terms):
        holds = condition(view)
        if inspect.isawaitable(holds):
            return _awaited(holds, terms[index:], view)
        if bool(holds) is not wanted:
            return False
    return True


async def _awaited(first: Awaitable[bool], terms: tuple[Term, ...], view: View) -> bool:
    """Go on from the first term, which has been asked and gave an awaitable."""
    if bool(await first) is not terms[0][1]:
        return False
    return await _settled(_every(terms[1:], view))


def _negated(holds: bool | Awaitable[bool]) -> bool | Awaitable[bool]:  # noqa: FBT001 - what a condition gave
    return _denied(holds) if inspect.isawaitable(holds) else not holds


async def _denied(holds: Awaitable[bool]) -> bool:
    return not await holds


async def _settled(holds: bool | Awaitable[bool]) -> bool:  # noqa: FBT001 - what a condition gave
    return await holds if inspect.isawaitable(holds) else bool(holds)
