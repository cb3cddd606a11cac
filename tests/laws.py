"""How much of a law `make test` tries: a quarter of its examples, or of its seeds. `make test-rest` tries all."""

from collections.abc import Sequence

import pytest
from hypothesis import settings

ALL = 100
QUICK = 25
"""The examples of a law without a number of its own in `make test-rest`, and under hypothesis's profile ``quick``."""


def examples(count: int) -> int:
    """Return how many of these examples the profile asks for."""
    return max(count * settings.default.max_examples // ALL, 1)


def seeds(cases: Sequence[object]) -> list[object]:
    """Return the cases of a parametrised law, of which all but the first quarter are left to `make test-rest`."""
    few = -(-len(cases) * QUICK // ALL)
    return [*cases[:few], *(pytest.param(each, marks=pytest.mark.rest) for each in cases[few:])]
