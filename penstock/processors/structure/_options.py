"""The options of the processor that are plain values, checked. It knows what is allowed, no processor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import freeze
from penstock.processors.structure._form import OWNER

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Values


def a_text(option: str, given: object) -> str:
    """Return an option that is a text."""
    if not isinstance(given, str) or not given.strip():
        raise OptionError(OWNER, option, given, "a text")
    return given


def a_mapping(option: str, given: object) -> Values:
    """Return an option that is a mapping, frozen; an error does not show it, since it may hold keys."""
    if not isinstance(given, Mapping):
        raise OptionError(OWNER, option, "…", "a mapping")
    frozen: Values = freeze({**given})
    return frozen


def a_count(option: str, given: object, least: int) -> int:
    """Return an option that is a number of something."""
    if type(given) is not int or given < least:
        raise OptionError(OWNER, option, given, f"an int, {least} or more")
    return given


def seconds(option: str, given: object) -> float:
    """Return an option that is a time."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise OptionError(OWNER, option, given, "seconds, more than 0")
    return float(given)
