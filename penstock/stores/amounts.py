"""Amounts of money as whole millionths, which servers add exactly: costs rounded up, limits down."""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from penstock.engine.values.ledgers import window_span

if TYPE_CHECKING:
    from penstock.engine.values.ledgers import Window

_UNITS = 1_000_000
MOST = 2**53
"""The largest number that scripts of Valkey compare exactly; also stands for no limit."""

NAMES_KEPT = 3_600
"""Seconds for which a ledger remembers the names of amounts that were settled, and reservations that expired."""


def units(cost: Decimal) -> int:
    """Return a cost in millionths, rounded up: never less than the amount spent."""
    return min(MOST, int((cost * _UNITS).to_integral_value(ROUND_CEILING)))


def limit_units(limit: Decimal | None) -> int:
    """Return a limit in millionths, rounded down; `MOST` for none."""
    return MOST if limit is None else min(MOST, int((limit * _UNITS).to_integral_value(ROUND_FLOOR)))


def amount(found: int) -> Decimal:
    """Return millionths as an amount."""
    return Decimal(found) / _UNITS


def window_text(window: Window) -> str:
    """Return a window for a server: ``day``, ``week``, ``month``, ``ever``, or its seconds."""
    span = window_span(window)
    return str(span / timedelta(seconds=1)) if span is not None else str(window or "ever")
