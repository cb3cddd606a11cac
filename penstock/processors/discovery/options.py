"""Options that processors of this family share, checked; and texts made fit for one line. It knows no processor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.ports import Clock

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

SHOWN = 150
"""How many characters of a description are shown in a list (the reference's figure, builtins.md §13)."""


def count(owner: str, option: str, given: object) -> int:
    """Return the option if it is a whole number from 1 on.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or given < 1:
        raise OptionError(owner, option, given, "a whole number from 1 on")
    return given


def score(owner: str, option: str, given: object) -> float:
    """Return the option if it is a number from 0 on.

    Raises:
        OptionError: it is not.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < math.inf:
        raise OptionError(owner, option, given, "a number from 0 on; scores have no upper end")
    return float(given)


def function(owner: str, option: str, given: Value) -> Value:
    """Return the option if it can be called, or is None.

    Raises:
        OptionError: it is neither.
    """
    if given is not None and not callable(given):
        raise OptionError(owner, option, type(given).__name__, "a function, or None")
    return given


def clock_of(owner: str, given: object) -> Clock:
    """Return the option if it is a clock.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(given, Clock):
        raise OptionError(owner, "clock", type(given).__name__, "a Clock: an object with now()")
    return given


def in_one_line(text: str, longest: int | None = SHOWN) -> str:
    """Return a text with its white space as single blanks, cut to so many characters: it cannot begin a line anew."""
    line = " ".join(text.split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 3]}..."
