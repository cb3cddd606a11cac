"""The nearest JSON value of any value."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from penstock.engine.values.plain import plain


class Odd:
    """What JSON cannot say."""


def itself() -> list[Any]:
    """Return a list in itself."""
    made: list[Any] = [1]
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("text", "text"),
        (True, True),
        (7, 7),
        (-(10**5000), "int"),
        (1.5, 1.5),
        (math.nan, None),
        (-math.inf, None),
        ({"a": {1: (2, Odd())}}, {"a": {"1": [2, "Odd"]}}),
        ([{3}, frozenset({4})], [[3], [4]]),
        (b"bytes", "bytes"),
        (itself(), [1, "list"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_value_has_a_nearest_one(value: object, expected: object) -> None:
    """What JSON can say stays; numbers that are none become None, and all else the name of its type."""
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_the_same_value_twice_is_said_twice() -> None:
    """Only one within itself is not."""
    value = {"a": 1}
    assert plain([value, value]) == [value, value]


def test_what_is_nested_too_deeply_becomes_the_name_of_its_type() -> None:
    """Whoever reads it need not be able to go deeper."""
    value: list[Any] = []
    for _ in range(2_000):
        value = [value]
    text = json.dumps(plain(value))
    assert '"list"' in text
    assert len(text) < 2_000
