"""`Score`: a number from 0 to 1, as judges write it; it knows no judge."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field


def _score(given: object) -> object:
    """Return a number within 0 and 1; what is none is left to be refused."""
    if isinstance(given, str):
        return _written(given.strip())
    if isinstance(given, (int, float)) and not isinstance(given, bool) and not math.isnan(given):
        return min(max(float(given), 0.0), 1.0)
    return str(type(given))


def _written(given: str) -> object:
    text, share, _ = given.partition("%")
    try:
        number = float(text) / (100 if share else 1)
    except ValueError:
        return given
    return _score(number)


# The bounds stand before the validator, or pydantic writes them as keywords that JSON Schema does not know.
Score: TypeAlias = Annotated[float, Field(ge=0, le=1), BeforeValidator(_score)]
"""A score for a field of a verdict: a number beyond 0 and 1 is taken for the nearer of both, one written as a text
(``"0.9"``, ``"90%"``) for what it says; anything else is refused."""
