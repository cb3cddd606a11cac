"""Options of processors about tools: patterns of names, and conditions as functions or expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.values.errors import OptionError
from penstock.lazy import by_name

if TYPE_CHECKING:
    from penstock.engine.processor.context import View

CallCondition: TypeAlias = "str | Callable[[View], bool]"
"""A condition about a call: an expression of a policy file, or a function of the context."""


def name_patterns(owner: str, option: str, given: object) -> tuple[str, ...]:
    """Return the option as a tuple of names of tools, or of patterns of them.

    Raises:
        OptionError: it is not a list of names.
    """
    listed = (given,) if isinstance(given, str) else given
    names: list[object] = [*cast("Iterable[object]", listed)] if isinstance(listed, Iterable) else [None]
    if not all(isinstance(one, str) and one for one in names):
        raise OptionError(owner, option, given, "names of tools, or patterns such as read_*")
    return tuple(cast("list[str]", names))


@lru_cache(maxsize=1_000)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, names)))


def fits(names: tuple[str, ...], name: str) -> bool:
    """Return whether a name fits one of the patterns."""
    return bool(names) and _pattern(names).match(name) is not None


def call_condition(owner: str, option: str, given: object) -> Callable[[View], bool] | None:
    """Return the option as a function of the context; an expression of a policy file is compiled. None stays None.

    Raises:
        OptionError: it is neither a function nor an expression that can be read.
    """
    if given is None or callable(given):
        return cast("Callable[[View], bool] | None", given)
    if not isinstance(given, str) or not given.strip():
        raise OptionError(owner, option, given, "an expression such as args.amount > 100, or a function of the context")
    make: Callable[[str], object] = by_name("penstock.workflows.policies.conditions", "PolicyCondition")
    wrong: type[Exception] = by_name("penstock.workflows.policies.expressions", "ExpressionError")
    try:
        return cast("Callable[[View], bool]", make(given))
    except wrong as error:
        raise OptionError(owner, option, given, f"an expression that can be read: {error}") from error


def truth_of(held: object, owner: str) -> bool:
    """Return the result of a condition, if it is a bool: a forgotten ``return`` decides nothing.

    Raises:
        TypeError: it is something else; ``owner`` says whose condition it is.
    """
    if not isinstance(held, bool):
        text = f"a condition of {owner} must return True or False, not a {type(held).__name__}"
        raise TypeError(text)
    return held
