"""`Score`: a number from 0 to 1, as models write it."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field


def _score(given: object) -> object:
    """Return the number, moved into 0 to 1. Anything else is returned in a form that pydantic refuses."""
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


# The bounds come before the validator: otherwise pydantic writes them as keywords that JSON Schema does not have.
Score: TypeAlias = Annotated[float, Field(ge=0, le=1), BeforeValidator(_score)]
"""A score in a verdict. A number outside 0 to 1 becomes 0 or 1; a text such as ``"0.9"`` or ``"90%"`` becomes its
number. Anything else is refused."""
