"""Costs that are known to have arisen but are not in their ledger: it could not be written, or nobody knows the price.

They are kept for the process, across runs and cost controls. While a key has some, its requests are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING

from penstock.engine.values.errors import PenstockError
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.processors.budgets.prices import NOTHING

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from penstock.engine.values.ledgers import CostLedger
    from penstock.engine.values.model import Usage

MOST_KEYS = 100_000
"""The most keys of a ledger that are stored here. Beyond that, all requests of the ledger are refused."""

MOST_OF_A_KEY = 100
"""The most entries of a key. From half of them on, costs of one model are added up; beyond, they only count as lost."""


class UnrecordedCostError(PenstockError):
    """What earlier model calls cost is not in the ledger, so the amount spent is unknown, and nothing more is spent.

    The message says what happened and what to do; it quotes no foreign error.
    """


@dataclass(frozen=True, slots=True)
class UnrecordedCost:
    """The cost of model calls that could not be recorded.

    Attributes:
        key: the key in the ledger.
        model: the name of the model.
        usage: the tokens, if their price is unknown; None if the cost is known, or nobody reported them.
        cost: the amount; None if it is unknown.
        at: when the (last) call ended.
        problem: what happened, in words.
        charge: names the amount in the ledger, where it is counted once.
        holder: whose reservation it was, which stays until the amount is recorded; None: there was none.
    """

    key: str
    model: str
    usage: Usage | None = field(repr=False)
    cost: Decimal | None
    at: datetime
    problem: str
    charge: str = field(repr=False)
    holder: str | None = field(repr=False)


class UnrecordedCosts:
    """The unrecorded costs of one ledger. Threads can share it.

    Attributes:
        ledger: the ledger; held, so that its id is not used again.
    """

    def __init__(self, ledger: CostLedger) -> None:
        self.ledger = ledger
        self._of: dict[str, list[UnrecordedCost]] = {}
        self._being_written: set[str] = set()
        self._lost: dict[str, UnrecordedCost] = {}
        self._overflow: UnrecordedCost | None = None

    def put(self, entry: UnrecordedCost) -> None:
        """Store an entry; where there are many, the costs of one model are added up."""
        with _LOCK:
            if entry.key not in self._of and len(self._of) >= MOST_KEYS:
                self._overflow = entry
                return
            entries = self._of.setdefault(entry.key, [])
            crowded = len(entries) >= MOST_OF_A_KEY // 2
            place = next((place for place, each in enumerate(entries) if crowded and _add_up(each, entry)), None)
            if place is not None:
                entries[place] = _sum(entries[place], entry)
            elif len(entries) < MOST_OF_A_KEY:
                entries.append(entry)
            else:
                self._lost[entry.key] = entry

    def take(self, key: str) -> list[UnrecordedCost]:
        """Return the entries of a key, which the caller then writes to the ledger, or puts back; call `done` then.

        Raises:
            UnrecordedCostError: another request is writing them, or there are more than could be stored.
        """
        with _LOCK:
            if self._overflow is not None and len(self._of) < MOST_KEYS // 2:
                self._overflow = None
            stuck = self._overflow or self._lost.get(key)
            if stuck is not None:
                raise UnrecordedCostError(_told(stuck))
            entries = self._of.get(key)
            if entries is None:
                return []
            if key in self._being_written:
                raise UnrecordedCostError("the cost of earlier model calls is being recorded now: try again")
            self._being_written.add(key)
            taken, entries[:] = list(entries), []
            return taken

    def done(self, key: str) -> None:
        """Forget a key that has no entries any more."""
        with _LOCK:
            self._being_written.discard(key)
            if not self._of.get(key) and key not in self._lost:
                self._of.pop(key, None)

    def set_cost(self, key: str, cost: Decimal) -> bool:
        """Give the entries of a key without a cost this cost, all together; return whether there were any."""
        with _LOCK:
            entries = self._of.get(key, [])
            unpriced = [entry for entry in entries if entry.cost is None]
            lost = self._lost.pop(key, None)
            if lost is not None:
                unpriced.append(lost)
            if not unpriced:
                return False
            entries[:] = [entry for entry in entries if entry.cost is not None]
            entries.append(replace(unpriced[0], usage=None, cost=cost))
            return True

    @property
    def entries(self) -> tuple[UnrecordedCost, ...]:
        """All entries."""
        with _LOCK:
            return tuple(entry for entries in self._of.values() for entry in entries)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is outstanding."""
        return not self._of and self._overflow is None


def _add_up(one: UnrecordedCost, other: UnrecordedCost) -> bool:
    return one.cost is not None and other.cost is not None and one.model == other.model


def _sum(one: UnrecordedCost, other: UnrecordedCost) -> UnrecordedCost:
    cost = (one.cost or NOTHING) + (other.cost or NOTHING)
    return replace(other, cost=cost, at=max(one.at, other.at), charge=RANDOM_IDS.next(), holder=None)


def _told(entry: UnrecordedCost) -> str:
    return f"{entry.problem}; until that is mended, nothing more is spent"


def refusal(entry: UnrecordedCost) -> UnrecordedCostError:
    """Return the error for an entry that could not be recorded."""
    return UnrecordedCostError(_told(entry))


_LOCK = RLock()
_OF_LEDGERS: dict[int, UnrecordedCosts] = {}


def unrecorded_of(ledger: CostLedger) -> UnrecordedCosts | None:
    """Return the unrecorded costs of a ledger; None if there are none, as nearly always."""
    if not _OF_LEDGERS:
        return None
    with _LOCK:
        found = _OF_LEDGERS.get(id(ledger))
        if found is not None and found.is_empty:
            del _OF_LEDGERS[id(ledger)]
            return None
        return found


def put_unrecorded(ledger: CostLedger, entry: UnrecordedCost) -> None:
    """Store a cost that could not be recorded in a ledger."""
    with _LOCK:
        found = _OF_LEDGERS.get(id(ledger))
        if found is None:
            found = _OF_LEDGERS[id(ledger)] = UnrecordedCosts(ledger)
        found.put(entry)
