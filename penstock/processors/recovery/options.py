"""Checks the options of this family, once, where they are given; it knows no processor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.processors.recovery.backoff import Backoff, is_number
from penstock.processors.recovery.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.processors.recovery.kinds import ErrorKind

T = TypeVar("T")


def count(owner: str, option: str, given: object) -> int:
    """Return a number of retries.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise OptionError(owner, option, given, "a whole number from 0 on")
    return given


def seconds(owner: str, option: str, given: float) -> float:
    """Return a number of seconds.

    Raises:
        OptionError: it is none, or below 0.
    """
    if not is_number(given) or given < 0:
        raise OptionError(owner, option, given, "a number of seconds from 0 on")
    return given


def function(owner: str, option: str, given: object) -> None:
    """Refuse what is no function.

    Raises:
        OptionError: it is none.
    """
    if not callable(given):
        raise OptionError(owner, option, given, "a function from an error to True or False")


def wait(owner: str, option: str, given: object) -> None:
    """Refuse what does not say how long to wait.

    Raises:
        OptionError: it is neither a number of seconds from 0 on, nor a `Backoff`, nor a function.
    """
    if isinstance(given, Backoff) or callable(given):
        return
    if not is_number(given) or given < 0:
        raise OptionError(owner, option, given, "a number of seconds from 0 on, a Backoff, or a function")


def callback(owner: str, option: str, given: object) -> None:
    """Refuse what cannot be told of something; None is nobody.

    Raises:
        OptionError: it is no function.
    """
    if given is not None and not callable(given):
        raise OptionError(owner, option, given, "a function, or None")


def instance(owner: str, option: str, given: object, kind: type[object]) -> None:
    """Refuse what is not of that kind; None is.

    Raises:
        OptionError: it is something else.
    """
    if given is not None and not isinstance(given, kind):
        raise OptionError(owner, option, given, f"a {kind.__name__}, or None")


def budgets(owner: str, option: str, given: Mapping[ErrorKind, int] | None) -> dict[str, int]:
    """Return how many retries there are for each kind of errors.

    Raises:
        OptionError: it is no mapping, a kind is unknown, or a number none.
    """
    if given is None:
        return {}
    if not is_mapping(given):
        raise OptionError(owner, option, given, "a dict from kinds of errors to numbers of retries")
    for kind in given:
        if kind not in KINDS:
            raise OptionError(owner, option, kind, f"of the kinds {', '.join(map(repr, KINDS))}")
    return {str(kind): count(owner, f"{option}[{kind!r}]", most) for kind, most in given.items()}


def listed(owner: str, option: str, given: Iterable[T]) -> Iterable[T]:
    """Return a list, or what else holds several.

    Raises:
        OptionError: it is none.
    """
    if isinstance(cast("object", given), Iterable):
        return given
    raise OptionError(owner, option, given, "a list")


def text(owner: str, option: str, given: object) -> str:
    """Return a text.

    Raises:
        OptionError: it is none, or blank.
    """
    if not isinstance(given, str) or not given.strip():
        raise OptionError(owner, option, given, "a text that is not blank")
    return given


def texts(owner: str, option: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return texts; one alone is one.

    Raises:
        OptionError: one of them is none, or blank.
    """
    several = [given] if isinstance(given, str) else listed(owner, option, given)
    return tuple(text(owner, option, one) for one in several)
