"""Money: exact amounts out of what users write, and how they are told; it knows no price and no budget."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

NOTHING = Decimal(0)

_TOLD = 6  # digits behind the point that are told: a millionth of a dollar is a token's price


def amount(given: object) -> Decimal | None:
    """Return a number of 0 or more as an exact amount: a float as it is written; None if it is no such number."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str, Decimal)):
        return None
    try:
        made = Decimal(str(given))
    except InvalidOperation:
        return None
    return made if made.is_finite() and made >= 0 else None


def told(money: Decimal) -> str:
    """Return an amount for people, with at most six digits behind the point."""
    return f"{round(money, _TOLD):f}".rstrip("0").rstrip(".") if money % 1 else f"{money:.0f}"
