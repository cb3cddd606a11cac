"""How much of a law or of a product of parameters `make test` and `make test-rest` try."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import settings

ALL = 100
REST = 50
QUICK = 10
"""The examples of a law without a number of its own: of plain pytest, in `make test-rest`, and in `make test`."""
SEEDS = 0.25
"""The part of a law's seeds that `make test` tries."""
OFTEN = 2
"""In how many cases `make test` tries each value of a parameter, where the cases are a product of parameters."""
FEW = 12
"""So many cases of a test are not worth a choice."""

C = TypeVar("C")


def examples(count: int) -> int:
    """Return how many of these examples the profile asks for."""
    return max(count * settings.default.max_examples // ALL, 1)


def seeds(cases: Sequence[object]) -> list[object]:
    """Return the cases of a parametrised law, of which all but the first quarter are left to `make test-rest`."""
    few = -int(-len(cases) * SEEDS // 1)
    return [*cases[:few], *(pytest.param(each, marks=pytest.mark.rest) for each in cases[few:])]


def repeated(cases: Sequence[C], values: Callable[[C], Sequence[object]]) -> list[C]:
    """Return those cases of a test whose values other cases have, each `OFTEN` times.

    The choice is random, and the same in each run: each n-th case of a product may have but one value of a parameter.

    Args:
        cases: all cases of a test.
        values: returns the values of the parameters of a case.
    """
    if len(cases) <= FEW:
        return []
    seen: Counter[object] = Counter()
    found: list[C] = []
    for case in random.Random(0).sample(cases, len(cases)):  # noqa: S311 - a choice of tests
        if all(seen[value] >= OFTEN for value in values(case)):
            found.append(case)
        else:
            seen.update(values(case))
    return found
