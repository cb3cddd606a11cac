"""Checks of options that several processors have: numbers, names, functions; scores and strategies of guards."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from penstock.engine.processor.processor import is_async, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value


def check_number(
    owner: str,
    option: str,
    given: object,
    allowed: str,
    least: float = 0.0,
    most: float = sys.float_info.max,
    *,
    above: bool = False,
) -> float:
    """Return the option if it is a number in a range, by default a finite one of 0 or more.

    Args:
        owner: the name of the class that has the option.
        option: the name of the option.
        given: its value.
        allowed: the values that it may have, for the error.
        least: the least number.
        most: the greatest number.
        above: whether it must be more than ``least``.

    Raises:
        OptionError: it is not. True and False are no numbers.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not least <= given <= most:
        raise OptionError(owner, option, given, allowed)
    if above and given == least:
        raise OptionError(owner, option, given, allowed)
    return given


def check_score(guard: str, option: str, given: object) -> float:
    """Return the option if it is a number from 0 to 1.

    Raises:
        OptionError: it is not.
    """
    return float(check_number(guard, option, given, "a number from 0 to 1", most=1))


def check_scores(guard: str, option: str, given: object, names: Iterable[str]) -> float | Mapping[str, float] | None:
    """Return the option if it is a number from 0 to 1, a mapping of names to such numbers, or None.

    A mapping is copied, and cannot be changed.

    Raises:
        OptionError: it is none of these, or has a name that is not among ``names``.
    """
    if given is None or not isinstance(given, Mapping):
        return None if given is None else check_score(guard, option, given)
    known = tuple(names)
    table = cast("Mapping[str, object]", given)
    for name in table:
        if name not in known:
            raise OptionError(guard, f"{option}[{name!r}]", name, f"one of {', '.join(map(repr, known))}")
    return FrozenDict({name: check_score(guard, f"{option}[{name!r}]", value) for name, value in table.items()})


def check_names(guard: str, option: str, given: object) -> tuple[str, ...]:
    """Return the option as a tuple of names, each once.

    Raises:
        OptionError: it is not a list of names, or an empty one.
    """
    listed = (given,) if isinstance(given, str) else given
    found = tuple(dict.fromkeys(cast("Iterable[object]", listed))) if isinstance(listed, Iterable) else ()
    if not found or not all(isinstance(name, str) and name for name in found):
        raise OptionError(guard, option, given, "a list of names, at least one")
    return cast("tuple[str, ...]", found)


def check_count(
    guard: str, option: str, given: object, allowed: str = "", least: int = 0, most: int | None = None
) -> int:
    """Return the option if it is an int from ``least`` on, at most ``most``.

    Raises:
        OptionError: it is not; ``allowed`` says what it may be, by default an int of ``least`` or more.
    """
    if isinstance(given, bool) or not isinstance(given, int) or given < least or (most is not None and given > most):
        raise OptionError(guard, option, given, allowed or f"an int of {least} or more")
    return given


def check_optional_count(guard: str, option: str, given: object, allowed: str, least: int = 0) -> int | None:
    """Return the option if it is None, or an int from ``least`` on.

    Raises:
        OptionError: it is not; ``allowed`` says what it may be.
    """
    return None if given is None else check_count(guard, option, given, allowed, least)


def check_text(owner: str, option: str, given: object, *, blank: bool = True) -> str:
    """Return the option if it is a str; ``blank``: whether it may be empty, or white space alone.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(given, str) or not (blank or given.strip()):
        raise OptionError(owner, option, given, "a str" if blank else "a text that is not blank")
    return given


def check_function(owner: str, option: str, given: Value, allowed: str = "a function, or None") -> Value:
    """Return the option if it is a function or None.

    Raises:
        OptionError: it is neither.
    """
    if given is not None and not callable(given):
        raise OptionError(owner, option, given, allowed)
    return given


def check_callback(guard: str, option: str, given: object) -> Callable[[Any], object] | None:
    """Return the option if it is a plain function or None.

    Raises:
        OptionError: it is not.
    """
    if given is not None and (not callable(given) or is_async(given)):
        raise OptionError(guard, option, given, "a plain function (def, not async def), since it is not awaited")
    return given


def check_strategies(
    guard: str, given: object, names: Iterable[str], allowed: Iterable[str], usual: str
) -> Mapping[str, str]:
    """Return the strategy of each name that has its own, and under ``*`` that of the others.

    It is empty if there is one strategy for all.

    Raises:
        OptionError: a name is not among ``names``, or a strategy is not allowed.
    """
    if not isinstance(given, Mapping):
        return EMPTY
    table = cast("Mapping[str, str]", given)
    for name, chosen in table.items():
        one_of(guard, "strategy", name, ("*", *names))
        one_of(guard, f"strategy[{name!r}]", chosen, allowed)
    return {"*": usual, **table}


def widest_strategy(given: object, actions: Mapping[str, str], order: Iterable[str], usual: str) -> str:
    """Return the strategy of all names, or the one that may do all that theirs may; ``order`` begins with the widest.

    Args:
        given: the option: a strategy, a mapping, or None for ``usual``.
        actions: the strategies by name.
        order: the strategies.
        usual: the default.
    """
    if not actions:
        return usual if given is None else cast("str", given)
    return next(one for one in order if one in {*actions.values()})
