"""Options that are lists of names; it knows no processor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from penstock.engine.values.errors import OptionError


def names_of(processor: str, option: str, given: object, what: str = "tools' names") -> frozenset[str]:
    """Return the names of an option.

    Raises:
        OptionError: it is no list of str, or a single str, which would be taken for its letters.
    """
    names = _listed(given)
    if not all(isinstance(name, str) for name in names):
        raise OptionError(processor, option, given, f"a list of {what}")
    return frozenset(cast("list[str]", names))


def _listed(given: object) -> list[object]:
    """Return what a list holds; None for what is no list."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return [None]
    return list(cast("Iterable[object]", given))
