"""The options of cost controls, checked; it knows no ledger's inside, and no run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from penstock.engine.processor.processor import ErrorPolicy, is_async, one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.ports import Model
from penstock.processors.budgets._bills import UNLIMITED
from penstock.processors.budgets._scopes import Unscoped
from penstock.processors.budgets.cost_ledger import CostLedger
from penstock.processors.budgets.memory_ledger import InMemoryLedger
from penstock.processors.budgets.money import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

    from penstock.engine.values.frozen import Value
    from penstock.processors.budgets.cost_report import CostReport


_LONGEST = 366 * 86_400.0


class OwnLedger(InMemoryLedger):
    """The ledger of a control that was given none: what is in it is no option, so all of them are equal."""

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is one as well."""
        return isinstance(other, OwnLedger)

    __hash__ = InMemoryLedger.__hash__


def limit(owner: str, given: object) -> Decimal | Callable[[Mapping[str, Value]], object]:
    """Return ``max_cost`` as an exact amount, or the function."""
    if callable(given):
        return given
    made = amount(given)
    if not made:
        raise OptionError(owner, "max_cost", given, "a number of more than 0, or a function of the request context")
    return made


def given_limit(given: object) -> Decimal:
    """Return what the function gave as an exact amount.

    Raises:
        UsageError: it is no number of 0 or more.
    """
    made = amount(given)
    if made is None:
        raise UsageError(f"the function max_cost must give a number of 0 or more, not {type(given).__name__}")
    return made


def answered(given: object) -> Decimal:
    """Return the limit of a run after somebody was asked and did not say no.

    Raises:
        UsageError: the answer is none.
    """
    if given is True:
        return UNLIMITED
    made = amount(given)
    if made is None:
        raise UsageError(f"ask must return True, False, or a new limit of 0 or more, not {type(given).__name__}")
    return made


def percent(owner: str, given: object) -> Decimal | None:
    """Return a share of the limit."""
    made = amount(given)
    if given is not None and (made is None or not 0 < made < 100):  # noqa: PLR2004 - per cent
        raise OptionError(owner, "warn_at_percent", given, "a number of more than 0 and less than 100, or left out")
    return made


def text(owner: str, option: str, given: object) -> str | None:
    """Return a text, or None."""
    if given is not None and not isinstance(given, str):
        raise OptionError(owner, option, given, "a str")
    return given


def cheaper(owner: str, strategy: str, given: object) -> Model | str | None:
    """Return ``downgrade_to``."""
    if (given is not None) != (strategy == "downgrade") or not (given is None or isinstance(given, (str, Model))):
        allowed = "a model or its name with strategy='downgrade', else left out"
        raise OptionError(owner, "downgrade_to", given, allowed)
    return given


def asked(owner: str, strategy: str, given: object) -> Callable[[CostReport], object] | None:
    """Return ``ask``."""
    if (given is not None) != (strategy == "ask") or not (given is None or callable(given)):
        raise OptionError(owner, "ask", given, "a function with strategy='ask', else left out")
    return cast("Callable[[CostReport], object] | None", given)


def callback(owner: str, given: object) -> Callable[[CostReport], object] | None:
    """Return ``on_violation``."""
    if given is not None and (not callable(given) or is_async(given)):
        raise OptionError(owner, "on_violation", given, "a plain function, since nobody awaits it: def, not async def")
    return cast("Callable[[CostReport], object] | None", given)


def ledger(owner: str, given: object) -> CostLedger:
    """Return a ledger, a new one if none is given."""
    if given is None:
        return OwnLedger()
    if not isinstance(given, CostLedger):
        raise OptionError(owner, "ledger", given, "an object with add, reserve, release and breakdown: a CostLedger")
    return given


def unscoped(owner: str, given: object) -> Unscoped:
    """Return what becomes of requests that do not say whose they are."""
    return cast("Unscoped", one_of(owner, "unscoped", given, get_args(Unscoped)))


def policy(owner: str, given: object, otherwise: ErrorPolicy) -> ErrorPolicy:
    """Return what a failure means."""
    if given is None:
        return otherwise
    return cast("ErrorPolicy", one_of(owner, "on_error", given, get_args(ErrorPolicy)))


def seconds(owner: str, given: object) -> float:
    """Return ``reserved_for``."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= _LONGEST:
        raise OptionError(owner, "reserved_for", given, "seconds, more than 0 and at most a year")
    return given


def tokens(owner: str, given: object) -> int:
    """Return ``output_tokens``."""
    if type(given) is not int or given < 0:
        raise OptionError(owner, "output_tokens", given, "an int of 0 or more")
    return given
