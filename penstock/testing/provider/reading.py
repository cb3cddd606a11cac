"""Reads JSON of which nothing is known yet; it knows no request."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value, Values


def mapping(told: Value) -> Values:
    """Return an object's fields; of anything else none."""
    return cast("Values", told) if isinstance(told, dict) else {}


def items(told: Value) -> list[Value]:
    """Return an array's items; of anything else none."""
    return list(cast("Sequence[Value]", told)) if isinstance(told, list) else []


def objects(told: Value) -> list[Values]:
    """Return those of an array's items that are objects."""
    return [mapping(item) for item in items(told) if isinstance(item, dict)]
